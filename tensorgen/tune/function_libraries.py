"""Which library has a function that candidates call: each is compiled once, when it is first met.

What it does: has the functions that nobody met before compiled in the background, and says where
each is; who is refused is refused alone. What it does not: know how a compiler is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from tensorgen.build import BuildError
from tensorgen.tune.part_assembly import MadeFunction

_NO_ROOM = "No space left on device"

Place = Path | BuildError
"""The library of a function, or why it has none."""


def is_no_fault(error: BuildError) -> bool:
    """Whether nothing that was to be compiled is to blame."""
    return isinstance(error.__cause__, OSError) or _NO_ROOM in error.log


def places(
    functions: Sequence[MadeFunction], compiled: Callable[[Sequence[MadeFunction]], Path]
) -> list[Place]:
    """The place of each function by a compiler of whole files, which raises BuildError: each is
    alone in one if that of all is refused. Raises BuildError if nobody is to blame."""
    try:
        return [compiled(functions)] * len(functions)
    except BuildError as error:
        if is_no_fault(error):
            raise
        if len(functions) == 1:
            return [error]
    return [place for function in functions for place in places((function,), compiled)]


class FunctionLibraries:
    """The functions that were met; those that are new go to `submit`."""

    def __init__(
        self, submit: Callable[[Sequence[MadeFunction]], Future[tuple[Place, ...]]]
    ) -> None:
        self._submit = submit
        self._met: dict[str, tuple[Future[tuple[Place, ...]], int]] = {}

    def begin(self, functions: Sequence[MadeFunction]) -> None:
        """Begin to compile those that are new. To be called by one thread."""
        fresh = {f.name: f for f in functions if f.name not in self._met}
        if fresh:
            compiled = self._submit(tuple(fresh.values()))
            self._met |= {name: (compiled, number) for number, name in enumerate(fresh)}

    def place(self, name: str) -> Path:
        """The library of a function that was met, once it is there. Raises BuildError."""
        compiled, number = self._met[name]
        place = compiled.result()[number]
        if isinstance(place, BuildError):
            raise place
        return place
