"""The schedule of a window over planes: how many rows a tile has, which vectors cover a row.

Whether a window becomes tiles depends on the task alone, not on the target, so that sums have the
same order everywhere. What it does not: recognise windows (`window`) or make loops
(`lower_window`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tensorgen.dialects import VectorDialect
from tensorgen.schedule import ColumnRun, WindowTile
from tensorgen.window import Window

MOST_ROWS = 8
"""Rows of a tile: more would not save many loads, three in ten for three rows of taps."""

MOST_TAPS_OF_A_TILE = 100
"""Taps that are written out for a tile, one multiply-add each."""

SPARE_REGISTERS = 3
"""Registers beside the accumulators and the weights of a group of columns: for taps."""

SPLIT_LOAD = 2.0
"""Load cycles for a vector that lies across two cache lines, as neighbours of aligned ones do."""

EVEN_LOADS = 1.5
"""Cycles for every second element of two vectors, which two taps share, beside one load."""

TILE_CYCLES = 8.0
"""Cycles of a tile beside its taps: loop control, and the store of each row."""


def window_schedule(window: Window, dialect: VectorDialect, parallel: bool) -> WindowTile:
    """The tile of a window: as many rows as fit, all tiles about equally high."""
    widths = tuple((d.lanes, d.store_partial is not None) for d in (dialect, *dialect.narrower))
    return WindowTile(
        rows=_tile_rows(window, dialect.registers),
        columns=tuple(column_runs(window.columns.output.extent, widths)),
        parallel=len(window.outer) if parallel else 0,
    )


def _tile_rows(window: Window, registers: int) -> int:
    extent = window.rows.output.extent
    weights = window.rows.kernel.extent * window.columns.step if window.weight is not None else 1
    most = min(MOST_ROWS, registers - SPARE_REGISTERS - weights, MOST_TAPS_OF_A_TILE // window.taps)
    blocks = -(-extent // max(most, 1))
    return -(-extent // blocks)


def column_runs(extent: int, widths: Sequence[tuple[int, bool]]) -> Iterator[ColumnRun]:
    """Vectors that cover `extent` columns, exactly. `widths` are the lengths that there are,
    longest first, each with whether it can be stored in part; one is at most `extent`.

    Fewer columns than the longest has lanes are one vector, stored in part, if there is such a
    store. What is left behind whole vectors is covered by the shortest that holds it, which reaches
    back over columns already covered.
    """
    if extent < widths[0][0]:
        shortest, partial = min(width for width in widths if width[0] >= extent)
        if partial or shortest == extent:
            yield ColumnRun(0, 1, shortest, extent)
            return
    longest = max(width for width, _ in widths if width <= extent)
    vectors, rest = divmod(extent, longest)
    yield ColumnRun(0, vectors, longest, longest)
    if rest:
        width = min(width for width, _ in widths if width >= rest)
        yield ColumnRun(extent - width, 1, width, width)


def window_cycles(window: Window, schedule: WindowTile, dialect: VectorDialect) -> float:
    """Cycles of all tiles on one core: multiply-adds or folds, loads, stores."""
    rows, columns = schedule.rows, window.columns.kernel.extent
    reach = (rows - 1) * window.rows.step + (window.rows.kernel.extent - 1) * window.rows.tap
    unit = max(_unit(window.rows.step, window.rows.tap), 1)
    plane_rows = min(reach // unit + 1, rows * window.rows.kernel.extent)
    loads = plane_rows * columns * (SPLIT_LOAD if dialect.lanes > 1 else 1.0)
    if window.columns.step > 1:
        loads *= EVEN_LOADS
    if window.weight is not None:
        loads += window.taps
        work = rows * window.taps / dialect.multiply_adds_per_cycle
    else:
        work = plane_rows * (columns - 1) + rows * window.rows.kernel.extent
    tile = max(work, loads / dialect.loads_per_cycle) + rows * 2.0 + TILE_CYCLES
    blocks = window.rows.output.extent / rows
    vectors = sum(run.vectors * run.lanes / dialect.lanes for run in schedule.columns)
    repeated = prod(axis.extent for axis in (*window.outer, *window.depth))
    return tile * blocks * vectors * repeated


def _unit(step: int, tap: int) -> int:
    """The distance between neighbouring rows of the plane that taps read."""
    distances = [distance for distance in (step, tap) if distance]
    return min(distances, default=1)
