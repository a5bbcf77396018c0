"""Tuning with a stand-in for measuring: what is spent, what is kept, and what is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from math import inf
from pathlib import Path

import pytest

from tensorgen.machine import Machine
from tensorgen.schedule import RegisterTile, Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.library_race import RACES, Choice
from tensorgen.tune.measurer import Measured, NotMeasured
from tensorgen.tune.outcome import seconds_of, tallied
from tensorgen.tune.race_record import RaceRecord
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.staged import STRATEGY_NAMES
from tensorgen.tune.task_scheduler import (
    EqualTrials,
    Finish,
    LatencyTargets,
    Network,
    Objective,
    TotalLatency,
)
from tensorgen.tune.task_search import SECOND_LOOKS, TuneSettings
from tensorgen.tune.trial import Setting, Trial
from tensorgen.tune.tuning import AHEAD_OF_ITS_OWN, Tuning
from tensorgen.tune.weights_place import WeightsPlace
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul
from tests.measured_at_once import Leaving, StandIn, truth

TARGET = Target.named("x86-64-v3")
MACHINE = typical_machine(TARGET)
SETTING = Setting(TARGET.name, 1, "this processor", "gcc 12", "0.2")
NEAR = WeightsPlace.NEAR
SMALL, LARGE = (matmul((), n, 48, 32, constant=(False, True)) for n in (8, 96))
TASKS: dict[str, tuple[Task, Machine]] = {"small": (SMALL, MACHINE), "large": (LARGE, MACHINE)}
NETWORKS = [Network("first", {"small": 1, "large": 4}), Network("second", {"large": 1})]


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
    assert steps[-1].trials == steps[-1].most_trials == records.count() == 48
    # The schedule with zero trials of each task is a trial, the incumbent of its first batch. From
    # the third batch on there are figures of others, the best of which are looked at again.
    batches = {task: [n for t, n in measurer.batches if t == task] for task in (SMALL, LARGE)}
    looks = sum(SECOND_LOOKS * (len(sizes) - AHEAD_OF_ITS_OWN) for sizes in batches.values())
    assert sum(map(sum, batches.values())) + 2 == 48 + looks
    choices = work.choices(StandIn())
    for name, (task, _) in TASKS.items():
        choice = choices[name]
        assert choice.is_tuned
        assert choice.seconds == truth(task, choice.schedule) < choice.zero_trial_seconds
        on_file = records.of_task(task, SETTING, WeightsPlace.NEAR)
        assert choice.seconds == pytest.approx(min(seconds_of(t.outcome) for t in on_file))


def test_who_wins_a_race_has_to_win_again(records: TrialRecords) -> None:
    work = tuning(records, 24)
    list(work.run(StandIn()))
    measurer = StandIn()
    choices = work.choices(measurer)
    assert all(choice.is_tuned for choice in choices.values())
    finalists = {search.task: len(search.finalists) for search in work.searches.values()}
    everybody = list(finalists.items())
    winners = [(task, 1) for task in finalists]
    assert measurer.batches == [*everybody, *winners * (RACES - 1)]


def test_races_on_file_are_not_held_again(records: TrialRecords) -> None:
    work = tuning(records, 24)
    list(work.run(StandIn()))
    choices = work.choices(StandIn(drift=1.01))
    again, idle = tuning(records, 24), StandIn()
    list(again.run(idle))
    assert again.choices(idle) == choices
    assert idle.batches == []


def test_races_that_were_ended_go_on(records: TrialRecords) -> None:
    """Of two tasks one has raced, and the second races of both are missing."""
    work = tuning(records, 24)
    list(work.run(StandIn()))
    work.choices(Leaving(1, NotMeasured("the worker left")))
    again, measurer = tuning(records, 24), StandIn(drift=1.01)
    choices = again.choices(measurer)
    (first, _), (second, _) = ((s.task, len(s.finalists)) for s in again.searches.values())
    assert measurer.batches[:2] == [(first, 1), (second, 3)]
    assert all(choice.is_tuned for choice in choices.values())
    assert all(len(records.races_of(task, SETTING, NEAR)) == 2 + RACES for task in (SMALL, LARGE))


def test_races_against_another_schedule_do_not_count(records: TrialRecords) -> None:
    """The one with zero trials is another one where a machine has other constants."""
    work = tuning(records, 24)
    list(work.run(StandIn()))
    work.choices(StandIn(drift=1.01))
    races = [race for task in (SMALL, LARGE) for race in records.races_of(task, SETTING, NEAR)]
    other = TrialRecords(records.path.parent / "other.sqlite")
    other.add(records.all())
    other.add_races(
        replace(race, rivals=replace(race.rivals, zero_trial=race.rivals.schedule))
        for race in races
    )
    measurer = StandIn()
    tuning(other, 24).choices(measurer)
    assert len(measurer.batches) == 2 * RACES


def test_who_fails_in_a_race_is_out_and_not_on_file(records: TrialRecords) -> None:
    work = tuning(records, 24)
    list(work.run(StandIn()))
    fastest = {search.finalists[0] for search in work.searches.values()}

    def seconds(task: Task, schedule: Schedule) -> float:
        return inf if schedule in fastest else truth(task, schedule)

    for name, choice in work.choices(StandIn(seconds=seconds)).items():
        assert choice.is_tuned
        assert choice.schedule == work.searches[name].finalists[1]
    assert not fastest & {race.rivals.schedule for race in records.all_races()}


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
    """Within a task all figures are those of the first batch's machine."""
    chosen = []
    task, network = {"large": TASKS["large"]}, Network("first", {"large": 1})
    settings = TuneSettings(TARGET, 1, MACHINE, 48, batch=8)
    # Powers of two: products are exact.
    for drift in (1.0, 2.0):
        records = TrialRecords(tmp_path / f"{drift}")
        work = Tuning(task, [network], settings, records, SETTING)
        list(work.run(StandIn(drift)))
        best = work.searches["large"].best
        assert work.searches["large"].best_seconds == pytest.approx(drift * truth(LARGE, best))
        chosen.append(best)
    assert chosen[0] == chosen[1]


def test_who_was_lucky_once_is_found_out(records: TrialRecords) -> None:
    def seconds(task: Task, schedule: Schedule) -> float:
        lucky = len(measurer.batches) == 1 and schedule != search.zero_trial
        # Whoever is as fast as the bound ends the search.
        return truth(task, schedule) / (1.5 if lucky else 1.0)

    measurer = StandIn(seconds=seconds)
    settings = TuneSettings(TARGET, 1, MACHINE, 96, batch=4)
    work = Tuning(
        {"large": TASKS["large"]}, [Network("one", {"large": 1})], settings, records, SETTING
    )
    search = work.searches["large"]
    list(work.run(measurer))
    assert search.best_seconds == pytest.approx(truth(LARGE, search.best))
    assert search.state.best[1] < search.state.seconds == search.best_seconds


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
    assert 32 < records.count() <= 48
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


def test_a_file_that_is_locked_in_the_end_costs_the_races_and_no_choice(
    records: TrialRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(self: TrialRecords, *_: object) -> tuple[RaceRecord, ...]:
        raise RecordsError("trials.sqlite: expected a file of trials, got one that is locked")

    told: list[str] = []
    settings = TuneSettings(TARGET, 1, MACHINE, 16, batch=8)
    work = Tuning(TASKS, NETWORKS, settings, records, SETTING, tell=told.append)
    list(work.run(StandIn()))
    for name in ("add_races", "races_of", "of_task"):
        monkeypatch.setattr(TrialRecords, name, locked)
    assert all(choice.is_tuned for choice in work.choices(StandIn()).values())
    assert told[0].endswith("; 3 races wait to be kept")
    monkeypatch.undo()
    assert records.count() == 32
    assert records.all_races() == ()


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
    work = tuning(records, 24)
    steps = list(work.run(Leaving(2, gone, part=lambda schedules: schedules // 2)))
    assert len(steps) == 3
    assert work.missing == gone
    assert Finish.NOBODY in work.reasons().values()
    # Half a batch, second looks among it, is on file; what nobody measured is not.
    assert records.count() == steps[-1].trials == 16 + (8 + SECOND_LOOKS) // 2
    again = tuning(records, 24)
    assert list(again.run(StandIn()))[-1].trials == 48
    assert again.missing is None


def test_without_a_final_race_nothing_changes(records: TrialRecords) -> None:
    gone = NotMeasured("nobody is there")
    work = tuning(records, 16)
    list(work.run(StandIn()))
    for name, choice in work.choices(Leaving(0, gone)).items():
        assert choice == Choice(work.searches[name].zero_trial, inf, inf, False)
    assert work.missing == gone


def test_who_won_stays_if_nobody_is_left_to_race_again(records: TrialRecords) -> None:
    work = tuning(records, 24)
    list(work.run(StandIn()))
    choices = work.choices(Leaving(2, NotMeasured("the worker left")))
    assert all(choice.is_tuned and choice.seconds < inf for choice in choices.values())


def test_trials_are_as_in_the_run_that_they_are_for(records: TrialRecords) -> None:
    class Listening(StandIn):
        def __init__(self) -> None:
            super().__init__()
            self.traffic: list[float] = []

        def measure(
            self,
            task: Task,
            schedules: Sequence[Schedule],
            incumbent: Schedule,
            *,
            traffic: float = inf,
        ) -> Measured:
            self.traffic.append(traffic)
            return super().measure(task, schedules, incumbent, traffic=traffic)

    measurer = Listening()
    settings = TuneSettings(TARGET, 1, MACHINE, 16, batch=8)
    work = Tuning(
        {"small": (SMALL, MACHINE.serving(4096.0))}, [Network("one", {"small": 1})],
        settings, records, SETTING,
    )  # fmt: skip
    list(work.run(measurer))
    work.choices(measurer)
    assert set(measurer.traffic) == {4096.0}


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
    best = [records.best(task, SETTING, WeightsPlace.NEAR) for task, _ in TASKS.values()]
    assert shapes(t.schedule for t in best if isinstance(t, Trial)) <= shapes(tried)


def shapes(schedules: Iterable[Schedule]) -> set[tuple[int, int]]:
    return {(s.rows, s.vectors) for s in schedules if isinstance(s, RegisterTile)}


class Watched(StandIn):
    """Remembers in which order batches were begun and measured, and how many were under way."""

    ahead = 2

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[Task] = []
        self.most = self.most_of_a_task = 0

    def begin(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Callable[[], Measured]:
        self.under_way.append(task)
        self.most = max(self.most, len(self.under_way))
        self.most_of_a_task = max(self.most_of_a_task, self.under_way.count(task))

        def measured() -> Measured:
            assert self.under_way.pop(0) == task
            return self.measure(task, schedules, incumbent, traffic=traffic)

        return measured


def test_batches_are_begun_while_the_one_before_is_measured(records: TrialRecords) -> None:
    measurer = Watched()
    work = tuning(records, 32)
    steps = list(work.run(measurer))
    assert steps[-1].trials == steps[-1].most_trials == sum(s.trials for s in work.states.values())
    assert measurer.most == Watched.ahead + 1
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


def aimed(
    records: TrialRecords, objective: Objective, trials: int = 16, **changed: object
) -> Tuning:
    """A tuning for an objective, by a clock that goes on by a second whenever it is read."""
    settings = replace(TuneSettings(TARGET, 1, MACHINE, trials, batch=8), **changed)  # type: ignore[arg-type]
    ticks = count()
    return Tuning(
        TASKS, NETWORKS, settings, records, SETTING, objective=objective,
        clock=lambda: float(next(ticks)),
    )  # fmt: skip


def test_the_history_is_what_was_done(records: TrialRecords) -> None:
    work = aimed(records, EqualTrials())
    steps = list(work.run(StandIn()))
    history = work.history
    assert [(r.task, r.trials, r.seconds) for r in history.rounds] == [
        (step.task, step.trials, step.seconds) for step in steps
    ]
    assert [r.seconds for r in history.rounds] == [1.0, 2.0, 3.0, 4.0]
    usual = {name: search.zero_trial for name, search in work.searches.items()}
    assert history.before == {name: truth(TASKS[name][0], usual[name]) for name in TASKS}
    assert history.trials == 0
    for network in NETWORKS:
        assert history.curve(network)[-1].latency == pytest.approx(network.latency(work.states))


def test_a_history_begins_with_what_is_on_file(records: TrialRecords) -> None:
    first = aimed(records, EqualTrials(), 8)
    list(first.run(StandIn()))
    again = aimed(records, EqualTrials(), 16)
    list(again.run(StandIn()))
    assert again.history.trials == 16
    assert again.history.before == {name: s.seconds for name, s in first.states.items()}
    assert again.history.trials_made == 16
    assert sum(tally.count for s in again.searches.values() for tally in tallied(s.outcomes)) == 32


def test_equal_trials_are_equal(records: TrialRecords) -> None:
    work = aimed(records, EqualTrials(), 24)
    list(work.run(StandIn()))
    assert {state.trials for state in work.states.values()} == {24}


def test_what_nobody_needs_faster_gets_no_more_trials(records: TrialRecords) -> None:
    # Every task is tried once; thereafter both networks are short enough.
    work = aimed(records, LatencyTargets({"first": 1.0, "second": 1.0}), 64)
    steps = list(work.run(StandIn()))
    assert [step.trials for step in steps] == [8, 16]
    assert set(work.reasons().values()) == {Finish.UNNEEDED}


def test_patience_ends_tasks_before_their_trials_do(records: TrialRecords) -> None:
    def flat(task: Task, schedule: Schedule) -> float:
        return 1.0

    work = aimed(records, TotalLatency(), 64, patience=16)
    steps = list(work.run(StandIn(seconds=flat)))
    assert steps[-1].trials == 32
    assert set(work.reasons().values()) == {Finish.SETTLED}


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
@pytest.mark.parametrize("learned", [True, False])
def test_every_search_makes_its_trials(tmp_path: Path, strategy: str, learned: bool) -> None:
    records = TrialRecords(tmp_path / "trials.sqlite")
    work = aimed(records, EqualTrials(), strategy=strategy, learned=learned)
    made = [step.trials for step in work.run(StandIn())]
    assert records.count() == 32 or strategy == "descent"
    assert all(after - before <= 8 for before, after in pairwise([0, *made]))
    assert all(s.best_seconds <= truth(s.task, s.zero_trial) for s in work.searches.values())
