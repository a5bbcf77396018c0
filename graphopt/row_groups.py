"""Rows: consecutive kernels that walk the same rows (softmax, normalisations) become one of several
stages, and with the contractions around them attention.

What it does not: decide what one kernel of one stage computes (`fragments`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache

from graphopt.graph import Constant, Graph, Input, Node, Value, inputs_of
from graphopt.partition_attention import join_attention
from graphopt.step import REMEMBERED_TASKS, Step, has_reduction, is_tiled, is_window
from tensorgen.composition import renumber_operands
from tensorgen.sketch import shared_rows
from tensorgen.task import Task

MAX_STAGES = 12
"""Stages of one row task."""


def fuse_rows(steps: tuple[Step, ...], graph: Graph) -> tuple[Step, ...]:
    """Join steps that walk the same rows after a reduction over the rows' elements, and those with
    the contractions around them where that is attention."""
    remaining = list(steps)
    made = {value for step in steps for value in step.outputs}
    behind = {step.outputs: _behind(step.inputs, made) for step in steps}
    position = 0
    while position < len(remaining):
        seed = remaining[position]
        if starts_rows(seed):
            group = _grow_rows(seed, remaining, position, behind)
            if len(group) > 1:
                merged = _merge_rows(group, remaining, graph)
                rest = [step for step in remaining if step not in group]
                remaining = _ordered([*rest, merged])
                behind[merged.outputs] = _behind(merged.inputs, made)
                position = max(remaining.index(merged), position)
        position += 1
    kept = _behind(graph.outputs, made)
    return join_attention(remaining, lambda step: behind[step.outputs], kept)


def starts_rows(step: Step) -> bool:
    """True for a reduction, and for padding, which is best done just before it is read."""
    task = step.task
    if len(task.stages) != 1 or not task.stages[0].axes or is_tiled(task):
        return False
    if is_window(task):
        return False
    value = step.outputs[0]
    padding = isinstance(value, Node) and value.op.name == "pad"
    return has_reduction(task.stages[0]) or padding


def _grow_rows(
    seed: Step,
    steps: Sequence[Step],
    position: int,
    behind: Mapping[tuple[Value, ...], Set[Value]],
) -> list[Step]:
    """The seed and the steps after it that join; `behind` gives, by a step's outputs, the made
    values that it reads."""
    group = [seed]
    # A lone padding takes on its reader's rows.
    least = _rows(seed.task) if has_reduction(seed.task.stages[0]) else 1
    produced = set(seed.outputs)
    blocked: set[Value] = set()
    for step in steps[position + 1 :]:
        read = behind[step.outputs]
        reads_group = not read.isdisjoint(produced)
        # Rows behind a view are not followed.
        tainted = not read.isdisjoint(blocked) or not (read & produced) <= set(step.inputs)
        may_join = (
            reads_group
            and not tainted
            and len(step.task.stages) == 1
            and not is_tiled(step.task)
            and not is_window(step.task)
            and len(group) < MAX_STAGES
        )
        rows = _rows(_row_task([*group, step])[0]) if may_join else 0
        if rows >= max(least, 1):
            group.append(step)
            least = rows
            produced.update(step.outputs)
        elif reads_group or tainted:
            blocked.update(step.outputs)
    return group


def _behind(values: Iterable[Value], made: Set[Value]) -> set[Value]:
    """The made values that `values` are or, as views, are parts of."""
    found: set[Value] = set()
    seen: set[Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in made:
            found.add(value)
        elif value not in seen:
            seen.add(value)
            pending.extend(inputs_of(value))
    return found


@lru_cache(REMEMBERED_TASKS)
def _rows(task: Task) -> int:
    """The common outer axes of the stages, counting only axes with more than one element."""
    return sum(axis.extent > 1 for axis in task.stages[0].axes[: shared_rows(task)])


def _row_task(group: Sequence[Step]) -> tuple[Task, tuple[Value, ...], tuple[Value, ...]]:
    """The group as one task; its outputs are all values of the group, trimmed by the caller."""
    produced = [step.outputs[0] for step in group]
    inputs = tuple(
        dict.fromkeys(value for step in group for value in step.inputs if value not in produced)
    )
    numbers = {value: index for index, value in enumerate((*inputs, *produced))}
    stages = tuple(
        renumber_operands(
            step.task.stages[0], {i: numbers[value] for i, value in enumerate(step.inputs)}
        )
        for step in group
    )
    task = Task(
        tuple(value.type for value in inputs),
        stages,
        (len(stages) - 1,),
        tuple(isinstance(value, Constant) for value in inputs),
    )
    return task, inputs, tuple(produced)


def _merge_rows(group: Sequence[Step], steps: Sequence[Step], graph: Graph) -> Step:
    task, inputs, produced = _row_task(group)
    made = {value for step in steps for value in step.outputs}
    read = (value for step in steps if step not in group for value in step.inputs)
    outside = _behind((*graph.outputs, *read), made)
    kept = tuple(i for i, value in enumerate(produced) if value in outside)
    assert kept, "a group of rows computes something that is used"
    return Step(replace(task, outputs=kept), inputs, tuple(produced[position] for position in kept))


def _ordered(steps: Sequence[Step]) -> list[Step]:
    """Steps so that each comes after those whose values it reads, otherwise as they were."""
    maker = {value: step for step in steps for value in step.outputs}
    done: list[Step] = []
    state: dict[int, bool] = {}

    def visit(step: Step) -> None:
        if id(step) in state:
            assert state[id(step)], "steps depend on each other in a circle"
            return
        state[id(step)] = False
        for value in step.inputs:
            for source in _sources(value, maker):
                visit(source)
        state[id(step)] = True
        done.append(step)

    for step in steps:
        visit(step)
    return done


def _sources(value: Value, maker: Mapping[Value, Step]) -> Iterator[Step]:
    """The steps that a value waits for, through views."""
    if value in maker:
        yield maker[value]
    elif not isinstance(value, Input | Constant):
        for operand in inputs_of(value):
            yield from _sources(operand, maker)
