"""The peak of the arithmetic as one more engine of a comparison.

Cores that others use, too, or whose clocks change, can do less at one time than at another. Run in
turns with the engines, plain multiply-adds say what could have been done just then.
What it does not: measure bandwidths; `tensorgen.calibration` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tasor.peer_cases import Case
from tasor.peer_engines import Opened
from tasor.peers import Row
from tensorgen.peak_loop import peak_loop, peak_loop_flops
from tensorgen.target import Target

PEAK = "peak"


def open_peak(target: str, case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    """Multiply-adds for a target, whatever the case. Raises ToolMissing and BuildError."""
    assert not options
    return Opened(peak_loop(Target.named(target), threads), tuple)


def with_peak(row: Row, target: str) -> Row:
    """The row with the peak that was found in its turns, which is no engine's time; as it was if
    none was found."""
    found = row.timing(PEAK)
    results = tuple(result for result in row.results if result.engine != PEAK)
    if found is None:
        return replace(row, results=results)
    flops = peak_loop_flops(Target.named(target), row.threads)
    return replace(row, results=results, peak=flops / found.milliseconds * 1e3)
