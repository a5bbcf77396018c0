"""Lowering of a contraction to register tiles.

A tile of `rows` x `vectors` accumulators lives in vector registers over the whole reduction: each
step loads `vectors` vectors of one factor, broadcasts `rows` elements of the other and does
`rows * vectors` multiply-adds. Then the tile goes through a small array, from where the epilogue
stores it to wherever the result wants it. (The scheme of Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008, its blocks of the reduction where they pay.)

Where that saves reading, sums are taken in blocks: the tiles of all rows go over one block of the
reduction, and leave their accumulators in a buffer until the next one.

A prologue (padding) is made slab by slab: inside the outermost loops each thread fills a slab of
its own with what the tiles inside read, so that it stays in the cache of the core that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tensorgen.contraction import Contraction, Roles, assign_roles, contraction_of
from tensorgen.dense_copy import with_copy
from tensorgen.expr import (
    Axis,
    Expr,
    Load,
    TensorExpr,
    const,
    operand_name,
)
from tensorgen.line_reads import LINE_BYTES
from tensorgen.loop import (
    Allocate,
    Buffer,
    Declare,
    Fill,
    For,
    If,
    LoopKernel,
    LoopKind,
    MultiplyAdd,
    Numbers,
    Prefetch,
    Register,
    Space,
    Stmt,
    Store,
    VectorLoad,
    VectorStore,
    nested,
)
from tensorgen.lower_epilogue import epilogue_value, stored_tile
from tensorgen.lower_loops import Span, replace_axes, spans
from tensorgen.lower_panel import PanelTile
from tensorgen.lower_prologue import slab_loops
from tensorgen.packing import cut_axes, length_of, packed_factor, panel_axes, row_major
from tensorgen.prologue import Slab
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.simplify import Affine, affine, simplify
from tensorgen.task import Task
from tensorgen.types import int64

Packing = tuple[TensorExpr | None, ...]


def lower_register_tile(task: Task, schedule: RegisterTile) -> tuple[LoopKernel, Packing]:
    """The loops of a contraction under a register tile, and the packing of its inputs."""
    contraction = contraction_of(task)
    if contraction is None:
        raise ScheduleError("register_tile: expected a contraction, got " + str(task)[:200])
    if schedule.copied is not None:
        contraction = with_copy(task, contraction, schedule.copied)
        if contraction is None:
            raise ScheduleError(
                f"register_tile: expected a factor {schedule.copied} that can be copied, got "
                + str(task)[:200]
            )
    roles = assign_roles(contraction, schedule.vector_operand)
    if not roles.vectors:
        raise ScheduleError("register_tile: expected an axis along the lanes, got none")
    if schedule.depth and (schedule.grid or not schedule.vectors_outer or not roles.rows):
        raise ScheduleError(
            "register_tile: expected rows inside the loop over vector tiles, which threads share, "
            f"for sums in blocks, got {schedule}"
        )
    return TileLowering.start(task, schedule, roles).kernel()


@dataclass(frozen=True, slots=True)
class _Block:
    """A tile along one axis: its first element, its length, and its number."""

    start: Expr
    length: int
    tile: Expr


@dataclass(frozen=True, slots=True)
class _Turns:
    """A run of tiles along one axis: the loop over them (if several), and the tile of each turn.

    Where threads share a loop, it has the shorter tile at the end, too, so that they meet once:
    `rest` is the condition under which a turn is a whole tile, and the tile that it else is.
    """

    loop: tuple[Axis, ...]
    block: _Block
    rest: tuple[Expr, _Block] | None = None

    def chosen(self, made: Callable[[_Block], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """What is made for the tile of a turn."""
        if self.rest is None:
            return made(self.block)
        whole, last = self.rest
        return (If(whole, made(self.block), made(last)),)


@dataclass(slots=True)
class TileLowering:
    """Everything needed to lower the tiles of a contraction.

    `inputs` are by the number of the operand. The vector factor is read from `panel` if there is
    one: if it is `packed`, all its tiles are there already, else one at a time is copied there.
    `sums` are the partial sums of all rows by the lanes of a vector tile, where sums are taken in
    blocks.
    """

    schedule: RegisterTile
    roles: Roles
    numbers: Numbers
    inputs: tuple[Buffer, ...]
    output: Buffer
    packing: list[TensorExpr | None]
    panel: Buffer | None
    packed: bool
    axes: dict[Axis, Expr]
    slab: tuple[Slab, Buffer] | None = None
    fixed: tuple[Axis, ...] = ()
    sums: Buffer | None = None

    @staticmethod
    def start(task: Task, schedule: RegisterTile, roles: Roles) -> TileLowering:
        contraction, numbers = roles.contraction, Numbers()
        vector = schedule.vector_operand
        packing: list[TensorExpr | None] = [None] * len(task.inputs)
        if schedule.source is VectorSource.PACKED:
            operand = contraction.operands[vector]
            width = schedule.vectors * schedule.lanes
            packing[operand] = packed_factor(
                task.inputs[operand], contraction.factors[vector], roles, roles.vectors, width
            )
        if schedule.row_packed:
            operand = contraction.operands[1 - vector]
            packing[operand] = packed_factor(
                task.inputs[operand],
                contraction.factors[1 - vector],
                roles,
                roles.rows,
                schedule.rows,
            )
        inputs = []
        for position, type in enumerate(task.inputs):
            packed = packing[position]
            size = type.size if packed is None else packed.type.size
            name = operand_name(position) + ("_packed" if packed is not None else "")
            inputs.append(numbers.buffer(name, type.dtype, size, Space.INPUT))
        result = task.output_types[0]
        output = numbers.buffer("out", result.dtype, result.size, Space.OUTPUT)
        panel = None
        if schedule.source is VectorSource.RUNTIME:
            size = length_of(roles.reduction) * schedule.vectors * schedule.lanes
            panel = numbers.buffer("panel", contraction.dtype, size, Space.SCRATCH)
        slab = None
        fixed: tuple[Axis, ...] = ()
        if contraction.prologue is not None:
            fixed = contraction.prologue.moved_by(roles.outer)[: schedule.prologue]
            part = Slab.of(contraction.prologue, fixed, _together(schedule, roles))
            space = Space.SCRATCH if fixed else Space.SHARED
            name = "padded" if schedule.copied is None else "dense"
            slab = part, numbers.buffer(name, contraction.dtype, part.size, space)
        sums = None
        if schedule.depth:
            moving = tuple(axis for axis in roles.rows if axis not in fixed)
            size = length_of(moving) * schedule.vectors * schedule.lanes
            sums = numbers.buffer("sums", contraction.dtype, size, Space.SCRATCH)
        return TileLowering(
            schedule, roles, numbers, tuple(inputs), output, packing, panel, False, {}, slab, fixed,
            sums,
        )  # fmt: skip

    @property
    def contraction(self) -> Contraction:
        return self.roles.contraction

    def kernel(self) -> tuple[LoopKernel, Packing]:
        """The loops over tiles, and the packing of the inputs."""
        buffers = (self.panel, None if self.slab is None else self.slab[1], self.sums)
        scratch = tuple(buffer for buffer in buffers if buffer is not None)
        kernel = LoopKernel(self.inputs, (self.output,), scratch, self.loops())
        return kernel, tuple(self.packing)

    def loops(self) -> tuple[Stmt, ...]:
        """The loops over tiles."""
        roles, schedule = self.roles, self.schedule
        batch = self._loops(roles.batch)
        outer_rows = self._loops(roles.rows[:-1])
        outer_vectors = self._loops(roles.vectors[:-1])
        row_name, extent = ("m", 1) if not roles.rows else _named(roles.rows[-1])
        column_name, columns = _named(roles.vectors[-1])
        width = schedule.vectors * schedule.lanes
        fixed = [self.axes[axis] for axis in self.fixed]
        around = tuple(axis for axis in fixed if isinstance(axis, Axis))
        shared = LoopKind.PARALLEL if schedule.parallel else LoopKind.SERIAL

        def along(turns: _Turns) -> tuple[Axis, ...]:
            return tuple(axis for axis in (*outer_vectors, *turns.loop) if axis not in around)

        def across(turns: _Turns) -> tuple[Axis, ...]:
            return tuple(axis for axis in (*outer_rows, *turns.loop) if axis not in around)

        batch = tuple(axis for axis in batch if axis not in around)
        kind = LoopKind.SERIAL if around else shared
        parted = kind is LoopKind.PARALLEL
        backwards = schedule.backwards
        first = self._turns(
            column_name,
            columns,
            width,
            parted and (schedule.vectors_outer or schedule.grid),
            backwards,
        )
        second = self._turns(
            row_name,
            extent,
            schedule.rows,
            parted and (not schedule.vectors_outer or schedule.grid),
        )
        outside, inside = along, across
        if not schedule.vectors_outer:
            first, second, outside, inside = second, first, across, along

        def tile(outer: _Block, inner: _Block) -> tuple[Stmt, ...]:
            return self._tile(inner, outer) if schedule.vectors_outer else self._tile(outer, inner)

        def line(outer: _Block) -> tuple[Stmt, ...]:
            if self.sums is not None:
                tiles: tuple[Stmt, ...] = (self._blocked(outer, second, across),)
            else:
                tiles = tuple(
                    statement
                    for turns in second
                    for statement in nested(
                        inside(turns), turns.chosen(partial(tile, outer)), LoopKind.SERIAL
                    )
                )
            if self.panel is None or self.packed:
                return tiles
            return (Allocate(self.panel, (*self._pack_panel(outer), *tiles)),)

        def both(turns: _Turns, others: _Turns) -> tuple[Stmt, ...]:
            return turns.chosen(lambda outer: others.chosen(partial(tile, outer)))

        body: list[Stmt] = []
        for turns in first:
            if not schedule.grid:
                body.extend(nested((*batch, *outside(turns)), turns.chosen(line), kind))
                continue
            for others in second:
                grid = (*batch, *outside(turns), *inside(others))
                body.extend(nested(grid, both(turns, others), kind))
        if self.slab is not None:
            slab, buffer = self.slab
            made = slab_loops(
                slab, self.inputs, buffer, self.axes, self.numbers,
                lanes=schedule.lanes, parallel=schedule.parallel and not around,
            )  # fmt: skip
            body = list(nested(around, (Allocate(buffer, (*made, *body)),), shared))
        return tuple(body)

    def _blocked(
        self, column: _Block, rows: Sequence[_Turns], loops_of: Callable[[_Turns], tuple[Axis, ...]]
    ) -> Stmt:
        """All rows of a vector tile, block after block of the sum."""
        assert self.sums is not None
        outer, inner = cut_axes(self.roles.reduction, self.schedule.depth)
        blocks = tuple(self.numbers.axis(f"{axis.name}_o", axis.extent) for axis in outer)
        begin = {
            axis: simplify(block * part.extent)
            for axis, block, part in zip(self.roles.reduction, blocks, inner, strict=True)
        }
        place = self.numbers.axis("place", self.sums.size)
        zero = For(place, (Store(self.sums, place, const(0, self.sums.dtype)),), LoopKind.SIMD)
        summed: tuple[Stmt, ...] = ()
        stored: tuple[Stmt, ...] = ()
        width = self.schedule.vectors * self.schedule.lanes
        for turns in rows:
            row = turns.block
            tile = self._tile(row, column, inner, begin)
            summed += nested(loops_of(turns), tile, LoopKind.SERIAL)
            result = self._stored(row, column, self.sums, self._row_sums(row), width)
            stored += nested(loops_of(turns), result, LoopKind.SERIAL)
        around = tuple(block for block in blocks if block.extent > 1)
        return Allocate(self.sums, (zero, *nested(around, summed, LoopKind.SERIAL), *stored))

    def _row_sums(self, row: _Block) -> Expr:
        """Where the partial sums of a tile begin."""
        outer = tuple(axis for axis in self.roles.rows[:-1] if axis not in self.fixed)
        width = self.schedule.vectors * self.schedule.lanes
        extent = self.roles.rows[-1].extent
        return simplify((row_major(outer, self.axes) * extent + row.start) * width)

    def pack(self) -> tuple[Stmt, ...]:
        """Copy all tiles of the vector factor into the panel."""
        outer_vectors = self._loops(self.roles.vectors[:-1])
        name, columns = _named(self.roles.vectors[-1])
        width = self.schedule.vectors * self.schedule.lanes
        body: list[Stmt] = []
        for span in spans(columns, width):
            column = self._run(name, span, width)
            copied = self._pack_panel(column.block)
            body.extend(nested((*outer_vectors, *column.loop), copied, LoopKind.SERIAL))
        return tuple(body)

    def _read(self, factor: int) -> tuple[Buffer, Affine]:
        """The buffer from which a factor is read, and where."""
        prologue = self.contraction.prologue
        if self.slab is not None and prologue is not None and prologue.factor == factor:
            slab, buffer = self.slab
            return buffer, slab.read
        return self.inputs[self.contraction.operands[factor]], self.contraction.factors[factor]

    def _loops(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in axes)
        self.axes.update(zip(axes, loops, strict=True))
        return loops

    def _turns(
        self, name: str, extent: int, tile: int, whole: bool, backwards: bool = False
    ) -> tuple[_Turns, ...]:
        """The runs of tiles that cover an axis; all in one with `whole`."""
        cut = spans(extent, tile)
        if whole and len(cut) > 1:
            full, rest = cut
            loop = self.numbers.axis(f"{name}_o", full.blocks + 1)
            number = simplify(const(full.blocks, int64) - loop) if backwards else loop
            last = _Block(const(rest.start, int64), rest.length, const(full.blocks, int64))
            block = _Block(simplify(number * tile), tile, number)
            return (_Turns((loop,), block, (number < full.blocks, last)),)
        return tuple(
            self._run(name, span, tile, backwards) for span in (cut[::-1] if backwards else cut)
        )

    def _run(self, name: str, span: Span, tile: int, backwards: bool = False) -> _Turns:
        """The run of a span of tiles of one length."""
        first = span.start // tile
        if span.blocks == 1:
            return _Turns((), _Block(const(span.start, int64), span.length, const(first, int64)))
        loop = self.numbers.axis(f"{name}_o", span.blocks)
        number = const(span.blocks - 1, int64) - loop if backwards else loop
        start = simplify(number * tile + span.start)
        return _Turns((loop,), _Block(start, tile, simplify(number + first)))

    # One tile

    def _tile(
        self,
        row: _Block,
        column: _Block,
        reduction: tuple[Axis, ...] | None = None,
        begin: Mapping[Axis, Expr] | None = None,
    ) -> tuple[Stmt, ...]:
        """One tile over the whole reduction, into the result; or over the block of it that has the
        extents of `reduction` and begins at `begin`, into the partial sums."""
        schedule, dtype = self.schedule, self.contraction.dtype
        lanes = schedule.lanes
        vectors = -(-column.length // lanes)
        accumulators = [
            [Register(f"acc_{i}_{v}", dtype, lanes) for v in range(vectors)]
            for i in range(row.length)
        ]
        right = [Register(f"vector_{v}", dtype, lanes) for v in range(vectors)]
        left = Register("element", dtype, lanes)
        flat = [register for group in accumulators for register in group]
        places: list[Expr] = []
        if self.sums is None:
            statements: list[Stmt] = [Fill(register, const(0, dtype)) for register in flat]
        else:
            first, width = self._row_sums(row), schedule.vectors * lanes
            places = [
                simplify(first + (i * width + v * lanes))
                for i in range(row.length)
                for v in range(vectors)
            ]
            statements = [
                VectorLoad(register, self.sums, place, lanes)
                for register, place in zip(flat, places, strict=True)
            ]

        inside = self.roles.reduction if reduction is None else reduction
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in inside)
        point: dict[Axis, Expr] = dict(zip(self.roles.reduction, loops, strict=True))
        if begin is not None:
            point = {axis: simplify(begin[axis] + loop) for axis, loop in point.items()}
            loops = tuple(loop for loop in loops if loop.extent > 1)
        step: list[Stmt] = []
        for v, register in enumerate(right):
            buffer, index = self._vector_element(column, point)
            count = min(lanes, column.length - v * lanes)
            whole = self.schedule.source is not VectorSource.DIRECT
            step.append(
                VectorLoad(
                    register,
                    buffer,
                    simplify(index + v * lanes),
                    lanes if whole else count,
                    kept=row.length > 1,
                )
            )
        step.extend(self._prefetches(row, column, point))
        for i, group in enumerate(accumulators):
            buffer, index = self._row_element(row, i, point)
            step.append(Fill(left, buffer.at(index)))
            step.extend(
                MultiplyAdd(target, left, register)
                for target, register in zip(group, right, strict=True)
            )
        # Unrolled, compilers share broadcasts between steps and run out of registers.
        statements.extend(nested(loops, tuple(step), LoopKind.ROLLED))
        if self.sums is None:
            statements.extend(self._finish(row, column, accumulators))
        else:
            statements.extend(
                VectorStore(self.sums, place, register, lanes)
                for register, place in zip(flat, places, strict=True)
            )
        return (Declare((*flat, *right, left), tuple(statements)),)

    def _vector_element(self, column: _Block, point: dict[Axis, Expr]) -> tuple[Buffer, Expr]:
        """Buffer and flat index of the first lane of a tile at a point of the reduction."""
        position = row_major(self.roles.reduction, point)
        width = self.schedule.vectors * self.schedule.lanes
        if self.panel is not None and not self.packed:
            return self.panel, simplify(position * width)
        buffer, factor = self._read(self.schedule.vector_operand)
        if self.packed or self.schedule.source is VectorSource.PACKED:
            buffer = buffer if self.panel is None else self.panel
            tile = self._packed_tile(factor, self.roles.vectors, width, column.tile)
            length = length_of(self.roles.reduction)
            return buffer, simplify((tile * length + position) * width)
        values = {**self.axes, **point, self.roles.vectors[-1]: column.start}
        return buffer, replace_axes(factor.expr, values)

    def _row_element(self, row: _Block, i: int, point: dict[Axis, Expr]) -> tuple[Buffer, Expr]:
        """Buffer and flat index of the broadcast element in row `i` of a tile."""
        buffer, factor = self._read(1 - self.schedule.vector_operand)
        if self.schedule.row_packed:
            position = row_major(self.roles.reduction, point)
            tile = self._packed_tile(factor, self.roles.rows, self.schedule.rows, row.tile)
            length = length_of(self.roles.reduction)
            return buffer, simplify((tile * length + position) * self.schedule.rows + i)
        values = {**self.axes, **point}
        if self.roles.rows:
            values[self.roles.rows[-1]] = simplify(row.start + i)
        return buffer, replace_axes(factor.expr, values)

    def _prefetches(
        self, row: _Block, column: _Block, point: dict[Axis, Expr]
    ) -> tuple[Prefetch, ...]:
        """The lines of what is read next, at a point of the reduction: the next tile of the factor
        that is read in place, and the part of the next panel that this tile asks for."""
        asked: tuple[Prefetch, ...] = ()
        if self.schedule.ahead:
            asked += self._tile_ahead(row, column, point)
        if self.schedule.panels_ahead:
            asked += self._panel_ahead(row, column, point)
        return asked

    def _tile_ahead(
        self, row: _Block, column: _Block, point: dict[Axis, Expr]
    ) -> tuple[Prefetch, ...]:
        """The lines of the next tile of the factor that is read in place."""
        schedule = self.schedule
        if schedule.source is VectorSource.DIRECT:
            buffer, index = self._vector_element(column, point)
            length = schedule.vectors * schedule.lanes
        else:
            buffer, index = self._row_element(row, 0, point)
            length = schedule.rows
        return _asked(buffer, index, range(length, 2 * length))

    def _panel_ahead(
        self, row: _Block, column: _Block, point: dict[Axis, Expr]
    ) -> tuple[Prefetch, ...]:
        """The lines of the panel after this one. The tiles that read a panel ask for as many of
        them at each step: the first tile for the first lines."""
        schedule, roles = self.schedule, self.roles
        if schedule.vectors_outer:
            panel, width = column, schedule.vectors * schedule.lanes
            tiled, inside, tile = roles.vectors, roles.rows, row
            factor, length = schedule.vector_operand, schedule.rows
        else:
            panel, width = row, schedule.rows
            tiled, inside, tile = roles.rows, roles.vectors, column
            factor, length = 1 - schedule.vector_operand, schedule.vectors * schedule.lanes
        buffer, index = self._read(factor)
        number = self._packed_tile(index, tiled, width, panel.tile)
        number = number - 1 if schedule.backwards and schedule.vectors_outer else number + 1
        outer = tuple(axis for axis in inside[:-1] if axis not in self.fixed)
        count = -(-inside[-1].extent // length) if inside else 1
        done = row_major(outer, self.axes) * count + tile.tile
        depth = length_of(roles.reduction)
        share = -(-width // (length_of(outer) * count))
        step = done * depth + row_major(roles.reduction, point)
        return _asked(buffer, number * (depth * width) + step * share, range(share))

    def _packed_tile(
        self, factor: Affine, tiled: tuple[Axis, ...], length: int, tile: Expr
    ) -> Expr:
        """Number of a panel in a relaid factor."""
        outer = panel_axes(factor, self.roles, tiled)
        values = dict(self.axes)
        count = -(-tiled[-1].extent // length) if tiled else 1
        return simplify(row_major(outer, values) * count + tile)

    def _pack_panel(self, column: _Block) -> tuple[Stmt, ...]:
        """Copy one tile of the vector factor into the panel, zero-filled."""
        assert self.panel is not None
        width = self.schedule.vectors * self.schedule.lanes
        buffer, factor = self._read(self.schedule.vector_operand)
        first: Expr = const(0, int64)
        if self.packed:
            tile = self._packed_tile(factor, self.roles.vectors, width, column.tile)
            first = tile * (length_of(self.roles.reduction) * width)

        def element(point: Mapping[Axis, Expr], lane: Expr) -> Expr:
            vector = simplify(column.start + lane)
            return replace_axes(factor.expr, {**self.axes, **point, self.roles.vectors[-1]: vector})

        return PanelTile(
            self.numbers,
            self.panel,
            simplify(first),
            self.roles.reduction,
            width,
            column.length,
            buffer,
            element,
            self.schedule.lanes,
        ).pack()

    # The epilogue

    def _finish(
        self, row: _Block, column: _Block, accumulators: list[list[Register]]
    ) -> tuple[Stmt, ...]:
        """Bring the accumulators through the epilogue into the result."""
        lanes, contraction = self.schedule.lanes, self.contraction
        width = len(accumulators[0]) * lanes
        across, along, values = self._tile_axes(row, column)
        index = replace_axes(contraction.result, values)
        contiguous = affine(index).coefficient(along) == 1
        plain = isinstance(contraction.epilogue, Load) and (
            contraction.epilogue.operand == contraction.stage_operand
        )
        if plain and contiguous and column.length == width:
            return tuple(
                VectorStore(
                    self.output,
                    replace_axes(index, {across: const(i, int64), along: const(v * lanes, int64)}),
                    register,
                    lanes,
                )
                for i, group in enumerate(accumulators)
                for v, register in enumerate(group)
            )
        tile = self.numbers.buffer("tile", contraction.dtype, row.length * width, Space.STACK)
        stores = tuple(
            VectorStore(tile, const((i * len(group) + v) * lanes, int64), register, lanes)
            for i, group in enumerate(accumulators)
            for v, register in enumerate(group)
        )
        stored = self._stored(row, column, tile, const(0, int64), width)
        return (Allocate(tile, (*stores, *stored)),)

    def _tile_axes(self, row: _Block, column: _Block) -> tuple[Axis, Axis, dict[Axis, Expr]]:
        """Loops over the rows and the lanes of a tile, and where they are on the axes."""
        across = self.numbers.axis("i", row.length)
        along = self.numbers.axis("lane", column.length)
        values = dict(self.axes)
        values[self.roles.vectors[-1]] = simplify(column.start + along)
        if self.roles.rows:
            values[self.roles.rows[-1]] = simplify(row.start + across)
        return across, along, values

    def _stored(
        self, row: _Block, column: _Block, tile: Buffer, first: Expr, width: int
    ) -> tuple[Stmt, ...]:
        """Bring sums, which lie from `first` in `tile`, through the epilogue into the result."""
        across, along, values = self._tile_axes(row, column)
        element = tile.at(simplify(first + across * width + along))
        value = epilogue_value(self.contraction, self.inputs, self.output, values, element)
        result = Store(self.output, replace_axes(self.contraction.result, values), value)
        block = self.schedule.lanes if self.schedule.turned else 0
        return stored_tile(result, tile, element, across, along, block, self.numbers)


def _together(schedule: RegisterTile, roles: Roles) -> int | None:
    """The axis of the prologue whose elements lie together; None if it lies as its stage does."""
    prologue = roles.contraction.prologue
    if not schedule.together or prologue is None:
        return None
    axis = prologue.stepped_by(roles.reduction[-1])
    if axis is None:
        raise ScheduleError(
            "register_tile: expected sums that step from neighbour to neighbour of a prologue, got "
            + str(roles.reduction[-1])
        )
    return axis


def _asked(buffer: Buffer, index: Expr, places: range) -> tuple[Prefetch, ...]:
    """Asks for the lines of consecutive places from an index."""
    line = LINE_BYTES // buffer.dtype.bytes
    return tuple(Prefetch(buffer, simplify(index + place)) for place in places[::line])


def _named(axis: Axis) -> tuple[str, int]:
    """Display name and extent of an axis."""
    return axis.name, axis.extent
