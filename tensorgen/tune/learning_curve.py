"""What tuning did over time: how fast each network was after so many trials, and so many seconds.

Latencies are sums of kernels' seconds as trials measured them, each task with its best schedule so
far. Before the first trial of a task that is the schedule without trials, whose seconds are known
afterwards, so that a curve falls where something became faster and nowhere else. It rises where the
best schedule, measured again, turned out to be slower than it had seemed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from tensorgen.tune.task_scheduler import Network


@dataclass(frozen=True, slots=True)
class Round:
    """A batch of trials: whose it was, the trials of all tasks then, the seconds since tuning
    began, and the seconds of the task's best schedule then."""

    task: str
    trials: int
    seconds: float
    best: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The seconds of a network's run after so many trials of all tasks, and so many seconds."""

    trials: int
    seconds: float
    latency: float


@dataclass(frozen=True, slots=True)
class History:
    """The rounds of one tuning: the seconds of each task and the trials on file before it, and the
    rounds in their order. A task whose seconds are infinite was never measured."""

    before: Mapping[str, float]
    trials: int
    rounds: tuple[Round, ...]

    @property
    def seconds(self) -> float:
        """How long the rounds took."""
        return self.rounds[-1].seconds if self.rounds else 0.0

    @property
    def trials_made(self) -> int:
        """The trials that were made, without those on file."""
        return self.rounds[-1].trials - self.trials if self.rounds else 0

    def curve(self, network: Network) -> tuple[CurvePoint, ...]:
        """How a network became faster: a point before all, one behind each round of its tasks and
        one in the end. Tasks that were never measured are left out; without any other there is no
        point."""
        counts = {task: count for task, count in network.counts.items() if self.before[task] < inf}
        if not counts:
            return ()
        best = dict(self.before)

        def point(trials: int, seconds: float) -> CurvePoint:
            latency = network.besides + sum(count * best[task] for task, count in counts.items())
            return CurvePoint(trials, seconds, latency)

        points = [point(self.trials, 0.0)]
        for number, step in enumerate(self.rounds, 1):
            if step.best < inf:
                best[step.task] = step.best
            if step.task in counts or number == len(self.rounds):
                points.append(point(step.trials, step.seconds))
        return tuple(points)
