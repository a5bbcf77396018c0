"""Measured kernel seconds: the missing kernels of tasks compiled together and timed.

What it does: schedules each task as the compiler does, has its kernel timed by the measurer of the
tuner, and puts results on file batch by batch, so that a killed process loses one batch at most.

What it does not: time kernels (`tensorgen.tune.local_measurer`), measure whole graphs, or decide
what is worth measuring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphopt.search.records import RecordedCost
from tensorgen.build import BuildError
from tensorgen.schedule import Schedule
from tensorgen.sketch import default_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.measurer import MeasureError

BATCH = 16
"""Kernels compiled and timed together."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How many kernels were timed, how many were on file already, and how many were left for want
    of seconds."""

    timed: int
    known: int
    left: int


def measure(
    tasks: Sequence[Task],
    costs: RecordedCost,
    seconds: float = 60.0,
    cache: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Time the kernels of tasks that are not on file, and put their seconds there.

    Raises ToolMissing without a C compiler and BuildError for a target whose libraries this machine
    cannot load. No batch is begun after `seconds`.
    """
    deadline = clock() + seconds
    distinct = {task.digest: task for task in tasks}
    missing = [task for task in distinct.values() if not costs.is_measured(task)]
    timed = 0
    while timed < len(missing) and clock() < deadline:
        batch = missing[timed : timed + BATCH]
        target, threads = costs.records.target, costs.records.threads
        chosen = [(task, default_schedule(task, target, threads)) for task in batch]
        figures = kernel_seconds(chosen, target, threads, cache)
        costs.add(dict(zip(batch, figures, strict=True)))
        timed += len(batch)
    return Measured(timed, len(distinct) - len(missing), len(missing) - timed)


def kernel_seconds(
    chosen: Sequence[tuple[Task, Schedule]],
    target: Target,
    threads: int,
    cache: Path | None = None,
) -> list[float]:
    """Seconds of one run of each task's kernel under its schedule, built together.

    Raises ToolMissing and BuildError.
    """
    try:
        with LocalMeasurer(target, threads, drafts=False, cache=cache) as measurer:
            return list(measurer.seconds(chosen))
    except MeasureError as error:
        raise BuildError(str(error)) from error
