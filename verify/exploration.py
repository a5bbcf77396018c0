"""Running code on symbolic sizes along every path that its comparisons can take.

What it does: runs a function again and again. Where a comparison of sizes follows from what is
assumed, it has that answer; where it does not, one run assumes the one answer and a later run the
other. The function may also choose among values; every choice gets a run. What it does not: know
what the function does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tensorgen.sizes import Size, judged_by
from tensorgen.types import MAX_ELEMENTS
from verify.assumptions import Assumptions, without_positive_factors
from verify.feasibility import possible

T = TypeVar("T")

MOST_PATHS = 20_000
"""An exploration of more paths is given up."""


class TooManyPaths(Exception):
    """An exploration was given up."""


class Impossible(Exception):
    """No sizes take this path, though that could not be said where it began."""


@dataclass(slots=True)
class Path:
    """One run: what it has assumed so far, and its decisions, of which `plan` sets the first.

    It is the judge of sizes during the run. A decision is the position taken among options; a run
    that follows another's plan meets the same options. `excluded` are the questions that closed a
    branch.
    """

    plan: Sequence[tuple[int, Sequence[Any]]]
    assumptions: Assumptions = field(default_factory=Assumptions)
    decisions: list[tuple[int, Sequence[Any]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    quotients: dict[tuple[str, str], tuple[Size, Size, Size]] = field(default_factory=dict)
    excluded: list[str] = field(default_factory=list)

    def choose(self, options: Sequence[T]) -> T:
        """One of several values; other runs get the others."""
        assert options, "a choice among nothing"
        if len(options) == 1:
            return options[0]
        return self._decide(lambda: options)

    def _decide(self, options: Callable[[], Sequence[T]]) -> T:
        position = len(self.decisions)
        decision = self.plan[position] if position < len(self.plan) else (0, options())
        self.decisions.append(decision)
        taken, among = decision
        if not among:
            raise Impossible
        return cast(T, among[taken])

    def fresh(self, prefix: str, least: int = 0) -> Size:
        """A size of its own, at least `least`."""
        number = self.counts.get(prefix, 0)
        self.counts[prefix] = number + 1
        return Size.variable(f"{prefix}{number}") + least

    def is_zero(self, size: Size) -> bool:
        difference = self.assumptions.normal(size)
        value = difference.constant
        if value is not None:
            return value == 0
        factor = _common_variable(difference)
        if factor is not None:
            quotient = difference.divided(factor)
            assert quotient is not None
            return self.is_zero(factor) or self.is_zero(quotient)
        return self._judge(lambda: self._whether_zero(without_positive_factors(difference)))

    def is_negative(self, size: Size) -> bool:
        wanted = self.assumptions.normal(size)
        value = wanted.constant
        if value is not None or _is_limit(wanted):
            return value is not None and value < 0
        return self._judge(lambda: self._whether_negative(wanted))

    def _judge(self, answers: Callable[[], Sequence[tuple[bool, Assumptions]]]) -> bool:
        solved = self.assumptions.solved
        answer, self.assumptions = self._decide(answers)
        if self.assumptions.solved is not solved:
            self._unite_quotients()
        return answer

    def _unite_quotients(self) -> None:
        """What was divided may have become equal: then so are the quotients."""
        known: dict[tuple[str, str], Size] = {}
        for dividend, divisor, result in self.quotients.values():
            texts = (str(self.assumptions.normal(dividend)), str(self.assumptions.normal(divisor)))
            difference = self.assumptions.normal(known.setdefault(texts, result) - result)
            if difference.constant is None:
                self.assumptions = self.assumptions.with_zero(difference)

    def _whether_zero(self, size: Size) -> Sequence[tuple[bool, Assumptions]]:
        known = self.assumptions
        if (
            known.is_nonnegative(size - 1)
            or known.is_nonnegative(-size - 1)
            or any(other.same(size) or other.same(-size) for other in known.nonzero)
        ):
            return [(False, known)]
        if known.is_nonnegative(size) and known.is_nonnegative(-size):
            return [(True, known)]
        return self._possible(known.with_zero(size), known.with_nonzero(size))

    def _whether_negative(self, size: Size) -> Sequence[tuple[bool, Assumptions]]:
        known = self.assumptions
        if known.is_nonnegative(size):
            return [(False, known)]
        if known.is_nonnegative(-size - 1):
            return [(True, known)]
        return self._possible(known.with_nonnegative(-size - 1), known.with_nonnegative(size))

    def _possible(
        self, if_true: Assumptions, if_false: Assumptions
    ) -> Sequence[tuple[bool, Assumptions]]:
        found: list[tuple[bool, Assumptions]] = []
        for answer, assumed in ((True, if_true), (False, if_false)):
            match possible(assumed):
                case Assumptions() as fitting:
                    found.append((answer, fitting))
                case str(question):
                    self.excluded += [question] if question else []
        return found

    def quotient(self, dividend: Size, divisor: Size) -> Size:
        above, below = self.assumptions.normal(dividend), self.assumptions.normal(divisor)
        exact = above.divided(below)
        if exact is not None:
            return exact
        if below < 1:
            raise ZeroDivisionError(f"{above} // {below}")
        if above < 0:
            return -self.quotient(-above + below - 1, below)
        key = (str(above), str(below))
        if key not in self.quotients:
            result = self.fresh("q")
            self.quotients[key] = (above, below, result)
            rest = above - below * result
            self.assumptions = self.assumptions.with_nonnegative(rest).with_nonnegative(
                below - 1 - rest
            )
        return self.quotients[key][2]


def _common_variable(size: Size) -> Size | None:
    """A variable that every term of a polynomial has, unless it is that variable."""
    shared = set.intersection(*(set(monomial) for monomial in size.terms))
    if not shared or sum(map(len, size.terms)) < 2:
        return None
    return Size.variable(min(shared))


def _is_limit(size: Size) -> bool:
    """Whether a size is compared with the most elements that a tensor has: proofs are about
    tensors that there are."""
    return size.terms.get((), 0) in (MAX_ELEMENTS, MAX_ELEMENTS + 1)


def explore(
    run: Callable[[Path], T], excluded: list[str] | None = None
) -> Iterator[tuple[Path, T]]:
    """Every path of a function that some sizes may take, with its result; `excluded` gains the
    questions that closed branches. Raises TooManyPaths."""
    closed = [] if excluded is None else excluded
    plan: list[tuple[int, Sequence[Any]]] = []
    for _ in range(MOST_PATHS):
        path = Path(tuple(plan), excluded=closed)
        with judged_by(path):
            try:
                result = run(path)
            except Impossible:
                pass
            else:
                yield path, result
        plan = path.decisions
        while plan and plan[-1][0] + 1 >= len(plan[-1][1]):
            plan.pop()
        if not plan:
            return
        taken, options = plan[-1]
        plan[-1] = (taken + 1, options)
    raise TooManyPaths(f"more than {MOST_PATHS} paths")
