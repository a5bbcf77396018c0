"""What a machine could do at best, and what share of that was reached.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures" (2009): a program is bound by the peak of the arithmetic, or by its operations for
each byte (its intensity) times a bandwidth. What it does not: measure, or draw (`roofline_plot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasor.peers import Row
from tensorgen.machine import Machine


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """How fast data comes from one level of the memory, in bytes a second."""

    level: str
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The measured limits for one number of threads: float32 multiply-adds in flop/s (two each),
    and bandwidths, the fastest first."""

    threads: int
    peak: float
    bandwidths: tuple[Bandwidth, ...] = ()


def ceiling(machine: Machine, threads: int) -> Ceiling:
    """The limits of a machine for so many threads."""
    bandwidths = (Bandwidth(level.name, level.bandwidth.of(threads)) for level in machine.levels)
    return Ceiling(threads, machine.peak_flops(threads), tuple(bandwidths))


def ceiling_of(threads: int, ceilings: Sequence[Ceiling]) -> Ceiling | None:
    """The ceiling for that number of threads; None where none was measured."""
    return next((ceiling for ceiling in ceilings if ceiling.threads == threads), None)


def flops_per_second(row: Row) -> float | None:
    """What Tasor reached, by the work as defined and called from C; None if it failed or the work
    is not known."""
    own = row.timing("tasor")
    if own is None or row.flops is None:
        return None
    return row.flops / (own.milliseconds if own.in_c is None else own.in_c) * 1e3


def intensity(row: Row) -> float | None:
    """Operations for each byte that a run must move; None where either is not known."""
    return None if row.flops is None or not row.traffic else row.flops / row.traffic


def share_of_peak(row: Row, ceilings: Sequence[Ceiling]) -> float | None:
    """What Tasor reached over the measured peak: that of the row's own turns, else the ceiling's.
    Above 1 where a filtered convolution needs fewer operations than its definition counts."""
    reached, ceiling = flops_per_second(row), ceiling_of(row.threads, ceilings)
    peak = row.peak if row.peak is not None or ceiling is None else ceiling.peak
    return None if reached is None or peak is None else reached / peak


def share_of_fed_peak(row: Row) -> float | None:
    """The same over what a tile reached whose operands come from the first-level cache, in the
    row's own turns; None without one."""
    reached = flops_per_second(row)
    return None if reached is None or row.fed_peak is None else reached / row.fed_peak


def percent(share: float | None) -> str:
    """A share for a table, `97 %`; nothing for None."""
    if share is None:
        return ""
    digits = 0 if share >= 0.0995 else 1
    return f"{100 * share:.{digits}f} %"
