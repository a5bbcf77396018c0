"""The first rows of a contraction, computed while its vector factor is packed.

Where packing transposes square blocks, the columns of each pass through registers. A few rows are
multiplied with them there: the exchanges of a transposition and the multiply-adds of these rows
take different units of a core, and go on at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorgen.expr import Axis, Expr, const
from tensorgen.loop import (
    Declare,
    Fill,
    For,
    LoopKind,
    MultiplyAdd,
    Register,
    Stmt,
    TransposeBlock,
    TransposeSums,
    VectorLoad,
    nested,
)
from tensorgen.lower_contraction import TileLowering
from tensorgen.lower_loops import replace_axes, spans
from tensorgen.lower_transpose import RowsRead, side_by_side, transposed
from tensorgen.packing import meets_rows_in_blocks
from tensorgen.schedule import ScheduleError
from tensorgen.simplify import simplify
from tensorgen.tile_runs import Block, run_of
from tensorgen.types import int64

ZERO: Expr = const(0, int64)
SERIAL = LoopKind.SERIAL


def packed_with_rows(tiles: TileLowering) -> tuple[Stmt, ...]:
    """Pack all tiles of the vector factor, and compute all rows that the contraction has."""
    schedule, roles = tiles.schedule, tiles.roles
    if not meets_rows_in_blocks(roles, schedule.vector_operand, schedule.lanes):
        raise ScheduleError(
            "attention_tile: expected keys that are transposed in whole blocks, and queries whose "
            f"depth is contiguous, for first rows, got {roles.contraction}"
        )
    column = roles.vectors[-1]
    width = schedule.vectors * schedule.lanes
    body: list[Stmt] = []
    for span in spans(column.extent, width):
        run = run_of(tiles.numbers, column.name, span, width)
        vector = tiles.numbers.axis("vector", run.block.length // schedule.lanes)
        body.extend(nested((*run.loop, vector), _Vector(tiles, run.block, vector).sums(), SERIAL))
    return tuple(body)


@dataclass(frozen=True, slots=True)
class _Vector:
    """One vector of a tile of the vector factor."""

    tiles: TileLowering
    tile: Block
    number: Axis

    def sums(self) -> tuple[Stmt, ...]:
        """Its blocks, one after the other, and what comes out for the rows."""
        tiles, lanes = self.tiles, self.tiles.schedule.lanes
        dtype = tiles.contraction.dtype
        row = Block(ZERO, tiles.roles.rows[-1].extent, ZERO)
        sums = tuple(Register(f"acc_{i}_0", dtype, lanes) for i in range(row.length))
        *outer, last = tiles.roles.reduction
        loops = tuple(tiles.numbers.axis(axis.name, axis.extent) for axis in outer)
        number = tiles.numbers.axis(f"{last.name}_o", last.extent // lanes)
        point: dict[Axis, Expr] = dict(zip(outer, loops, strict=True))
        lane = tiles.numbers.axis("lane", lanes)
        source, factor = tiles.read(tiles.schedule.vector_operand)
        column = {tiles.roles.vectors[-1]: simplify(self._column.start + lane)}
        read = replace_axes(factor.expr, {**tiles.axes, **point, **column})
        keys = side_by_side(source, read, lane, last, tiles.numbers)
        point[last] = simplify(number * lanes)
        block = self._block(row, point, keys, lane, sums)
        blocks = nested(loops, keys.around(nested((number,), (block,), SERIAL)), SERIAL)
        begin = tuple(Fill(register, const(0, dtype)) for register in sums)
        end = tiles.finish(row, self._column, [[register] for register in sums])
        return (Declare(sums, (*begin, *blocks, *end)),)

    @property
    def _column(self) -> Block:
        """Where its lanes are on the axis of the tile."""
        lanes = self.tiles.schedule.lanes
        return Block(simplify(self.tile.start + self.number * lanes), lanes, self.tile.tile)

    def _block(
        self,
        row: Block,
        first: dict[Axis, Expr],
        keys: RowsRead,
        lane: Axis,
        sums: tuple[Register, ...],
    ) -> TransposeSums:
        """The square block whose first column is at the point `first` of the sum; `keys` are read
        in terms of a lane and the last axis of the sum."""
        tiles, lanes = self.tiles, self.tiles.schedule.lanes
        last = tiles.roles.reduction[-1]
        step = tiles.numbers.axis(last.name, lanes)
        point = {**first, last: simplify(first[last] + step)}
        panel, begin = tiles.vector_element(self.tile, point)
        place = simplify(begin + self.number * lanes)
        (block,) = transposed(
            keys.buffer, replace_axes(keys.index, {last: point[last]}),
            panel, simplify(place + lane), lane, step, lanes, tiles.numbers,
        )  # fmt: skip
        assert isinstance(block, TransposeBlock), "a square block needs no loops"
        rows, element = tiles.row_element(row, 0, point)
        other = tiles.roles.contraction.factors[1 - tiles.schedule.vector_operand]
        return TransposeSums(
            block, sums, rows, replace_axes(element, {step: ZERO}),
            other.coefficient(tiles.roles.rows[-1]),
            (block, self._multiplied(row, point, step, place, sums)),
        )  # fmt: skip

    def _multiplied(
        self,
        row: Block,
        point: dict[Axis, Expr],
        step: Axis,
        place: Expr,
        sums: tuple[Register, ...],
    ) -> Stmt:
        """The multiply-adds of a block, its columns read from the panel again."""
        tiles, panel = self.tiles, self.tiles.panel
        assert panel is not None, "what is packed has a panel"
        lanes, dtype = tiles.schedule.lanes, tiles.contraction.dtype
        vector, element = Register("vector_0", dtype, lanes), Register("element", dtype, lanes)
        body: list[Stmt] = [VectorLoad(vector, panel, place, lanes, kept=True)]
        buffer, elements = tiles.row_elements(row, point)
        for register, index in zip(sums, elements, strict=True):
            body += (Fill(element, buffer.at(index)), MultiplyAdd(register, element, vector))
        loop = For(step, tuple(body), LoopKind.ROLLED)
        return Declare((vector, element), (loop,))
