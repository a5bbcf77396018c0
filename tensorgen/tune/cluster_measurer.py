"""Measures on the workers of a cluster: a batch is spread over them, and each races its share.

What it does: gives each worker as many schedules of a batch as the others, together with the
incumbent, and puts what came of the races on one scale: the incumbent's seconds. What it does not:
build or run anything here, or choose workers (`cluster_pool`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import median

from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.cluster_message import (
    MachineRequest,
    RaceRequest,
    Work,
    read_machine,
    read_race,
)
from tensorgen.tune.cluster_pool import WorkerPool, WorkersLost
from tensorgen.tune.measurer import Measured, MeasureError, Measurer, NotMeasured
from tensorgen.tune.outcome import Crashed, Outcome, Timed, scaled

LEAST_BATCHES = 4
"""A search learns from batch to batch: the trials of a task are at least so many of them."""


class ClusterMeasurer(Measurer):
    """Measures schedules on the workers of a pool, for its work; `drafts` as in `LocalMeasurer`."""

    def __init__(self, pool: WorkerPool, work: Work, *, drafts: bool = True) -> None:
        self._pool = pool
        self._work = work
        self._drafts = drafts

    def measure(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Measured:
        """Time the schedules against the incumbent. What nobody is left to measure is
        `NotMeasured`; what ended one worker after the other has crashed."""
        shares = spread(len(schedules), len(self._pool))
        requests = [
            RaceRequest(
                self._work,
                self._drafts,
                traffic,
                task,
                incumbent,
                tuple(schedules[n] for n in share),
            )
            for share in shares
        ]
        answers = self._pool.answers(
            requests, lambda number, text: read_race(text, len(shares[number]))
        )
        races = [
            _without_worker(answer, len(share))
            for answer, share in zip(answers, shares, strict=True)
        ]
        return together(races, shares)


def calibrated_worker(pool: WorkerPool, work: Work) -> Machine:
    """The constants of the machine of one of the workers. Raises MeasureError."""
    (found,) = pool.answers([MachineRequest(work)], lambda _, text: read_machine(text))
    if isinstance(found, WorkersLost | NotMeasured):
        raise MeasureError(found.reason)
    return found


def batch_of(batch: int, workers: int, trials: int) -> int:
    """How many trials a batch has: as many for each worker as it would have for one machine, if
    that leaves several batches to a task."""
    return max(batch, min(batch * workers, trials // LEAST_BATCHES))


def spread(count: int, workers: int) -> list[range]:
    """So many places in turn to each worker, those that would get none left out; one share for
    nothing."""
    shares = max(1, min(count, workers))
    return [range(first, count, shares) for first in range(shares)]


def together(races: Sequence[Measured], shares: Sequence[Sequence[int]]) -> Measured:
    """Races of shares of a batch as one: in the seconds of a worker on which the incumbent takes
    the median of what it took on all."""
    figures = [race.incumbent.seconds for race in races if isinstance(race.incumbent, Timed)]
    middle = median(figures) if figures else 0.0
    found: dict[int, Outcome | NotMeasured] = {}
    for race, share in zip(races, shares, strict=True):
        own = race.incumbent
        factor = middle / own.seconds if isinstance(own, Timed) else 1.0
        for place, outcome in zip(share, race.outcomes, strict=True):
            found[place] = outcome if isinstance(outcome, NotMeasured) else scaled(outcome, factor)
    outcomes = tuple(found[place] for place in range(len(found)))
    if figures:
        return Measured(outcomes, Timed(middle))
    ended = (race.incumbent for race in races)
    # It failed on a worker, or nobody tried.
    failures = sorted(ended, key=lambda outcome: isinstance(outcome, NotMeasured))
    return Measured(outcomes, failures[0])


def _without_worker(answer: Measured | WorkersLost | NotMeasured, count: int) -> Measured:
    """What came of a race that perhaps never ended."""
    match answer:
        case Measured():
            return answer
        case WorkersLost(reason):
            return Measured((Crashed(reason),) * count, Crashed(reason))
        case NotMeasured():
            return Measured((answer,) * count, answer)
