"""Sums in blocks: the tiles of all rows go over one block of a sum before the next.

Their accumulators wait in a buffer meanwhile, so that a block of a panel stays in the nearest cache
while all rows go by. The order of each sum is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tensorgen.contraction import Roles
from tensorgen.expr import Axis, Expr, const
from tensorgen.loop import (
    Allocate,
    Buffer,
    For,
    LoopKind,
    Numbers,
    Space,
    Stmt,
    Store,
    nested,
)
from tensorgen.packing import cut_axes, length_of, row_major
from tensorgen.schedule import RegisterTile
from tensorgen.simplify import simplify
from tensorgen.tile_runs import Block, Turns

Part = tuple[tuple[Axis, ...], Mapping[Axis, Expr]]
"""A block of a sum: its extents along the axes of the reduction, and where it begins."""


@dataclass(frozen=True, slots=True)
class SumBlocks:
    """The partial sums, in `buffer`, of all `rows` by the lanes of a vector tile."""

    schedule: RegisterTile
    roles: Roles
    rows: tuple[Axis, ...]
    buffer: Buffer

    @staticmethod
    def of(
        schedule: RegisterTile, roles: Roles, fixed: Sequence[Axis], numbers: Numbers
    ) -> SumBlocks:
        """The partial sums while the `fixed` axes stand still."""
        rows = tuple(axis for axis in roles.rows if axis not in fixed)
        size = length_of(rows) * schedule.vectors * schedule.lanes
        dtype = roles.contraction.dtype
        buffer = numbers.buffer("sums", dtype, size, Space.SCRATCH)
        return SumBlocks(schedule, roles, rows, buffer)

    def first(self, row: Block, axes: Mapping[Axis, Expr]) -> Expr:
        """Where the partial sums of a tile begin."""
        *outer, last = self.rows
        width = self.schedule.vectors * self.schedule.lanes
        return simplify((row_major(outer, axes) * last.extent + row.start) * width)

    def loops(
        self,
        rows: Sequence[Turns],
        loops_of: Callable[[Turns], tuple[Axis, ...]],
        numbers: Numbers,
        summed: Callable[[Block, Part], tuple[Stmt, ...]],
        stored: Callable[[Block], tuple[Stmt, ...]],
    ) -> Stmt:
        """All rows of a vector tile, block after block of the sum: what is `summed` of each into
        its partial sums, and how these are then `stored`."""
        outer, inner = cut_axes(self.roles.reduction, self.schedule.depth)
        blocks = tuple(numbers.axis(f"{axis.name}_o", axis.extent) for axis in outer)
        begin: dict[Axis, Expr] = {
            axis: simplify(block * part.extent)
            for axis, block, part in zip(self.roles.reduction, blocks, inner, strict=True)
        }
        place = numbers.axis("place", self.buffer.size)
        zero = For(place, (Store(self.buffer, place, const(0, self.buffer.dtype)),), LoopKind.SIMD)
        sums: tuple[Stmt, ...] = ()
        results: tuple[Stmt, ...] = ()
        for turns in rows:
            row = turns.block
            sums += nested(loops_of(turns), summed(row, (inner, begin)), LoopKind.SERIAL)
            results += nested(loops_of(turns), stored(row), LoopKind.SERIAL)
        around = tuple(block for block in blocks if block.extent > 1)
        return Allocate(self.buffer, (zero, *nested(around, sums, LoopKind.SERIAL), *results))
