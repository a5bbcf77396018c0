"""A process that prints says what a thread that prints does, and costs no more than a kernel."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from tensorgen.expr import Tensor, compute
from tensorgen.schedule import RowStages, Schedule
from tensorgen.target import host_target
from tensorgen.task import Task
from tensorgen.tune.candidate_source import PrintedKernel
from tensorgen.tune.frame_assembly import FrameTarget
from tensorgen.tune.kernel_printer import PrintingHere, PrintSettings
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.outcome import NotBuilt, Refused, Slower, Timed
from tensorgen.tune.printing_worker import PrintingWorker
from tensorgen.types import TensorType, float32
from tests.contraction_tasks import convolution, matmul
from tests.contraction_tiles import candidates

HOST = host_target()
TASK = matmul((), 24, 48, 32, constant=(False, True))
OTHER = convolution((9, 9), (3, 3), channels=(4, 16))
WINDOWS = convolution((19, 19), (7, 7), channels=(4, 64))
PAGE_BYTES = 4096
FRAMES = FrameTarget(HOST.isa, False, False, frozenset())
SETTINGS = PrintSettings(HOST, 1, False, FRAMES)


def schedules(task: Task) -> Sequence[Schedule]:
    return list(candidates(task, HOST.isa))[:3]


@pytest.fixture
def worker() -> Iterator[PrintingWorker]:
    found = PrintingWorker(SETTINGS)
    yield found
    found.close()


def printed(worker: PrintingWorker, task: Task, schedule: Schedule) -> object:
    return worker.printed(task, schedule, apart=True, around=lambda group: nullcontext())


def test_it_prints_what_a_thread_prints(worker: PrintingWorker) -> None:
    """But for the loops, which nobody needs who compiles."""
    here = PrintingHere(SETTINGS)
    for task in (TASK, OTHER, TASK):
        for schedule in schedules(task):
            expected = here.printed(task, schedule, apart=True)
            found = printed(worker, task, schedule)
            assert isinstance(expected, PrintedKernel)
            assert isinstance(found, PrintedKernel)
            assert found.kernel == expected.kernel
            assert (found.frame, found.assembly) == (expected.frame, expected.assembly)
            assert found.lowered.packing == expected.lowered.packing
            assert found.lowered.kernel == replace(expected.lowered.kernel, body=())


def test_it_says_why_there_is_no_kernel(worker: PrintingWorker) -> None:
    rows = RowStages(0, (), 0, 0)
    assert printed(worker, TASK, rows) == NotBuilt("rows: expected 1 stages, got 0")
    x = Tensor(0, TensorType(float32, (4,)))
    broken = Task((x.type,), (compute((5,), lambda i: x[i]),), (0,), (False,))
    found = printed(worker, broken, schedules(TASK)[0])
    assert isinstance(found, NotBuilt | Refused)
    assert isinstance(printed(worker, TASK, schedules(TASK)[0]), PrintedKernel)


def test_one_that_is_gone_costs_a_kernel(worker: PrintingWorker) -> None:
    first, second, third = schedules(TASK)
    assert isinstance(printed(worker, TASK, first), PrintedKernel)
    process = worker._process
    assert process is not None

    @contextmanager
    def killed(group: int) -> Iterator[None]:
        assert group == process.pid
        os.killpg(group, signal.SIGKILL)
        process.wait()
        yield

    found = worker.printed(TASK, second, apart=True, around=killed)
    assert found == Refused("lowering: the process that prints ended with -9")
    assert isinstance(printed(worker, TASK, third), PrintedKernel)
    assert worker._process is not process


def test_one_that_is_interrupted_is_replaced(worker: PrintingWorker) -> None:
    """Its answer is not taken for that to the next question."""
    first, second, _ = schedules(TASK)

    @contextmanager
    def interrupted(group: int) -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.printed(TASK, first, apart=True, around=interrupted)
    found = printed(worker, TASK, second)
    expected = PrintingHere(SETTINGS).printed(TASK, second, apart=True)
    assert isinstance(found, PrintedKernel)
    assert isinstance(expected, PrintedKernel)
    assert found.text == expected.text


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes have a size of their own")
def test_no_part_of_an_answer_is_lost_when_it_stands_still(
    worker: PrintingWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python buffers nothing, what it writes to a pipe that is full is cut short by that."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    schedule = schedules(OTHER)[0]
    assert isinstance(printed(worker, OTHER, schedule), PrintedKernel)
    process = worker._process
    assert process is not None
    assert process.stdout is not None
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PAGE_BYTES)
    for _ in range(100):
        found = worker.printed(OTHER, schedule, apart=True, around=storm)
        assert isinstance(found, PrintedKernel), found
        assert len(pickle.dumps(found)) > PAGE_BYTES, "a pipe has no room for it"


@contextmanager
def storm(group: int) -> Iterator[None]:
    """Stands still and goes on, again and again; ends a process from which nothing comes."""
    is_over = Event()

    def stops() -> None:
        patience = time.monotonic() + 20
        while not is_over.wait(1e-4):
            os.killpg(group, signal.SIGSTOP)
            os.killpg(group, signal.SIGCONT)
            if time.monotonic() > patience:
                os.killpg(group, signal.SIGKILL)
                return

    thread = Thread(target=stops)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_kernel_without_an_end_costs_itself() -> None:
    worker = PrintingWorker(SETTINGS, limit_seconds=1e-4)
    *_, longest = candidates(WINDOWS, HOST.isa)
    found = printed(worker, WINDOWS, longest)
    assert found == Refused("lowering: expected an end within 0.0001 s of processor time, got none")
    worker.close()


def test_a_python_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    worker = PrintingWorker(SETTINGS)
    with pytest.raises(MeasureError, match="expected /bin/false to start, got its end"):
        printed(worker, TASK, schedules(TASK)[0])
    worker.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(MeasureError, match="expected to start /nowhere/python, got"):
        printed(worker, TASK, schedules(TASK)[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_what_it_prints_is_measured(threads: int, tmp_path: Path) -> None:
    with LocalMeasurer(HOST, threads, prints_apart=True, cache=tmp_path) as measurer:
        first, *others = schedules(OTHER)
        measured = measurer.measure(OTHER, others, first)
        worker = measurer._builder._kernels
        assert isinstance(worker, PrintingWorker)
        process = worker._process
        assert process is not None
    for outcome in (measured.incumbent, *measured.outcomes):
        assert isinstance(outcome, Timed | Slower), outcome
    assert process.returncode == 0
