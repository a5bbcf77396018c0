"""Lowering: task and schedule in, loops out. A pure function that decides nothing.

`lower` gives a `Lowered` kernel: the loops, and for each input that the schedule wants relaid at
compile time the expression of its packed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tensorgen.expr import TensorExpr, const
from tensorgen.loop import LoopKernel, LoopKind, Numbers, Space, nested
from tensorgen.lower_attention import lower_attention
from tensorgen.lower_contraction import lower_register_tile
from tensorgen.lower_rows import RowPlaces, allocated, lower_row, row_places
from tensorgen.lower_window import lower_window_tile
from tensorgen.lower_winograd import lower_winograd
from tensorgen.parameters import parameter_buffers
from tensorgen.schedule import (
    AttentionTile,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    ScheduleError,
    WindowTile,
    WinogradTile,
)
from tensorgen.target import Isa
from tensorgen.task import Task
from tensorgen.types import int64


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and the compile-time packing of its inputs.

    `packing[i]` is None if the kernel reads input `i` as it is, else the packed tensor as an
    expression over the input as operand 0.
    """

    kernel: LoopKernel
    packing: tuple[TensorExpr | None, ...]


def lower(task: Task, schedule: Schedule, functions: Isa | None = None) -> Lowered:
    """The loops of `task` under `schedule`; whole softmaxes for which an instruction set has
    `functions` are not written out. Raises ScheduleError if they do not fit."""
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
            kernel, packing = lower_window_tile(task, schedule)
            return Lowered(kernel, packing)
        case AttentionTile():
            return Lowered(lower_attention(task, schedule, functions), (None,) * len(task.inputs))
        case _:
            assert_never(schedule)


def _lower_stages(task: Task, schedule: RowStages) -> LoopKernel:
    """Stages one after the other inside the loops over their common outer axes."""
    numbers = Numbers()
    inputs, outputs = parameter_buffers(task, numbers)
    count = len(task.inputs)
    given = dict(enumerate(inputs))
    given.update(
        (count + position, buffer) for position, buffer in zip(task.outputs, outputs, strict=True)
    )
    positions = range(len(task.stages))
    places = row_places(
        task, positions, schedule, numbers, RowPlaces(given, {}), (const(0, int64), 1)
    )
    local = tuple(places.buffers[operand] for operand in places.local)
    rows = tuple(
        numbers.axis(axis.name, axis.extent) for axis in task.stages[0].axes[: schedule.rows]
    )
    groups = lower_row(task, positions, schedule, numbers, places, rows)
    body = allocated(local, tuple(statement for group in groups for statement in group))
    shared = min(schedule.parallel, len(rows))
    body = nested(rows[shared:], body, LoopKind.SERIAL)
    body = nested(rows[:shared], body, LoopKind.PARALLEL)
    scratch = tuple(buffer for buffer in local if buffer.space in (Space.SCRATCH, Space.SHARED))
    return LoopKernel(inputs, outputs, scratch, body)
