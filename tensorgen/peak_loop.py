"""The peak of the arithmetic as a loop to run between other work: what the cores can do just then.

What it does: builds the probe of multiply-adds (`calibration_source`) and calls it in this process.
What it does not: time it, or remember what was found; `calibration` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from tensorgen.build import build_library
from tensorgen.calibration_source import calibration_source, multiply_add_vectors
from tensorgen.dialects import vector_dialect
from tensorgen.target import Target
from tensorgen.types import float32

TURNS = 1 << 16
"""Turns of the loop in one run: a few tenths of a millisecond, long against a call from Python."""

_LINE_ELEMENTS = 16
"""A line of the cache of float32: what each thread has to write its sum to."""


def peak_loop_flops(target: Target, threads: int) -> int:
    """Float32 operations of one run, two for each multiply-add."""
    dialect = vector_dialect(target.isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    return 2 * TURNS * multiply_add_vectors(dialect) * dialect.lanes * threads


def peak_loop(target: Target, threads: int, cache: Path | None = None) -> Callable[[], None]:
    """One run of the loop on so many threads. Raises ToolMissing and BuildError."""
    source = calibration_source(target)
    path = build_library({"calibration.c": source}, target=target, threads=threads, cache=cache)
    probe = ctypes.CDLL(str(path)).probe_multiply_add
    sums = (ctypes.c_float * (_LINE_ELEMENTS * threads))()
    count, turns = ctypes.c_size_t(0), ctypes.c_long(TURNS)

    def run() -> None:
        probe(threads, None, count, turns, sums)

    return run
