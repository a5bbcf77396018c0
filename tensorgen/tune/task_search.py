"""The search for the schedule of one task: what is proposed and measured, and what is best so far.

What it does: has a strategy propose points of the task's space, has them measured beside the
schedule with zero trials, and in the end holds the fastest ones against that, built as a library
builds them: tuning never makes a kernel slower than it was.
What it does not: choose whose turn it is (`tuning`), or keep trials on file.

Figures are in the seconds of the first batch: the schedule with zero trials takes turns with every
batch, and how much slower it is there than it was is how much slower the machine is. The best
schedules so far are measured again with every batch and count by the median: of many that are about
as fast, those that seem best were lucky, and only a second look tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from statistics import median

from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.bound import bound_of
from tensorgen.tune.intent import Intent, adapt, most_alike, sizes_of
from tensorgen.tune.library_race import Rivals
from tensorgen.tune.measurer import Measured, Measurer, NotMeasured
from tensorgen.tune.outcome import Outcome, Timed, scaled, seconds_of
from tensorgen.tune.space import Candidate
from tensorgen.tune.staged import strategy_of
from tensorgen.tune.strategy import Scores, Strategy
from tensorgen.tune.task_scheduler import TaskState
from tensorgen.tune.task_space import space_of
from tensorgen.tune.trial import Trial
from tensorgen.tune.weights_place import weights_place

FINALISTS = 3
"""Schedules that are built as a library builds them, and raced with the one with zero trials."""

USUAL_BATCH = 16
"""Trials that are measured together."""

SECOND_LOOKS = 2
"""The best schedules so far that are measured again with every batch."""

MOST_SEEDS = 8
"""Schedules of other tasks that a search begins with, at most."""


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """What is tuned for, and how: `trials` for each task on average, a `batch` of them at a time,
    by the strategy of that name; `seed` fixes all randomness but that of the clock. `machine` is
    the one that measures, as it was calibrated: it bounds what a task can reach. With `patience` a
    task gets no more trials after so many that made it no faster; `learned` corrects estimates by
    what was measured."""

    target: Target
    threads: int
    machine: Machine
    trials: int
    strict: bool = False
    winograd: bool = True
    batch: int = USUAL_BATCH
    seed: int = 0
    strategy: str = "staged"
    patience: int | None = None
    learned: bool = True

    @property
    def round_trials(self) -> int:
        """Trials of a batch: no task's first one takes what belongs to another one."""
        return min(self.batch, self.trials)

    def new_state(self, name: str, bound: float) -> TaskState:
        """A task before its first trial."""
        state = TaskState(name, bound)
        if self.patience is None:
            return state
        rounds = ceil(self.patience / max(self.round_trials, 1))
        return replace(state, patience=rounds, enough_trials=self.patience)


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A batch that is being measured: what is tried, the candidates that are looked at again behind
    it, whether it is the first batch, and what waits for the result."""

    tried: tuple[tuple[Candidate, Schedule], ...]
    again: tuple[Candidate, ...]
    is_first: bool
    measured: Callable[[], Measured]

    @property
    def trials(self) -> int:
        """The schedules whose outcomes will be known."""
        return len(self.tried) + self.is_first


class TaskSearch:
    """One task, its space, and what is known of it."""

    def __init__(
        self, name: str, task: Task, machine: Machine, settings: TuneSettings,
        scores: Scores, similar: Sequence[Trial],
    ) -> None:  # fmt: skip
        """The schedule with zero trials goes by the constants of `machine`. `similar` are trials of
        other tasks of the same kind; theirs are the first schedules to be tried."""
        self.task = task
        self._space = space_of(
            task, settings.target, settings.threads, machine,
            strict=settings.strict, winograd=settings.winograd,
        )  # fmt: skip
        self._traffic = machine.traffic
        self.weights = weights_place(machine.traffic, settings.target)
        self._scores = scores
        self._settings, self._similar = settings, similar
        self._strategy: Strategy | None = None
        self._observed: list[tuple[Candidate, Outcome]] = []
        self._figures: dict[Candidate, list[float]] = {}
        bound = bound_of(task, settings.machine, settings.threads, winograd=settings.winograd)
        self.state = settings.new_state(name, bound.seconds)
        self.outcomes: list[Outcome] = []
        self.zero_trial: Schedule = self._space.zero_trial
        self._is_begun = False
        self._left_over: list[tuple[Candidate, Schedule]] = []
        self.missing: NotMeasured | None = None

    def _proposer(self) -> Strategy:
        """The strategy, told all that was observed. It is made when it is first asked: where all
        trials are on file, it never is."""
        if self._strategy is None:
            settings = self._settings
            self._strategy = strategy_of(
                settings.strategy, self._space, self._scores, settings.seed, settings.trials,
                self._seeds(),
            )  # fmt: skip
            for candidate, outcome in self._observed:
                self._strategy.observe(candidate, outcome)
        return self._strategy

    def _tell_strategy(self, candidate: Candidate, outcome: Outcome) -> None:
        if self._strategy is None:
            self._observed.append((candidate, outcome))
        else:
            self._strategy.observe(candidate, outcome)

    @property
    def _best(self) -> Candidate:
        return min(self._figures, key=self._seconds, default=self._space.start)

    @property
    def best(self) -> Schedule:
        """The fastest schedule so far; the one with zero trials before any was measured."""
        return self._schedule(self._best)

    @property
    def best_seconds(self) -> float:
        """Its seconds; `inf` before it was measured."""
        return self._seconds(self._best)

    def _schedule(self, candidate: Candidate) -> Schedule:
        found = self._space.schedule(candidate)
        assert found is not None, "it was measured"
        return found

    def _seconds(self, candidate: Candidate) -> float:
        return median(self._figures[candidate]) if candidate in self._figures else inf

    def _seeds(self) -> tuple[Candidate, ...]:
        sizes = sizes_of(self.task)
        found: dict[Candidate, None] = {}
        for trial in most_alike(self._similar, sizes):
            for schedule in adapt(Intent.of(trial), self._space, sizes):
                candidate = self._space.locate(schedule)
                if candidate is not None:
                    found[candidate] = None
        return tuple(found)[:MOST_SEEDS]

    def recall(self, trials: Sequence[Trial], batch: int) -> None:
        """Take over the trials of this task that are on file, oldest first, as if they had been
        made now, a batch at a time."""
        usual = [seconds_of(t.outcome) for t in trials if t.schedule == self.zero_trial]
        self.state = replace(self.state, best=(min(usual, default=inf),) if trials else ())
        for start in range(0, len(trials), batch):
            part = trials[start : start + batch]
            for trial in part:
                candidate = self._space.locate(trial.schedule)
                if candidate is not None:
                    self._observe(candidate, trial.outcome)
            self.outcomes += [trial.outcome for trial in part]
            self.state = self.state.measured(len(part), self.best_seconds)

    def begin(self, measurer: Measurer, count: int) -> Begun | None:
        """Begin to measure at most so many schedules. None if there is nothing left to try. Raises
        MeasureError."""
        # The schedule with zero trials is a trial of the first batch.
        is_first = not self.state.trials and not self._is_begun
        tried = self._proposed(count - is_first)
        if not tried and not is_first:
            self.state = replace(self.state, exhausted=True)
            return None
        self._is_begun = True
        again = tuple(c for c in self._ranked() if c != self._space.start)[:SECOND_LOOKS]
        schedules = [*(schedule for _, schedule in tried), *map(self._schedule, again)]
        measured = measurer.begin(self.task, schedules, self.zero_trial, traffic=self._traffic)
        return Begun(tuple(tried), again, is_first, measured)

    def finish(self, begun: Begun) -> tuple[tuple[Schedule, Outcome], ...]:
        """The schedules that were begun, with what came of them; without those that nobody is left
        to measure (`missing`). Raises MeasureError."""
        tried, measured = begun.tried, begun.measured()
        self.missing = self.missing or measured.missing
        found: list[tuple[Schedule, Outcome]] = []
        # Trials on file may be without it.
        if self._space.start not in self._figures and not isinstance(
            measured.incumbent, NotMeasured
        ):
            self._observe(self._space.start, measured.incumbent)
            if begun.is_first:
                found.append((self.zero_trial, measured.incumbent))
                self.state = replace(self.state, best=(self.best_seconds,))
        scale = self._seconds(self._space.start) / measured.incumbent_seconds
        if not 0.0 < scale < inf:
            scale = 1.0
        outcomes = [
            outcome if isinstance(outcome, NotMeasured) else scaled(outcome, scale)
            for outcome in measured.outcomes
        ]
        for candidate, outcome in zip(begun.again, outcomes[len(tried) :], strict=True):
            self._look_again(candidate, outcome)
        for (candidate, schedule), outcome in zip(tried, outcomes[: len(tried)], strict=True):
            if isinstance(outcome, NotMeasured):
                continue
            self._observe(candidate, outcome)
            found.append((schedule, outcome))
        self.outcomes += [outcome for _, outcome in found]
        if found:
            self.state = self.state.measured(len(found), self.best_seconds)
        return tuple(found)

    def _proposed(self, count: int) -> list[tuple[Candidate, Schedule]]:
        """Points to try, none of them the one that is the incumbent of the first race."""
        found = self._left_over
        # Most strategies begin with that one: to ask for a single point in its place is to search
        # once more.
        usual = 0 if self._is_begun or self._space.start in self._figures else 1
        while len(found) < count:
            proposed = self._proposer().propose(count + usual - len(found))
            if not proposed:
                break
            for candidate in proposed:
                schedule = self._space.schedule(candidate)
                if candidate != self._space.start and schedule is not None:
                    found.append((candidate, schedule))
        self._left_over = found[count:]
        return found[:count]

    def _observe(self, candidate: Candidate, outcome: Outcome) -> None:
        seconds = seconds_of(outcome)
        self._tell_strategy(candidate, outcome)
        if seconds == inf:
            return
        self._scores.observe(self._space, candidate, seconds)
        self._figures.setdefault(candidate, []).append(seconds)

    def _look_again(self, candidate: Candidate, outcome: Outcome | NotMeasured) -> None:
        """Another figure of what was among the best when its batch was begun."""
        if isinstance(outcome, NotMeasured) or seconds_of(outcome) == inf:
            return
        self._figures[candidate].append(seconds_of(outcome))
        self._tell_strategy(candidate, Timed(self._seconds(candidate)))

    def _ranked(self) -> list[Candidate]:
        """The candidates that have figures, the fastest first."""
        return sorted(self._figures, key=self._seconds)

    @property
    def finalists(self) -> tuple[Schedule, ...]:
        """The fastest schedules so far that are worth a race with the one with zero trials."""
        schedules = map(self._schedule, self._ranked())
        return tuple(s for s in schedules if s != self.zero_trial)[:FINALISTS]

    def allows(self, schedule: Schedule) -> bool:
        """Whether a schedule is one that these settings allow for the task."""
        return self._space.locate(schedule) is not None

    def begin_race(
        self, measurer: Measurer, schedules: Iterable[Schedule]
    ) -> Callable[[], tuple[Rivals, ...]]:
        """Begin to race schedules with the one with zero trials; what is given waits for the
        result, which is without those that nobody is left to measure (`missing`). Raises
        MeasureError, then or later."""
        entered = tuple(dict.fromkeys(schedules))
        if not entered:
            return lambda: ()
        measured = measurer.begin(self.task, entered, self.zero_trial, traffic=self._traffic)

        def raced() -> tuple[Rivals, ...]:
            found = measured()
            self.missing = self.missing or found.missing
            if isinstance(found.incumbent, NotMeasured):
                return ()
            return tuple(
                Rivals(schedule, seconds_of(outcome), self.zero_trial, found.incumbent_seconds)
                for schedule, outcome in zip(entered, found.outcomes, strict=True)
                if not isinstance(outcome, NotMeasured)
            )

        return raced
