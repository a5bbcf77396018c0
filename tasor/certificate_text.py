"""Proofs for people: the normal forms of a certificate, read from its JSON, as mathematics.

    sum over k1 where n1 - 1 - k1 >= 0 of x[i0, k1] * y[k1, i1]

What it does: turns forms, assumptions and pairings of a certificate (see `verify.certificate`) into
text; bound variables get short names. What it does not: check anything (see `verify.checker`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[^\W\d][\w']*")
"""Names in the texts of polynomials."""


@dataclass(frozen=True, slots=True)
class Row:
    """Terms of both sides that are equal by form, or one that cancels for another reason."""

    source: str
    target: str
    paired: bool


@dataclass(frozen=True, slots=True)
class ComparisonText:
    """One result of a rule: the element compared, both forms row by row, obligations."""

    element: str
    rows: tuple[Row, ...]
    obligations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseText:
    """One way to apply a rule, in words."""

    operands: str
    parameters: str
    assumed: tuple[str, ...]
    comparisons: tuple[ComparisonText, ...]

    @property
    def length(self) -> int:
        """Characters, roughly, that it takes on a page."""
        rows = [row for comparison in self.comparisons for row in comparison.rows]
        return (
            len(self.operands)
            + len(self.parameters)
            + sum(map(len, self.assumed))
            + sum(len(row.source) + len(row.target) + 40 for row in rows)
            + 400
        )


def case_texts(certificate: Mapping[str, Any]) -> Iterator[CaseText]:
    """The cases of a certificate in order, one after the other as they are asked for."""
    for case in certificate["cases"]:
        yield _case(case)


def form_text(form: Sequence[Mapping[str, Any]], operands: Sequence[str] = ()) -> str:
    """A normal form on one line; `operands` are names by position."""
    return _Forms(operands).sum(form)


def _case(case: Mapping[str, Any]) -> CaseText:
    operands: Mapping[str, str] = case["operands"]
    # Where an operand is a sequence, positions are no names.
    named = tuple(operands) if len(operands) == len(case["inputs"]) else ()
    return CaseText(
        ", ".join(f"{name}: {kind}" for name, kind in operands.items()),
        ", ".join(f"{name} = {value}" for name, value in case.get("parameters", {}).items()),
        (
            *(f"{name} = {value}" for name, value in case.get("equations", {}).items()),
            *(f"{size} >= 0" for size in case.get("nonnegative", ())),
            *(f"{size} != 0" for size in case.get("nonzero", ())),
        ),
        tuple(_comparison(result, named) for result in case["results"]),
    )


def _comparison(result: Mapping[str, Any], operands: Sequence[str]) -> ComparisonText:
    forms = _Forms(operands)
    sources, targets = result.get("source", ()), result.get("target", ())
    pairs = [(left, right) for left, right in result.get("pairs", ())]
    rows = [Row(forms.term(sources[a]), forms.term(targets[b]), True) for a, b in pairs]
    left, right = {a for a, _ in pairs}, {b for _, b in pairs}
    rows += [Row(forms.term(t), "", False) for n, t in enumerate(sources) if n not in left]
    rows += [Row("", forms.term(t), False) for n, t in enumerate(targets) if n not in right]
    if not rows:
        rows = [Row("0", "0", True)]
    element = f"[{', '.join(map(str, result.get('axes', ())))}]"
    if result.get("extents"):
        element += f" of [{', '.join(map(str, result['extents']))}]"
    return ComparisonText(element, tuple(rows), tuple(result.get("obligations", ())))


class _Forms:
    """Texts of forms in which the same bound variable has the same short name."""

    def __init__(self, operands: Sequence[str]) -> None:
        self._operands = operands
        self._names: dict[str, str] = {}

    def sum(self, form: Sequence[Mapping[str, Any]]) -> str:
        return " + ".join(map(self.term, form)) if form else "0"

    def term(self, term: Mapping[str, Any]) -> str:
        times = str(term.get("times", "1"))
        quantifier = self._quantifier("sum", term)
        factors = [self._power(atom, exponent) for atom, exponent in term.get("of", ())]
        if times == "-1" and factors:
            product = "-" + " * ".join(factors)
        else:
            product = " * ".join([*([] if times == "1" and factors else [times]), *factors])
        return f"{quantifier}{product}"

    def _quantifier(self, word: str, term: Mapping[str, Any]) -> str:
        bound, where = term.get("over", ()), term.get("where", ())
        for name in bound:
            self._names.setdefault(name, f"k{len(self._names) + 1}")
        conditions = ", ".join(map(self._renamed, where))
        if bound:
            names = ", ".join(map(self._renamed, bound))
            return f"{word} over {names}{' where ' if where else ''}{conditions} of "
        return f"[{conditions}] " if where else ""

    def _power(self, atom: Mapping[str, Any], exponent: int) -> str:
        text = self._atom(atom)
        return text if exponent == 1 else f"{text}^{exponent}"

    def _atom(self, atom: Mapping[str, Any]) -> str:
        if "x" in atom:
            number = atom["x"]
            known = 0 <= number < len(self._operands)
            name = self._operands[number] if known else f"operand {number}"
            return f"{name}[{', '.join(map(self._renamed, atom.get('at', ())))}]"
        if "number" in atom:
            return f"({self._renamed(atom['number'])})"
        if "call" in atom:
            return f"{atom['call']}({', '.join(map(self.sum, atom.get('of', ())))})"
        word = next(iter(atom))
        members = [
            f"{self._quantifier('all', member)}{self.sum(member.get('value', ()))}"
            for member in atom[word]
        ]
        return f"{word}{{{'; '.join(members)}}}"

    def _renamed(self, text: object) -> str:
        return _NAME.sub(lambda name: self._names.get(name[0], name[0]), str(text))
