"""A stand-in for measuring: seconds that follow from nothing but the texts of schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from zlib import crc32

from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.measurer import Measured, Measurer, NotMeasured
from tensorgen.tune.outcome import Crashed, Outcome, Timed


def truth(task: Task, schedule: Schedule) -> float:
    """Seconds that follow from nothing but the texts: from one to two of the task's work."""
    scale = task.stages[0].type.size * 1e-9
    return scale * (1.0 + crc32(str(schedule).encode()) % 1000 / 1000)


class StandIn(Measurer):
    """Measures at once, on a machine that takes `drift` times longer with each batch."""

    def __init__(self, drift: float = 1.0, seconds: Callable[[Task, Schedule], float] = truth):
        self.batches: list[tuple[Task, int]] = []
        self._drift, self._seconds, self._now = drift, seconds, 1.0

    def measure(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Measured:
        self.batches.append((task, len(schedules)))
        self._now *= self._drift
        outcomes = [self._outcome(task, schedule) for schedule in (*schedules, incumbent)]
        return Measured(tuple(outcomes[:-1]), outcomes[-1])

    def _outcome(self, task: Task, schedule: Schedule) -> Outcome:
        seconds = self._seconds(task, schedule)
        return Timed(seconds * self._now) if seconds < inf else Crashed("signal 11")


class Leaving(StandIn):
    """Measures so many batches, then of one as many schedules as `part` makes of theirs, and
    nothing more: not even the incumbent, where that is none."""

    def __init__(
        self, batches: int, gone: NotMeasured, part: Callable[[int], int] = lambda schedules: 0
    ) -> None:
        super().__init__()
        self._whole, self._gone, self._part = batches, gone, part

    def measure(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Measured:
        found = super().measure(task, schedules, incumbent, traffic=traffic)
        if len(self.batches) <= self._whole:
            return found
        part = self._part(len(schedules)) if len(self.batches) == self._whole + 1 else 0
        missing = (self._gone,) * (len(schedules) - part)
        return Measured((*found.outcomes[:part], *missing), found.incumbent if part else self._gone)


class AtOnce(StandIn):
    """In the place of a measurer of this machine, whatever that is made for."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def seconds(
        self, chosen: Sequence[tuple[Task, Schedule]], *, traffic: float
    ) -> tuple[float, ...]:
        """Seconds of a call of each."""
        assert traffic > 0.0
        return tuple(truth(task, schedule) for task, schedule in chosen)
