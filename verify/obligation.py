"""What a proof leaves to a solver: questions in SMT-LIB 2 that must be unsatisfiable.

What it does: matches the terms of two forms and writes the questions, each as one text that depends
on nothing but what is asked. `checker` writes them once more from a certificate, by itself; both
must agree in every character. What it does not: answer them (see `assumptions`, `solver_check`).

The text has one command a line:

    (set-logic QF_NIA)
    (declare-const n0 Int)              every variable that occurs below, sorted
    (assert (>= n0 0))                  every variable is at least 0, sorted
    (assert (>= (+ (- 1) n0) 0))        what is assumed, sorted as text, each once: P >= 0,
    (assert (not (= n1 0)))             and that P is not 0
    (assert (not (= (+ (ite (>= n0 2) 1 0) (ite true (- 1) 0)) 0)))
    (check-sat)

Equations that are assumed occur nowhere: they are applied to every polynomial. Assumed beside those
of the case are E - 1 - I >= 0 for each axis of a result whose index I is a variable, where E is its
extent, and for each quotient Q of A by B that A - B*Q >= 0 and B - 1 - A + B*Q >= 0. The last
assertion is there if terms must cancel: in a group of terms that differ in their coefficients and
conditions alone (their bound variables, which are free here, and their factors are the same), each
is `(ite CONDITIONS WEIGHT 0)` with its coefficient as weight, negative for terms of the target, all
multiplied by the least common multiple of the denominators. Without that assertion the text asks
whether what is assumed is possible.

    polynomial   its monomials, sorted as tuples of names: none `0`, one by itself, more `(+ M …)`
    monomial     factor and names: `3`, `n0`, `(* n0 n0)`, `(* (- 2) n0 n1)`
    condition    `(>= P 0)`, `(= P 0)`, `(not (= P 0))`; none `true`, more `(and C …)`, sorted,
                 each once
    sum of terms sorted as text: one by itself, more `(+ T …)`
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from tensorgen.sizes import Size
from verify.assumptions import Assumptions
from verify.normal_form import Guard, Product, Quotient, Relation, Sum, product_text

_SYMBOL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Group:
    """Terms of both sides that differ in their coefficients and conditions alone."""

    source: tuple[Product, ...]
    target: tuple[Product, ...]


def matched(source: Sum, target: Sum) -> tuple[tuple[tuple[int, int], ...], tuple[Group, ...]]:
    """The positions of equal terms, and the others in groups; both forms are canonical."""
    places = {product_text(term): n for n, term in enumerate(target)}
    pairs = tuple(
        (n, places[text]) for n, text in enumerate(map(product_text, source)) if text in places
    )
    lefts, rights = {left for left, _ in pairs}, {right for _, right in pairs}
    groups: dict[str, tuple[list[Product], list[Product]]] = defaultdict(lambda: ([], []))
    for side, (terms, paired) in enumerate(((source, lefts), (target, rights))):
        for n, term in enumerate(terms):
            if n not in paired:
                groups[_bare(term)][side].append(term)
    return pairs, tuple(Group(tuple(left), tuple(right)) for left, right in groups.values())


def _bare(term: Product) -> str:
    return product_text(replace(term, coefficient=Fraction(1), guards=frozenset()))


def bounds(
    axes: Sequence[Size], extents: Sequence[Size], quotients: Sequence[Quotient] = ()
) -> tuple[Size, ...]:
    """That indices lie below their extents, and remainders of quotients between 0 and the divisor,
    as polynomials that are at least 0."""
    pairs = zip(axes, extents, strict=True)
    below = [extent - 1 - axis for axis, extent in pairs if axis.constant is None]
    for quotient in quotients:
        rest = quotient.dividend - quotient.divisor * Size.variable(quotient.name)
        below += [rest, quotient.divisor - 1 - rest]
    return tuple(below)


def impossible(assumptions: Assumptions, also: Sequence[Size] = ()) -> str:
    """The question whether integers fit what is assumed; `also` are polynomials of at least 0."""
    return _text(assumptions, also, [], set())


def cancelling(group: Group, assumptions: Assumptions, also: Sequence[Size] = ()) -> str:
    """The question whether the terms of a group add up to anything but 0 for some integers."""
    signed = [*((1, term) for term in group.source), *((-1, term) for term in group.target)]
    common = lcm(*(term.coefficient.denominator for _, term in signed))
    names: set[str] = set()
    terms = []
    for sign, term in signed:
        conditions = _together({_condition(guard, assumptions, names) for guard in term.guards})
        terms.append(f"(ite {conditions} {_number(int(sign * term.coefficient * common))} 0)")
    return _text(assumptions, also, [f"(not (= {_total(sorted(terms))} 0))"], names)


def _text(
    assumptions: Assumptions, also: Sequence[Size], wanted: Sequence[str], names: set[str]
) -> str:
    assumed = set()
    for size in (*assumptions.nonnegative, *also):
        assumed.add(f"(>= {_polynomial(assumptions.normal(size), names)} 0)")
    for size in assumptions.nonzero:
        assumed.add(f"(not (= {_polynomial(assumptions.normal(size), names)} 0))")
    assert all(map(_SYMBOL.fullmatch, names)), "canonical forms name their variables plainly"
    lines = ["(set-logic QF_NIA)"]
    lines += [f"(declare-const {name} Int)" for name in sorted(names)]
    lines += [f"(assert (>= {name} 0))" for name in sorted(names)]
    lines += [f"(assert {text})" for text in (*sorted(assumed), *wanted)]
    return "\n".join([*lines, "(check-sat)"])


def _condition(guard: Guard, assumptions: Assumptions, names: set[str]) -> str:
    polynomial = _polynomial(assumptions.normal(guard.size), names)
    match guard.relation:
        case Relation.NONNEGATIVE:
            return f"(>= {polynomial} 0)"
        case Relation.ZERO:
            return f"(= {polynomial} 0)"
        case Relation.NONZERO:
            return f"(not (= {polynomial} 0))"


def _together(conditions: set[str]) -> str:
    inside = " ".join(sorted(conditions))
    return f"(and {inside})" if len(conditions) > 1 else inside or "true"


def _polynomial(size: Size, names: set[str]) -> str:
    names |= size.variables
    return _total([_monomial(monomial, size.terms[monomial]) for monomial in sorted(size.terms)])


def _total(summands: Sequence[str]) -> str:
    if len(summands) < 2:
        return summands[0] if summands else "0"
    return f"(+ {' '.join(summands)})"


def _monomial(names: tuple[str, ...], factor: int) -> str:
    parts = [_number(factor)] if factor != 1 or not names else []
    parts += names
    return parts[0] if len(parts) == 1 else f"(* {' '.join(parts)})"


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"
