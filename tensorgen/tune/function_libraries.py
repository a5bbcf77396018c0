"""Which library has a function that candidates call: each is compiled once, when it is first met.

What it does: has the functions that nobody met before compiled in the background, all of a batch in
one file, and says where each is. What it does not: know how a compiler is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

from tensorgen.build import BuildError
from tensorgen.c_function import CFunction

_NO_ROOM = "No space left on device"

_Places = dict[str, Path | BuildError]
"""The library of each function, or why it has none."""


def is_no_fault(error: BuildError) -> bool:
    """Whether nothing that was to be compiled is to blame."""
    return isinstance(error.__cause__, OSError) or _NO_ROOM in error.log


class FunctionLibraries:
    """Compiles functions by `compiled`, which raises BuildError, in the threads of a `pool`."""

    def __init__(self, compiled: Callable[[Sequence[CFunction]], Path], pool: Executor) -> None:
        self._compiled = compiled
        self._pool = pool
        self._met: dict[str, Future[_Places]] = {}

    def begin(self, functions: Sequence[CFunction]) -> None:
        """Begin to compile those that are new. To be called by one thread, before it has something
        compiled in the same pool that asks for their places."""
        fresh = {f.name: f for f in functions if f.name not in self._met}
        if fresh:
            places = self._pool.submit(self._places, tuple(fresh.values()))
            self._met |= dict.fromkeys(fresh, places)

    def place(self, name: str) -> Path:
        """The library of a function that was met, once it is there. Raises BuildError."""
        place = self._met[name].result()[name]
        if isinstance(place, BuildError):
            raise place
        return place

    def _places(self, functions: Sequence[CFunction]) -> _Places:
        try:
            return dict.fromkeys((f.name for f in functions), self._compiled(functions))
        except BuildError as error:
            if is_no_fault(error):
                raise
            if len(functions) == 1:
                return {functions[0].name: error}
        # Who is refused is refused alone.
        return {name: place for f in functions for name, place in self._places((f,)).items()}
