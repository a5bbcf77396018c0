"""Measuring on this machine: figures, and candidates that fail without harm to others."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tensorgen.build import BuildError, build_library, find_compiler, supports_openmp
from tensorgen.expr import cast, compute
from tensorgen.module_spec import Kernel
from tensorgen.schedule import Lanes, Loops, RowStages, Schedule
from tensorgen.sketch import default_schedule
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune import candidate_build, kernel_printer, local_measurer
from tensorgen.tune.candidate_source import PrintedKernel, printed_kernel
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.measurer import MeasureError, NotMeasured
from tensorgen.tune.outcome import (
    Crashed,
    NotBuilt,
    Outcome,
    Refused,
    Slower,
    Timed,
    TookTooLong,
    Wrong,
    seconds_of,
)
from tensorgen.tune.race import RaceRules
from tensorgen.tune.task_operands import TaskOperands
from tensorgen.types import float32
from tests.contraction_tasks import convolution, matmul, padded, with_epilogue
from tests.contraction_tiles import candidates

HOST = host_target()
TASK = matmul((), 24, 48, 32, constant=(False, True))
CONVOLUTION = padded(
    with_epilogue(convolution((6, 9), (3, 3), channels=(4, 20)), "bias"), (1, 1), (1, 1)
)


@pytest.fixture(scope="module")
def measurer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMeasurer]:
    with LocalMeasurer(HOST, 1, cache=tmp_path_factory.mktemp("cache")) as found:
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LocalMeasurer]:
    """One that has built nothing yet, for kernels that are not what their schedules say."""
    with LocalMeasurer(HOST, 1, cache=tmp_path) as found:
        yield found


def tiles(task: Task, count: int) -> list[Schedule]:
    """Register tiles for the host, spread over all of them."""
    found = candidates(task, HOST.isa)
    return list(found[:: max(1, len(found) // count)][:count])


def figure(outcome: Outcome | NotMeasured) -> float:
    assert isinstance(outcome, Timed | Slower), outcome
    return seconds_of(outcome)


@pytest.mark.parametrize("task", [TASK, CONVOLUTION], ids=["product", "convolution"])
def test_right_schedules_have_figures(measurer: LocalMeasurer, task: Task) -> None:
    schedules = tiles(task, 5)
    measured = measurer.measure(task, schedules, default_schedule(task, HOST, 1))
    assert len(measured.outcomes) == len(schedules)
    for outcome in measured.outcomes:
        assert 1e-8 < figure(outcome) < 1.0
    assert isinstance(measured.incumbent, Timed)
    assert measured.incumbent_seconds == measured.incumbent.seconds


def test_equal_kernels_are_measured_once(measurer: LocalMeasurer) -> None:
    first, second = tiles(TASK, 2)
    measured = measurer.measure(TASK, [second, first, second, first], first)
    assert measured.outcomes[0] == measured.outcomes[2]
    assert measured.outcomes[1] == measured.outcomes[3] == measured.incumbent


def test_what_does_not_fit_is_not_built(measurer: LocalMeasurer) -> None:
    rows = RowStages(0, (), 0, 0)
    (tile,) = tiles(TASK, 1)
    measured = measurer.measure(TASK, [rows, tile], tile)
    assert measured.outcomes[0] == NotBuilt("rows: expected 1 stages, got 0")
    figure(measured.outcomes[1])


# Candidates that do harm. Which one does is told by its schedule.

Change = Callable[[Kernel], str]


def changed(monkeypatch: pytest.MonkeyPatch, changes: dict[Schedule, tuple[str, str]]) -> None:
    """Kernels of some schedules with one text in place of another, once; all in one piece."""

    def print_changed(
        task: Task, schedule: Schedule, target: Target, *, strict: bool, **parts: Any
    ) -> PrintedKernel:
        printed = printed_kernel(task, schedule, target, strict=strict)
        if schedule not in changes:
            return printed
        old, new = changes[schedule]
        assert old in printed.text
        kernel = replace(printed.kernel, text=printed.text.replace(old, new, 1))
        return replace(printed, kernel=kernel)

    monkeypatch.setattr(kernel_printer, "printed_kernel", print_changed)


BEGIN = "\n{\n"
CRASH = "\n{\n    *(volatile int *)16 = 1;\n"
HANG = "\n{\n    for (volatile int on = 1; on;) {\n    }\n"
STRAY = "\n{\n    out[1152] = 1.0f;\n"
SYNTAX = "\n{\n    this is no C;\n"
STOP = "\n{\n    __builtin_trap();\n"
UNKNOWN = "\n{\n    extern void nobody_has_this(void);\n    nobody_has_this();\n"
LEAVE = "\n{\n    extern void _exit(int);\n    _exit(3);\n"
WRITTEN = "\n{\n    ((float *)x)[0] = 7.0f;\n"
ROAM = """
{
    extern int sched_getaffinity(int, size_t, void *);
    unsigned long may[16] = {0};
    int processors = 0;
    if (sched_getaffinity(0, sizeof may, may) != 0) {
        __builtin_trap();
    }
    for (int n = 0; n < 16; n++) {
        processors += __builtin_popcountl(may[n]);
    }
    if (processors != 1) {
        __builtin_trap();
    }
"""


def test_harm_costs_only_who_does_it(
    measurer: LocalMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, *bad, last = tiles(TASK, 9)
    changed(
        monkeypatch,
        {
            bad[0]: (BEGIN, CRASH),
            bad[1]: (BEGIN, SYNTAX),
            bad[2]: ("_mm512_fmadd_ps" if HOST.isa == "avx512" else "+", "_mm512_fmsub_ps"),
            bad[3]: (BEGIN, STRAY),
            bad[4]: (BEGIN, STOP),
            bad[5]: (BEGIN, LEAVE),
        },
    )
    measured = measurer.measure(TASK, [*bad[:6], last], good)
    assert measured.outcomes[0] == Crashed("signal 11 (SIGSEGV)")
    refused = measured.outcomes[1]
    assert isinstance(refused, Refused)
    assert "expected cc to accept" in refused.reason or "error" in refused.reason
    if HOST.isa == "avx512":
        wrong = measured.outcomes[2]
        assert isinstance(wrong, Wrong)
        assert "elements, first element" in wrong.difference
    assert measured.outcomes[3] == Wrong("a store next to one of its buffers")
    assert isinstance(measured.outcomes[4], Crashed)
    assert measured.outcomes[5] == Crashed("its process ended with status 3")
    figure(measured.outcomes[6])
    figure(measured.incumbent)


def test_a_hang_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad, last = tiles(TASK, 3)
    changed(monkeypatch, {bad: (BEGIN, HANG)})
    rules = replace(RaceRules(), given_up=inf)
    with LocalMeasurer(HOST, 1, cache=tmp_path, rules=rules, limit_seconds=0.3) as measurer:
        measured = measurer.measure(TASK, [bad, last], good)
    assert measured.outcomes[0] == TookTooLong(0.3)
    figure(measured.outcomes[1])


def test_a_race_does_not_wait_for_who_is_much_slower(
    fresh: LocalMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix product as rows of sums took a thousand times as long as tiles, and both its calls
    as long as a hundred trials."""
    good, bad, last = tiles(TASK, 3)
    changed(monkeypatch, {bad: (BEGIN, HANG)})
    measured = fresh.measure(TASK, [bad, last], good)
    slow = measured.outcomes[0]
    assert isinstance(slow, Slower)
    assert slow.seconds > 2 * figure(measured.incumbent)
    figure(measured.outcomes[1])


def test_an_incumbent_that_fails_is_no_reason_to_stop(
    fresh: LocalMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = tiles(TASK, 2)
    changed(monkeypatch, {bad: (BEGIN, CRASH)})
    measured = fresh.measure(TASK, [good], bad)
    assert isinstance(measured.incumbent, Crashed)
    figure(measured.outcomes[0])


def test_an_incumbent_that_is_refused_is_no_reason_to_stop(
    fresh: LocalMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = tiles(TASK, 2)
    changed(monkeypatch, {bad: (BEGIN, SYNTAX)})
    measured = fresh.measure(TASK, [good], bad)
    assert isinstance(measured.incumbent, Refused)
    figure(measured.outcomes[0])
    assert isinstance(fresh.measure(TASK, [bad], bad).incumbent, Refused)


def test_what_cannot_be_loaded_is_refused(
    fresh: LocalMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = tiles(TASK, 2)
    changed(monkeypatch, {bad: (BEGIN, UNKNOWN)})
    measured = fresh.measure(TASK, [bad], good)
    refused = measured.outcomes[0]
    assert isinstance(refused, Refused)
    assert "nobody_has_this" in refused.reason


def test_too_much_memory_is_not_built(
    fresh: LocalMeasurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_printer, "MOST_BYTES", 1000)
    (tile,) = tiles(TASK, 1)
    outcome = fresh.measure(TASK, [], tile).incumbent
    assert isinstance(outcome, NotBuilt)
    assert outcome.reason.startswith("memory: expected at most 1000 bytes to write, got ")


def test_a_full_disk_is_no_fault_of_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: object, **more: object) -> Path:
        raise BuildError("build: got No space left on device") from OSError(28, "No space")

    (tile,) = tiles(TASK, 1)
    with LocalMeasurer(HOST, 1, cache=tmp_path) as measurer:
        monkeypatch.setattr(candidate_build, "build_library", no_room)
        with pytest.raises(MeasureError, match="No space left on device"):
            measurer.measure(TASK, [tile], tile)


def test_no_room_for_operands_is_no_fault_of_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*given: object) -> Path:
        raise OSError(28, "No space left on device")

    (tile,) = tiles(TASK, 1)
    with LocalMeasurer(HOST, 1, cache=tmp_path) as measurer:
        monkeypatch.setattr(TaskOperands, "_written", no_room)
        with pytest.raises(MeasureError, match=r"expected room for operands in .* No space left"):
            measurer.measure(TASK, [tile], tile)


def test_inputs_stay_while_somebody_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of batches that are begun, and of as many others as there is room for."""
    monkeypatch.setattr(local_measurer, "_KEPT_BYTES", 0)
    task = matmul((), 8, 16, 24)
    (tile,), (other,) = tiles(TASK, 1), tiles(task, 1)
    with LocalMeasurer(HOST, 1, cache=tmp_path) as measurer:

        def kept() -> list[bool]:
            return [operands.input_bytes > 0 for operands in measurer._operands.values()]

        first = measurer.begin(TASK, [], tile)
        second = measurer.begin(task, [], other)
        figure(first().incumbent)
        assert kept() == [True, True]
        figure(second().incumbent)
        assert kept() == [False, True]
        figure(measurer.measure(TASK, [], tile).incumbent)


def test_a_kernel_without_operands_is_measured(fresh: LocalMeasurer) -> None:
    """Also as the first one of all, when no operand has been anywhere."""
    numbers = compute((40,), lambda i: cast(i, float32))
    task = Task((), (numbers,), (0,), ())
    schedule = default_schedule(task, HOST, 1)
    figure(fresh.measure(task, [], schedule).incumbent)


def test_a_part_of_the_header_that_lacks_something_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        def part_for(self, text: str) -> str:
            return "#error nothing here\n"

    monkeypatch.setattr(candidate_build, "intrinsics_of", lambda *given: Nothing())
    (tile,) = tiles(TASK, 1)
    with LocalMeasurer(HOST, 1, cache=tmp_path) as measurer:
        figure(measurer.measure(TASK, [], tile).incumbent)


def test_weights_come_from_the_cache_that_holds_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tile,) = tiles(TASK, 1)
    found: list[tuple[int, bool]] = []
    target = replace(HOST, l3_bytes=8 * HOST.l2_bytes)
    with LocalMeasurer(target, 1, cache=tmp_path) as measurer:
        ask = measurer._worker.ask

        def watched(request: dict[str, Any], timed: Any) -> list[dict[str, Any]]:
            found.extend((entry["sets"], entry["fetch"]) for entry in request["candidates"])
            return ask(request, timed)

        monkeypatch.setattr(measurer._worker, "ask", watched)
        runs = (inf, 4.0 * HOST.l2_bytes, float(HOST.l2_bytes), 0.0)
        for traffic in runs:
            figure(measurer.measure(TASK, [], tile, traffic=traffic).incumbent)
        once, found = found, []
        for traffic in runs:
            assert measurer.seconds([(TASK, tile)], traffic=traffic)
    assert found == once
    (far, from_memory), (sets, from_cache), *near = found
    assert far == sets > 1
    assert (from_memory, from_cache) == (False, True)
    assert near == [(1, True), (1, True)]


def test_other_machines_are_refused(tmp_path: Path) -> None:
    for name in ("cortex-m4", "aarch64" if HOST.architecture == "x86_64" else "x86-64-v2"):
        with pytest.raises(MeasureError, match="expected a target whose code this"):
            LocalMeasurer(Target.named(name), 1, cache=tmp_path)


def test_seconds_of_kernels_that_are_no_rivals(measurer: LocalMeasurer) -> None:
    tasks = (TASK, CONVOLUTION, *(matmul((2,), rows, 4, 5) for rows in range(1, 7)))
    chosen = [(task, default_schedule(task, HOST, 1)) for task in tasks]
    for seconds in measurer.seconds(chosen):
        assert 1e-9 < seconds < 1.0
    with pytest.raises(BuildError, match="rows: expected 1 stages, got 0"):
        measurer.seconds([(TASK, RowStages(0, (), 0, 0))])


def state() -> dict[str, Any]:
    """What a process has besides its memory."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {
        "affinity": os.sched_getaffinity(0),
        "threads": {thread.name for thread in threading.enumerate()},
        "tasks": len(os.listdir("/proc/self/task")),
        "environment": dict(os.environ),
        "files": sorted(os.listdir("/proc/self/fd"), key=int),
        "handlers": handlers,
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "folder": os.getcwd(),
        "timer": signal.getitimer(signal.ITIMER_PROF),
    }


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


TEAM = """
#include <omp.h>
int team(void) {
    int total = 0;
    #pragma omp parallel num_threads(2) reduction(+ : total)
    total += 1;
    return total;
}
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks Linux")
@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_is_left_behind(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a measurement nor a crash in one changes the process, whose OpenMP runtime works
    before, meanwhile and after."""
    if not supports_openmp(find_compiler(HOST), tmp_path):
        pytest.skip("needs OpenMP")
    library = ctypes.CDLL(
        str(build_library({"team.c": TEAM}, target=HOST, threads=2, cache=tmp_path))
    )
    good, bad, other = tiles(TASK, 3)
    with LocalMeasurer(HOST, threads, cache=tmp_path) as measurer:
        measurer.measure(TASK, [other], good)
    assert library.team() == 2
    gc.collect()
    before, others = state(), children()
    changed(monkeypatch, {bad: (BEGIN, CRASH)})
    with LocalMeasurer(HOST, threads, cache=tmp_path) as measurer:
        measured = measurer.measure(TASK, [bad, other], good)
        assert library.team() == 2
    assert isinstance(measured.outcomes[0], Crashed)
    figure(measured.outcomes[1])
    assert library.team() == 2
    assert state() == before
    assert children() == others
    assert list((tmp_path / "building").iterdir()) == []


def test_who_is_interrupted_measures_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer to a question that nobody waits for any more is not taken for the next one's."""
    good, other = tiles(TASK, 2)
    with LocalMeasurer(HOST, 1, cache=tmp_path) as measurer:
        figure(measurer.measure(TASK, [other], good).incumbent)
        process = measurer._worker._process
        assert process is not None
        assert process.stdout is not None

        def interrupted() -> str:
            raise KeyboardInterrupt

        monkeypatch.setattr(process.stdout, "readline", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measurer.measure(TASK, [other], good)
        figure(measurer.measure(TASK, [other], good).incumbent)
        # And one that was killed is replaced.
        process = measurer._worker._process
        assert process is not None
        process.kill()
        figure(measurer.measure(TASK, [other], good).incumbent)


def test_two_threads_have_figures(tmp_path: Path) -> None:
    task = matmul((), 64, 96, 64, constant=(False, True))
    schedule = default_schedule(task, HOST, 2)
    assert "parallel" in str(schedule)
    with LocalMeasurer(HOST, 2, cache=tmp_path) as measurer:
        figure(measurer.measure(task, [], schedule).incumbent)


def test_each_thread_has_a_core_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both on one core for as long as a race, calls of 20 microseconds took 260 more."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two threads with a core each need two cores")
    task = matmul((), 64, 96, 64, constant=(False, True))
    schedule = default_schedule(task, HOST, 2)
    changed(monkeypatch, {schedule: (BEGIN, ROAM)})
    with LocalMeasurer(HOST, 2, cache=tmp_path) as measurer:
        figure(measurer.measure(task, [], schedule).incumbent)


@pytest.mark.parametrize("lanes", list(Lanes))
def test_loops_have_figures(measurer: LocalMeasurer, lanes: Lanes) -> None:
    schedule = Loops(lanes, 4, 0, 0)
    measured = measurer.measure(TASK, [schedule], default_schedule(TASK, HOST, 1))
    figure(measured.outcomes[0])
