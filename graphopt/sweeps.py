"""Sweeps over weights that turn around: where a kernel runs again on the same weights.

What it does: tells which steps read their weights from the last to the first. A cache that holds
only a part of them holds the part that was read last; a sweep in the same direction would evict it
before it comes to it. The state of a recurrence is multiplied like this, step after step.
What it does not: change what a kernel computes, or the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphopt.graph import Value
from graphopt.step import Step
from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.schedule import RegisterTile, Schedule, VectorSource
from tensorgen.task import Task

FIRST_CACHE = 24 << 10
"""Weights of at most so many bytes stay in the first-level cache whichever way they are read."""


def backward_schedule(task: Task, schedule: Schedule) -> RegisterTile | None:
    """The schedule with its sweep over the weights turned around; None if there is nothing to gain.

    Threads share out the sweep by its numbers: turned around, each would read the other's part.
    """
    if not isinstance(schedule, RegisterTile) or schedule.source is not VectorSource.PACKED:
        return None
    contraction = contraction_of(task)
    assert contraction is not None, "register tiles are for contractions"
    roles = assign_roles(contraction, schedule.vector_operand)
    weights = task.inputs[roles.contraction.operands[schedule.vector_operand]]
    several_rows = any(axis.extent > schedule.rows for axis in roles.rows)
    if schedule.parallel or roles.batch or (several_rows and not schedule.vectors_outer):
        return None
    return replace(schedule, backwards=True) if weights.bytes > FIRST_CACHE else None


def backward_steps(
    steps: Sequence[Step], schedules: Mapping[Task, RegisterTile | None]
) -> frozenset[int]:
    """The numbers of the steps that go backwards: those whose weights the step before them of the
    same task read forwards. `schedules` has the backward schedule of each task."""
    forwards: dict[Task, tuple[Value, ...]] = {}
    found: set[int] = set()
    for number, step in enumerate(steps):
        if schedules[step.task] is None:
            continue
        weights = tuple(
            value
            for value, constant in zip(step.inputs, step.task.constant, strict=True)
            if constant
        )
        if forwards.get(step.task) == weights:
            found.add(number)
            del forwards[step.task]
        else:
            forwards[step.task] = weights
    return frozenset(found)
