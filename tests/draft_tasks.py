"""Small tasks of many kinds, and random schedules of them, for whoever tests drafts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.task_space import space_of
from tensorgen.types import float64
from tests.attention_tasks import AttentionShape
from tests.contraction_tasks import convolution, matmul, padded, phases, with_epilogue
from tests.window_tasks import Spatial, window_task

TASKS: dict[str, Task] = {
    "matmul": matmul((), 7, 37, 40, constant=(False, True)),
    "double": matmul((), 5, 37, 24, dtype=float64),
    "batched": matmul((2,), 6, 19, 20),
    "row": matmul((), 1, 70, 33, constant=(False, True)),
    "bias and maximum": with_epilogue(matmul((), 9, 40, 30, constant=(False, True)), "bias"),
    "residual": with_epilogue(matmul((), 9, 40, 30, constant=(False, True)), "residual"),
    "convolution": padded(convolution((7, 6), (3, 3), channels=(5, 20)), (1, 1), (1, 1)),
    "with a stride": padded(
        convolution((4, 4), (3, 3), channels=(5, 20), strides=(2, 2)), (1, 1), (1, 1)
    ),
    "with a stride, whole vectors": convolution((3, 3), (3, 3), channels=(16, 32), strides=(2, 2)),
    "groups": padded(convolution((7, 6), (3, 3), channels=(4, 8), groups=3), (1, 1), (1, 1)),
    "line": padded(convolution((29,), (5,), channels=(3, 17)), (2,), (2,)),
    "transposed": phases((5, 6), (4, 17)),
}
WINDOWS: dict[str, Task] = {
    "depthwise": window_task((Spatial(9, 3, 1, 1, 1), Spatial(23, 3, 1, 1, 1)), weighted=True),
    "depthwise, with a stride": window_task(
        (Spatial(9, 3, 2, 1, 1), Spatial(39, 3, 2, 1, 1)), weighted=True, epilogue="bias"
    ),
    "pool": window_task((Spatial(8, 2, 2), Spatial(40, 2, 2))),
}

ATTENTION: dict[str, Task] = {
    "attention": AttentionShape((2, 3), 7, 19, 5, 6).task(),
    "attention, whole vectors": AttentionShape(
        (2,), 20, 48, 32, 16, interleaved=True, mask="shared"
    ).task(),
}

EVERY_TASK = TASKS | WINDOWS | ATTENTION


def drawn(task: Task, level: str, threads: int, count: int) -> Iterator[Schedule]:
    """Some of the schedules of a task, of all kinds."""
    space, rng = space_of(task, Target.named(level), threads), Random(task.digest)
    for sketch in range(len(space.sketches)):
        for _ in range(count):
            schedule = space.schedule(space.random(rng, sketch))
            if schedule is not None:
                yield schedule
