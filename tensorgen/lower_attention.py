"""Lowering of attention: scores, the stages on their rows and what they weigh, a block at a time.

For each combination of the outer axes (batch, head), and each part of the rows there: the vector
factors are packed; then, for each block of rows, register tiles put its scores into a buffer that
stays in the cache, the stages go over its rows, and register tiles read them as their broadcast
factor. The tiles are those of `lower_contraction` on the contractions of one block, the stages
those of `lower_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from tensorgen.attention import Attention, attention_of
from tensorgen.contraction import Contraction, Roles
from tensorgen.expr import Axis, Expr, TensorExpr, const, loads
from tensorgen.lane_vectors import softmax_function
from tensorgen.loop import (
    Buffer,
    If,
    LoopKernel,
    LoopKind,
    Numbers,
    SoftmaxRows,
    Space,
    Stmt,
    nested,
)
from tensorgen.lower_contraction import TileLowering
from tensorgen.lower_first_rows import packed_with_rows
from tensorgen.lower_loops import replace_axes, spans
from tensorgen.lower_rows import RowPlaces, allocated, lower_row, row_places
from tensorgen.packing import panel_size
from tensorgen.parameters import parameter_buffers
from tensorgen.schedule import AttentionTile, RegisterTile, ScheduleError, VectorSource
from tensorgen.simplify import affine, simplify
from tensorgen.softmax import SOFTMAX_STAGES
from tensorgen.target import Isa
from tensorgen.task import Task
from tensorgen.types import int64, row_major_strides


def lower_attention(
    task: Task, schedule: AttentionTile, functions: Isa | None = None
) -> LoopKernel:
    """The loops of attention under its schedule. A softmax for which the instruction set of
    `functions` has one is not written out."""
    attention = attention_of(task)
    if attention is None or (attention.weighted is None) != (schedule.weighted is None):
        raise ScheduleError("attention_tile: expected attention, got " + str(task)[:200])
    if len(schedule.stages.stages) != len(attention.row_stages):
        raise ScheduleError(
            f"attention_tile: expected {len(attention.row_stages)} stages on rows, "
            f"got {len(schedule.stages.stages)}"
        )
    return _AttentionLowering.start(task, schedule, attention, functions).kernel()


@dataclass(frozen=True, slots=True)
class _AttentionLowering:
    """Buffers and loops of one kernel.

    `row` stands for the number of a row in its block; `places` are where the operands of the row
    stages are, in terms of it. `private` are the buffers that each part has for itself, `panels`
    those of the packed vector factors.
    """

    task: Task
    schedule: AttentionTile
    attention: Attention
    functions: Isa | None
    numbers: Numbers
    inputs: tuple[Buffer, ...]
    output: Buffer
    private: tuple[Buffer, ...]
    panels: tuple[Buffer | None, ...]
    row: Axis
    places: RowPlaces
    outer: Mapping[Axis, Axis]

    @staticmethod
    def start(
        task: Task, schedule: AttentionTile, attention: Attention, functions: Isa | None
    ) -> _AttentionLowering:
        numbers = Numbers()
        inputs, (output,) = parameter_buffers(task, numbers)
        row = numbers.axis(attention.row.name, schedule.most_rows)
        places = _places(task, schedule, attention, numbers, (inputs, output), row)
        panels = [_panel(numbers, "keys", attention.scores, schedule.scores)]
        if attention.weighted is not None and schedule.weighted is not None:
            panels.append(_panel(numbers, "values", attention.weighted, schedule.weighted))
        ends = _row_ends(task, attention, schedule)
        own = (places.buffers[operand] for operand in places.local if operand not in ends)
        private = dict.fromkeys((*own, *(panel for panel in panels if panel is not None)))
        outer = {axis: numbers.axis(axis.name, axis.extent) for axis in attention.outer}
        return _AttentionLowering(
            task, schedule, attention, functions, numbers, inputs, output, tuple(private),
            tuple(panels), row, places, outer,
        )  # fmt: skip

    def kernel(self) -> LoopKernel:
        """The loops over the outer axes and the parts of the rows there."""
        extent, rows = self.attention.row.extent, self.schedule.rows
        length = rows * -(-extent // (rows * self.schedule.parts))
        parts, rest = -(-extent // length), extent % length
        part = self.numbers.axis("share", parts)
        loops = tuple(self.outer.values())
        if parts == 1:
            body = self._part(const(0, int64), extent)
        else:
            loops = (*loops, part)
            body = self._part(simplify(part * length), length)
        if parts > 1 and rest:
            last = self._part(const(extent - rest, int64), rest)
            body = (If(part < parts - 1, body, last),)
        kind = LoopKind.PARALLEL if self.schedule.parallel else LoopKind.SERIAL
        scratch = tuple(buffer for buffer in self.private if buffer.space is Space.SCRATCH)
        return LoopKernel(self.inputs, (self.output,), scratch, nested(loops, body, kind))

    def _part(self, start: Expr, length: int) -> tuple[Stmt, ...]:
        """`length` rows from `start`, of those that share the vector factors."""
        first = self.schedule.first_rows if self.schedule.first_rows < length else 0
        body: tuple[Stmt, ...] = ()
        if first:
            body = self._block(start, first, packs_keys=True)
        for span in spans(length - first, self.schedule.rows):
            block = self.numbers.axis(f"{self.attention.row.name}_o", span.blocks)
            turn: Expr = block * span.length if span.blocks > 1 else const(0, int64)
            rows = self._block(simplify(start + first + span.start + turn), span.length)
            body += nested((block,) if span.blocks > 1 else (), rows, LoopKind.SERIAL)
        packed = self._tiles(start, length)[1 if first else 0 :]
        packs = (tiles.pack() for tiles in packed if tiles.panel is not None)
        body = (*(statement for statements in packs for statement in statements), *body)
        return allocated(self.private, body)

    def _block(self, start: Expr, length: int, *, packs_keys: bool = False) -> tuple[Stmt, ...]:
        """The rows of one block: scores, computed while keys are packed if it `packs_keys`, stages,
        and what they weigh.

        Each stage goes over all rows before the next one, so that the steps of different rows,
        which do not wait for each other, can overlap.
        """
        scores, *weighted = self._tiles(start, length)
        row = Axis(self.row.position, length, self.row.name)
        number = simplify(self._row_number(start) + row * self._row_step)
        shape = self._scored.type.shape[:-1]
        position = tuple(
            simplify(number // step % extent)
            for step, extent in zip(row_major_strides(shape), shape, strict=True)
        )
        local = {
            operand: replace_axes(begin, {self.row: row})
            for operand, begin in self.places.local.items()
        }
        places = RowPlaces(self.places.buffers, local)
        stages, schedule = self.attention.row_stages, self.schedule.stages
        rows = (
            nested((row,), group, LoopKind.SERIAL)
            for group in lower_row(self.task, stages, schedule, self.numbers, places, position)
        )
        if schedule.softmax_held:
            before = range(len(stages) - SOFTMAX_STAGES)
            groups = list(islice(rows, sum(n not in schedule.joined for n in before)))
            groups.append((self._held_softmax(rows, places, row, number),))
        else:
            groups = list(rows)
        first = packed_with_rows(scores) if packs_keys else scores.loops()
        parts = (first, *groups, *(tiles.loops() for tiles in weighted))
        return tuple(statement for part in parts for statement in part)

    def _held_softmax(
        self, written_out: Iterator[tuple[Stmt, ...]], places: RowPlaces, row: Axis, number: Expr
    ) -> SoftmaxRows:
        """The softmax of the rows of one block, `written_out` as loops over them; `number` is the
        number of a row, in rows of the scores as they are stored."""
        powers, quotients = (self.attention.row_stages[n] for n in (-3, -1))
        type = self.task.stages[quotients].type
        columns = type.shape[-1]
        source = next(x for x in loads(self.task.stages[powers].body) if x.type == type)
        target = len(self.task.inputs) + quotients
        begins = [places.local.get(n, simplify(number * columns)) for n in (target, source.operand)]
        first = [replace_axes(begin, {row: const(0, int64)}) for begin in begins]
        steps = [affine(begin).coefficient(row) for begin in begins]
        softmax = SoftmaxRows(
            places.buffers[target], first[0], steps[0],
            places.buffers[source.operand], first[1], steps[1],
            row.extent, columns, (),
        )  # fmt: skip
        if self.functions is not None and softmax_function(self.functions, softmax) is not None:
            return softmax
        ends = _row_ends(self.task, self.attention, self.schedule)
        body = tuple(statement for group in written_out for statement in group)
        return replace(softmax, body=allocated((places.buffers[operand] for operand in ends), body))

    @property
    def _row_step(self) -> int:
        """The distance of consecutive rows, in rows of the scores as they are stored."""
        result = affine(self.attention.scores.contraction.result)
        return result.coefficient(self.attention.row) // self._scored.axes[-1].extent

    @property
    def _scored(self) -> TensorExpr:
        return self.task.stages[self.attention.scored]

    def _row_number(self, start: Expr) -> Expr:
        """The number of the row at `start`, in rows of the scores as they are stored."""
        result = affine(self.attention.scores.contraction.result)
        length = self._scored.axes[-1].extent
        number = start * self._row_step
        for axis, loop in self.outer.items():
            number = number + loop * (result.coefficient(axis) // length)
        return simplify(number)

    # The contractions of one block

    def _tiles(self, start: Expr, length: int) -> tuple[TileLowering, ...]:
        """The tiles of the contractions, for `length` rows from `start`."""
        attention, schedule = self.attention, self.schedule
        tiles = [
            self._tile_lowering(
                schedule.scores,
                self._scores_roles(start, length),
                self._rows_of(attention.scored),
                self.panels[0],
            )
        ]
        if attention.weighted is not None and schedule.weighted is not None:
            roles = self._weighted_roles(attention.weighted, start, length)
            tiles.append(self._tile_lowering(schedule.weighted, roles, self.output, self.panels[1]))
        return tuple(tiles)

    def _tile_lowering(
        self, schedule: RegisterTile, roles: Roles, output: Buffer, panel: Buffer | None
    ) -> TileLowering:
        # The second contraction reads the last row stage as an operand behind the inputs.
        inputs = (*self.inputs, self._rows_of(self.attention.row_stages[-1]))
        return TileLowering(
            schedule=schedule,
            roles=roles,
            numbers=self.numbers,
            inputs=inputs,
            output=output,
            packing=[],
            panel=panel,
            packed=panel is not None,
            axes={},
        )

    def _rows_of(self, position: int) -> Buffer:
        """The buffer of a stage on rows, or of the scores."""
        return self.places.buffers[len(self.task.inputs) + position]

    def _scores_roles(self, start: Expr, length: int) -> Roles:
        """The first contraction for the rows of a block, into the buffer of their scores."""
        roles = self.attention.scores
        local = Axis(self.attention.row.position, length, self.attention.row.name)
        values: dict[Axis, Expr] = {**self.outer, self.attention.row: simplify(start + local)}
        contraction = _placed(roles.contraction, (local, *roles.vectors), values)
        result = simplify(local * self.schedule.row_stride + roles.vectors[0])
        contraction = replace(contraction, result=result)
        return Roles(contraction, (), (local,), roles.vectors, roles.reduction)

    def _weighted_roles(self, roles: Roles, start: Expr, length: int) -> Roles:
        """The second contraction for the rows of a block, from the buffer of their weights."""
        row, vector = roles.rows[-1], self.attention.weighted_vector
        whole = roles.contraction.factors[1 - vector]
        row_length = self.task.stages[self.attention.row_stages[-1]].axes[-1].extent
        # Rows that share their keys differ in the last row axis alone.
        number = self._row_number(const(0, int64))
        values = {
            axis: simplify(number // (whole.coefficient(axis) // row_length) % axis.extent)
            for axis in (*roles.batch, *roles.rows)
        }
        local = Axis(row.position, length, row.name)
        values[row] = simplify(values[row] + start + local)
        contraction = _placed(roles.contraction, (local, *roles.vectors), values)
        element: Expr = local * self.schedule.row_stride
        for axis in roles.reduction:
            element = element + axis * whole.coefficient(axis)
        factors = list(contraction.factors)
        factors[1 - vector] = affine(simplify(element))
        contraction = replace(contraction, factors=(factors[0], factors[1]))
        return Roles(contraction, (), (local,), roles.vectors, roles.reduction)


def _places(
    task: Task,
    schedule: AttentionTile,
    attention: Attention,
    numbers: Numbers,
    parameters: tuple[tuple[Buffer, ...], Buffer],
    row: Axis,
) -> RowPlaces:
    """Where the operands of the row stages are: of long rows, `schedule.row_stride` elements apart.

    A stage that reads rows as long as its own only where it writes, and is followed by none that
    reads them, overwrites them.
    """
    inputs, output = parameters
    count = len(task.inputs)
    buffers = dict(enumerate(inputs))
    local: dict[int, Expr] = {}
    begin = simplify(row * schedule.row_stride)
    scores = task.stages[attention.scored].type
    for position in (attention.scored, *attention.row_stages):
        if position == len(task.stages) - 1:
            buffers[count + position] = output
            continue
        type = task.stages[position].type
        if len(type.shape) != len(scores.shape) or type.shape[-1] == 1:
            continue
        local[count + position] = begin
        taken = {
            buffers[other].number
            for other in local
            if other in buffers and not _is_free(task, other, position)
        }
        free = (buffers[other] for other in local if other in buffers)
        alike = next((b for b in free if b.number not in taken and b.dtype == type.dtype), None)
        size = schedule.most_rows * schedule.row_stride
        buffers[count + position] = alike or numbers.buffer(
            "scores" if position == attention.scored else f"rows{position}", type.dtype, size,
            Space.SCRATCH,
        )  # fmt: skip
    given = RowPlaces(buffers, local)
    return row_places(
        task, attention.row_stages, schedule.stages, numbers, given, (row, schedule.most_rows)
    )


def _row_ends(task: Task, attention: Attention, schedule: AttentionTile) -> tuple[int, ...]:
    """The operands that a softmax held in registers does not need: greatest elements and sums."""
    if not schedule.stages.softmax_held:
        return ()
    first = attention.row_stages[-SOFTMAX_STAGES]
    return len(task.inputs) + first, len(task.inputs) + first + 2


def _is_free(task: Task, operand: int, position: int) -> bool:
    """True if the stage at `position` reads an operand at most where it writes, and no stage after
    it reads the operand."""
    stage = task.stages[position]
    return all(
        list(map(simplify, load.indices)) == list(map(simplify, stage.axes))
        for load in loads(stage.body)
        if load.operand == operand
    ) and not any(
        load.operand == operand
        for later in task.stages[position + 1 :]
        for load in loads(later.body)
    )


def _panel(numbers: Numbers, name: str, roles: Roles, schedule: RegisterTile) -> Buffer | None:
    """The buffer of a packed vector factor; None if it is read in place."""
    if schedule.source is not VectorSource.RUNTIME:
        return None
    size = panel_size(roles, schedule)
    return numbers.buffer(name, roles.contraction.dtype, size, Space.SCRATCH)


def _placed(
    contraction: Contraction, axes: tuple[Axis, ...], values: Mapping[Axis, Expr]
) -> Contraction:
    """A contraction over `axes` alone, where the others have values."""
    first, second = (affine(replace_axes(f.expr, values)) for f in contraction.factors)
    return replace(
        contraction,
        axes=axes,
        factors=(first, second),
        result=replace_axes(contraction.result, values),
        epilogue=replace_axes(contraction.epilogue, values),
    )
