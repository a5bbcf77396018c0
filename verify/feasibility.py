"""Whether any integers fit what is assumed.

What it does: looks for integers that fit, starting from those that fitted before; where that leads
nowhere, it asks Z3 whether there are none. What it does not: take an open question for a no.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tensorgen.sizes import Size
from verify.assumptions import Assumptions, by_subtracted, follows
from verify.obligation import impossible
from verify.solver import Fits, Nothing, Silent, answer

MOST_REPAIRS = 10
"""So many values are changed in search of integers that fit."""

_CANDIDATES = (0, 1, 2, 3, 4, 5, 6, 8, 9, 12)


def fitting(
    nonnegative: Sequence[Size], nonzero: Sequence[Size], start: Mapping[str, int]
) -> Mapping[str, int] | None:
    """Integers for which all of the first are at least 0 and none of the others is 0, found by
    changing one value of `start` at a time where it mends most; None if that leads nowhere."""
    conditions = [(size, True) for size in nonnegative] + [(size, False) for size in nonzero]
    point = dict(start)

    def amiss(size: Size, at_least: bool) -> int:
        value = size.at(point)
        return max(0, -value) if at_least else int(value == 0)

    visited = [dict(point)]
    for _ in range(MOST_REPAIRS):
        broken = next((c for c in conditions if amiss(*c)), None)
        if broken is None:
            return point
        best: tuple[int, int, str] | None = None
        for name in sorted(broken[0].variables):
            concerned = [c for c in conditions if name in c[0].variables]
            before, amount = point.get(name, 0), sum(amiss(*c) for c in concerned)
            for value in (*_CANDIDATES, before + amiss(*broken)):
                point[name] = value
                found = (sum(amiss(*c) for c in concerned) - amount, value, name)
                if (best is None or found < best) and point not in visited:
                    best = found
            point[name] = before
        if best is None:
            return None
        point[best[2]] = best[1]
        visited.append(dict(point))
    return None


def _components(assumptions: Assumptions) -> Iterator[Assumptions]:
    """What is assumed, in parts that share no variable."""
    parts: list[tuple[set[str], list[Size], list[Size]]] = []
    sizes = [(s, True) for s in assumptions.nonnegative] + [(s, False) for s in assumptions.nonzero]
    for size, at_least in sizes:
        joined: tuple[set[str], list[Size], list[Size]] = (set(size.variables), [], [])
        (joined[1] if at_least else joined[2]).append(size)
        apart = []
        for part in parts:
            if part[0].isdisjoint(size.variables):
                apart.append(part)
            else:
                joined = (joined[0] | part[0], part[1] + joined[1], part[2] + joined[2])
        parts = [*apart, joined]
    for _, nonnegative, nonzero in parts:
        yield Assumptions({}, tuple(nonnegative), tuple(nonzero))


def _contradicts_itself(assumptions: Assumptions) -> bool:
    """Whether the latest condition is below 0 by sums of multiples of the others."""
    *others, latest = assumptions.nonnegative or (Size.of(0),)
    return follows(-latest - 1, by_subtracted(others), most=3, scaled=True)


def possible(assumptions: Assumptions) -> Assumptions | str:
    """The same with a better hint; if no integers fit, a question that says so."""
    found = fitting(assumptions.nonnegative, assumptions.nonzero, assumptions.hint)
    if found is not None:
        return replace(assumptions, hint=found)
    if _contradicts_itself(assumptions):
        return ""
    hint = dict(assumptions.hint)
    for part in _components(assumptions):
        question = impossible(part)
        match answer(question):
            case Nothing():
                return question
            case Fits(values=values):
                hint |= values
            case Silent():
                pass
    return replace(assumptions, hint=hint)
