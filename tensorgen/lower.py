"""Lowering: task and schedule in, loops out. A pure function that decides nothing.

`lower` gives a `Lowered` kernel: the loops, and for each input that the schedule wants relaid at
compile time the expression of its packed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tensorgen.expr import (
    Axis,
    Cast,
    Expr,
    Load,
    TensorExpr,
    map_children,
)
from tensorgen.flat import FlatStage, flat_index, merge_axes, merge_reduction_axes
from tensorgen.loop import Allocate, Buffer, LoopKernel, LoopKind, Numbers, Space, Stmt, nested
from tensorgen.lower_contraction import lower_register_tile
from tensorgen.lower_loops import Joined, StageLowering, replace_axes
from tensorgen.lower_window import lower_window_tile
from tensorgen.lower_winograd import lower_winograd
from tensorgen.parameters import parameter_buffers
from tensorgen.schedule import (
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    ScheduleError,
    WindowTile,
    WinogradTile,
)
from tensorgen.task import Task
from tensorgen.types import TensorType
from tensorgen.widen import widen


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and the compile-time packing of its inputs.

    `packing[i]` is None if the kernel reads input `i` as it is, else the packed tensor as an
    expression over the input as operand 0.
    """

    kernel: LoopKernel
    packing: tuple[TensorExpr | None, ...]


def lower(task: Task, schedule: Schedule) -> Lowered:
    """The loops of `task` under `schedule`. Raises ScheduleError if they do not fit."""
    match schedule:
        case Loops():
            if len(task.stages) != 1:
                raise ScheduleError(f"loops: expected one stage, got {len(task.stages)}")
            rows = RowStages(0, (schedule,), 0, 0)
            return Lowered(_lower_stages(task, rows), (None,) * len(task.inputs))
        case RowStages():
            if len(schedule.stages) != len(task.stages):
                raise ScheduleError(
                    f"rows: expected {len(task.stages)} stages, got {len(schedule.stages)}"
                )
            return Lowered(_lower_stages(task, schedule), (None,) * len(task.inputs))
        case RegisterTile():
            kernel, packing = lower_register_tile(task, schedule)
            return Lowered(kernel, packing)
        case WinogradTile():
            kernel, packing = lower_winograd(task, schedule)
            return Lowered(kernel, packing)
        case WindowTile():
            return Lowered(lower_window_tile(task, schedule), (None,) * len(task.inputs))
        case _:
            assert_never(schedule)


def _lower_stages(task: Task, schedule: RowStages) -> LoopKernel:
    """Stages one after the other inside the loops over their common outer axes."""
    numbers = Numbers()
    inputs, outputs = parameter_buffers(task, numbers)
    count = len(task.inputs)
    buffers: dict[int, Buffer] = dict(enumerate(inputs))
    row_local: set[int] = set()
    local: list[Buffer] = []
    scratch: list[Buffer] = []
    for position, stage in enumerate(task.stages):
        if position in task.outputs:
            buffers[count + position] = outputs[task.outputs.index(position)]
            continue
        shape = stage.type.shape[schedule.rows :]
        size = TensorType(stage.type.dtype, shape).size
        space = _row_space(size, size * stage.type.dtype.bytes, schedule)
        buffer = numbers.buffer(f"row{position}", stage.type.dtype, size, space)
        buffers[count + position] = buffer
        row_local.add(count + position)
        local.append(buffer)
        if space in (Space.SCRATCH, Space.SHARED):
            scratch.append(buffer)

    rows = tuple(
        numbers.axis(axis.name, axis.extent) for axis in task.stages[0].axes[: schedule.rows]
    )
    body: tuple[Stmt, ...] = ()
    joined: Joined | None = None
    for position, stage in enumerate(task.stages):
        flat = _flat_stage(stage, buffers, row_local, count + position, rows)
        buffer = buffers[count + position]
        if position in schedule.joined:
            if count + position not in row_local or joined is not None or len(flat.axes) != 1:
                raise ScheduleError(
                    f"rows: expected a stage with one axis of its own to join, got stage {position}"
                )
            joined = Joined(buffer, flat)
            continue
        loops = schedule.stages[position]
        body += StageLowering(numbers, loops, joined).lower(flat, buffer, loops.parallel)
        joined = None
    for buffer in reversed(local):
        body = (Allocate(buffer, body),)
    shared = min(schedule.parallel, len(rows))
    body = nested(rows[shared:], body, LoopKind.SERIAL)
    body = nested(rows[:shared], body, LoopKind.PARALLEL)
    return LoopKernel(inputs, outputs, tuple(scratch), body)


def _row_space(size: int, size_bytes: int, schedule: RowStages) -> Space:
    """Where a stage lives that only the others read."""
    if not min(schedule.parallel, schedule.rows) and any(s.parallel for s in schedule.stages):
        # Threads that share the loops of a stage read what others computed in those before.
        return Space.SHARED
    if size == 1:
        return Space.SCALAR
    return Space.STACK if size_bytes <= schedule.stack_bytes else Space.SCRATCH


def _flat_stage(
    stage: TensorExpr,
    buffers: dict[int, Buffer],
    row_local: set[int],
    operand: int,
    rows: tuple[Axis, ...],
) -> FlatStage:
    """One stage over flat buffers, for one row if `rows` is not empty."""
    depth = len(rows)

    def localise(term: Expr) -> Expr:
        inner = map_children(term, localise)
        if not isinstance(inner, Load):
            return inner
        buffer = buffers[inner.operand]
        if inner.operand in row_local:
            return buffer.at(flat_index(inner.indices[depth:], inner.type.shape[depth:]))
        return buffer.at(flat_index(inner.indices, inner.type.shape))

    body = widen(localise(stage.body))
    shape = stage.type.shape
    if operand in row_local:
        index = flat_index(stage.axes[depth:], shape[depth:])
    else:
        index = flat_index(stage.axes, shape)
    if stage.type.dtype.is_half:
        body = Cast(body, stage.type.dtype)
    shared = dict(zip(stage.axes[:depth], rows, strict=True))
    flat = FlatStage(
        tuple(axis for axis in stage.axes[depth:] if axis.extent != 1),
        replace_axes(index, shared),
        merge_reduction_axes(replace_axes(body, shared)),
    )
    return merge_axes(flat)
