"""Lowering of a contraction to register tiles.

A tile of `rows` x `vectors` accumulators lives in vector registers over the whole reduction: each
step loads `vectors` vectors of one factor, broadcasts `rows` elements of the other and does
`rows * vectors` multiply-adds. Then the tile goes through a small array, from where the epilogue
stores it to wherever the result wants it. (The scheme of Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008, its blocks of the reduction where they pay.)

Where that saves reading, sums are taken in blocks: the tiles of all rows go over one block of the
reduction, and leave their accumulators in a buffer until the next one.

The broadcast factor may be packed at run time, a block of rows at a time, as Goto and van de Geijn
do: it then lies in the order in which tiles read it, in a part of the second-level cache. Blocks
may stay in place, too, so that each thread has rows of its own and goes over all vector tiles.

A prologue (padding) is made slab by slab: inside the outermost loops each thread fills a slab of
its own with what the tiles inside read, so that it stays in the cache of the core that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from tensorgen.contraction import Roles, assign_roles, contraction_of
from tensorgen.dense_copy import with_copy
from tensorgen.epilogue_lines import EpilogueLines, epilogue_operands
from tensorgen.expr import (
    Axis,
    Expr,
    Load,
    TensorExpr,
    const,
    free_axes,
    operand_name,
)
from tensorgen.loop import (
    Allocate,
    Buffer,
    Declare,
    Fill,
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
from tensorgen.lower_ahead import chunk_steps, epilogue_ahead, packing_ahead, prefetches
from tensorgen.lower_epilogue import epilogue_value, stored_tile
from tensorgen.lower_loops import replace_axes, spans
from tensorgen.lower_panel import PanelTile
from tensorgen.lower_prologue import slab_loops
from tensorgen.lower_row_blocks import RowBlocks, check_row_block, row_panel
from tensorgen.lower_sum_blocks import Part, SumBlocks
from tensorgen.packing import cut_axes, length_of, packed_factor, row_major
from tensorgen.padded_steps import condition_of, roles_without_padding
from tensorgen.prologue import Slab
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.simplify import affine, simplify
from tensorgen.task import Task
from tensorgen.tile_reads import TileReads
from tensorgen.tile_runs import Block, Turns, run_of, turns_of
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
    if schedule.skips_padding:
        found = roles_without_padding(task, contraction, schedule.vector_operand)
        if found is None:
            raise ScheduleError(
                "register_tile: expected steps at which whole tiles read zeros around a factor, to "
                "skip them, got " + str(task)[:200]
            )
        roles = found
    else:
        roles = assign_roles(contraction, schedule.vector_operand)
    if not roles.vectors:
        raise ScheduleError("register_tile: expected an axis along the lanes, got none")
    packs = schedule.source is VectorSource.RUNTIME or schedule.row_block > 0
    if schedule.skips_padding and packs and not schedule.block_in_place:
        raise ScheduleError(
            f"register_tile: expected nothing packed at run time, to skip padding, got {schedule}"
        )
    if schedule.depth and (schedule.grid or not schedule.vectors_outer or not roles.rows):
        raise ScheduleError(
            "register_tile: expected rows inside the loop over vector tiles, which threads share, "
            f"for sums in blocks, got {schedule}"
        )
    if schedule.row_block:
        check_row_block(schedule, roles)
    elif schedule.block_in_place or schedule.panel_group:
        raise ScheduleError(
            f"register_tile: expected a length of the blocks of rows, got {schedule.row_block}"
        )
    return TileLowering.start(task, schedule, roles).kernel()


@dataclass(slots=True, kw_only=True)
class TileLowering(TileReads):
    """Everything needed to lower the tiles of a contraction.

    `sums` are the partial sums where sums are taken in blocks.
    """

    numbers: Numbers
    output: Buffer
    packing: list[TensorExpr | None]
    sums: SumBlocks | None = None

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
        together = _together(schedule, roles)
        slab = None
        fixed: tuple[Axis, ...] = ()
        if contraction.prologue is not None:
            fixed = contraction.prologue.moved_by(roles.outer)[: schedule.prologue]
            part = Slab.of(contraction.prologue, fixed, together)
            space = Space.SCRATCH if fixed else Space.SHARED
            name = "padded" if schedule.copied is None else "dense"
            slab = part, numbers.buffer(name, contraction.dtype, part.size, space)
        return TileLowering(
            schedule=schedule,
            roles=roles,
            numbers=numbers,
            inputs=tuple(inputs),
            output=output,
            packing=packing,
            panel=panel,
            packed=False,
            axes={},
            slab=slab,
            fixed=fixed,
            row_panel=row_panel(schedule, roles, fixed, numbers),
            sums=SumBlocks.of(schedule, roles, fixed, numbers) if schedule.depth else None,
        )

    def kernel(self) -> tuple[LoopKernel, Packing]:
        """The loops over tiles, and the packing of the inputs."""
        sums = None if self.sums is None else self.sums.buffer
        slab = None if self.slab is None else self.slab[1]
        buffers = (self.panel, slab, self.row_panel, sums)
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

        def along(turns: Turns) -> tuple[Axis, ...]:
            return tuple(axis for axis in (*outer_vectors, *turns.loop) if axis not in around)

        def across(turns: Turns) -> tuple[Axis, ...]:
            return tuple(axis for axis in (*outer_rows, *turns.loop) if axis not in around)

        batch = tuple(axis for axis in batch if axis not in around)
        kind = LoopKind.SERIAL if around else shared
        parted = kind is LoopKind.PARALLEL
        backwards = schedule.backwards
        first = turns_of(
            self.numbers,
            column_name,
            columns,
            width,
            parted and (schedule.vectors_outer or schedule.grid),
            backwards,
        )
        second = turns_of(
            self.numbers,
            row_name,
            extent,
            schedule.rows,
            parted and (not schedule.vectors_outer or schedule.grid),
        )
        outside, inside = along, across
        if not schedule.vectors_outer:
            first, second, outside, inside = second, first, across, along

        def tile(outer: Block, inner: Block) -> tuple[Stmt, ...]:
            return self._tile(inner, outer) if schedule.vectors_outer else self._tile(outer, inner)

        def line(outer: Block) -> tuple[Stmt, ...]:
            if self.sums is not None:
                blocks = self._blocked(self.sums, outer, second, across)
                tiles: tuple[Stmt, ...] = (blocks,)
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

        def both(turns: Turns, others: Turns) -> tuple[Stmt, ...]:
            return turns.chosen(lambda outer: others.chosen(partial(tile, outer)))

        body: list[Stmt] = []
        if schedule.row_block:
            blocks = RowBlocks(schedule, roles, self.row_panel)
            body.extend(
                blocks.loops(batch, across, along, kind, self.numbers, self._tile, self._pack_rows)
            )
        elif not schedule.grid:
            for turns in first:
                body.extend(nested((*batch, *outside(turns)), turns.chosen(line), kind))
        else:
            for turns, others in product(first, second):
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
        self,
        sums: SumBlocks,
        column: Block,
        rows: Sequence[Turns],
        loops_of: Callable[[Turns], tuple[Axis, ...]],
    ) -> Stmt:
        """All rows of a vector tile, block after block of the sum."""
        width = self.schedule.vectors * self.schedule.lanes

        def stored(row: Block) -> tuple[Stmt, ...]:
            return self._stored(row, column, sums.buffer, sums.first(row, self.axes), width)

        return sums.loops(
            rows, loops_of, self.numbers, lambda row, part: self._tile(row, column, part), stored
        )

    def pack(self) -> tuple[Stmt, ...]:
        """Copy all tiles of the vector factor into the panel."""
        outer_vectors = self._loops(self.roles.vectors[:-1])
        name, columns = _named(self.roles.vectors[-1])
        width = self.schedule.vectors * self.schedule.lanes
        body: list[Stmt] = []
        for span in spans(columns, width):
            column = run_of(self.numbers, name, span, width)
            copied = self._pack_panel(column.block)
            body.extend(nested((*outer_vectors, *column.loop), copied, LoopKind.SERIAL))
        return tuple(body)

    def _loops(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in axes)
        self.axes.update(zip(axes, loops, strict=True))
        return loops

    # One tile

    def _tile(self, row: Block, column: Block, part: Part | None = None) -> tuple[Stmt, ...]:
        """One tile over the whole reduction, into the result; or over a part of it, into the
        partial sums."""
        schedule, dtype = self.schedule, self.contraction.dtype
        lanes = schedule.lanes
        vectors = -(-column.length // lanes)
        accumulators = [
            [Register(f"acc_{i}_{v}", dtype, lanes) for v in range(vectors)]
            for i in range(row.length)
        ]
        flat = [register for group in accumulators for register in group]
        places: list[Expr] = []
        statements: list[Stmt] = []
        if self.panel is not None and not self.packed:
            statements.extend(packing_ahead(self, row, column, self.numbers))
        if self.sums is None:
            statements.extend(Fill(register, const(0, dtype)) for register in flat)
        else:
            first, width = self.sums.first(row, self.axes), schedule.vectors * lanes
            places = [
                simplify(first + (i * width + v * lanes))
                for i in range(row.length)
                for v in range(vectors)
            ]
            statements.extend(
                VectorLoad(register, self.sums.buffer, place, lanes)
                for register, place in zip(flat, places, strict=True)
            )

        block = None if part is None else part[1]
        chunks, asked, part = self._asking(row, column) if part is None else ((), (), part)
        inside, begin = (self.roles.reduction, None) if part is None else part
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in inside)
        point: dict[Axis, Expr] = dict(zip(self.roles.reduction, loops, strict=True))
        if begin is not None:
            point = {axis: simplify(begin[axis] + loop) for axis, loop in point.items()}
            loops = tuple(loop for loop in loops if loop.extent > 1)
        operands, step = self._step(accumulators, row, column, point, block)
        needed = condition_of(self.contraction.guards, {**self.axes, **point})
        # Partial sums stay as they are if none of the steps of a block is needed.
        whole = self.sums is not None and needed is not None and not free_axes(needed) & {*loops}
        # Unrolled, compilers share broadcasts between steps and run out of registers.
        sums = _where(None if whole else needed, loops, step, LoopKind.ROLLED)
        statements.extend(nested(chunks, (*asked, *sums), LoopKind.ROLLED))
        if self.sums is None:
            statements.extend(self.finish(row, column, accumulators))
        else:
            statements.extend(
                VectorStore(self.sums.buffer, place, register, lanes)
                for register, place in zip(flat, places, strict=True)
            )
        tile = (Declare((*flat, *operands), tuple(statements)),)
        return _where(needed, (), tile, LoopKind.SERIAL) if whole else tile

    def _step(
        self,
        accumulators: list[list[Register]],
        row: Block,
        column: Block,
        point: dict[Axis, Expr],
        begin: Mapping[Axis, Expr] | None,
    ) -> tuple[tuple[Register, ...], tuple[Stmt, ...]]:
        """One step of the sums of a tile, of the block that begins there, and the registers of its
        operands: the fewer of its rows and vectors have one each, and the others one in turn."""
        dtype, lanes = self.contraction.dtype, self.schedule.lanes
        vectors = len(accumulators[0])
        holds_elements = len(accumulators) < vectors
        vector_of = [
            Register("vector" if holds_elements else f"vector_{v}", dtype, lanes)
            for v in range(vectors)
        ]
        element_of = [
            Register(f"element_{i}" if holds_elements else "element", dtype, lanes)
            for i in range(len(accumulators))
        ]
        buffer, index = self.vector_element(column, point)
        whole = self.schedule.source is not VectorSource.DIRECT
        loads = [
            VectorLoad(
                register,
                buffer,
                simplify(index + v * lanes),
                lanes if whole else min(lanes, column.length - v * lanes),
                kept=row.length > 1,
            )
            for v, register in enumerate(vector_of)
        ]
        row_buffer, elements = self.row_elements(row, point)
        fills = [
            Fill(register, row_buffer.at(index))
            for register, index in zip(element_of, elements, strict=True)
        ]
        asked = prefetches(self, row, column, point, begin)
        sums = [
            [
                MultiplyAdd(target, element, vector)
                for target, vector in zip(group, vector_of, strict=True)
            ]
            for group, element in zip(accumulators, element_of, strict=True)
        ]
        held: Sequence[Stmt]
        in_turn: Iterable[tuple[Stmt, Sequence[Stmt]]]
        if holds_elements:
            held, in_turn = fills, zip(loads, zip(*sums, strict=True), strict=True)
        else:
            held, in_turn = loads, zip(fills, sums, strict=True)
        step = [*held, *asked]
        for operand, added in in_turn:
            step += [operand, *added]
        return tuple(dict.fromkeys((*vector_of, *element_of))), tuple(step)

    def _asking(
        self, row: Block, column: Block
    ) -> tuple[tuple[Axis, ...], tuple[Prefetch, ...], Part | None]:
        """How the sums of a tile are taken in chunks that each ask for lines of its epilogue: loops
        over these, what each asks for, and which part of the sums it is. Without any of it if
        nothing is asked for."""
        lines = self._epilogue_lines(row, column) if self.schedule.epilogue_ahead else ()
        reduction = self.roles.reduction
        steps = chunk_steps(reduction, lines)
        if not lines or steps == length_of(reduction):
            return (), (), None
        outer, inner = cut_axes(reduction, steps)
        loops = tuple(self.numbers.axis(f"{axis.name}_o", axis.extent) for axis in outer)
        begin = {
            axis: simplify(loop * part.extent)
            for axis, loop, part in zip(reduction, loops, inner, strict=True)
        }
        number = row_major(outer, dict(zip(outer, loops, strict=True)))
        asked = epilogue_ahead(lines, number, length_of(outer))
        return tuple(loop for loop in loops if loop.extent > 1), asked, (inner, begin)

    def _epilogue_lines(self, row: Block, column: Block) -> tuple[EpilogueLines, ...]:
        """The lines of the result and of what the epilogue reads beside the sums of a tile."""
        across, along, values = self._tile_axes(row, column)
        read = epilogue_operands(self.contraction)
        places = [
            (self.inputs[load.operand], replace_axes(load.indices[0], values)) for load in read
        ]
        places.append((self.output, replace_axes(self.contraction.result, values)))
        found = [EpilogueLines.of(*place, across, along) for place in places]
        return tuple(lines for lines in found if lines is not None)

    def _pack_panel(self, column: Block) -> tuple[Stmt, ...]:
        """Copy one tile of the vector factor into the panel, zero-filled."""
        assert self.panel is not None
        operand, width = self.schedule.vector_operand, self.schedule.vectors * self.schedule.lanes
        first: Expr = const(0, int64)
        if self.packed:
            _, factor = self.read(operand)
            tile = self.packed_tile(factor, self.roles.vectors, width, column.tile)
            first = tile * (length_of(self.roles.reduction) * width)
        return self._copied(operand, self.roles.vectors[-1], column, self.panel, first, width)

    def _pack_rows(self, panel: Buffer, row: Block) -> tuple[Stmt, ...]:
        """Copy one tile of the broadcast factor into the panel of its block."""
        first = row.tile * (length_of(self.roles.reduction) * self.schedule.rows)
        operand = 1 - self.schedule.vector_operand
        return self._copied(operand, self.roles.rows[-1], row, panel, first, row.length)

    def _copied(
        self, operand: int, axis: Axis, tile: Block, panel: Buffer, first: Expr, width: int
    ) -> tuple[Stmt, ...]:
        """Copy a tile along an axis of a factor to where it begins in a panel of so many lanes."""
        buffer, factor = self.read(operand)

        def element(point: Mapping[Axis, Expr], lane: Expr) -> Expr:
            values = {**self.axes, **point, axis: simplify(tile.start + lane)}
            return replace_axes(factor.expr, values)

        return PanelTile(
            self.numbers,
            panel,
            simplify(first),
            self.roles.reduction,
            width,
            tile.length,
            buffer,
            element,
            self.schedule.lanes,
        ).pack()

    # The epilogue

    def finish(
        self, row: Block, column: Block, accumulators: list[list[Register]]
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

    def _tile_axes(self, row: Block, column: Block) -> tuple[Axis, Axis, dict[Axis, Expr]]:
        """Loops over the rows and the lanes of a tile, and where they are on the axes."""
        across = self.numbers.axis("i", row.length)
        along = self.numbers.axis("lane", column.length)
        values = dict(self.axes)
        values[self.roles.vectors[-1]] = simplify(column.start + along)
        if self.roles.rows:
            values[self.roles.rows[-1]] = simplify(row.start + across)
        return across, along, values

    def _stored(
        self, row: Block, column: Block, tile: Buffer, first: Expr, width: int
    ) -> tuple[Stmt, ...]:
        """Bring sums, which lie from `first` in `tile`, through the epilogue into the result."""
        across, along, values = self._tile_axes(row, column)
        element = tile.at(simplify(first + across * width + along))
        value = epilogue_value(self.contraction, self.inputs, self.output, values, element)
        result = Store(self.output, replace_axes(self.contraction.result, values), value)
        block = self.schedule.lanes if self.schedule.turned else 0
        return stored_tile(result, tile, element, across, along, block, self.numbers)


def _where(
    condition: Expr | None, loops: tuple[Axis, ...], body: tuple[Stmt, ...], kind: LoopKind
) -> tuple[Stmt, ...]:
    """Loops around a body, under a condition that is asked as soon as it can be."""
    if condition is None:
        return nested(loops, body, kind)
    moving = free_axes(condition)
    around = max((n + 1 for n, loop in enumerate(loops) if loop in moving), default=0)
    return nested(loops[:around], (If(condition, nested(loops[around:], body, kind)),), kind)


def _together(schedule: RegisterTile, roles: Roles) -> int | None:
    """The axis of the prologue whose elements lie together; None if it lies as its stage does."""
    if not schedule.together:
        return None
    prologue = roles.contraction.prologue
    axis = prologue.stepped_by(roles.reduction[-1]) if prologue and roles.reduction else None
    if axis is None:
        raise ScheduleError(
            "register_tile: expected a prologue in which a sum steps from neighbour to neighbour, "
            f"got none for {schedule}"
        )
    return axis


def _named(axis: Axis) -> tuple[str, int]:
    """Display name and extent of an axis."""
    return axis.name, axis.extent
