"""What a tile reads: the buffers of its factors, and where in them its elements are."""

from __future__ import annotations

from dataclasses import dataclass

from tensorgen.contraction import Contraction, Roles
from tensorgen.expr import Axis, Expr
from tensorgen.loop import Buffer
from tensorgen.lower_loops import replace_axes
from tensorgen.packing import length_of, panel_axes, row_major
from tensorgen.prologue import Slab
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.simplify import Affine, Shifted, simplify
from tensorgen.tile_runs import Block


@dataclass(slots=True, kw_only=True)
class TileReads:
    """The factors of a contraction under a register tile.

    `inputs` are by the number of the operand. The vector factor is read from `panel` if there is
    one: if it is `packed`, all its tiles are there already, else one at a time is copied there.
    The broadcast factor is read from `row_panel` if there is one, which holds a block of rows.
    A prologue is read from its `slab`, of one point of the `fixed` axes. `axes` are the loops of
    the axes that tiles do not move along.
    """

    schedule: RegisterTile
    roles: Roles
    inputs: tuple[Buffer, ...]
    panel: Buffer | None
    packed: bool
    axes: dict[Axis, Expr]
    slab: tuple[Slab, Buffer] | None = None
    fixed: tuple[Axis, ...] = ()
    row_panel: Buffer | None = None

    @property
    def contraction(self) -> Contraction:
        """The contraction with its axes merged as the roles allow."""
        return self.roles.contraction

    def read(self, factor: int) -> tuple[Buffer, Affine]:
        """The buffer from which a factor is read, and where."""
        prologue = self.contraction.prologue
        if self.slab is not None and prologue is not None and prologue.factor == factor:
            slab, buffer = self.slab
            return buffer, slab.read
        return self.inputs[self.contraction.operands[factor]], self.contraction.factors[factor]

    def vector_element(self, column: Block, point: dict[Axis, Expr]) -> tuple[Buffer, Expr]:
        """Buffer and flat index of the first lane of a tile at a point of the reduction."""
        position = row_major(self.roles.reduction, point)
        width = self.schedule.vectors * self.schedule.lanes
        if self.panel is not None and not self.packed:
            return self.panel, simplify(position * width)
        buffer, factor = self.read(self.schedule.vector_operand)
        if self.packed or self.schedule.source is VectorSource.PACKED:
            buffer = buffer if self.panel is None else self.panel
            tile = self.packed_tile(factor, self.roles.vectors, width, column.tile)
            length = length_of(self.roles.reduction)
            return buffer, simplify((tile * length + position) * width)
        values = {**self.axes, **point, self.roles.vectors[-1]: column.start}
        return buffer, replace_axes(factor.expr, values)

    def row_elements(self, row: Block, point: dict[Axis, Expr]) -> tuple[Buffer, tuple[Expr, ...]]:
        """Buffer and flat indices of the broadcast elements in the rows of a tile."""
        buffer, first = self.row_element(row, 0, point)
        step = self._row_step()
        if step is None:
            others = (self.row_element(row, i, point)[1] for i in range(1, row.length))
            return buffer, (first, *others)
        shifted = Shifted.of(first)
        return buffer, (first, *(shifted.by(i * step) for i in range(1, row.length)))

    def _row_step(self) -> int | None:
        """From a row of a tile to the next one, in elements; None if that is not the same for all
        rows."""
        if self.row_panel is not None or self.schedule.row_packed:
            return 1
        if not self.roles.rows:
            return 0
        _, factor = self.read(1 - self.schedule.vector_operand)
        return factor.step(self.roles.rows[-1])

    def row_element(self, row: Block, i: int, point: dict[Axis, Expr]) -> tuple[Buffer, Expr]:
        """Buffer and flat index of the broadcast element in row `i` of a tile."""
        if self.row_panel is not None:
            length = length_of(self.roles.reduction) * self.schedule.rows
            position = row_major(self.roles.reduction, point) * row.length
            return self.row_panel, simplify(row.tile * length + position + i)
        buffer, factor = self.read(1 - self.schedule.vector_operand)
        if self.schedule.row_packed:
            position = row_major(self.roles.reduction, point)
            tile = self.packed_tile(factor, self.roles.rows, self.schedule.rows, row.tile)
            length = length_of(self.roles.reduction)
            return buffer, simplify((tile * length + position) * self.schedule.rows + i)
        values = {**self.axes, **point}
        if self.roles.rows:
            values[self.roles.rows[-1]] = simplify(row.start + i)
        return buffer, replace_axes(factor.expr, values)

    def packed_tile(self, factor: Affine, tiled: tuple[Axis, ...], length: int, tile: Expr) -> Expr:
        """Number of a panel in a relaid factor."""
        outer = panel_axes(factor, self.roles, tiled)
        values = dict(self.axes)
        count = -(-tiled[-1].extent // length) if tiled else 1
        return simplify(row_major(outer, values) * count + tile)
