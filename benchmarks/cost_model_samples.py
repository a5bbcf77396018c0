"""Samples of spaces of schedules: what a search for a task measured, and points drawn at random.

What it does: lets the tuner's own search make its trials for the longest kernel of an operator,
watches what its cost model learns and how long that takes it, and measures so many other points of
the same space beside the best schedule of the search, with more runs than a trial has. In the end
those that were fast, or were expected to be, race once more. Figures are in the seconds of the
search.
What it does not: judge a model (`cost_model_quality`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from random import Random
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.tuning_runs import Prepared
from tasor.pipeline import Settings
from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.cost_model import LearnedModel
from tensorgen.tune.measurer import Measured, Measurer, NotMeasured
from tensorgen.tune.outcome import seconds_of
from tensorgen.tune.race import RaceRules
from tensorgen.tune.space import Candidate, Space
from tensorgen.tune.strategy import Explored, RandomStrategy, Scores
from tensorgen.tune.task_search import USUAL_BATCH, Begun, TaskSearch, TuneSettings
from tensorgen.tune.task_space import space_of

CAREFUL = RaceRules(lost=inf, given_up=inf, laps=((inf, 2), (1.15, 6)))
"""How draws run, where ranks are to be told from chance: three runs of everything, nine of what is
fast. Next to building it that costs nothing."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation:
    """What a cost model is told of one trial."""

    space: Space
    candidate: Candidate
    seconds: float


@dataclass(frozen=True, slots=True)
class Asked:
    """How much to measure: the trials of a search, and the draws. `seed` fixes both."""

    trials: int
    draws: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The longest kernel of a case, in a run that moves `traffic` bytes. `trials` is what its
    search taught the model, in order; `draws` are points that the search did not try, with the
    `seconds` that each took (`inf` for those that gave no figure). The search took
    `search_seconds`, its model `model_seconds` of them. `usual` is how long the schedule without
    trials takes, `best` the schedule that the search found."""

    case: str
    space: Space
    traffic: float
    trials: tuple[Observation, ...]
    draws: tuple[Candidate, ...]
    seconds: tuple[float, ...]
    search_seconds: float
    model_seconds: float
    usual: float
    best: Schedule
    best_seconds: float


class Watched(Scores):
    """Scores of another model: what it was told, and how long it took in all.

    Counted is the time in which its thread ran. It waits, too, while other threads of the process
    write kernels and compilers have the cores: 5 to 30 ms for a prediction that takes 0.4 (2 % of
    a search ran, 7 % passed).
    """

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self.told: list[Observation] = []
        self.spent = 0.0

    def observe(self, space: Space, candidate: Candidate, seconds: float) -> None:
        """A candidate took so many seconds."""
        self.told.append(Observation(space, candidate, seconds))
        self._timed(lambda: self._scores.observe(space, candidate, seconds))

    def seconds(
        self, space: Space, candidates: Sequence[Candidate]
    ) -> Sequence[float] | NDArray[np.float64]:
        """Expected seconds of one call, for each candidate."""
        return self._timed(lambda: self._scores.seconds(space, candidates))

    def _timed(self, work: Callable[[], T]) -> T:
        started = time.thread_time()
        found = work()
        self.spent += time.thread_time() - started
        return found


def longest(case: Prepared, settings: Settings) -> tuple[str, Task, Machine]:
    """The task that a run of the case spends most time with, by the estimates without trials."""

    def seconds(name: str) -> float:
        space = space_of(
            case.tasks[name][0], settings.target, settings.threads, case.tasks[name][1]
        )
        return case.network.counts[name] * space.estimate(space.start)

    name = max(case.tasks, key=seconds)
    return (name, *case.tasks[name])


def sampled(
    case: Prepared,
    asked: Asked,
    settings: Settings,
    machine: Machine,
    measurer: Measurer,
    careful: Measurer,
) -> Sample:
    """Search as a tuning does, with the first measurer, then draw, with the second. `machine` has
    the constants that were measured here. Raises MeasureError."""
    name, task, constants = longest(case, settings)
    watched = Watched(LearnedModel(asked.seed))
    search = TaskSearch(
        name, task, constants,
        TuneSettings(settings.target, settings.threads, machine, asked.trials, seed=asked.seed),
        watched, (),
    )  # fmt: skip
    started = time.perf_counter()
    _search(search, asked.trials, measurer)
    search_seconds = time.perf_counter() - started
    space = space_of(task, settings.target, settings.threads, constants)
    draws = drawn(space, [trial.candidate for trial in watched.told], asked)
    traffic = constants.traffic
    seconds = figures(space, draws, search.best, search.best_seconds, careful, traffic=traffic)
    usual = search.state.best[0] if search.state.best else inf
    return Sample(
        case.name, space, traffic, tuple(watched.told), draws, seconds, search_seconds,
        watched.spent, usual, search.best, search.best_seconds,
    )  # fmt: skip


def _search(search: TaskSearch, trials: int, measurer: Measurer) -> None:
    """Make the trials of one search, the next ones under way meanwhile as in a tuning."""
    under_way: deque[Begun] = deque()
    begun = 0
    while True:
        # Before it is known how long the schedule without trials takes there is one batch alone.
        most = 2 if search.state.trials else 1
        while begun < trials and len(under_way) < most:
            batch = search.begin(measurer, min(USUAL_BATCH, trials - begun))
            if batch is None:
                begun = trials
            else:
                begun += batch.trials
                under_way.append(batch)
        if not under_way:
            return
        search.finish(under_way.popleft())


def drawn(space: Space, known: Iterable[Candidate], asked: Asked) -> tuple[Candidate, ...]:
    """Distinct points at random, none of those known; fewer than asked for if there are no more."""
    explored = Explored(space)
    for candidate in known:
        explored.propose(candidate)
    return RandomStrategy(space, Random(asked.seed), explored=explored).propose(asked.draws)


def figures(
    space: Space,
    candidates: Sequence[Candidate],
    incumbent: Schedule,
    incumbent_seconds: float,
    measurer: Measurer,
    batch: int = USUAL_BATCH,
    *,
    traffic: float = inf,
) -> tuple[float, ...]:
    """Seconds of each candidate, in a run that moves `traffic` bytes, where the incumbent takes
    `incumbent_seconds`: it takes turns with every batch. Infinite for what gave no figure. Raises
    MeasureError."""
    waiting: deque[Callable[[], Measured]] = deque()
    found: list[float] = []
    for part in _parts(candidates, batch):
        schedules = [space.schedule(candidate) for candidate in part]
        assert None not in schedules, "points stand for schedules"
        chosen = [schedule for schedule in schedules if schedule is not None]
        waiting.append(measurer.begin(space.task, chosen, incumbent, traffic=traffic))
        if len(waiting) > measurer.ahead:
            found += _scaled(waiting.popleft()(), incumbent_seconds)
    for measured in waiting:
        found += _scaled(measured(), incumbent_seconds)
    return tuple(found)


def _parts(candidates: Sequence[Candidate], size: int) -> Iterator[Sequence[Candidate]]:
    remaining = iter(candidates)
    while part := list(islice(remaining, size)):
        yield part


def _scaled(measured: Measured, incumbent_seconds: float) -> list[float]:
    scale = incumbent_seconds / measured.incumbent_seconds
    if not 0.0 < scale < inf:
        scale = 1.0
    return [
        inf if isinstance(outcome, NotMeasured) else seconds_of(outcome) * scale
        for outcome in measured.outcomes
    ]


def raced_again(sample: Sample, places: Sequence[int], careful: Measurer) -> dict[int, float]:
    """Seconds of some draws, all in one race with the best schedule of the search. Raises
    MeasureError."""
    candidates = [sample.draws[place] for place in places]
    found = figures(
        sample.space, candidates, sample.best, sample.best_seconds, careful, max(len(places), 1),
        traffic=sample.traffic,
    )  # fmt: skip
    return dict(zip(places, found, strict=True))
