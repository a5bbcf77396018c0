"""What is assumed of the integers in a proof: sizes, parameters and indices.

What it does: holds equations and inequalities between polynomials, and decides whether another one
follows. Most follow from signs: every variable stands for an integer of at least 0, so a polynomial
without negative coefficients is one, too. What signs do not settle is asked of Z3 as a
quantifier-free question over the integers. What it does not: choose assumptions (see
`exploration`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import z3

from tensorgen.sizes import Integer, Size

SOLVER_MILLISECONDS = 2000
"""The time for one question; without an answer by then, it stays open."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Equations solved for a variable, polynomials that are at least 0, and such that are not 0."""

    solved: Mapping[str, Size] = field(default_factory=dict)
    nonnegative: tuple[Size, ...] = ()
    nonzero: tuple[Size, ...] = ()

    def normal(self, size: Integer) -> Size:
        """The polynomial with solved variables replaced."""
        return Size.of(size).replaced(self.solved)

    # Assuming

    def with_nonnegative(self, size: Size) -> Assumptions:
        """Assume that a polynomial is at least 0; if its opposite is, too, that it is 0."""
        if self.is_nonnegative(size):
            return self
        if self.is_nonnegative(-size) and _solution(self.normal(size)) is not None:
            return self.with_zero(size)
        return replace(self, nonnegative=(*self.nonnegative, self.normal(size)))

    def with_nonzero(self, size: Size) -> Assumptions:
        """Assume that a polynomial is not 0."""
        return replace(self, nonzero=(*self.nonzero, self.normal(size)))

    def with_zero(self, size: Size) -> Assumptions:
        """Assume that a polynomial is 0: solved for a variable where one stands alone in it."""
        equation = self.normal(size)
        found = _solution(equation)
        if found is None:
            both = (*self.nonnegative, equation, -equation)
            return replace(self, nonnegative=both)
        name, value = found
        one = {name: value}
        solved = {known: old.replaced(one) for known, old in self.solved.items()}
        # The variable was at least 0, so its value is.
        kept = (known.replaced(one) for known in self.nonnegative)
        return Assumptions(
            {**solved, name: value},
            (*(known for known in kept if not has_no_minus(known)), *_told(value)),
            tuple(known.replaced(one) for known in self.nonzero),
        )

    # Deciding

    def is_nonnegative(self, size: Integer) -> bool:
        """Whether a polynomial is at least 0 by signs and by adding up at most two assumptions."""
        wanted = self.normal(size)
        if has_no_minus(wanted):
            return True
        value = wanted.constant
        if value is not None:
            return False
        rest = [wanted - known for known in self.nonnegative if _shares(wanted, known)]
        if any(map(has_no_minus, rest)):
            return True
        return any(
            has_no_minus(left - known)
            for left in rest
            for known in self.nonnegative
            if _shares(left, known)
        )

    def must_be_nonnegative(self, size: Integer) -> bool:
        """Whether a polynomial is at least 0, with Z3's help; False if that stays open."""
        wanted = self.normal(size)
        return self.is_nonnegative(wanted) or not satisfiable(
            self.with_nonnegative(-wanted - 1).key
        )

    def must_be_zero(self, size: Integer) -> bool:
        """Whether a polynomial is 0, with Z3's help; False if that stays open."""
        wanted = self.normal(size)
        if wanted.constant is not None:
            return wanted.constant == 0
        return not satisfiable(self.with_nonzero(wanted).key)

    def leaves_open(self, size: Size) -> bool:
        """Whether a polynomial, in normal form, can be 0, less and more for a simple reason: one of
        its variables is free, and the rest is at least 0 with it taken away."""
        for monomial, factor in size.terms.items():
            if len(monomial) != 1 or abs(factor) != 1:
                continue
            rest = (size - Size({monomial: factor})) * -factor
            free = not any(
                monomial[0] in known.variables for known in (*self.nonnegative, *self.nonzero)
            )
            if free and monomial[0] not in rest.variables and self.is_nonnegative(rest - 1):
                return True
        return False

    @property
    def is_possible(self) -> bool:
        """False if no integers fit; True if some do or none was found in time."""
        return satisfiable(self.key)

    @property
    def key(self) -> Question:
        """What is assumed, as a question to the solver."""
        return Question(
            tuple(sorted({str(size) for size in self.nonnegative})),
            tuple(sorted({str(size) for size in self.nonzero})),
            {str(size): size for size in (*self.nonnegative, *self.nonzero)},
        )

    def lines(self) -> Iterator[str]:
        """What is assumed, as text."""
        for name, value in sorted(self.solved.items()):
            yield f"{name} = {value}"
        for size in self.nonnegative:
            yield f"0 <= {size}"
        for size in self.nonzero:
            yield f"{size} != 0"


@dataclass(frozen=True, slots=True)
class Question:
    """Whether polynomials can all be at least 0, and others not 0, for variables of at least 0."""

    nonnegative: tuple[str, ...]
    nonzero: tuple[str, ...]
    sizes: Mapping[str, Size] = field(compare=False, hash=False)


def has_no_minus(size: Size) -> bool:
    """Whether signs alone say that a polynomial is at least 0."""
    return not size.subtracted


def _told(value: Size) -> tuple[Size, ...]:
    return () if has_no_minus(value) else (value,)


def _shares(wanted: Size, known: Size) -> bool:
    """Whether subtracting `known` removes a term that is in the way."""
    return not wanted.subtracted.isdisjoint(known.subtracted)


def _solution(equation: Size) -> tuple[str, Size] | None:
    """A variable with coefficient 1 or -1 that occurs nowhere else, and its value."""
    for monomial, factor in sorted(equation.terms.items(), reverse=True):
        if len(monomial) != 1 or abs(factor) != 1:
            continue
        name = monomial[0]
        rest = equation - Size({monomial: factor})
        if name not in rest.variables:
            return name, rest * -factor
    return None


# Z3


def solver_term(size: Size, variables: dict[str, Any]) -> Any:
    """A polynomial as a term of Z3; `variables` gains the names it meets."""
    total: Any = z3.IntVal(0)
    for monomial, factor in size.terms.items():
        product: Any = z3.IntVal(factor)
        for name in monomial:
            product = product * variables.setdefault(name, z3.Int(name))
        total = total + product
    return total


def solver(question: Question) -> tuple[Any, dict[str, Any]]:
    """A Z3 solver that holds the question, and its variables by name."""
    found = z3.Solver()
    found.set("timeout", SOLVER_MILLISECONDS)
    variables: dict[str, Any] = {}
    for text in question.nonnegative:
        found.add(solver_term(question.sizes[text], variables) >= 0)
    for text in question.nonzero:
        found.add(solver_term(question.sizes[text], variables) != 0)
    for variable in variables.values():
        found.add(variable >= 0)
    return found, variables


@lru_cache(maxsize=100_000)
def satisfiable(question: Question) -> bool:
    """False if Z3 says that no integers fit; True if some do, or if the time was up."""
    found, _ = solver(question)
    return bool(found.check() != z3.unsat)
