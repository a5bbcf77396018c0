"""Tuning: trials for the tasks of one or many networks, as long as they are worth it.

What it does: gives each batch of trials to the task whose gradient is steepest, keeps every trial
on file as it is made, and lets each task choose in the end. What it does not: know graphs or
models, or measure. Killed at any point it loses the batches under way: begun again with the same
records, it goes on where it was.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import assert_never

from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.cost_model import LearnedModel
from tensorgen.tune.intent import kind_of, sizes_of
from tensorgen.tune.learning_curve import History, Round
from tensorgen.tune.library_race import Choice, Rivals, choice, counting, unsettled
from tensorgen.tune.measurer import Measurer, NotMeasured
from tensorgen.tune.outcome import Outcome
from tensorgen.tune.race_record import RaceRecord
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.strategy import AnalyticalScores, Scores
from tensorgen.tune.task_scheduler import (
    Done,
    Finish,
    Network,
    Next,
    Objective,
    TaskState,
    TotalLatency,
    next_task,
    slopes,
)
from tensorgen.tune.task_search import Begun, TaskSearch, TuneSettings
from tensorgen.tune.trial import Setting, Trial, now, trial_in

AHEAD_OF_ITS_OWN = 1
"""Of the batches that are proposed before the one in front of them is measured, so many may be of
the same task: they do not know what comes of that one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """After a batch: whose it was, all trials so far and how many there may be, the seconds since
    tuning began, by how much another trial of that task was expected to lower the objective, and
    what is known of each task."""

    task: str
    trials: int
    most_trials: int
    seconds: float
    gain: float
    states: Mapping[str, TaskState]


class Tuning:
    """The tuning of some tasks, by name, each with the constants by which it is scheduled without
    trials. `tell` is given a line where trials cannot be kept on file."""

    def __init__(
        self,
        tasks: Mapping[str, tuple[Task, Machine]],
        networks: Sequence[Network],
        settings: TuneSettings,
        records: TrialRecords,
        setting: Setting,
        *,
        objective: Objective | None = None,
        tell: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._networks = networks
        self._settings = settings
        self._records = records
        self._setting = setting
        self._objective: Objective = TotalLatency() if objective is None else objective
        self._tell = tell
        self._unsaved: list[Trial] = []
        self._unsaved_races: list[RaceRecord] = []
        self._kinds = {name: kind_of(task) for name, (task, _) in tasks.items()}
        scores: Scores = LearnedModel(settings.seed) if settings.learned else AnalyticalScores()
        alike = {kind: records.best_of_kind(kind, setting) for kind in set(self._kinds.values())}
        self.searches = {
            name: TaskSearch(
                name, task, machine, settings, scores, _others(alike[self._kinds[name]], task)
            )
            for name, (task, machine) in tasks.items()
        }
        self._races: dict[str, list[Rivals]] = {}
        for name, search in self.searches.items():
            known = records.of_task(search.task, setting, search.weights)
            search.recall(known, settings.batch)
            raced = records.races_of(search.task, setting, search.weights)
            self._races[name] = counting(
                (race.rivals for race in raced), search.zero_trial, search.allows
            )
        self._clock = clock
        self._recalled = self.states
        self._rounds: list[Round] = []

    @property
    def states(self) -> dict[str, TaskState]:
        """What is known of each task."""
        return {name: search.state for name, search in self.searches.items()}

    @property
    def most_trials(self) -> int:
        """The trials of all tasks together, those on file among them."""
        return self._settings.trials * len(self.searches)

    @property
    def history(self) -> History:
        """What the rounds so far did."""
        before = {
            name: self._recalled[name].seconds
            if self._recalled[name].seconds < inf
            else next((seconds for seconds in state.best if seconds < inf), inf)
            for name, state in self.states.items()
        }
        trials = sum(state.trials for state in self._recalled.values())
        return History(before, trials, tuple(self._rounds))

    @property
    def missing(self) -> NotMeasured | None:
        """Why something could not be measured that should have been; None if nothing is missing."""
        found = (search.missing for search in self.searches.values())
        return next((reason for reason in found if reason is not None), None)

    def reasons(self) -> dict[str, Finish | None]:
        """Why each task gets no more trials; None for one that those of all tasks were used up
        for."""
        states = self.states
        slope = slopes(self._objective, self._networks, states)
        otherwise = None if self.missing is None else Finish.NOBODY
        return {
            name: state.finish() or (otherwise if slope[name] > 0 else Finish.UNNEEDED)
            for name, state in states.items()
        }

    def run(self, measurer: Measurer) -> Iterator[Progress]:
        """Make the trials, a batch at a time, as long as there is somebody who measures
        (`missing`); the next ones are under way meanwhile. Raises MeasureError."""
        began = self._clock() - self.history.seconds
        under_way: deque[_UnderWay] = deque()
        while self.missing is None:
            begun = self._begin_next(measurer, under_way)
            if begun is not None:
                under_way.append(begun)
                if len(under_way) <= measurer.ahead:
                    continue
            if not under_way:
                return
            first = under_way.popleft()
            search = self.searches[first.task]
            self._keep(first.task, search.finish(first.batch))
            step = Round(first.task, self._spent(), self._clock() - began, search.best_seconds)
            self._rounds.append(step)
            yield Progress(
                first.task, step.trials, self.most_trials, step.seconds, first.gain, self.states
            )

    def _begin_next(self, measurer: Measurer, under_way: Sequence[_UnderWay]) -> _UnderWay | None:
        """The next batch; None if there is none before one of those under way is finished."""
        while True:
            states = _expected(self.states, under_way)
            spent = self._spent() + sum(entry.batch.trials for entry in under_way)
            if spent >= self.most_trials:
                return None
            match next_task(states, self._networks, self._objective):
                case Done():
                    return None
                case Next(task, gain):
                    left = min(self._settings.round_trials, self.most_trials - spent)
                    begun = self.searches[task].begin(measurer, left)
                    if begun is not None:
                        return _UnderWay(task, gain, begun)
                case stop:
                    assert_never(stop)

    def _spent(self) -> int:
        return sum(state.trials for state in self.states.values())

    def _keep(self, task: str, found: Sequence[tuple[Schedule, Outcome]]) -> None:
        """Put trials on file. A file that cannot be written to for now gets them with the next."""
        search = self.searches[task]
        digest, sizes = search.task.digest.hex(), sizes_of(search.task)
        self._unsaved += [
            trial_in(
                self._setting, digest, schedule, outcome,
                kind=self._kinds[task], sizes=sizes, weights=search.weights,
            )
            for schedule, outcome in found
        ]  # fmt: skip
        self._save()

    def _keep_races(self, task: str, found: Sequence[Rivals]) -> None:
        """Put races on file, but for those in which somebody failed."""
        search, at = self.searches[task], now()
        self._unsaved_races += [
            RaceRecord(search.task.digest.hex(), self._setting, search.weights, rivals, at)
            for rivals in found
            if max(rivals.seconds, rivals.zero_trial_seconds) < inf
        ]
        self._save()

    def _save(self) -> None:
        try:
            self._records.add(self._unsaved)
            self._unsaved = []
            self._records.add_races(self._unsaved_races)
            self._unsaved_races = []
        except RecordsError as error:
            waiting = (
                (len(self._unsaved), "trials"), (len(self._unsaved_races), "races"),
            )  # fmt: skip
            counts = " and ".join(f"{count} {what}" for count, what in waiting if count)
            self._tell(f"{error}; {counts} wait to be kept")

    def choices(self, measurer: Measurer) -> dict[str, Choice]:
        """The schedule of each task, built as a library builds it. Races on file are not held
        again. Those that win a race have to win again, behind those of all other tasks. Raises
        MeasureError."""
        going = dict(self.searches)
        while going:
            entered = {
                name: unsettled(search.zero_trial, search.finalists, self._races[name])
                for name, search in going.items()
            }
            found = self._raced(measurer, {name: who for name, who in entered.items() if who})
            for name, rivals in found.items():
                self._races[name] += rivals
                self._keep_races(name, rivals)
            # Where nobody is left to measure, what is known decides.
            going = {name: self.searches[name] for name, rivals in found.items() if rivals}
        return {name: choice(s.zero_trial, self._races[name]) for name, s in self.searches.items()}

    def _raced(
        self, measurer: Measurer, entered: Mapping[str, Sequence[Schedule]]
    ) -> dict[str, tuple[Rivals, ...]]:
        """A race for each of these tasks; the compilers are at work on the next ones meanwhile."""
        waiting: deque[tuple[str, Callable[[], tuple[Rivals, ...]]]] = deque()
        found: dict[str, tuple[Rivals, ...]] = {}
        for name, schedules in entered.items():
            waiting.append((name, self.searches[name].begin_race(measurer, schedules)))
            if len(waiting) > measurer.ahead:
                first, race = waiting.popleft()
                found[first] = race()
        return found | {name: race() for name, race in waiting}


def _others(trials: Sequence[Trial], task: Task) -> tuple[Trial, ...]:
    """The trials of other tasks."""
    own = task.digest.hex()
    return tuple(trial for trial in trials if trial.task != own)


@dataclass(frozen=True, slots=True, eq=False)
class _UnderWay:
    """A batch of a task that is being measured, and the gain that was expected of it."""

    task: str
    gain: float
    batch: Begun


def _expected(
    states: Mapping[str, TaskState], under_way: Sequence[_UnderWay]
) -> tuple[TaskState, ...]:
    """The states by which the next batch is given away: those under way are taken to bring nothing.
    A task of which nothing is known before its batch is finished gets no other one, and neither
    does one with as many under way as it may have."""
    expected = dict(states)
    count = Counter(entry.task for entry in under_way)
    for entry in under_way:
        state = expected[entry.task]
        waits = not states[entry.task].trials or count[entry.task] > AHEAD_OF_ITS_OWN
        expected[entry.task] = (
            replace(state, exhausted=True)
            if waits
            else state.measured(entry.batch.trials, state.seconds)
        )
    return tuple(expected.values())
