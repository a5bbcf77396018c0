"""Workers that come, go and talk nonsense, played by a stand-in: no request is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.sketch import default_schedule
from tensorgen.target import Target
from tensorgen.tune.cluster_connection import Answer, Answered, Failed, Lost
from tensorgen.tune.cluster_measurer import ClusterMeasurer, calibrated_worker
from tensorgen.tune.cluster_message import (
    MachineRequest,
    RaceRequest,
    SettingRequest,
    Work,
    failure_answer,
    machine_answer,
    race_answer,
    read_request,
    setting_answer,
)
from tensorgen.tune.cluster_pool import MOST_LOSSES, WorkerPool
from tensorgen.tune.measurer import Measured, MeasureError, NotMeasured
from tensorgen.tune.outcome import Crashed, Timed
from tensorgen.tune.trial import Setting
from tensorgen.typical_machine import typical_machine
from tensorgen.version import tasor_version
from tests.contraction_tasks import matmul

TARGET = Target.named("aarch64")
LABEL = {"aarch64": 1.0}
WORK = Work(TARGET, 1, False)
TASK = matmul((), 9, 35, 40, constant=(False, True))
SCHEDULE = default_schedule(TASK, TARGET, 1)
SETTING = Setting("aarch64", 1, "a board", "gcc 12", tasor_version())
MACHINE = typical_machine(TARGET, 1)


class StandIn:
    """Workers that answer at once; `before` is called with each race, and may change them. The
    incumbent takes as many seconds as the worker's name says."""

    address = "tcp://stand-in:1"

    def __init__(self, *names: str) -> None:
        self.there: dict[str, Mapping[str, float]] = dict.fromkeys(names, LABEL)
        self.settings = dict[str, Setting]()
        self.before: Callable[[str], Answer | None] = lambda worker: None
        self.reachable = True
        self.now = 0.0
        self.races = list[tuple[str, int]]()
        self._waiting: list[tuple[object, str, str]] = []

    def workers(self) -> Mapping[str, Mapping[str, float]] | None:
        return dict(self.there) if self.reachable else None

    def ask(self, worker: str, request: str, resource: str | None) -> object:
        ticket = object()
        assert all(w != worker for _, w, _ in self._waiting), "one thing at a time"
        self._waiting.append((ticket, worker, request))
        return ticket

    def next_answer(self, seconds: float) -> tuple[object, Answer] | None:
        for ticket, worker, request in list(self._waiting):
            if worker in self.there and self.reachable:
                self._waiting.remove((ticket, worker, request))
                answer = self._answer(worker, request)
                # A worker that was lost meanwhile says nothing.
                if worker in self.there or isinstance(answer, Lost):
                    return ticket, answer
                return None
        self.now += seconds
        return None

    def give_up(self, ticket: object) -> None:
        self._waiting = [entry for entry in self._waiting if entry[0] is not ticket]

    def _answer(self, worker: str, text: str) -> Answer:
        match read_request(text):
            case SettingRequest():
                return Answered(setting_answer(self.settings.get(worker, SETTING)))
            case MachineRequest():
                return self.before(worker) or Answered(machine_answer(MACHINE))
            case RaceRequest(schedules=schedules):
                self.races.append((worker, len(schedules)))
                seconds = float(worker)
                measured = Measured((Timed(2 * seconds),) * len(schedules), Timed(seconds))
                return self.before(worker) or Answered(race_answer(measured))


def pool_of(connection: StandIn, told: list[str] | None = None) -> WorkerPool:
    tell = (lambda line: None) if told is None else told.append
    return WorkerPool(connection, WORK, tell=tell, clock=lambda: connection.now)


def measure(pool: WorkerPool, count: int) -> Measured:
    return ClusterMeasurer(pool, WORK).measure(TASK, [SCHEDULE] * count, SCHEDULE)


def test_a_batch_is_spread_and_put_on_one_scale() -> None:
    connection = StandIn("1", "3", "4")
    pool = pool_of(connection)
    assert pool.setting == SETTING
    # Each worker's figures are twice its incumbent's, and the median incumbent takes 3 s.
    assert measure(pool, 8) == Measured((Timed(6.0),) * 8, Timed(3.0))
    assert sorted(connection.races) == [("1", 3), ("3", 3), ("4", 2)]
    assert measure(pool, 0) == Measured((), Timed(1.0))
    assert calibrated_worker(pool, WORK) == MACHINE


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(["leave", "lose", "come", "nonsense", "fail", ""]), max_size=12),
    st.integers(1, 9),
)
def test_whatever_workers_do_no_trial_is_lost(events: list[str], count: int) -> None:
    connection = StandIn("1", "2")
    told = list[str]()
    pool = pool_of(connection, told)
    plan, names = iter(events), iter(range(10, 99))

    def before(worker: str) -> Answer | None:
        match next(plan, ""):
            case "leave":
                del connection.there[worker]
            case "lose":
                return Lost()
            case "come":
                connection.there[str(next(names))] = LABEL
            case "nonsense":
                return Answered('{"outcomes": 7}')
            case "fail":
                return Answered(failure_answer("no space left"))
        return None

    connection.before = before
    measured = measure(pool, count)
    assert len(measured.outcomes) == count
    for outcome in measured.outcomes:
        match outcome:
            case Timed():
                pass
            case Crashed(reason):
                assert events.count("leave") + events.count("lose") >= MOST_LOSSES
                assert reason == "3 workers were lost with it"
            case NotMeasured(reason):
                assert not set(connection.there) - {line.split()[2][:-1] for line in told}
                assert reason.startswith("cluster tcp://stand-in:1: expected a worker")
            case _:
                raise AssertionError(outcome)
    assert sum(n for _, n in connection.races) >= sum(
        isinstance(outcome, Timed) for outcome in measured.outcomes
    )


def test_a_worker_that_comes_back_in_time_goes_on() -> None:
    connection = StandIn("1")
    pool = pool_of(connection)

    def leave(worker: str) -> Answer | None:
        del connection.there[worker]
        connection.before = lambda worker: None
        return None

    workers, connection.before = connection.workers, leave

    def later() -> Mapping[str, Mapping[str, float]] | None:
        if connection.now > 20.0:
            connection.there["5"] = LABEL
        return workers()

    connection.workers = later  # type: ignore[method-assign]
    assert measure(pool, 4) == Measured((Timed(10.0),) * 4, Timed(5.0))


def test_the_wait_for_workers_ends_and_is_not_repeated() -> None:
    connection = StandIn("1")
    pool = pool_of(connection)
    connection.there.clear()
    measured = measure(pool, 2)
    reason = (
        "cluster tcp://stand-in:1: expected a worker with the resource aarch64, got none; start "
        "one with `dask worker tcp://stand-in:1 --resources aarch64=1`"
    )
    assert measured == Measured((NotMeasured(reason),) * 2, NotMeasured(reason))
    assert measured.missing == NotMeasured(reason)
    assert 25.0 < connection.now < 40.0
    connection.reachable = False
    measured = measure(pool, 2)
    assert connection.now < 40.0
    assert isinstance(measured.incumbent, NotMeasured)
    assert "expected the dask scheduler there, got no answer any more" in measured.incumbent.reason


def test_other_versions_processors_and_amounts_are_passed_over() -> None:
    connection = StandIn("1", "2", "3", "4", "5", "6")
    connection.settings["1"] = Setting("aarch64", 1, "a board", "gcc 12", "0.0.9")
    connection.settings["2"] = Setting("aarch64", 1, "another board", "gcc 12", tasor_version())
    connection.there["3"] = {"aarch64": 2.0}
    connection.there["4"] = {"armv7": 1.0}
    told = list[str]()
    pool = pool_of(connection, told)
    assert (len(pool), pool.setting) == (2, SETTING)
    assert sorted(told) == [
        f"cluster worker 1: expected Tasor {tasor_version()}, as here, got 0.0.9; install the "
        "same; passed over",
        "cluster worker 2: expected a board with gcc 12, as most have, got another board with gcc "
        "12; give it a cluster of its own; passed over",
        "cluster worker 3: expected one unit of aarch64, got 2: it would measure several things at "
        "once; passed over",
    ]
    measure(pool, 4)
    assert {worker for worker, _ in connection.races} == {"5", "6"}


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        ([], "got none; start one with `dask worker tcp://stand-in:1 --resources aarch64=1`"),
        ([{"armv7": 1.0}, {}], "got 2 workers with armv7; start one with"),
        ([{}], "got 1 workers without resources; start one with"),
    ],
)
def test_without_workers_for_the_target_nothing_begins(
    labels: list[Mapping[str, float]], got: str
) -> None:
    connection = StandIn()
    connection.there = {str(n): label for n, label in enumerate(labels)}
    with pytest.raises(MeasureError) as caught:
        pool_of(connection)
    assert str(caught.value).startswith(
        f"cluster tcp://stand-in:1: expected a worker with the resource aarch64, {got}"
    )


def test_a_worker_without_tasor_is_named() -> None:
    connection = StandIn("1")
    connection._answer = lambda worker, text: Failed("no module")  # type: ignore[method-assign]
    with pytest.raises(MeasureError, match="a worker for aarch64, got 1 that cannot be used"):
        pool_of(connection)


def test_constants_that_cannot_be_measured_are_an_error() -> None:
    connection = StandIn("1", "2")
    told = list[str]()
    pool = pool_of(connection, told)
    connection.before = lambda worker: Answered(failure_answer("threads: expected 1 to 2, got 4"))
    with pytest.raises(MeasureError, match="threads: expected 1 to 2, got 4"):
        calibrated_worker(pool, WORK)
    assert len(told) == 2
