"""One audited rule as a page shows it: drawings, guards, proof and counterexample as plain text.

What it does: picks from the JSON of an audit what a reader needs, in his words, and cuts what is
too long. What it does not: escape it; the template does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tasor.certificate_text import Row, case_texts
from tasor.graph_drawing import Edge, Node, graph_svg

_SUMMARY = 160
"""Characters of a statement in the table of all rules."""

_MOST_ROWS, _MOST_COLUMNS = 12, 12
"""So much of a matrix is shown around the first difference."""

_MOST_NAMES = 40
"""So many lines say what names stand for in a counterexample."""

_MOST_ELEMENTS = 64
"""Elements of larger tensors are left out there."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An element of a result, and `differs` or `differs first`."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class SideView:
    """One side's values around the first difference."""

    name: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class CounterexampleView:
    """What names stand for, where both sides differ, and both sides; all of it as text, too."""

    names: tuple[tuple[str, str], ...]
    difference: str
    sides: tuple[SideView, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """One result in one case; `obligations` are the numbers of questions, `numbers` names them."""

    element: str
    rows: tuple[Row, ...]
    obligations: tuple[int, ...]

    @property
    def numbers(self) -> str:
        some = ", ".join(map(str, self.obligations[:20]))
        more = f" and {len(self.obligations) - 20} more" if len(self.obligations) > 20 else ""
        return f"question{'s' if len(self.obligations) > 1 else ''} {some}{more}"


@dataclass(frozen=True, slots=True)
class CaseView:
    """One way to apply the rule."""

    operands: str
    parameters: str
    assumed: tuple[str, ...]
    comparisons: tuple[ComparisonView, ...]


@dataclass(frozen=True, slots=True)
class ProofView:
    """What a certificate says, as much of it as fits."""

    summary: str
    cases_heading: str
    cases: tuple[CaseView, ...]
    cases_left_out: str
    obligations_heading: str
    obligations: tuple[tuple[int, str], ...]
    obligations_left_out: str


@dataclass(frozen=True, slots=True)
class StepView:
    """An instance of an axiom."""

    axiom: str
    bindings: str
    equation: str


@dataclass(frozen=True, slots=True)
class DerivationView:
    """The instances that settle some cases, and the question that says so."""

    cases: str
    steps: tuple[StepView, ...]
    question: str


@dataclass(frozen=True, slots=True)
class AxiomsView:
    """A second proof, from axioms, as much of it as fits."""

    summary: str
    heading: str
    derivations: tuple[DerivationView, ...]
    left_out: str


@dataclass(frozen=True, slots=True)
class RuleView:
    """One rule; `kinds` are the filters that show it, drawings are (side, svg)."""

    number: int
    name: str
    text: str
    summary: str
    verdict: str
    kinds: str
    guards: tuple[str, ...]
    inferred: tuple[str, ...]
    reason: str
    cases: str
    questions: str
    milliseconds: str
    drawings: tuple[tuple[str, Markup], ...]
    counterexample: CounterexampleView | None
    proof: ProofView | None
    axioms: AxiomsView | None


def rule_view(rule: Mapping[str, Any], number: int, budget: int) -> RuleView:
    """The view of one of an audit's rules, with about `budget` characters of proof; 0 leaves out
    drawings, too."""
    verdict = str(rule["verdict"])
    inferred = tuple(map(str, rule.get("inferred") or ()))
    guards = tuple(guard for guard in map(str, rule.get("guards") or ()) if guard not in inferred)
    statement = f"{rule.get('source', '')} => {rule.get('target', '')}"
    counterexample = rule.get("counterexample")
    certificate = rule.get("certificate")
    whole = budget > 0
    return RuleView(
        number=number,
        name=str(rule["name"]),
        text=str(rule["text"]),
        summary=statement if len(statement) <= _SUMMARY else f"{statement[: _SUMMARY - 1]}…",
        verdict=verdict,
        kinds=f"{verdict} guarded" if verdict == "proved" and inferred else verdict,
        guards=guards,
        inferred=inferred,
        reason=str(rule.get("reason") or ""),
        cases=_count(rule.get("cases")),
        questions=_count(rule.get("obligations")),
        milliseconds=f"{rule.get('seconds', 0.0) * 1e3:.1f}",
        drawings=_drawings(rule) if whole else (),
        counterexample=_counterexample(counterexample) if whole and counterexample else None,
        proof=_proof(rule, certificate, budget) if whole and certificate else None,
        axioms=_axioms(rule["axioms"], budget) if whole and rule.get("axioms") else None,
    )


def _count(value: object) -> str:
    return "" if value is None else str(value)


def _drawings(rule: Mapping[str, Any]) -> tuple[tuple[str, Markup], ...]:
    graphs = rule.get("graphs") or {}
    return tuple(
        (side, Markup(_drawing(graphs[side], f"{side} of {rule['name']}")))
        for side in ("source", "target")
        if graphs.get(side, {}).get("nodes")
    )


def _drawing(graph: Mapping[str, Any], title: str) -> str:
    # A drawing has operands from left to right: their numbers say nothing more.
    nodes = [Node(node["id"], str(node["label"]), node["kind"]) for node in graph["nodes"]]
    edges = [
        Edge(start, end, "" if str(label).isdecimal() else str(label))
        for start, end, label in graph["edges"]
    ]
    return graph_svg(nodes, edges, title)


# Proofs


def _proof(rule: Mapping[str, Any], certificate: Mapping[str, Any], budget: int) -> ProofView:
    count = len(certificate["cases"])
    numbers: dict[str, int] = {}
    for text in certificate.get("excluded", ()):
        numbers.setdefault(text, len(numbers) + 1)
    excluded = len(numbers)
    cases: list[CaseView] = []
    room = budget
    for case in case_texts(certificate):
        room -= case.length
        if room < 0 and cases:
            break
        comparisons = tuple(
            ComparisonView(
                comparison.element,
                comparison.rows,
                tuple(
                    numbers.setdefault(text, len(numbers) + 1) for text in comparison.obligations
                ),
            )
            for comparison in case.comparisons
        )
        cases.append(CaseView(case.operands, case.parameters, case.assumed, comparisons))
    for case in certificate["cases"][len(cases) :]:
        for result in case["results"]:
            for text in result.get("obligations", ()):
                numbers.setdefault(text, len(numbers) + 1)
    obligations: list[tuple[int, str]] = []
    room = budget
    for text, number in numbers.items():
        room -= len(text)
        if room < 0 and obligations:
            break
        obligations.append((number, text))
    return ProofView(
        _proof_summary(rule, certificate, count, excluded, len(numbers) - excluded),
        f"{_plural(count, 'case')} with both normal forms",
        tuple(cases),
        _left_out(count - len(cases), "case"),
        f"{_plural(len(numbers), 'question')} to the solver, all unsatisfiable (SMT-LIB 2)",
        tuple(obligations),
        _left_out(len(numbers) - len(obligations), "question"),
    )


def _proof_summary(
    rule: Mapping[str, Any],
    certificate: Mapping[str, Any],
    cases: int,
    excluded: int,
    obligations: int,
) -> str:
    parts = [
        f"In each of {_plural(cases, 'case')} both sides have the same normal form: sums of "
        "products over index variables, every variable an integer of at least 0. Rows of a case "
        "are terms that are equal; a term alone in its row is 0 or cancels wherever its "
        "conditions hold. A result that has no elements in a case counts as 0."
    ]
    if obligations:
        parts.append(f"That relies on {_plural(obligations, 'question')} to the solver.")
    if excluded:
        verb = "excludes" if excluded == 1 else "exclude"
        parts.append(f"{_plural(excluded, 'further question')} {verb} what no sizes can be.")
    unclaimed = certificate.get("unclaimed", 0)
    if unclaimed:
        parts.append(
            f"In {_plural(unclaimed, 'way')} to apply the source the target is undefined or of "
            "another type; nothing is claimed there."
        )
    ranks = certificate.get("ranks")
    if ranks:
        bounds = ", ".join(f"{name.replace('_', ' ')} {_ranks(ranks[name])}" for name in ranks)
        parts.append(f"Ranks: {bounds}.")
    parts.append(f"Solver time {rule.get('solver_seconds', 0.0) * 1e3:.1f} ms.")
    return " ".join(parts)


def _ranks(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _left_out(count: int, noun: str) -> str:
    return f"{_plural(count, f'more {noun}')} in report.json." if count else ""


def _axioms(axioms: Mapping[str, Any], budget: int) -> AxiomsView:
    used = ", ".join(map(str, axioms["axioms"]))
    proofs: list[DerivationView] = []
    room = budget
    for proof in axioms["proofs"]:
        steps = tuple(
            StepView(
                str(step["axiom"]),
                ", ".join(f"{name} = {value}" for name, value in step["bindings"].items()),
                f"{step['left']} = {step['right']}",
            )
            for step in proof["steps"]
        )
        room -= len(proof["smtlib"]) + sum(len(step.bindings + step.equation) for step in steps)
        if room < 0 and proofs:
            break
        proofs.append(DerivationView(_plural(proof["cases"], "case"), steps, proof["smtlib"]))
    count = len(axioms["proofs"])
    return AxiomsView(
        f"The target follows from the source by equations alone, instances of {used}."
        if used
        else "Both sides are the same term.",
        f"{_plural(count, 'derivation')}, one for each kind of case",
        tuple(proofs),
        _left_out(count - len(proofs), "derivation"),
    )


# Counterexamples


def _counterexample(shown: Mapping[str, Any]) -> CounterexampleView:
    tensors: Mapping[str, Any] = shown.get("tensors") or {}
    parameters: Mapping[str, Any] = shown.get("parameters") or {}
    names = [(name, _tensor_text(tensor)) for name, tensor in tensors.items()]
    names += [(name, _parameter_text(value)) for name, value in parameters.items()]
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], ("…", f"and {len(names) - _MOST_NAMES + 1} more")]
    difference, results = shown.get("difference"), shown.get("results")
    if not difference or not results:
        return CounterexampleView(tuple(names), "", (), str(shown.get("text", "")))
    number, index = int(difference["result"]), tuple(difference["index"])
    source, target = results[number]["source"], results[number]["target"]
    of = f" of result {number}" if len(results) > 1 else ""
    return CounterexampleView(
        tuple(names),
        f"The source gives {difference['source']}, the target {difference['target']} at "
        f"{_parameter_text(list(index))}{of}.",
        tuple(
            SideView(f"{name}{_place(index)}", _rows(tensor, other, index))
            for name, tensor, other in (("source", source, target), ("target", target, source))
        ),
        str(shown.get("text", "")),
    )


def _place(index: Sequence[int]) -> str:
    outer = index[:-2]
    return f" at [{', '.join(map(str, outer))}, …]" if outer else ""


def _rows(
    tensor: Mapping[str, Any], other: Mapping[str, Any], index: tuple[int, ...]
) -> tuple[tuple[Cell, ...], ...]:
    """The matrix of the last two axes around an index, with what differs from the other side."""
    shape = tuple(tensor["shape"])
    rows, columns = (1, 1, *shape)[-2:]
    row, column = (0, 0, *index)[-2:]
    start = _offset(shape, (*index[:-2], *(0 for _ in shape[-2:])))
    top = max(0, min(row - _MOST_ROWS // 2, rows - _MOST_ROWS))
    left = max(0, min(column - _MOST_COLUMNS // 2, columns - _MOST_COLUMNS))

    def cell(i: int, j: int) -> Cell:
        place = start + i * columns + j
        text = str(tensor["elements"][place])
        differs = text != str(other["elements"][place])
        first = (i, j) == (row, column)
        return Cell(text, "differs first" if first else "differs" if differs else "")

    return tuple(
        tuple(cell(i, j) for j in range(left, min(columns, left + _MOST_COLUMNS)))
        for i in range(top, min(rows, top + _MOST_ROWS))
    )


def _offset(shape: Sequence[int], index: Sequence[int]) -> int:
    place = 0
    for extent, at in zip(shape, index, strict=True):
        place = place * extent + at
    return place


def _tensor_text(tensor: Mapping[str, Any]) -> str:
    shape, elements = tuple(tensor["shape"]), tensor["elements"]
    kind = f"{tensor['type']}[{', '.join(map(str, shape))}]"
    if len(elements) > _MOST_ELEMENTS:
        return f"{kind} of {len(elements)} elements"
    if 0 in shape:
        return kind
    texts = list(map(str, elements))
    for extent in reversed(shape):
        count = len(texts) // extent
        texts = [f"[{', '.join(texts[n * extent : (n + 1) * extent])}]" for n in range(count)]
    return f"{kind} {texts[0]}"


def _parameter_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_parameter_text, value))}]"
    return str(value)
