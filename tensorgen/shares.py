"""How long the busiest of several threads takes for a loop that they share.

Work is a number of cycles, or a sequence that repeats: a loop over tiles, the last of them shorter,
inside other loops. Threads get equal numbers of consecutive pieces, as of an OpenMP loop with a
static schedule, whether these take as long or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repeated:
    """`parts`, one after the other, so many `times`."""

    times: int
    parts: tuple[Work, ...]


Work = float | Repeated
"""Cycles of one piece of work, or of several in their order."""


def pieces_of(work: Work) -> int:
    """How many pieces there are to share."""
    if isinstance(work, Repeated):
        return work.times * sum(map(pieces_of, work.parts))
    return 1


def cycles_of(work: Work) -> float:
    """The cycles of all of it."""
    if isinstance(work, Repeated):
        return work.times * sum(map(cycles_of, work.parts))
    return work


def busiest(work: Work, threads: int) -> float:
    """The cycles of the thread that takes longest."""
    return max(_first(work, last) - _first(work, start) for start, last in _shares(work, threads))


def _shares(work: Work, threads: int) -> Iterator[tuple[int, int]]:
    """First piece of each thread, and the one behind its last; the first threads have one more."""
    least, more = divmod(pieces_of(work), threads)
    for thread in range(threads):
        start = thread * least + min(thread, more)
        yield start, start + least + (thread < more)


def _first(work: Work, count: int) -> float:
    """The cycles of the first `count` pieces."""
    if not isinstance(work, Repeated):
        return work * count
    length = sum(map(pieces_of, work.parts))
    times, count = divmod(count, length) if length else (0, 0)
    total = times * sum(map(cycles_of, work.parts))
    for part in work.parts:
        taken = min(count, pieces_of(part))
        total += _first(part, taken)
        count -= taken
    return total
