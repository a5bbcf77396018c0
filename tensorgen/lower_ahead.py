"""Asking ahead: the lines of what tiles read next, while they compute on what they have.

What it does not: tell where that pays (`sketch_tiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorgen.epilogue_lines import EpilogueLines, chunk_lengths
from tensorgen.expr import Axis, Expr, const
from tensorgen.loop import Buffer, LoopKind, Numbers, Prefetch, Stmt, nested
from tensorgen.lower_loops import replace_axes
from tensorgen.packing import length_of, row_major
from tensorgen.panel_lines import PanelLines
from tensorgen.schedule import ScheduleError, VectorSource
from tensorgen.simplify import simplify
from tensorgen.target import LINE_BYTES
from tensorgen.tile_reads import TileReads
from tensorgen.tile_runs import Block
from tensorgen.types import int64

NEAR_PANEL = 12 << 10
"""Bytes of a panel, at most, that is asked for into the first-level cache: there it stays beside
the one before it until its turn."""


def prefetches(
    reads: TileReads,
    row: Block,
    column: Block,
    point: dict[Axis, Expr],
    begin: Mapping[Axis, Expr] | None,
) -> tuple[Prefetch, ...]:
    """The lines of what is read next, at a point of the reduction: the next tile of the factor
    that is read in place, and the part of the next panel that this tile asks for, or of the next
    block of it where the sums are taken in blocks, of which this one has its `begin`."""
    asked: tuple[Prefetch, ...] = ()
    if reads.schedule.ahead:
        asked += _tile_ahead(reads, row, column, point)
    if reads.schedule.panels_ahead and reads.panel is None:
        asked += _panel_ahead(reads, row, column, point, begin)
    return asked


def packing_ahead(
    reads: TileReads, row: Block, column: Block, numbers: Numbers
) -> tuple[Stmt, ...]:
    """The lines that the next panel is packed from, before a tile begins its sums: each of the
    tiles that read this panel asks for as many."""
    schedule, roles = reads.schedule, reads.roles
    width = schedule.vectors * schedule.lanes
    if not schedule.panels_ahead:
        return ()
    lines = PanelLines.of(roles, schedule.vector_operand, width)
    if lines is None:
        raise ScheduleError(
            "register_tile: expected neighbours along the lanes or the innermost axis of the sum, "
            f"to ask for panels before they are packed, got none for {schedule}"
        )
    if column.length < width:
        return ()
    buffer, factor = reads.read(schedule.vector_operand)
    turn, turns = _turn(reads, roles.rows, row, schedule.rows)
    share = -(-lines.count // turns)
    loop = numbers.axis("line", share)
    point = lines.point(simplify(turn * share + loop))
    lane = roles.vectors[-1]
    point[lane] = simplify(column.start + width + point[lane])
    asked = Prefetch(buffer, replace_axes(factor.expr, {**reads.axes, **point}))
    return nested((loop,), (asked,), LoopKind.SERIAL)


def chunk_steps(reduction: Sequence[Axis], lines: Sequence[EpilogueLines]) -> int:
    """In chunks of how many steps a sum is taken while its tile asks for these lines: each strip
    has one of its own where that leaves enough steps between two."""
    total = length_of(reduction)
    strips = max((part.strips for part in lines), default=0)
    lengths = chunk_lengths(reduction)
    enough = [steps for steps in lengths if steps * strips <= total]
    return max(enough, default=min(lengths, default=total))


def epilogue_ahead(
    lines: Sequence[EpilogueLines], chunk: Expr, chunks: int
) -> tuple[Prefetch, ...]:
    """The lines that the epilogue of a tile needs, as one of the chunks of its sums asks for them.
    (All at once they would keep what the sums read waiting.) Behind the last strip is the next
    tile's."""
    asked: list[Prefetch] = []
    for part in lines:
        share = -(-part.strips // chunks)
        for strip in range(share):
            number = simplify(chunk * share + strip)
            asked.extend(Prefetch(part.buffer, place) for place in part.places(number))
    return tuple(asked)


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
    reads: TileReads,
    row: Block,
    column: Block,
    point: dict[Axis, Expr],
    begin: Mapping[Axis, Expr] | None,
) -> tuple[Prefetch, ...]:
    """The lines of the panel after this one, or of the block after this one: behind the last block
    of a panel is the first one of the next. The tiles that read it ask for as many of them at each
    step: the first tile for the first lines."""
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
    turn, turns = _turn(reads, inside, tile, length)
    share = -(-width // turns)
    steps, position = length_of(roles.reduction), row_major(roles.reduction, point)
    depth = steps if begin is None else schedule.depth
    before = const(0, int64) if begin is None else row_major(roles.reduction, begin)
    onwards = -depth if begin is None and schedule.backwards and schedule.vectors_outer else depth
    first = (number * steps + before + onwards) * width
    later = depth * width * buffer.dtype.bytes > NEAR_PANEL
    share_begins = (turn * depth + position - before) * share
    return _asked(buffer, first + share_begins, range(share), later)


def _turn(reads: TileReads, inside: Sequence[Axis], tile: Block, length: int) -> tuple[Expr, int]:
    """Which of the tiles that read the panel of the outer loop a tile is, and how many there are.
    The inner loops are along the axes `inside`."""
    outer = tuple(axis for axis in inside[:-1] if axis not in reads.fixed)
    extent = inside[-1].extent if inside else 1
    if reads.schedule.row_block:
        outer, extent = (), min(extent, reads.schedule.row_block)
    count = -(-extent // length)
    return row_major(outer, reads.axes) * count + tile.tile, length_of(outer) * count


def _asked(buffer: Buffer, index: Expr, places: range, later: bool = False) -> tuple[Prefetch, ...]:
    """Asks for the lines of consecutive places from an index."""
    line = LINE_BYTES // buffer.dtype.bytes
    return tuple(Prefetch(buffer, simplify(index + place), later) for place in places[::line])
