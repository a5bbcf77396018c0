"""Blocks of rows, packed at run time or where they lie: how many at a time, and what that costs.

Rows that lie apart are as many streams, and a tile waits for lines of each of them. A packed block
is one stream, in the order in which tiles read it, and stays in the second-level cache while all
vector tiles go over it. Packing pays where these are many. Blocks in place are for threads: each
reads rows of its own, which it may have made itself, while the panels of vector tiles arrive.
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


def row_blocks(
    work: TiledWork, schedule: RegisterTile, core: Core, threads: int
) -> Iterator[RegisterTile]:
    """The same tile with rows packed in blocks of a thread's own, and all at once: then the vector
    factor is read once, and threads share the packing."""
    width = schedule.vectors * schedule.lanes
    readers = work.outer_columns * -(-work.columns // width)
    tile_bytes = schedule.rows * work.depth * work.element_bytes
    tiles = -(-work.rows // schedule.rows)
    most = int(BLOCK_SHARE * core.second_cache / tile_bytes)
    if readers < LEAST_READERS:
        return
    units = work.batch * work.outer_rows
    count = -(-tiles // max(most, 1))
    if threads > 1 and units % threads:
        count = -(-count // threads) * threads
    block = -(-tiles // count) * schedule.rows
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
        again = EXPOSED * core.far_cycles(work.vector_bytes)
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
    return busiest(repeated(units, tuple(blocks)), threads) - again + late
