"""Compilers keep away from cores where something is timed, and stand still on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from tensorgen.tune.compiler_cores import CompilerCores

SECONDS = 30.0


class Holder:
    """A thread that takes a core, and gives it back when it is told to."""

    def __init__(self, cores: CompilerCores) -> None:
        self.has, self.may_end = Event(), Event()
        self.affinity: set[int] = set()
        self._thread = Thread(target=self._hold, args=(cores,))
        self._thread.start()

    def _hold(self, cores: CompilerCores) -> None:
        with cores.taken():
            if sys.platform == "linux":
                self.affinity = os.sched_getaffinity(0)
            self.has.set()
            self.may_end.wait(SECONDS)

    def end(self) -> None:
        self.may_end.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


class Timer:
    """A thread that times something on some cores, until it is told to end."""

    def __init__(self, cores: CompilerCores, where: list[int]) -> None:
        self.is_quiet, self.may_end = Event(), Event()
        self._thread = Thread(target=self._time, args=(cores, where))
        self._thread.start()

    def _time(self, cores: CompilerCores, where: list[int]) -> None:
        with cores.quiet(where):
            self.is_quiet.set()
            self.may_end.wait(SECONDS)

    def end(self) -> None:
        self.may_end.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def usable() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread choose its core")
def test_each_compiler_has_a_core_and_nobody_else_is_moved() -> None:
    before = os.sched_getaffinity(0)
    cores = CompilerCores(usable())
    assert cores.count == len(before)
    holders = [Holder(cores) for _ in range(cores.count)]
    for holder in holders:
        assert holder.has.wait(SECONDS)
    late = Holder(cores)
    assert not late.has.wait(0.05)
    taken = [min(holder.affinity) for holder in holders]
    assert sorted(taken) == sorted(before)
    for holder in (*holders, late):
        holder.end()
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("known", [True, False])
def test_who_times_waits_for_others_and_lets_none_begin(known: bool) -> None:
    cores = CompilerCores(usable() if known else [])
    first = Holder(cores)
    assert first.has.wait(SECONDS)
    timer = Timer(cores, usable())
    assert not timer.is_quiet.wait(0.05)
    first.end()
    assert timer.is_quiet.wait(SECONDS)
    second = Holder(cores)
    assert not second.has.wait(0.05)
    timer.end()
    assert second.has.wait(SECONDS)
    second.end()


def process_state(process: int) -> str:
    """Its state: T if it stands still; nothing if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stands_still(process: subprocess.Popen[bytes], still: bool) -> bool:
    """Whether it does, or does not, before long."""
    deadline = time.monotonic() + SECONDS
    while (process_state(process.pid) == "T") != still and time.monotonic() < deadline:
        time.sleep(0.001)
    return (process_state(process.pid) == "T") == still


@pytest.fixture
def free_to_move() -> Iterator[None]:
    """Who takes a core keeps to it: the thread of these tests only while they last."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def compiler() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs for as long as it may."""
    with subprocess.Popen(["sleep", "60"], process_group=0) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a process stands still")
@pytest.mark.usefixtures("free_to_move")
@pytest.mark.parametrize("known", [True, False])
def test_compilers_stand_still_while_something_is_timed(
    known: bool, compiler: subprocess.Popen[bytes]
) -> None:
    """Nobody waits for them; nor for one that begins meanwhile, between two steps of a build."""
    cores = CompilerCores(usable()[:1] if known else [])
    with cores.taken() as around:
        with around(compiler.pid):
            with cores.quiet(usable()[:1]):
                assert stands_still(compiler, True)
            assert stands_still(compiler, False)
        timer = Timer(cores, usable()[:1])
        assert not timer.is_quiet.wait(0.05)
        with around(compiler.pid):
            assert timer.is_quiet.wait(SECONDS)
            assert stands_still(compiler, True)
            timer.end()
            assert stands_still(compiler, False)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a process stands still")
def test_a_process_that_lives_on_stands_still_no_longer(
    compiler: subprocess.Popen[bytes],
) -> None:
    """It was done with what it was asked for when it was stopped, and may be asked again."""
    cores = CompilerCores([])
    with cores.taken() as around:
        with ExitStack() as block:
            block.enter_context(around(compiler.pid))
            timer = Timer(cores, [])
            assert timer.is_quiet.wait(SECONDS)
            assert stands_still(compiler, True)
        assert stands_still(compiler, False)
        timer.end()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a process stands still")
@pytest.mark.usefixtures("free_to_move")
def test_compilers_go_on_until_the_others_are_gone(compiler: subprocess.Popen[bytes]) -> None:
    both = usable()[:2]
    if len(both) < 2:
        pytest.skip("needs two cores")
    cores = CompilerCores(both)
    printer = Holder(cores)
    assert printer.has.wait(SECONDS)
    with cores.taken() as around, around(compiler.pid):
        timer = Timer(cores, both)
        assert not timer.is_quiet.wait(0.05)
        assert process_state(compiler.pid) != "T"
        printer.end()
        assert timer.is_quiet.wait(SECONDS)
        assert stands_still(compiler, True)
        timer.end()
        assert stands_still(compiler, False)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a process stands still")
def test_a_compiler_that_has_ended_disturbs_nobody(compiler: subprocess.Popen[bytes]) -> None:
    cores = CompilerCores([])
    with cores.taken() as around, around(compiler.pid):
        compiler.kill()
        compiler.wait()
        with cores.quiet([]):
            pass


ENDS_WHILE_ANOTHER_STANDS_STILL = """
import os, subprocess, sys
from tensorgen.tune.compiler_cores import CompilerCores

cores = CompilerCores([])
process = subprocess.Popen(["sleep", "60"], process_group=0, stdout=subprocess.DEVNULL)
with cores.taken() as around, around(process.pid), cores.quiet([]):
    while ") T " not in open(f"/proc/{process.pid}/stat").read():
        pass
    print(process.pid, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a process is there")
def test_none_stands_still_for_ever() -> None:
    """Whoever is killed while another one stands still: that one is hung up, or goes on where
    nobody hangs up."""
    command = [sys.executable, "-c", ENDS_WHILE_ANOTHER_STANDS_STILL]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=50)
    assert found.returncode == -signal.SIGKILL
    left = int(found.stdout)
    deadline = time.monotonic() + SECONDS
    while process_state(left) in ("T", "t") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process_state(left) not in ("T", "t")
    with suppress(ProcessLookupError):
        os.kill(left, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread choose its core")
def test_cores_that_are_not_timed_go_on() -> None:
    first, *others = usable()
    if not others:
        pytest.skip("needs two cores")
    cores = CompilerCores([first, others[0]])
    with cores.quiet([others[0]]):
        one = Holder(cores)
        assert one.has.wait(SECONDS)
        assert one.affinity == {first}
        other = Holder(cores)
        assert not other.has.wait(0.05)
    assert other.has.wait(SECONDS)
    assert other.affinity == {others[0]}
    one.end()
    other.end()
