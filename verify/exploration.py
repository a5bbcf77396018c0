"""Running code on symbolic sizes along every path that its comparisons can take.

What it does: runs a function again and again. Where a comparison of sizes follows from what is
assumed, it has that answer; where it does not, one run assumes the one answer and a later run the
other. The function may also choose among values; every choice gets a run. What it does not: know
what the function does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tensorgen.sizes import Size, judged_by
from tensorgen.types import MAX_ELEMENTS
from verify.assumptions import Assumptions

T = TypeVar("T")

MOST_PATHS = 20_000
"""An exploration of more paths is given up."""


class TooManyPaths(Exception):
    """An exploration was given up."""


@dataclass(slots=True)
class Path:
    """One run: what it has assumed so far, and its decisions, of which `plan` sets the first.

    It is the judge of sizes during the run.
    """

    plan: Sequence[tuple[int, int]]
    assumptions: Assumptions = field(default_factory=Assumptions)
    decisions: list[tuple[int, int]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    quotients: dict[tuple[str, str], Size] = field(default_factory=dict)

    def choose(self, options: Sequence[T]) -> T:
        """One of several values; other runs get the others."""
        assert options, "a choice among nothing"
        if len(options) == 1:
            return options[0]
        position = len(self.decisions)
        taken = self.plan[position][0] if position < len(self.plan) else 0
        self.decisions.append((taken, len(options)))
        return options[taken]

    def fresh(self, prefix: str, least: int = 0) -> Size:
        """A size of its own, at least `least`."""
        number = self.counts.get(prefix, 0)
        self.counts[prefix] = number + 1
        return Size.variable(f"{prefix}{number}") + least

    def is_zero(self, size: Size) -> bool:
        known = self.assumptions
        difference = known.normal(size)
        value = difference.constant
        if value is not None:
            return value == 0
        if known.is_nonnegative(difference - 1) or known.is_nonnegative(-difference - 1):
            return False
        if any(other.same(difference) or other.same(-difference) for other in known.nonzero):
            return False
        factor = _common_variable(difference)
        if factor is not None:
            quotient = difference.divided(factor)
            assert quotient is not None
            return self.is_zero(factor) or self.is_zero(quotient)
        return self._assume(difference, known.with_zero(difference), known.with_nonzero(difference))

    def is_negative(self, size: Size) -> bool:
        known = self.assumptions
        wanted = known.normal(size)
        if known.is_nonnegative(wanted) or _is_limit(wanted):
            return False
        if known.is_nonnegative(-wanted - 1):
            return True
        return self._assume(
            wanted, known.with_nonnegative(-wanted - 1), known.with_nonnegative(wanted)
        )

    def _assume(self, size: Size, if_true: Assumptions, if_false: Assumptions) -> bool:
        is_open = self.assumptions.leaves_open(size)
        answers = [
            (answer, assumed)
            for answer, assumed in ((True, if_true), (False, if_false))
            if is_open or assumed.is_possible
        ]
        assert answers, "a path that no sizes take"
        answer, self.assumptions = self.choose(answers)
        return answer

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
            self.quotients[key] = result
            rest = above - below * result
            self.assumptions = self.assumptions.with_nonnegative(rest).with_nonnegative(
                below - 1 - rest
            )
        return self.quotients[key]


def _common_variable(size: Size) -> Size | None:
    """A variable that every term of a polynomial of several terms has."""
    shared = set.intersection(*(set(monomial) for monomial in size.terms))
    if len(size.terms) < 2 or not shared:
        return None
    return Size.variable(min(shared))


def _is_limit(size: Size) -> bool:
    """Whether a size is compared with the most elements that a tensor has: proofs are about
    tensors that there are."""
    return size.terms.get((), 0) in (MAX_ELEMENTS, MAX_ELEMENTS + 1)


def explore(run: Callable[[Path], T]) -> Iterator[tuple[Path, T]]:
    """Every path of a function with its result. Raises TooManyPaths."""
    plan: list[tuple[int, int]] = []
    for _ in range(MOST_PATHS):
        path = Path(tuple(plan))
        with judged_by(path):
            result = run(path)
            yield path, result
        plan = path.decisions
        while plan and plan[-1][0] + 1 == plan[-1][1]:
            plan.pop()
        if not plan:
            return
        taken, options = plan[-1]
        plan[-1] = (taken + 1, options)
    raise TooManyPaths(f"more than {MOST_PATHS} paths")
