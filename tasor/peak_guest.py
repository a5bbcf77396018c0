"""The peak of the arithmetic as two more engines of a comparison.

Cores that others use, too, or whose clocks change, can do less at one time than at another. Run in
turns with the engines, plain multiply-adds say what could have been done just then, and those of a
tile that loads its operands from the first-level cache what kernels could have reached.
What it does not: measure bandwidths; `tensorgen.calibration` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tasor.peer_cases import Case
from tasor.peer_engines import Opened
from tasor.peers import Row
from tensorgen.peak_loop import peak_loop, peak_loop_flops, tile_loop, tile_loop_flops
from tensorgen.target import Target

PEAK = "peak"
FED_PEAK = "fed peak"


def open_peak(target: str, case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    """Multiply-adds for a target, whatever the case. Raises ToolMissing and BuildError."""
    assert not options
    return Opened(peak_loop(Target.named(target), threads), tuple)


def open_fed_peak(target: str, case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    """The same of a tile that loads its operands from the first-level cache."""
    assert not options
    return Opened(tile_loop(Target.named(target), threads), tuple)


PEAK_GUESTS = {PEAK: open_peak, FED_PEAK: open_fed_peak}
"""Who takes turns to find the peaks, by name."""


def with_peak(row: Row, target: str) -> Row:
    """The row with the peaks that were found in its turns, which are no engine's time; without
    those that were not found."""
    known = Target.named(target)
    return replace(
        row,
        results=tuple(result for result in row.results if result.engine not in PEAK_GUESTS),
        peak=_rate(row, PEAK, peak_loop_flops(known, row.threads)),
        fed_peak=_rate(row, FED_PEAK, tile_loop_flops(known, row.threads)),
    )


def _rate(row: Row, guest: str, flops: int) -> float | None:
    """Operations a second that a guest reached, of so many in a run."""
    found = row.timing(guest)
    return None if found is None else flops / found.milliseconds * 1e3
