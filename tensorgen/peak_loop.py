"""The peak of the arithmetic as loops to run between other work: what the cores can do just then.

What it does: builds the probes of multiply-adds (`calibration_source`), in registers alone and in a
tile whose operands come from the first-level cache, and calls them in this process. No kernel does
without loading what it multiplies: the second is what can be reached, also where cores lower their
clocks for it.
What it does not: time it, or remember what was found; `calibration` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

from tensorgen.build import build_library
from tensorgen.calibration_source import (
    TILE_STEPS,
    calibration_source,
    multiply_add_vectors,
    tile_elements,
    tile_shape,
)
from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.target import LINE_BYTES, Target
from tensorgen.types import float32

TURNS = 1 << 16
"""Turns of the loop in one run: a few tenths of a millisecond, long against a call from Python."""

_LINE_ELEMENTS = 16
"""A line of the cache of float32: what each thread has to write its sum to."""


TILE_TURNS = 1 << 9
"""Turns of the loop over tiles in one run, about as long."""


def peak_loop_flops(target: Target, threads: int) -> int:
    """Float32 operations of one run, two for each multiply-add."""
    dialect = _dialect(target)
    return 2 * TURNS * multiply_add_vectors(dialect) * dialect.lanes * threads


def tile_loop_flops(target: Target, threads: int) -> int:
    """The same of a tile whose operands come from the first-level cache."""
    dialect = _dialect(target)
    rows, vectors = tile_shape(dialect)
    return 2 * TILE_TURNS * TILE_STEPS * rows * vectors * dialect.lanes * threads


def peak_loop(target: Target, threads: int, cache: Path | None = None) -> Callable[[], None]:
    """One run of the loop on so many threads. Raises ToolMissing and BuildError."""
    return _loop(target, threads, cache, "probe_multiply_add", (), TURNS)


def tile_loop(target: Target, threads: int, cache: Path | None = None) -> Callable[[], None]:
    """The same of a tile whose operands come from the first-level cache; threads share them."""
    count = tile_elements(_dialect(target))
    # Numbers of all digits: cores lower their clocks less for those that are alike.
    operands = [(n * 37 % 101 - 50) / 51 for n in range(count)]
    return _loop(target, threads, cache, "probe_tile", operands, TILE_TURNS)


def _loop(
    target: Target,
    threads: int,
    cache: Path | None,
    name: str,
    operands: Sequence[float],
    turns: int,
) -> Callable[[], None]:
    source = calibration_source(target)
    path = build_library({"calibration.c": source}, target=target, threads=threads, cache=cache)
    probe = getattr(ctypes.CDLL(str(path)), name)
    memory = _aligned(operands)
    sums = (ctypes.c_float * (_LINE_ELEMENTS * threads))()
    count = ctypes.c_size_t(len(operands))

    def run() -> None:
        probe(threads, memory, count, ctypes.c_long(turns), sums)

    return run


def _aligned(operands: Sequence[float]) -> ctypes.Array[ctypes.c_float]:
    """The operands in memory, from the beginning of a line: no load lies across two."""
    held = (ctypes.c_float * (len(operands) + _LINE_ELEMENTS))()
    before = -ctypes.addressof(held) % LINE_BYTES
    memory = (ctypes.c_float * len(operands)).from_buffer(held, before)
    memory[:] = list(operands)
    return memory


def _dialect(target: Target) -> VectorDialect:
    dialect = vector_dialect(target.isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    return dialect
