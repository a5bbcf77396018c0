"""Lowering of row stages: several stages of a task, one after the other, on one row.

Where the rows are and what is around them is the caller's (`lower`, `lower_attention`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from tensorgen.expr import Apply, Axis, Cast, Expr, Load, TensorExpr, map_children
from tensorgen.flat import FlatStage, flat_index, merge_axes, merge_reduction_axes
from tensorgen.loop import Allocate, Buffer, Numbers, Space, Stmt
from tensorgen.lower_crossing import lower_crossing
from tensorgen.lower_loops import Joined, NextRow, RowResult, StageLowering, replace_axes
from tensorgen.lower_ranking import lower_ranking
from tensorgen.lower_running import lower_running
from tensorgen.lower_scatter import lower_scatter
from tensorgen.scalar_ops import EXP_NONPOSITIVE
from tensorgen.schedule import Loops, Method, RowStages, ScheduleError
from tensorgen.simplify import simplify
from tensorgen.task import Task
from tensorgen.types import TensorType
from tensorgen.widen import widen


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Where the operands of row stages are: their buffers and, of those that hold rows of their
    own (`local`), where the row begins."""

    buffers: Mapping[int, Buffer]
    local: Mapping[int, Expr]


def row_places(
    task: Task,
    positions: Sequence[int],
    schedule: RowStages,
    numbers: Numbers,
    given: RowPlaces,
    row: tuple[Expr, int],
) -> RowPlaces:
    """The places `given` and, for the stages at `positions` that have none there, buffers: `row`
    is the number of the row and how many rows they hold."""
    number, count = row
    buffers, local = dict(given.buffers), dict(given.local)
    for position in positions:
        operand, type = len(task.inputs) + position, task.stages[position].type
        if operand in buffers:
            continue
        size = TensorType(type.dtype, type.shape[schedule.rows :]).size
        space = _row_space(count * size, count * size * type.dtype.bytes, schedule)
        buffers[operand] = numbers.buffer(f"row{position}", type.dtype, count * size, space)
        local[operand] = simplify(number * size)
    return RowPlaces(buffers, local)


def _row_space(size: int, size_bytes: int, schedule: RowStages) -> Space:
    """Where a stage lives that only the others read."""
    if not min(schedule.parallel, schedule.rows) and any(s.parallel for s in schedule.stages):
        # Threads that share the loops of a stage read what others computed in those before.
        return Space.SHARED
    if size == 1:
        return Space.SCALAR
    return Space.STACK if size_bytes <= schedule.stack_bytes else Space.SCRATCH


def lower_row(
    task: Task,
    positions: Sequence[int],
    schedule: RowStages,
    numbers: Numbers,
    places: RowPlaces,
    row: Sequence[Expr],
) -> Iterator[tuple[Stmt, ...]]:
    """The stages at `positions`, one after the other, on the row where the outer axes have the
    values `row`."""
    joined: Joined | None = None
    for number, position in enumerate(positions):
        operand = len(task.inputs) + position
        loops = schedule.stages[number]
        flat = _row_stage(task.stages[position], operand, places, row, loops.softmax)
        buffer = places.buffers[operand]
        if number in schedule.joined:
            if operand not in places.local or joined is not None or len(flat.axes) != 1:
                raise ScheduleError(
                    f"rows: expected a stage with one axis of its own to join, got stage {number}"
                )
            joined = Joined(buffer, flat)
            continue
        loops = schedule.stages[number]
        match loops.method:
            case Method.EACH:
                later = dict(
                    zip(positions[number + 1 :], schedule.stages[number + 1 :], strict=True)
                )
                next_row = _next_row(task, places, row, joined, later) if loops.ahead else None
                stage = StageLowering(numbers, loops, joined, next_row)
                yield stage.lower(flat, buffer, loops.parallel)
            case Method.RUNNING:
                yield lower_running(flat, buffer, loops, numbers)
            case Method.RANKING:
                yield lower_ranking(flat, buffer, loops, numbers)
            case Method.SCATTER:
                yield lower_scatter(flat, buffer, loops, numbers)
            case Method.BLOCKS:
                near = {known.number: known for known in places.buffers.values()}
                yield lower_crossing(flat, buffer, loops, numbers, near)
            case _:
                assert_never(loops.method)
        joined = None


def _next_row(
    task: Task,
    places: RowPlaces,
    row: Sequence[Expr],
    joined: Joined | None,
    later: Mapping[int, Loops],
) -> NextRow:
    """What the stages read of the task's inputs in the row after this one; with a joined stage the
    results, too, that the stages after it store outside this row, one for each of its elements."""
    axis = next((a for a in reversed(row) if isinstance(a, Axis) and a.extent > 1), None)
    if axis is None:
        raise ScheduleError("rows: expected several rows to look ahead, got one")
    inputs = (places.buffers[operand] for operand in range(len(task.inputs)))
    results = []
    elements = None if joined is None else [axis.extent for axis in joined.stage.axes]
    for position, loops in later.items():
        operand = len(task.inputs) + position
        if operand in places.local or loops.streamed:
            continue
        flat = _row_stage(task.stages[position], operand, places, row, loops.softmax)
        if [axis.extent for axis in flat.axes] == elements:
            results.append(RowResult(places.buffers[operand], flat.axes[0], flat.index))
    return NextRow(axis, {buffer.number: buffer for buffer in inputs}, tuple(results))


def allocated(buffers: Iterable[Buffer], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements in which buffers exist, the first of them outermost."""
    for buffer in reversed(tuple(buffers)):
        body = (Allocate(buffer, body),)
    return body


def _row_stage(
    stage: TensorExpr, operand: int, places: RowPlaces, row: Sequence[Expr], softmax: bool
) -> FlatStage:
    """One stage, operand `operand` to those after it, over flat buffers, on one row."""
    depth = len(row)

    def element(number: int, type: TensorType, indices: Sequence[Expr]) -> Expr:
        """The flat index of an element of an operand in its buffer."""
        if number in places.local:
            return simplify(places.local[number] + flat_index(indices[depth:], type.shape[depth:]))
        return flat_index(indices, type.shape)

    def localise(term: Expr) -> Expr:
        inner = map_children(term, localise)
        if not isinstance(inner, Load):
            return inner
        return places.buffers[inner.operand].at(element(inner.operand, inner.type, inner.indices))

    body = widen(localise(stage.body))
    if softmax:
        body = _nonpositive_powers(body)
    if stage.type.dtype.is_half:
        body = Cast(body, stage.type.dtype)
    shared: dict[Axis, Expr] = dict(zip(stage.axes[:depth], row, strict=True))
    flat = FlatStage(
        tuple(axis for axis in stage.axes[depth:] if axis.extent != 1),
        replace_axes(element(operand, stage.type, stage.axes), shared),
        merge_reduction_axes(replace_axes(body, shared)),
    )
    return merge_axes(flat)


def _nonpositive_powers(body: Expr) -> Expr:
    """The powers of a softmax, which are of at most 0; another of its stages stays as it is."""
    match body:
        case Apply(op=op, args=(Apply(op=inner) as exponent,)) if (op.name, inner.name) == (
            "exp",
            "sub",
        ) and all(isinstance(_uncast(term), Load) for term in exponent.args):
            return Apply(EXP_NONPOSITIVE, (exponent,))
        case _:
            return body


def _uncast(term: Expr) -> Expr:
    return term.arg if isinstance(term, Cast) else term
