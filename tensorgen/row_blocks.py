"""Blocks of rows, packed at run time or where they lie: how many at a time, and what that costs.

Rows that lie apart are as many streams, and a tile waits for lines of each of them. A packed block
is one stream, in the order in which tiles read it, and stays in the second-level cache while all
vector tiles go over it. Packing pays where these are many. Blocks in place are for threads: each
reads rows of its own, which it may have made itself, while the panels of vector tiles arrive. They
are also for rows that no cache holds (Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication", 2008): a block in the second-level cache meets a group of panels in the shared one.
What it does not: choose (`sketch_tiles`), or pack (`lower_contraction`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensorgen.machine import Core
from tensorgen.prologue_costs import COPY, EXPOSED, FAR_COPY
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.shares import Work, busiest, repeated
from tensorgen.tile_costs import TiledWork, lines_of, parts, tile_cycles, tiles_of

LEAST_READERS = 4
"""Vector tiles that read a packed row, at least."""

MOST_AT_ONCE = 2.0
"""How many times the second-level cache all rows may fill that are packed at once: one stream from
beyond it is faster than many."""

BLOCK_SHARE = 0.5
"""The part of the second-level cache that a block may fill: vector tiles stream past it."""

GROUP_SHARE = 1 / 3
"""The part of what may be counted on of the shared cache that a group of panels may fill: rows and
results stream past it."""


def row_blocks(
    work: TiledWork, schedule: RegisterTile, core: Core, threads: int
) -> Iterator[RegisterTile]:
    """The same tile with rows packed in blocks of a thread's own, and all at once: then the vector
    factor is read once, and threads share the packing."""
    width = schedule.vectors * schedule.lanes
    readers = work.outer_columns * -(-work.columns // width)
    if readers < LEAST_READERS:
        return
    tile_bytes = schedule.rows * work.depth * work.element_bytes
    tiles = -(-work.rows // schedule.rows)
    units = work.batch * work.outer_rows
    block = _near_block(work, schedule, core, threads)
    plain = replace(schedule, vectors_outer=True, grid=False, ahead=False, depth=0)
    yield replace(plain, row_block=block)
    if units == 1 and block < work.rows and tiles * tile_bytes <= MOST_AT_ONCE * core.second_cache:
        yield replace(plain, row_block=tiles * schedule.rows)


def blocks_in_place(work: TiledWork, schedule: RegisterTile, threads: int) -> RegisterTile | None:
    """The same tile where each thread has a block of rows, which all vector tiles go over; None if
    there are too few rows."""
    count = 1 if work.batch * work.outer_rows % threads == 0 else threads
    tiles = -(-work.rows // schedule.rows)
    if threads == 1 or tiles < count:
        return None
    block = -(-tiles // count) * schedule.rows
    return replace(schedule, grid=False, depth=0, row_block=block, block_in_place=True)


def panels_in_groups(
    work: TiledWork, schedule: RegisterTile, core: Core, threads: int
) -> RegisterTile | None:
    """The same tile where blocks of rows in place go over one group of panels after the other, or
    over all; None where the shared cache holds what the inner loop reads, or a block of rows has
    too few readers."""
    again = far_again_cycles(work, schedule, core, threads)
    if schedule.source is not VectorSource.PACKED or work.outer_columns > 1 or not again:
        return None
    width = schedule.vectors * schedule.lanes
    panels = -(-work.columns // width)
    groups = -(-work.vector_bytes // int(GROUP_SHARE * core.shared_bytes))
    group = -(-panels // groups)
    block = _near_block(work, schedule, core, threads)
    if group < LEAST_READERS or block >= work.rows:
        return None
    return replace(
        schedule, vectors_outer=True, grid=False, depth=0, ahead=False, row_block=block,
        block_in_place=True, panel_group=group if groups > 1 else 0,
    )  # fmt: skip


def _near_block(work: TiledWork, schedule: RegisterTile, core: Core, threads: int) -> int:
    """The rows of a block that a part of the second-level cache holds, or of one tile: blocks are
    about equal, and as many for each thread."""
    tile_bytes = schedule.rows * work.depth * work.element_bytes
    tiles = -(-work.rows // schedule.rows)
    most = int(BLOCK_SHARE * core.second_cache / tile_bytes)
    count = -(-tiles // max(most, 1))
    if threads > 1 and work.batch * work.outer_rows % threads:
        count = -(-count // threads) * threads
    return -(-tiles // count) * schedule.rows


def far_again_cycles(work: TiledWork, schedule: RegisterTile, core: Core, threads: int) -> float:
    """The cycles of each thread in which the factor of the inner loop comes again from main memory,
    for each tile of the outer one: blocks of rows that stay in the second-level cache do for each
    group of panels."""
    if work.batch > 1:
        return 0.0
    panels = work.outer_columns * -(-work.columns // (schedule.vectors * schedule.lanes))
    turns, passing, beside = panels, work.row_bytes, _panel_bytes(work, schedule)
    if not schedule.vectors_outer:
        turns, passing = work.outer_rows * -(-work.rows // schedule.rows), work.vector_bytes
        beside = schedule.rows * work.element_bytes * (work.depth + work.columns)
    again = passing
    block = schedule.row_block * work.depth * work.element_bytes
    if block > core.near_bytes:
        passing = min(passing, threads * block)
    elif block:
        turns = -(-panels // schedule.panel_group) if schedule.panel_group else 1
    if passing + beside <= core.shared_bytes:
        return 0.0
    return EXPOSED * core.memory_cycles(again) * (turns - 1) / threads


def _panel_bytes(work: TiledWork, schedule: RegisterTile) -> int:
    """Bytes of a panel and of its results."""
    results = work.outer_rows * work.rows
    return schedule.vectors * schedule.lanes * work.element_bytes * (work.depth + results)


def block_cycles(work: TiledWork, schedule: RegisterTile, core: Core, threads: int) -> float:
    """The cycles of the busiest thread for all tiles and, where rows are packed, for that."""
    near = work.row_bytes <= core.second_cache
    turned = work.row_reads is not None and work.row_distance != work.element_bytes
    pack = (COPY if near else FAR_COPY) + (core.dialect.turned_copy if turned else 0.0)
    if schedule.block_in_place:
        pack = 0.0
    units = work.batch * work.outer_rows
    if threads > 1 and work.packs_all_rows(schedule):
        packed = work.depth * work.rows * work.element_bytes
        # All threads read what each of them packs a part of.
        crossing = core.crossing_cycles(packed, threads)
        made = work.depth * work.rows * pack / threads + crossing
        return made + core.barrier + busiest(lines_of(tiles_of(work, schedule, core)), threads)
    width = schedule.vectors * schedule.lanes
    again = 0.0
    if schedule.source is VectorSource.PACKED and core.passes_by(work.vector_bytes):
        again = EXPOSED * _panels_again_cycles(work, schedule, core)
    blocks: list[Work] = []
    for length, count in parts(work.rows, schedule.row_block):
        tiles = sum(
            number * times * tile_cycles(work, schedule, core, rows, columns)
            for rows, number in parts(length, schedule.rows)
            for columns, times in parts(work.columns, width)
        )
        block = work.outer_columns * tiles + length * work.depth * pack
        blocks.append(repeated(count, (block + again,)))
    # Threads with blocks of their own read all of the vector factor, each.
    late = core.first_cycles(work.vector_bytes) * (1 - 1 / threads)
    late += far_again_cycles(work, schedule, core, threads)
    number = units * -(-work.rows // schedule.row_block)
    late += number * _lost_block_cycles(work, schedule, core) / threads
    return busiest(repeated(units, tuple(blocks)), threads) - again + late


def _lost_block_cycles(work: TiledWork, schedule: RegisterTile, core: Core) -> float:
    """The cycles in which a core waits for a packed block that the second cache does not keep: it
    goes, and comes back."""
    block = schedule.row_block * work.depth * work.element_bytes
    if schedule.block_in_place or block <= core.costs.kept * core.near_bytes:
        return 0.0
    return 2 * core.costs.stream * core.far_cycles(block)


def _panels_again_cycles(work: TiledWork, schedule: RegisterTile, core: Core) -> float:
    """The cycles in which all panels come that a block of rows goes over, group after group: those
    of one point of the batch."""
    width = schedule.vectors * schedule.lanes
    panels = -(-work.columns // width) * work.outer_columns
    groups = -(-panels // schedule.panel_group) if schedule.panel_group else 1
    # A block of rows comes and goes meanwhile, with its results.
    row_bytes = work.element_bytes * (work.depth + work.columns * work.outer_columns // groups)
    group = work.vector_bytes // (work.batch * groups)
    return groups * core.again_cycles(group, schedule.row_block * row_bytes)
