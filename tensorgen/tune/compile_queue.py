"""What waits for a compiler, done together: to start one takes as long as several kernels.

What it does: keeps what somebody wants compiled until a thread and a core are free for it, and then
hands over all that waits by then and goes with it, of however many batches. While nobody waits,
nobody waits for others either. What it does not: compile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from tensorgen.build import Around
from tensorgen.tune.compiler_cores import CompilerCores

Flags = tuple[str, ...]
"""The compiler's, for one file."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[_Item, _Result]):
    """Items that are to be compiled with some flags, in the place of somebody who waits."""

    flags: Flags
    items: tuple[_Item, ...]
    done: Future[tuple[_Result, ...]] = field(default_factory=Future)


class CompileQueue(Generic[_Item, _Result]):
    """Items for `compiled`, which is given those of one file, at most `most` of them unless they
    came in one piece, and gives a result for each; in the threads of a `pool`, on `cores`."""

    def __init__(
        self,
        compiled: Callable[[Flags, Sequence[_Item], Around], Sequence[_Result]],
        pool: Executor,
        cores: CompilerCores,
        most: int,
    ) -> None:
        self._compiled = compiled
        self._pool = pool
        self._cores = cores
        self._most = most
        self._waiting: deque[_Waiting[_Item, _Result]] = deque()
        self._lock = Lock()

    def submit(self, flags: Flags, items: Sequence[_Item]) -> Future[tuple[_Result, ...]]:
        """The results of some items, in order, once they are compiled; or what that raised."""
        entry: _Waiting[_Item, _Result] = _Waiting(flags, tuple(items))
        with self._lock:
            self._waiting.append(entry)
        self._pool.submit(self._next)
        return entry.done

    def _next(self) -> None:
        """Compiles what has waited longest, and what goes with it."""
        with self._cores.taken() as around:
            together = self._together()
            if not together:
                return
            items = [item for entry in together for item in entry.items]
            try:
                results = self._compiled(together[0].flags, items, around)
            except BaseException as error:
                for entry in together:
                    entry.done.set_exception(error)
                return
        assert len(results) == len(items), "a result for each"
        start = 0
        for entry in together:
            end = start + len(entry.items)
            entry.done.set_result(tuple(results[start:end]))
            start = end

    def _together(self) -> list[_Waiting[_Item, _Result]]:
        """The first of those that wait, and those behind it that one file has room for; none if
        all went with others."""
        with self._lock:
            found: list[_Waiting[_Item, _Result]] = []
            left: deque[_Waiting[_Item, _Result]] = deque()
            count = 0
            for entry in self._waiting:
                fits = not found or (
                    entry.flags == found[0].flags and count + len(entry.items) <= self._most
                )
                if fits:
                    found.append(entry)
                    count += len(entry.items)
                else:
                    left.append(entry)
            self._waiting = left
            return found
