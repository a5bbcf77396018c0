"""Whether two sums are equal for all integers that the assumptions allow.

What it does: brings the difference to canonical form; what is left must cancel where its conditions
hold, which is a quantifier-free question over the integers for Z3. What it does not: refute. A
`False` says that no proof was found.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

import z3

from verify.assumptions import Assumptions, solver, solver_term
from verify.canonical import canonical
from verify.normal_form import Guard, Product, Relation, Sum, product_text, scaled


@dataclass(frozen=True, slots=True)
class Equal:
    """A proof: how many terms cancelled by form, and how many groups Z3 settled."""

    terms: int
    obligations: int


@dataclass(frozen=True, slots=True)
class Open:
    """No proof: the terms of the difference that remain."""

    rest: tuple[str, ...]


def compared(left: Sum, right: Sum, assumptions: Assumptions) -> Equal | Open:
    """Compares two sums."""
    rest = canonical(left + scaled(right, -1), assumptions)
    groups: dict[str, list[Product]] = defaultdict(list)
    for term in rest:
        bare = replace(term, coefficient=Fraction(1), guards=frozenset())
        groups[product_text(bare)].append(term)
    for terms in groups.values():
        if not _cancel(terms, assumptions):
            return Open(tuple(map(product_text, rest)))
    return Equal(len(left) + len(right), len(groups))


def _cancel(terms: list[Product], assumptions: Assumptions) -> bool:
    """Whether terms with equal factors add up to 0 wherever their guards hold."""
    if all(not term.guards for term in terms):
        return False
    common = lcm(*(term.coefficient.denominator for term in terms))
    found, variables = solver(assumptions.key)
    known = set(variables)
    total: Any = z3.IntVal(0)
    for term in terms:
        conditions = [_condition(guard, variables) for guard in sorted(term.guards, key=_text)]
        weight = int(term.coefficient * common)
        total = total + z3.If(z3.And(*conditions), z3.IntVal(weight), z3.IntVal(0))
    for name, variable in variables.items():
        if name not in known:
            found.add(variable >= 0)
    found.add(total != 0)
    return bool(found.check() == z3.unsat)


def _text(guard: Guard) -> str:
    return guard.text


def _condition(guard: Guard, variables: dict[str, Any]) -> Any:
    term = solver_term(guard.size, variables)
    match guard.relation:
        case Relation.NONNEGATIVE:
            return term >= 0
        case Relation.ZERO:
            return term == 0
        case Relation.NONZERO:
            return term != 0
