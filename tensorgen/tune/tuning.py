"""Tuning: trials for the tasks of one or many networks, as long as they are worth it.

What it does: gives each batch of trials to the task whose gradient is steepest, keeps every trial
on file as it is made, and lets each task choose in the end. What it does not: know graphs or
models, or measure. Killed at any point it loses the batch under way: begun again with the same
records, it goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import assert_never

from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.cost_model import LearnedModel
from tensorgen.tune.intent import kind_of, sizes_of
from tensorgen.tune.learning_curve import History, Round
from tensorgen.tune.measurer import Measurer, NotMeasured
from tensorgen.tune.outcome import Outcome
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
from tensorgen.tune.task_search import Choice, TaskSearch, TuneSettings
from tensorgen.tune.trial import Setting, Trial, trial_in


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
        self._kinds = {name: kind_of(task) for name, (task, _) in tasks.items()}
        scores: Scores = LearnedModel(settings.seed) if settings.learned else AnalyticalScores()
        self.searches = {
            name: TaskSearch(name, task, machine, settings, scores, self._similar(name, task))
            for name, (task, machine) in tasks.items()
        }
        for search in self.searches.values():
            search.recall(records.of_task(search.task, setting), settings.batch)
        self._clock = clock
        self._recalled = self.states
        self._rounds: list[Round] = []

    def _similar(self, name: str, task: Task) -> Iterator[Trial]:
        """The best trials of other tasks of its kind."""
        own = task.digest.hex()
        for trial in self._records.best_of_kind(self._kinds[name], self._setting):
            if trial.task != own:
                yield trial

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
        (`missing`). Raises MeasureError."""
        began = self._clock() - self.history.seconds
        while (spent := self._spent()) < self.most_trials:
            match next_task(self.states.values(), self._networks, self._objective):
                case Done():
                    return
                case Next(task, gain):
                    search = self.searches[task]
                    left = min(self._settings.round_trials, self.most_trials - spent)
                    self._keep(task, search.batch(measurer, left))
                    step = Round(task, self._spent(), self._clock() - began, search.best_seconds)
                    self._rounds.append(step)
                    yield Progress(
                        task, step.trials, self.most_trials, step.seconds, gain, self.states
                    )
                    if search.missing is not None:
                        return
                case stop:
                    assert_never(stop)

    def _spent(self) -> int:
        return sum(state.trials for state in self.states.values())

    def _keep(self, task: str, found: Sequence[tuple[Schedule, Outcome]]) -> None:
        """Put trials on file. A file that cannot be written to for now gets them with the next."""
        digest, sizes = self.searches[task].task.digest.hex(), sizes_of(self.searches[task].task)
        self._unsaved += [
            trial_in(self._setting, digest, schedule, outcome, kind=self._kinds[task], sizes=sizes)
            for schedule, outcome in found
        ]
        try:
            self._records.add(self._unsaved)
        except RecordsError as error:
            self._tell(f"{error}; {len(self._unsaved)} trials wait to be kept")
        else:
            self._unsaved = []

    def choices(self, measurer: Measurer) -> dict[str, Choice]:
        """The schedule of each task, built as a library builds it. Raises MeasureError."""
        return {name: search.choice(measurer) for name, search in self.searches.items()}
