"""Lowering of stages that read across the lanes: in blocks, transposed on the way.

A block is read along the memory of its operands and written along that of the result, so each line
of either is used whole while it is near.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorgen.crossing import Crossing, crossing
from tensorgen.expr import Axis, Expr, Load, substitute
from tensorgen.flat import FlatStage
from tensorgen.loop import Allocate, Buffer, For, LoopKind, Numbers, Space, Stmt, Store, nested
from tensorgen.lower_loops import Span, replace_axes, spans
from tensorgen.lower_transpose import block_start, transposed
from tensorgen.schedule import Loops, ScheduleError
from tensorgen.simplify import simplify

SIDE = 4
"""Tiles on each side of a block; several beside each other are runs of lines. Where something is
computed of what is transposed, which waits on the stack meanwhile, a block is one tile high."""


def lower_crossing(
    stage: FlatStage,
    output: Buffer,
    schedule: Loops,
    numbers: Numbers,
    buffers: Mapping[int, Buffer],
) -> tuple[Stmt, ...]:
    """Statements that compute the stage into `output`; its loads name `buffers` by number."""
    found = crossing(stage.axes, stage.body)
    if found is None:
        raise ScheduleError("blocks: expected reads across the lanes, got none")
    if not schedule.tile:
        raise ScheduleError("blocks: expected a tile of at least 1, got 0")
    blocks = _Blocks(stage, output, schedule, numbers, buffers, found)
    side = SIDE * schedule.tile
    height = side if (stage.body,) == found.loads else schedule.tile
    return tuple(
        statement
        for down in spans(found.axis.extent, height)
        for along in spans(stage.axes[-1].extent, side)
        for statement in blocks.of(down, along)
    )


@dataclass(frozen=True, slots=True)
class _Blocks:
    stage: FlatStage
    output: Buffer
    schedule: Loops
    numbers: Numbers
    buffers: Mapping[int, Buffer]
    crossing: Crossing

    def of(self, down: Span, along: Span) -> tuple[Stmt, ...]:
        """The blocks in some spans of the axis along which operands lie, and of the lanes."""
        numbers, axis, lanes = self.numbers, self.crossing.axis, self.stage.axes[-1]
        others = tuple(other for other in self.stage.axes[:-1] if other != axis)
        loops = tuple(numbers.axis(other.name, other.extent) for other in others)
        first, top = block_start(axis, down, numbers)
        second, left = block_start(lanes, along, numbers)
        row = numbers.axis(axis.name, down.length)
        column = numbers.axis(lanes.name, along.length)
        values: dict[Axis, Expr] = dict(zip(others, loops, strict=True))
        values |= {axis: simplify(top + row), lanes: simplify(left + column)}
        kind = LoopKind.PARALLEL if self.schedule.parallel else LoopKind.SERIAL
        return nested((*loops, *first, *second), self._block(values, row, column), kind)

    def _block(self, values: Mapping[Axis, Expr], row: Axis, column: Axis) -> tuple[Stmt, ...]:
        """One block: what lies across is transposed, and the rest is computed in order."""
        place = replace_axes(self.stage.index, values)
        loads = self.crossing.loads
        if 1 in (row.extent, column.extent):
            # A line is the same both ways.
            loads = ()
        if (self.stage.body,) == loads:
            return self._transposed(loads[0], values, row, column, self.output, place)
        inner = simplify(row * column.extent + column)
        size = row.extent * column.extent
        tiles: dict[Expr, Buffer] = {
            load: self.numbers.buffer("block", load.dtype, size, Space.STACK) for load in loads
        }
        value = substitute(
            self.stage.body, lambda term: tiles[term].at(inner) if term in tiles else None
        )
        store = Store(
            self.output, place, replace_axes(value, values), streamed=self.schedule.streamed
        )
        body: tuple[Stmt, ...] = (For(row, (For(column, (store,), LoopKind.SIMD),)),)
        for load in reversed(loads):
            turned = self._transposed(load, values, row, column, tiles[load], inner)
            body = (Allocate(tiles[load], (*turned, *body)),)
        return body

    def _transposed(
        self,
        load: Load,
        values: Mapping[Axis, Expr],
        row: Axis,
        column: Axis,
        target: Buffer,
        place: Expr,
    ) -> tuple[Stmt, ...]:
        index = replace_axes(load.indices[0], values)
        source = self.buffers[load.operand]
        tile = self.schedule.tile
        return tuple(transposed(source, index, target, place, column, row, tile, self.numbers))
