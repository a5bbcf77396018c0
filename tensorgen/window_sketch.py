"""The schedule of a window over planes: how many rows a tile has, which vectors cover a row.

Whether a window becomes tiles depends on the task alone, not on the target, so that sums have the
same order everywhere. What it does not: recognise windows (`window`) or make loops
(`lower_window`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from tensorgen.dialects import VectorDialect
from tensorgen.line_reads import SPLIT_LOAD
from tensorgen.machine import Core
from tensorgen.schedule import ColumnRun, WindowTile
from tensorgen.shares import busiest_share
from tensorgen.window import Window

MOST_ROWS = 8
"""Rows of a tile: more would not save many loads, three in ten for three rows of taps."""

MOST_TAPS_OF_A_TILE = 400
"""Taps that are written out for a tile, one multiply-add each: eight rows of 7 x 7 windows."""

SPARE_REGISTERS = 1
"""Registers that are left to the compiler."""

EVEN_LOADS = 1.5
"""Cycles for every second element of two vectors, which two taps share, beside one load."""

TILE_CYCLES = 8.0
"""Cycles of a tile beside its taps: loop control, and the store of each row."""

SPILLED = 1.2
"""Factor of the estimate for rows that do not fit the registers."""

UNEVEN = 1.1
"""Threads share rows of tiles, too, where planes alone leave one of them with so many times the
work."""


def window_schedule(window: Window, dialect: VectorDialect, threads: int) -> WindowTile:
    """The tile of a window: as many rows as pay, all tiles about equally high. Threads share
    planes, and rows of tiles where these are too few.
    """
    columns = tuple(column_runs(window.columns.output.extent, vector_widths(dialect)))
    tile = WindowTile(_tile_rows(window, columns, dialect), columns, 0)
    if threads == 1:
        return tile
    planes, rows = (replace(tile, parallel=len(window.outer) + more) for more in (0, 1))
    even = window_share(window, planes, threads) < UNEVEN * window_share(window, rows, threads)
    return planes if even else rows


def window_share(window: Window, schedule: WindowTile, threads: int) -> float:
    """The part of all tiles that the busiest thread has."""
    units = prod(axis.extent for axis in window.outer[: schedule.parallel])
    if schedule.parallel > len(window.outer):
        units *= -(-window.rows.output.extent // schedule.rows)
    return busiest_share(units, threads)


def vector_widths(dialect: VectorDialect) -> tuple[tuple[int, bool], ...]:
    """The lengths of vectors, longest first, each with whether it can be stored in part. One that
    is has more lanes in use than the next shorter one has."""
    return tuple(
        (d.lanes, (d.store_partial or d.store_most) is not None)
        for d in (dialect, *dialect.narrower)
    )


def _tile_rows(window: Window, columns: Sequence[ColumnRun], dialect: VectorDialect) -> int:
    """As many rows as fit the registers, in blocks of about the same height.

    All rows of a plane that is one vector wide pay even where they do not fit, since the next tile
    of it would read its weights again; unless those of a few columns take most registers. (Measured
    with 16 registers: planes of 7 x 7 took 0.70 to 0.93 of the time of tiles that fit.)
    """
    extent = window.rows.output.extent
    highest = min(MOST_ROWS, MOST_TAPS_OF_A_TILE // window.taps)
    is_narrow = sum(run.vectors for run in columns) == 1
    is_crowded = window.weight is not None and 2 * _column_weights(window) > dialect.registers
    if is_narrow and not is_crowded and extent <= highest:
        return extent
    blocks = -(-extent // max(most_rows(window, dialect), 1))
    return -(-extent // blocks)


def most_rows(window: Window, dialect: VectorDialect) -> int:
    """Rows of the highest tile that fits the registers; 0 if its taps are too many."""
    free = dialect.registers - dialect.temporaries - SPARE_REGISTERS - _weights(window, dialect)
    fits = (rows for rows in range(1, MOST_ROWS + 1) if rows + _taps(window, dialect, rows) <= free)
    return min(max(fits, default=1), MOST_TAPS_OF_A_TILE // window.taps)


def _taps(window: Window, dialect: VectorDialect, rows: int) -> int:
    """Registers for taps. At stride 2 they are taken from two vectors, the last in place of them;
    compilers that move loads ahead do so with those of all rows."""
    if window.columns.step == 1:
        return 1
    return 2 * _plane_rows(window, rows) if dialect.loads_ahead else 2


def _plane_rows(window: Window, rows: int) -> int:
    """Rows of the plane that a tile reads."""
    reach = (rows - 1) * window.rows.step + (window.rows.kernel.extent - 1) * window.rows.tap
    unit = max(_unit(window.rows.step, window.rows.tap), 1)
    return min(reach // unit + 1, rows * window.rows.kernel.extent)


def _weights(window: Window, dialect: VectorDialect) -> int:
    """Registers for weights: those of the whole window if they leave enough others, since compilers
    load them once for all tiles of a row, else those of a group of columns. Weights that differ
    from column to column are loaded for each tile."""
    if window.weight is None:
        return 1
    whole = window.taps
    kept = not window.weighs_columns and whole <= dialect.registers * 5 // 8
    return whole if kept else _column_weights(window)


def _column_weights(window: Window) -> int:
    """The weights of columns that share vectors of the plane."""
    return window.rows.kernel.extent * window.columns.step


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


def window_cycles(window: Window, schedule: WindowTile, core: Core) -> float:
    """Cycles of all tiles on one core: multiply-adds or folds, loads from the cache that holds what
    a row of tiles reads, stores."""
    dialect, rows, columns = core.dialect, schedule.rows, window.columns.kernel.extent
    plane_rows = _plane_rows(window, rows)
    loads = plane_rows * columns * (SPLIT_LOAD if dialect.lanes > 1 else 1.0)
    if window.columns.step > 1:
        loads *= EVEN_LOADS
    depth = prod(axis.extent for axis in window.depth)
    read = depth * plane_rows * window.columns.output.extent
    if window.weighs_columns:
        read += depth * window.taps * window.columns.output.extent
    if window.weight is not None:
        loads += window.taps
        work = rows * window.taps / dialect.multiply_adds_per_cycle
    else:
        work = plane_rows * (columns - 1) + rows * window.rows.kernel.extent
    loads *= core.vector_load(read * window.dtype.bytes)
    tile = max(work, loads / dialect.loads_per_cycle) + rows * 2.0 + TILE_CYCLES
    blocks = window.rows.output.extent / rows
    vectors = sum(run.vectors * run.lanes / dialect.lanes for run in schedule.columns)
    repeated = prod(axis.extent for axis in (*window.outer, *window.depth))
    spilled = SPILLED if rows > most_rows(window, dialect) else 1.0
    return spilled * tile * blocks * vectors * repeated


def _unit(step: int, tap: int) -> int:
    """The distance between neighbouring rows of the plane that taps read."""
    distances = [distance for distance in (step, tap) if distance]
    return min(distances, default=1)
