"""How good a tuner was after so long, and how long it took to be that good.

What it does: counts on curves of trials, each with the seconds of tuning behind it. What it does
not: time anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

LIKE_THE_BEST = 1.02
"""What takes at most so many times as long as the best is as good to within the clock's noise."""


@dataclass(frozen=True, slots=True)
class Point:
    """After so many trials and so many seconds of tuning: the seconds of a call, infinite if there
    is nothing that runs. Of a single trial or the best so far, as its owner says."""

    trials: int
    seconds: float
    best: float


def best_so_far(trials: Iterable[Point]) -> tuple[Point, ...]:
    """A point for each trial that was the fastest until then."""
    found: list[Point] = []
    for point in trials:
        if point.best < (found[-1].best if found else inf):
            found.append(point)
    return tuple(found)


def seconds_until(curve: Sequence[Point], limit: float) -> float | None:
    """Seconds of tuning until a call took at most `limit`; None if none did."""
    return next((point.seconds for point in curve if point.best <= limit), None)


def seconds_until_best(curve: Sequence[Point], slack: float = 1.0) -> float | None:
    """Seconds of tuning until a call took at most `slack` times as long as the best in the end;
    None if nothing ran."""
    best = min((point.best for point in curve), default=inf)
    return None if best == inf else seconds_until(curve, best * slack)


def landmarks(curve: Sequence[Point], step: float) -> Iterator[Point]:
    """Of a curve of the best so far its first point, those that are at least `step` times as fast
    as the one given before, and its last."""
    given = Point(0, 0.0, inf)
    for number, point in enumerate(curve, 1):
        if given.best == inf or given.best >= step * point.best or number == len(curve):
            given = point
            yield point
