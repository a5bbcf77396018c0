"""Which cores compilers, and who prints for them, may use: all, but none where something is timed.

What it does: gives each a core of its own, keeps the thread that asks to that core and so the
compiler that it starts, too; and, for who is to time something, has processes on the cores for that
stand still, waits until nobody else is there and lets none go there. What it does not: start
compilers, or time anything.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition

from tensorgen.build import Around


class CompilerCores:
    """The cores for the compilers of one process; without any, the system knows none by number:
    there are as many as it counts, and nothing is timed while a compiler runs."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._are_known = bool(cores)
        self._free = set(cores) if cores else set(range(os.cpu_count() or 1))
        self._all = frozenset(self._free)
        self._quiet: frozenset[int] = frozenset()
        self._still: frozenset[int] = frozenset()
        self._groups: dict[int, int] = {}
        self._changed = Condition()

    @property
    def count(self) -> int:
        """How many compilers may run at once."""
        return len(self._all)

    @contextmanager
    def taken(self) -> Iterator[Around]:
        """In the block, this thread and the compiler that it starts have a core, on which nobody
        times anything. Waits for one. What is given is for the compiler's process group."""
        with self._changed:
            self._changed.wait_for(lambda: self._free - self._quiet)
            mine = min(self._free - self._quiet)
            self._free.remove(mine)
        try:
            if self._are_known:
                _keep_to(mine)
            yield partial(self._running, mine)
        finally:
            with self._changed:
                self._free.add(mine)
                self._changed.notify_all()

    @contextmanager
    def _running(self, core: int, group: int) -> Iterator[None]:
        """In the block, a process group is on a core that was taken. It stands still meanwhile when
        something is to be timed there."""
        with self._changed:
            self._groups[group] = core
            if core in self._still:
                _send(group, signal.SIGSTOP)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._groups[group]
                if core in self._still:
                    # Whoever was done when it was stopped may be asked for more later.
                    _send(group, signal.SIGCONT)

    @contextmanager
    def quiet(self, cores: Sequence[int]) -> Iterator[None]:
        """In the block, nobody is at work on these cores. Waits for those who are, but for
        compilers. One thread at a time may ask for it.

        A compiler may take as long as a race. Should this process be killed meanwhile, none stands
        still for ever: the system hangs up on groups that stand still and have nobody left.
        """
        try:
            with self._changed:
                self._quiet = frozenset(cores) if self._are_known else self._all
                # Compilers go on until the others are gone.
                self._changed.wait_for(
                    lambda: self._quiet <= self._free.union(self._groups.values())
                )
                self._still = self._quiet
                self._send_all(signal.SIGSTOP)
            yield
        finally:
            with self._changed:
                self._send_all(signal.SIGCONT)
                self._quiet = self._still = frozenset()
                self._changed.notify_all()

    def _send_all(self, number: signal.Signals) -> None:
        for group, core in self._groups.items():
            if core in self._still:
                _send(group, number)


def _send(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        # One that has ended needs no signal.
        os.killpg(group, number)


def _keep_to(core: int) -> None:
    """Keeps this thread, and what it starts, to a core; where the system lets a thread choose."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [core])
