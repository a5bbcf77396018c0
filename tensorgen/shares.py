"""How long the busiest of several threads takes for a loop that they share.

Work is a number of cycles, or a sequence that repeats: a loop over tiles, the last of them shorter,
inside other loops. Threads get equal numbers of consecutive pieces, as of an OpenMP loop with a
static schedule, whether these take as long or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple


class Repeated(NamedTuple):
    """`parts`, one after the other, so many `times`. Each time has so many `pieces`, which take so
    many `cycles`: `repeated` counts them once."""

    times: int
    parts: tuple[Work, ...]
    pieces: int
    cycles: float


Work = float | Repeated
"""Cycles of one piece of work, or of several in their order."""


def repeated(times: int, parts: tuple[Work, ...]) -> Repeated:
    """The parts, one after the other, so many times."""
    return Repeated(times, parts, sum(map(pieces_of, parts)), sum(map(cycles_of, parts)))


def pieces_of(work: Work) -> int:
    """How many pieces there are to share."""
    return work.times * work.pieces if isinstance(work, Repeated) else 1


def cycles_of(work: Work) -> float:
    """The cycles of all of it."""
    return work.times * work.cycles if isinstance(work, Repeated) else work


def merged(work: Work, loops: int) -> Work:
    """The same with only so many loops around the pieces: what is inside is one piece."""
    if not loops or not isinstance(work, Repeated):
        return cycles_of(work)
    return repeated(work.times, tuple(merged(part, loops - 1) for part in work.parts))


def busiest(work: Work, threads: int) -> float:
    """The cycles of the thread that takes longest."""
    begins = [_first(work, start) for start in _starts(pieces_of(work), threads)]
    return max(end - begin for begin, end in pairwise(begins))


def _starts(pieces: int, threads: int) -> Iterator[int]:
    """First piece of each thread, and the end of the last; the first threads have one more."""
    least, more = divmod(pieces, threads)
    for thread in range(threads + 1):
        yield thread * least + min(thread, more)


def _first(work: Work, count: int) -> float:
    """The cycles of the first `count` pieces."""
    if count in (0, pieces_of(work)):
        return cycles_of(work) if count else 0.0
    assert isinstance(work, Repeated), "one piece is not shared"
    times, count = divmod(count, work.pieces)
    total = times * work.cycles
    for part in work.parts:
        taken = min(count, pieces_of(part))
        total += _first(part, taken)
        count -= taken
    return total


def busiest_share(units: int, threads: int) -> float:
    """The part of equal pieces of work that the thread with the most of them has."""
    return -(-units // threads) / units
