"""Partition: contractions joined with the row stages between them, where that is attention.

What it does: finds a contraction whose result only one row task reads, and perhaps a contraction
that alone reads the rows, and makes one task of them, so that the scores are never stored. What it
does not: recognise attention (`tensorgen.attention`) or schedule it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import lru_cache

from graphopt.graph import Value
from graphopt.step import Step
from tensorgen.attention import attention_of
from tensorgen.composition import renumber_operands
from tensorgen.expr import Reduce
from tensorgen.task import Task
from tensorgen.types import TensorType

REMEMBERED_TASKS = 1024
"""Of so many tasks it is remembered whether they are attention, since searches ask again."""


def join_attention(
    steps: Sequence[Step], read: Callable[[Step], Set[Value]], kept: Set[Value]
) -> tuple[Step, ...]:
    """The steps with those that are attention together as one, where the last of them was.

    `read` gives the made values that a step reads or whose parts it reads, `kept` are those that
    the graph's outputs are or are parts of. Producers come first.
    """
    readers = Counter(value for step in steps for value in read(step))
    made: dict[Value, Step] = {}
    done: dict[int, Step] = {}
    for step in steps:
        joined = step
        for value in step.inputs:
            maker = made.get(value)
            if maker is None or readers[value] != 1 or value in kept:
                continue
            found = _joined(maker, step)
            if found is not None:
                joined = found
                del done[id(maker)]
                break
        done[id(joined)] = joined
        if len(joined.outputs) == 1:
            made[joined.outputs[0]] = joined
    return tuple(done.values())


def _joined(maker: Step, step: Step) -> Step | None:
    """Two steps as one if they are attention together; the second reads the first one's result."""
    (value,) = maker.outputs
    inputs = tuple(dict.fromkeys((*maker.inputs, *(i for i in step.inputs if i != value))))
    numbers = {other: number for number, other in enumerate(inputs)}
    task = _joined_task(
        maker.task,
        step.task,
        tuple(numbers[other] for other in maker.inputs),
        tuple(numbers.get(other, RESULT) for other in step.inputs),
    )
    return None if task is None else replace(step, task=task, inputs=inputs)


RESULT = -1
"""The first task's result among the inputs of the second."""


@lru_cache(REMEMBERED_TASKS)
def _joined_task(
    first: Task, second: Task, own: tuple[int, ...], others: tuple[int, ...]
) -> Task | None:
    """Two tasks as one if that is attention: `own` and `others` number their inputs."""
    if not isinstance(first.stages[0].body, Reduce):
        return None
    given: dict[int, tuple[TensorType, bool]] = {}
    for task, numbers in ((first, own), (second, others)):
        for number, type, constant in zip(numbers, task.inputs, task.constant, strict=True):
            given[number] = type, constant
    given.pop(RESULT)
    count, before = len(given), len(first.stages)
    earlier = {**dict(enumerate(own)), **_stage_numbers(first, count, 0)}
    result = count + first.outputs[0]
    later = {
        **{i: result if number == RESULT else number for i, number in enumerate(others)},
        **_stage_numbers(second, count, before),
    }
    task = Task(
        tuple(given[number][0] for number in range(count)),
        (
            *(renumber_operands(stage, earlier) for stage in first.stages),
            *(renumber_operands(stage, later) for stage in second.stages),
        ),
        tuple(before + position for position in second.outputs),
        tuple(given[number][1] for number in range(count)),
    )
    return None if attention_of(task) is None else task


def _stage_numbers(task: Task, inputs: int, before: int) -> dict[int, int]:
    """The operand numbers of a task's stages behind `inputs` inputs and `before` other stages."""
    count = len(task.inputs)
    return {count + position: inputs + before + position for position in range(len(task.stages))}
