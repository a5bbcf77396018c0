"""Calls timed beside each other, in turns.

What it does: gives each of several calls its turn (A B C, C B A, …), and keeps the median of each
turn, so that what disturbs the machine meets all alike. What it does not: know what is called, or
decide what follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

ROUNDS = 12
"""Turns of each call."""

LEAST_CALLS = 2
"""Calls of a turn, at least; the first one only fills the caches."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds of one call: the median of each turn."""

    turns: tuple[float, ...]

    @property
    def milliseconds(self) -> float:
        """The median turn."""
        return median(self.turns)

    def times_as_fast_as(self, other: Timings) -> float:
        """The median over the rounds of the other's time by this one's: above 1, this is faster."""
        return median(b / a for a, b in zip(self.turns, other.turns, strict=True))


def timed(
    calls: Sequence[Callable[[], None]],
    seconds: float,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Timings, ...]:
    """Time calls in turns that take about `seconds` together, or longer if the calls do."""
    for call in calls:
        call()
    share = seconds / (rounds * len(calls))
    turns: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        order = range(len(calls))
        for position in order if number % 2 == 0 else reversed(order):
            turns[position].append(_turn(calls[position], share, clock))
    return tuple(Timings(tuple(each)) for each in turns)


def _turn(call: Callable[[], None], seconds: float, clock: Callable[[], float]) -> float:
    """The median milliseconds of calls that take so long together, the first one left out."""
    started = clock()
    taken: list[float] = []
    while len(taken) < LEAST_CALLS or clock() - started < seconds:
        before = clock()
        call()
        taken.append(clock() - before)
    return median(taken[1:]) * 1e3
