"""Which cores compilers, and who prints for them, may use: all, but none where something is timed.

What it does: gives each a core of its own, keeps the thread that asks to that core and so the
compiler that it starts, too; and, for who is to time something, waits until nobody is on the cores
for that and lets none go there. What it does not: start compilers, or time anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition


class CompilerCores:
    """The cores for the compilers of one process; without any, the system knows none by number:
    there are as many as it counts, and nothing is timed while a compiler runs."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._are_known = bool(cores)
        self._free = set(cores) if cores else set(range(os.cpu_count() or 1))
        self._all = frozenset(self._free)
        self._quiet: frozenset[int] = frozenset()
        self._changed = Condition()

    @property
    def count(self) -> int:
        """How many compilers may run at once."""
        return len(self._all)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """In the block, this thread and the compiler that it starts have a core, on which nobody
        times anything. Waits for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free - self._quiet)
            mine = min(self._free - self._quiet)
            self._free.remove(mine)
        try:
            if self._are_known:
                _keep_to(mine)
            yield
        finally:
            with self._changed:
                self._free.add(mine)
                self._changed.notify_all()

    @contextmanager
    def quiet(self, cores: Sequence[int]) -> Iterator[None]:
        """In the block, no compiler is on these cores. Waits for those that are. One thread at a
        time may ask for it."""
        with self._changed:
            self._quiet = frozenset(cores) if self._are_known else self._all
            self._changed.wait_for(lambda: self._quiet <= self._free)
        try:
            yield
        finally:
            with self._changed:
                self._quiet = frozenset()
                self._changed.notify_all()


def _keep_to(core: int) -> None:
    """Keeps this thread, and what it starts, to a core; where the system lets a thread choose."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [core])
