"""Tuning with a stand-in for measuring: what is spent, what is kept, and what is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from pathlib import Path
from zlib import crc32

import pytest

from tensorgen.machine import Machine
from tensorgen.schedule import RegisterTile, Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.measurer import Measured, Measurer
from tensorgen.tune.outcome import Crashed, Outcome, Timed, seconds_of
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.task_scheduler import Network
from tensorgen.tune.task_search import TuneSettings
from tensorgen.tune.trial import Setting, Trial
from tensorgen.tune.tuning import AHEAD, AHEAD_OF_ITS_OWN, Tuning
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul

TARGET = Target.named("x86-64-v3")
MACHINE = typical_machine(TARGET)
SETTING = Setting(TARGET.name, 1, "this processor", "gcc 12", "0.2")
SMALL, LARGE = (matmul((), n, 48, 32, constant=(False, True)) for n in (8, 96))
TASKS: dict[str, tuple[Task, Machine]] = {"small": (SMALL, MACHINE), "large": (LARGE, MACHINE)}
NETWORKS = [Network("first", {"small": 1, "large": 4}), Network("second", {"large": 1})]


def truth(task: Task, schedule: Schedule) -> float:
    """Seconds that follow from nothing but the texts: from one to two of the task's work."""
    scale = task.stages[0].type.size * 1e-9
    return scale * (1.0 + crc32(str(schedule).encode()) % 1000 / 1000)


class StandIn(Measurer):
    """Measures at once, on a machine that takes `drift` times longer with each batch."""

    def __init__(self, drift: float = 1.0, seconds: Callable[[Task, Schedule], float] = truth):
        self.batches: list[tuple[Task, int]] = []
        self._drift, self._seconds, self._now = drift, seconds, 1.0

    def measure(self, task: Task, schedules: Sequence[Schedule], incumbent: Schedule) -> Measured:
        self.batches.append((task, len(schedules)))
        self._now *= self._drift
        outcomes = [self._outcome(task, schedule) for schedule in (*schedules, incumbent)]
        return Measured(tuple(outcomes[:-1]), outcomes[-1])

    def _outcome(self, task: Task, schedule: Schedule) -> Outcome:
        seconds = self._seconds(task, schedule)
        return Timed(seconds * self._now) if seconds < inf else Crashed("signal 11")


@pytest.fixture
def records(tmp_path: Path) -> TrialRecords:
    return TrialRecords(tmp_path / "trials.sqlite")


def tuning(records: TrialRecords, trials: int, seed: int = 0, batch: int = 8) -> Tuning:
    settings = TuneSettings(TARGET, 1, MACHINE, trials, batch=batch, seed=seed)
    return Tuning(TASKS, NETWORKS, settings, records, SETTING)


def test_trials_are_spent_kept_and_worth_it(records: TrialRecords) -> None:
    measurer = StandIn()
    work = tuning(records, 24)
    steps = list(work.run(measurer))
    # The schedule with zero trials of each task is a trial, the incumbent of its first batch.
    made = sum(count for _, count in measurer.batches) + 2
    assert steps[-1].trials == steps[-1].most_trials == 48
    assert records.count() == made
    assert 46 <= made <= 48
    choices = work.choices(StandIn())
    for name, (task, _) in TASKS.items():
        choice = choices[name]
        assert choice.is_tuned
        assert choice.seconds == truth(task, choice.schedule) < choice.zero_trial_seconds
        on_file = records.of_task(task, SETTING)
        assert choice.seconds == pytest.approx(min(seconds_of(t.outcome) for t in on_file))


def test_few_trials_are_for_every_task(records: TrialRecords) -> None:
    work = tuning(records, 3)
    list(work.run(StandIn()))
    assert {name: state.trials for name, state in work.states.items()} == {"small": 3, "large": 3}


def test_the_same_seed_makes_the_same_trials(tmp_path: Path) -> None:
    def schedules(name: str, seed: int) -> list[str]:
        records = TrialRecords(tmp_path / name)
        list(tuning(records, 16, seed).run(StandIn()))
        return sorted(str(trial.schedule) for trial in records.all())

    assert schedules("first", 1) == schedules("second", 1)
    assert schedules("first", 1) != schedules("third", 2)


def test_a_machine_that_becomes_slower_misleads_nobody(tmp_path: Path) -> None:
    chosen = []
    task, network = {"large": TASKS["large"]}, Network("first", {"large": 1})
    settings = TuneSettings(TARGET, 1, MACHINE, 48, batch=8)
    # Powers of two: products are exact.
    for drift in (1.0, 2.0):
        records = TrialRecords(tmp_path / f"{drift}")
        work = Tuning(task, [network], settings, records, SETTING)
        list(work.run(StandIn(drift)))
        chosen.append(work.searches["large"].best)
    assert chosen[0] == chosen[1]


def test_what_is_on_file_is_not_measured_again(records: TrialRecords) -> None:
    first = tuning(records, 16)
    list(first.run(StandIn()))
    measurer = StandIn()
    again = tuning(records, 16)
    assert list(again.run(measurer)) == []
    assert measurer.batches == []
    assert {n: s.best for n, s in again.searches.items()} == {
        n: s.best for n, s in first.searches.items()
    }
    more = tuning(records, 24)
    list(more.run(measurer))
    assert 0 < sum(count for _, count in measurer.batches) <= 16
    schedules = [(trial.task, trial.schedule) for trial in records.all()]
    assert len(schedules) == len(set(schedules))


def test_an_interrupted_run_loses_one_batch(records: TrialRecords) -> None:
    measurer = StandIn()

    def interrupted(task: Task, schedule: Schedule) -> float:
        if len(measurer.batches) == 3:
            raise KeyboardInterrupt
        return truth(task, schedule)

    measurer._seconds = interrupted
    with pytest.raises(KeyboardInterrupt):
        list(tuning(records, 16).run(measurer))
    assert records.count() == sum(count for _, count in measurer.batches[:2]) + 2
    list(tuning(records, 16).run(StandIn()))
    assert records.count() == 32


def test_a_file_that_is_locked_for_a_while_gets_its_trials_later(
    records: TrialRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, told, calls = TrialRecords.add, list[str](), list[int]()

    def sometimes(self: TrialRecords, trials: Sequence[Trial]) -> int:
        calls.append(len(trials))
        if len(calls) == 1:
            raise RecordsError("trials.sqlite: expected a file to write to, got one that is locked")
        return add(self, trials)

    monkeypatch.setattr(TrialRecords, "add", sometimes)
    settings = TuneSettings(TARGET, 1, MACHINE, 16, batch=8)
    work = Tuning(TASKS, NETWORKS, settings, records, SETTING, tell=told.append)
    list(work.run(StandIn()))
    assert records.count() == 32
    assert told == [
        f"trials.sqlite: expected a file to write to, got one that is locked; {calls[0]} trials "
        "wait to be kept"
    ]


def test_a_task_whose_every_candidate_fails_keeps_its_schedule(records: TrialRecords) -> None:
    measurer = StandIn(seconds=lambda task, schedule: inf)
    work = tuning(records, 16)
    list(work.run(measurer))
    for name, choice in work.choices(measurer).items():
        assert choice.schedule == work.searches[name].zero_trial
        assert not choice.is_tuned
        assert choice.seconds == inf


def test_only_the_final_race_decides(records: TrialRecords) -> None:
    # In the final race the schedule with zero trials wins, whatever came before.
    work = tuning(records, 16)
    list(work.run(StandIn()))
    usual = {search.zero_trial for search in work.searches.values()}
    final = StandIn(seconds=lambda task, schedule: 1.0 if schedule in usual else 0.995)
    for name, choice in work.choices(final).items():
        assert choice.schedule == work.searches[name].zero_trial
        assert not choice.is_tuned


def test_trials_of_a_task_serve_its_kind(records: TrialRecords) -> None:
    list(tuning(records, 16).run(StandIn()))
    other = matmul((), 64, 48, 32, constant=(False, True))
    settings = TuneSettings(TARGET, 1, MACHINE, 8, batch=8)
    tried: list[Schedule] = []

    def noted(task: Task, schedule: Schedule) -> float:
        tried.append(schedule)
        return truth(task, schedule)

    work = Tuning(
        {"other": (other, MACHINE)}, [Network("n", {"other": 1})], settings, records, SETTING
    )
    list(work.run(StandIn(seconds=noted)))
    best = [records.best(task, SETTING) for task, _ in TASKS.values()]
    assert shapes(t.schedule for t in best if isinstance(t, Trial)) <= shapes(tried)


def shapes(schedules: Iterable[Schedule]) -> set[tuple[int, int]]:
    return {(s.rows, s.vectors) for s in schedules if isinstance(s, RegisterTile)}


class Watched(StandIn):
    """Remembers in which order batches were begun and measured, and how many were under way."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[Task] = []
        self.most = self.most_of_a_task = 0

    def begin(
        self, task: Task, schedules: Sequence[Schedule], incumbent: Schedule
    ) -> Callable[[], Measured]:
        self.under_way.append(task)
        self.most = max(self.most, len(self.under_way))
        self.most_of_a_task = max(self.most_of_a_task, self.under_way.count(task))

        def measured() -> Measured:
            assert self.under_way.pop(0) == task
            return self.measure(task, schedules, incumbent)

        return measured


def test_batches_are_begun_while_the_one_before_is_measured(records: TrialRecords) -> None:
    measurer = Watched()
    work = tuning(records, 32)
    steps = list(work.run(measurer))
    assert steps[-1].trials == steps[-1].most_trials == sum(s.trials for s in work.states.values())
    assert measurer.most == AHEAD + 1
    assert measurer.most_of_a_task == AHEAD_OF_ITS_OWN + 1
    work.choices(measurer)
    assert not measurer.under_way


def test_nothing_is_begun_of_a_task_before_its_first_figures(records: TrialRecords) -> None:
    measurer = Watched()
    settings = TuneSettings(TARGET, 1, MACHINE, 24, batch=8)
    work = Tuning({"small": TASKS["small"]}, NETWORKS[:0], settings, records, SETTING)
    assert list(work.run(measurer)) == []  # no network needs it
    network = Network("only", {"small": 1})
    work = Tuning({"small": TASKS["small"]}, [network], settings, records, SETTING)
    steps = work.run(measurer)
    assert next(steps).trials == 8
    assert len(measurer.batches) == 1
    assert list(steps)[-1].trials == 24
