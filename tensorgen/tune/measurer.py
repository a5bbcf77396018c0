"""What the tuner asks of whoever measures, here or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.outcome import Outcome, seconds_of


class MeasureError(RuntimeError):
    """Nothing can be measured: not for want of a good candidate, but of a machine that does it. The
    message is one line."""


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Nobody was left to measure it, for a reason of one line. It is no outcome: a schedule is not
    to blame, and may be tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of each schedule of a batch, in order, and that of the incumbent, which took
    turns with them: a machine that is slower for a while is so for both."""

    outcomes: tuple[Outcome | NotMeasured, ...]
    incumbent: Outcome | NotMeasured

    @property
    def incumbent_seconds(self) -> float:
        """Seconds of a call of the incumbent; infinite if it failed."""
        return inf if isinstance(self.incumbent, NotMeasured) else seconds_of(self.incumbent)

    @property
    def missing(self) -> NotMeasured | None:
        """Why some of it was not measured; None if all of it was."""
        everything = (self.incumbent, *self.outcomes)
        return next((found for found in everything if isinstance(found, NotMeasured)), None)


class Measurer(Protocol):
    """Measures schedules of a task. While one batch is measured it makes good use of as many as
    `ahead` that are begun."""

    ahead: int = 0

    def measure(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Measured:
        """Time the schedules against the incumbent, as they are in a run that moves so many bytes
        from one call of the kernel to the next: what the near caches hold of that is still there.
        Raises MeasureError."""
        ...

    def begin(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Callable[[], Measured]:
        """As `measure`, but what is given measures when it is called, and what can be done before
        is under way until then: who has several batches begins each before it waits for the one
        in front of it. Raises MeasureError, then or later."""
        return lambda: self.measure(task, schedules, incumbent, traffic=traffic)
