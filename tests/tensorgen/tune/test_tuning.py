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
from tensorgen.tune.measurer import Measured, NotMeasured
from tensorgen.tune.outcome import Crashed, Outcome, Timed, seconds_of
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.task_scheduler import Finish, Network
from tensorgen.tune.task_search import Choice, TuneSettings
from tensorgen.tune.trial import Setting, Trial
from tensorgen.tune.tuning import Tuning
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


class StandIn:
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
    # Powers of two: products are exact.
    for drift in (1.0, 2.0):
        work = tuning(TrialRecords(tmp_path / f"{drift}"), 24)
        list(work.run(StandIn(drift)))
        chosen.append({name: search.best for name, search in work.searches.items()})
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


def test_where_nobody_is_left_to_measure_tuning_stops_and_goes_on_later(
    records: TrialRecords,
) -> None:
    gone = NotMeasured("nobody is there")

    class Leaving(StandIn):
        """Measures two batches, then half of one, and nothing more."""

        def measure(
            self, task: Task, schedules: Sequence[Schedule], incumbent: Schedule
        ) -> Measured:
            found = super().measure(task, schedules, incumbent)
            if len(self.batches) < 3:
                return found
            if len(self.batches) > 3:
                return Measured((gone,) * len(schedules), gone)
            half = len(schedules) // 2
            left = len(schedules) - half
            return Measured((*found.outcomes[:half], *(gone,) * left), found.incumbent)

    work = tuning(records, 24)
    steps = list(work.run(Leaving()))
    assert len(steps) == 3
    assert work.missing == gone
    assert Finish.NOBODY in work.reasons().values()
    # Half a batch is on file; what nobody measured is not.
    assert records.count() == steps[-1].trials == 20
    again = tuning(records, 24)
    assert list(again.run(StandIn()))[-1].trials == 48
    assert again.missing is None


def test_without_a_final_race_nothing_changes(records: TrialRecords) -> None:
    class Nobody:
        def measure(
            self, task: Task, schedules: Sequence[Schedule], incumbent: Schedule
        ) -> Measured:
            gone = NotMeasured("nobody is there")
            return Measured((gone,) * len(schedules), gone)

    work = tuning(records, 16)
    list(work.run(StandIn()))
    for name, choice in work.choices(Nobody()).items():
        assert choice == Choice(work.searches[name].zero_trial, inf, inf, False)
    assert work.missing == NotMeasured("nobody is there")


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
