"""Measuring on a real cluster: a scheduler and two workers on this machine, and one that dies."""

from __future__ import annotations

import logging
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tensorgen.machine import Machine, Rate
from tensorgen.schedule import RowStages, Schedule
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune.cluster_address import AddressError, cluster_address
from tensorgen.tune.cluster_connection import DaskConnection
from tensorgen.tune.cluster_measurer import ClusterMeasurer, batch_of, spread
from tensorgen.tune.cluster_message import Work
from tensorgen.tune.cluster_pool import WorkerPool
from tensorgen.tune.cluster_worker import KeptMeasurer, answer
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.outcome import NotBuilt, Slower, Timed
from tensorgen.tune.records import TrialRecords
from tensorgen.tune.task_scheduler import Finish, Network
from tensorgen.tune.task_search import TuneSettings
from tensorgen.tune.task_space import space_of
from tensorgen.tune.trial import setting_of
from tensorgen.tune.tuning import Tuning
from tensorgen.typical_machine import typical_machine
from tensorgen.version import tasor_version
from tests.contraction_tasks import matmul
from tests.dask_cluster import DaskCluster, dask_cluster, wait_for

HOST = host_target()
WORK = Work(HOST, 1, False)
TASK = matmul((), 24, 48, 32, constant=(False, True))
MACHINE: Machine = typical_machine(HOST, 1)
QUICKER: Machine = replace(MACHINE, flops=Rate(1e15, 1e15))
"""A machine with a bound that no kernel here comes near: tasks do not end for being fast."""


def schedules(task: Task, count: int) -> tuple[list[Schedule], Schedule]:
    """Some schedules of a task, and the one with zero trials."""
    space = space_of(task, HOST, 1, MACHINE, strict=False, winograd=True)
    rng, found = random.Random(3), list[Schedule]()
    while len(found) < count:
        schedule = space.schedule(space.random(rng))
        if schedule is not None:
            found.append(schedule)
    return found, space.zero_trial


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with dask_cluster(folder, f"{HOST.name}=1", f"{HOST.name}=1,armv7=1") as found:
        yield found


def test_workers_measure_a_batch_and_say_where(cluster: DaskCluster) -> None:
    chosen, usual = schedules(TASK, 5)
    told = list[str]()
    with DaskConnection(cluster.address) as connection:
        pool = WorkerPool(connection, WORK, tell=told.append)
        # Both workers are this machine.
        assert (len(pool), told) == (2, [])
        assert pool.setting == setting_of(HOST, 1, tasor_version())
        wrong = RowStages(0, (), 0, 0)
        measured = ClusterMeasurer(pool, WORK).measure(TASK, [*chosen, wrong], usual)
    assert isinstance(measured.incumbent, Timed)
    assert 1e-8 < measured.incumbent_seconds < 1.0
    for outcome in measured.outcomes[:-1]:
        assert isinstance(outcome, Timed | Slower), outcome
        assert 1e-8 < outcome.seconds < 1.0
    assert measured.outcomes[-1] == NotBuilt("rows: expected 1 stages, got 0")
    assert measured.missing is None


def test_no_worker_for_a_target_is_one_line(cluster: DaskCluster) -> None:
    work = Work(Target.named("riscv64"), 1, False)
    with (
        DaskConnection(cluster.address) as connection,
        pytest.raises(MeasureError) as caught,
    ):
        WorkerPool(connection, work)
    assert str(caught.value) == (
        f"cluster {cluster.address}: expected a worker with the resource riscv64, got 2 workers "
        f"with armv7, {HOST.name}; start one with `dask worker {cluster.address} --resources "
        "riscv64=1`"
    )


def test_a_target_that_a_worker_cannot_run_is_one_line(cluster: DaskCluster) -> None:
    work = Work(Target.named("armv7"), 1, False)
    told = list[str]()
    with (
        DaskConnection(cluster.address) as connection,
        pytest.raises(MeasureError, match="expected a worker for armv7, got 1 that cannot be used"),
    ):
        WorkerPool(connection, work, tell=told.append)
    (line,) = told
    assert "measuring: expected a target whose code this" in line


@pytest.mark.slow
def test_another_version_is_refused(cluster: DaskCluster, tmp_path: Path) -> None:
    about = tmp_path / "tasor-0.0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tasor\nVersion: 0.0.1\n")
    worker = cluster.worker("c99=1", {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"})
    try:
        with DaskConnection(cluster.address) as connection:
            wait_for(connection, 3)
            told = list[str]()
            with pytest.raises(MeasureError):
                WorkerPool(connection, Work(Target.named("c99"), 1, False), tell=told.append)
    finally:
        worker.kill()
        worker.wait()
    (line,) = told
    assert line.endswith(
        f": expected Tasor {tasor_version()}, as here, got 0.0.1; install the same; passed over"
    )


def test_dead_workers_lose_no_trial_and_records_stay(tmp_path: Path, cluster: DaskCluster) -> None:
    first, second = cluster.workers
    task = matmul((), 64, 96, 80, constant=(False, True))
    chosen, usual = schedules(task, 12)
    records = TrialRecords(tmp_path / "trials.sqlite")
    with DaskConnection(cluster.address) as connection:
        wait_for(connection, 2)
        pool = WorkerPool(connection, WORK, patience=1.0)
        killing = threading.Thread(target=kill_while_busy, args=(first, connection))
        killing.start()
        measured = ClusterMeasurer(pool, WORK).measure(task, chosen, usual)
        killing.join()
        assert first.poll() is not None
        assert len(pool) == 1
        # The other one has measured what this one had begun with.
        assert measured.missing is None
        assert all(isinstance(outcome, Timed | Slower) for outcome in measured.outcomes)

        # Tuning goes on with one worker, and stops when that is lost, too.
        work = Tuning(
            {"task": (TASK, MACHINE)}, [Network("n", {"task": 1})],
            TuneSettings(HOST, 1, QUICKER, 24, batch=8), records, pool.setting,
        )  # fmt: skip
        steps = work.run(ClusterMeasurer(pool, WORK))
        assert next(steps).trials == 8
        second.kill()
        assert next(steps).trials == 8
        assert list(steps) == []
        assert work.missing is not None
        assert "expected a worker with the resource" in work.missing.reason
        assert work.reasons() == {"task": Finish.NOBODY}
        # The final race cannot be held: the schedule is what it was, and no trial is on file that
        # was not made.
        choice = work.choices(ClusterMeasurer(pool, WORK, drafts=False))["task"]
        assert not choice.is_tuned
    assert records.count() == 8
    assert {trial.setting for trial in records.all()} == {setting_of(HOST, 1, tasor_version())}


def kill_while_busy(worker: subprocess.Popen[bytes], connection: DaskConnection) -> None:
    """Ends a worker while each of two has something to do."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if sum(map(bool, connection._client.processing().values())) == 2:
            break
        time.sleep(0.01)
    worker.kill()
    worker.wait()


def test_a_connection_leaves_logging_and_threads_as_they_were(tmp_path: Path) -> None:
    with DaskCluster(tmp_path) as cluster:
        with DaskConnection(cluster.address):
            pass
        before = {name: logging.getLogger(name).level for name in ("distributed", "tornado")}
        with DaskConnection(cluster.address) as connection:
            assert connection.workers() == {}
            cluster.scheduler.kill()
            deadline = time.monotonic() + 30.0
            while connection.workers() is not None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert connection.workers() is None
        assert before == {name: logging.getLogger(name).level for name in before}


# Without a cluster


def test_who_says_nothing_is_no_scheduler() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(MeasureError) as caught:
            DaskConnection(address, seconds=0.3)
    assert str(caught.value) == (
        f"cluster {address}: expected a dask scheduler, got no answer within 0.3 s; start one with "
        "`dask scheduler`"
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://10.0.0.7:8786", "tcp://10.0.0.7:8786"),
        ("boards.example:8786", "tcp://boards.example:8786"),
        ("tls://[::1]:1", "tls://[::1]:1"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert cluster_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", "host:0", "host:65536", "host:99999999", "inproc://1:2", "tcp://a b:1",
     "tcp://host:8786/x", "tcp://host:8786\n", "tcp://user@host:1", "host:\u0661"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match=r"^cluster: expected the address of a dask scheduler"):
        cluster_address(text)


def test_shares_are_even_and_batches_grow_with_workers() -> None:
    assert [list(share) for share in spread(5, 2)] == [[0, 2, 4], [1, 3]]
    assert [list(share) for share in spread(2, 4)] == [[0], [1]]
    assert [list(share) for share in spread(0, 4)] == [[]]
    assert [batch_of(16, n, 256) for n in (1, 2, 4, 8)] == [16, 32, 64, 64]
    assert [batch_of(16, n, 20) for n in (0, 1, 8)] == [16, 16, 16]


def test_a_kept_measurer_serves_the_next_race_and_closes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path))
    _, usual = schedules(TASK, 0)
    kept = KeptMeasurer(seconds=0.1)
    with kept.measuring(WORK, drafts=True) as first:
        pass
    with kept.measuring(WORK, drafts=True) as second:
        assert second is first
        assert isinstance(second.measure(TASK, [], usual).incumbent, Timed)
    with kept.measuring(WORK, drafts=False) as third:
        assert third is not first
    deadline = time.monotonic() + 30.0
    while list((tmp_path / "building").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list((tmp_path / "building").iterdir()) == []
    kept.close()


def test_a_worker_answers_what_it_cannot_read() -> None:
    assert answer("nonsense").startswith('{"failed":"expected a JSON object, got ')
