"""Compilers keep away from cores where something is timed."""

from __future__ import annotations

import os
import sys
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
def test_who_times_waits_for_compilers_and_lets_none_begin(known: bool) -> None:
    cores = CompilerCores(usable() if known else [])
    first = Holder(cores)
    assert first.has.wait(SECONDS)
    is_quiet, may_end = Event(), Event()

    def race() -> None:
        with cores.quiet(usable()):
            is_quiet.set()
            may_end.wait(SECONDS)

    racing = Thread(target=race)
    racing.start()
    assert not is_quiet.wait(0.05)
    first.end()
    assert is_quiet.wait(SECONDS)
    second = Holder(cores)
    assert not second.has.wait(0.05)
    may_end.set()
    racing.join(SECONDS)
    assert second.has.wait(SECONDS)
    second.end()


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
