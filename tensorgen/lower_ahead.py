"""Asking ahead: the lines of what tiles read next, while they compute on what they have.

What it does not: tell where that pays (`sketch_tiles`).
"""

from __future__ import annotations

from tensorgen.expr import Axis, Expr
from tensorgen.line_reads import LINE_BYTES
from tensorgen.loop import Buffer, Prefetch
from tensorgen.packing import length_of, row_major
from tensorgen.schedule import VectorSource
from tensorgen.simplify import simplify
from tensorgen.tile_reads import TileReads
from tensorgen.tile_runs import Block


def prefetches(
    reads: TileReads, row: Block, column: Block, point: dict[Axis, Expr]
) -> tuple[Prefetch, ...]:
    """The lines of what is read next, at a point of the reduction: the next tile of the factor
    that is read in place, and the part of the next panel that this tile asks for."""
    asked: tuple[Prefetch, ...] = ()
    if reads.schedule.ahead:
        asked += _tile_ahead(reads, row, column, point)
    if reads.schedule.panels_ahead:
        asked += _panel_ahead(reads, row, column, point)
    return asked


def _tile_ahead(
    reads: TileReads, row: Block, column: Block, point: dict[Axis, Expr]
) -> tuple[Prefetch, ...]:
    """The lines of the next tile of the factor that is read in place."""
    schedule = reads.schedule
    if schedule.source is VectorSource.DIRECT:
        buffer, index = reads.vector_element(column, point)
        length = schedule.vectors * schedule.lanes
    else:
        buffer, index = reads.row_element(row, 0, point)
        length = schedule.rows
    return _asked(buffer, index, range(length, 2 * length))


def _panel_ahead(
    reads: TileReads, row: Block, column: Block, point: dict[Axis, Expr]
) -> tuple[Prefetch, ...]:
    """The lines of the panel after this one. The tiles that read a panel ask for as many of
    them at each step: the first tile for the first lines."""
    schedule, roles = reads.schedule, reads.roles
    if schedule.vectors_outer:
        panel, width = column, schedule.vectors * schedule.lanes
        tiled, inside, tile = roles.vectors, roles.rows, row
        factor, length = schedule.vector_operand, schedule.rows
    else:
        panel, width = row, schedule.rows
        tiled, inside, tile = roles.rows, roles.vectors, column
        factor, length = 1 - schedule.vector_operand, schedule.vectors * schedule.lanes
    buffer, index = reads.read(factor)
    number = reads.packed_tile(index, tiled, width, panel.tile)
    number = number - 1 if schedule.backwards and schedule.vectors_outer else number + 1
    outer = tuple(axis for axis in inside[:-1] if axis not in reads.fixed)
    extent = inside[-1].extent if inside else 1
    if schedule.row_block:
        outer, extent = (), min(extent, schedule.row_block)
    count = -(-extent // length)
    done = row_major(outer, reads.axes) * count + tile.tile
    depth = length_of(roles.reduction)
    share = -(-width // (length_of(outer) * count))
    step = done * depth + row_major(roles.reduction, point)
    return _asked(buffer, number * (depth * width) + step * share, range(share))


def _asked(buffer: Buffer, index: Expr, places: range) -> tuple[Prefetch, ...]:
    """Asks for the lines of consecutive places from an index."""
    line = LINE_BYTES // buffer.dtype.bytes
    return tuple(Prefetch(buffer, simplify(index + place)) for place in places[::line])
