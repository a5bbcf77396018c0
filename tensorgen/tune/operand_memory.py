"""Memory of operands that the process that measures maps: what is written is not copied again.

What it does: gives places in a file that has no name and, where the system has such files, no disk,
and takes them back. The file is gone with the processes that have it open. What it does not: know
what operands are, or map anything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock

from tensorgen.target import PAGE_BYTES
from tensorgen.tune.measuring_memory import GUARD, stagger

_ANY = 1 << 62


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand is: its bytes begin `offset` bytes into the file, between guards. No other
    place has had this `name`."""

    name: str
    offset: int
    size: int


class OperandMemory:
    """Places for operands in one file, for any thread. Close it."""

    def __init__(self, folder: Path) -> None:
        self._file = _nameless_file(folder)
        self._lock = Lock()
        self._names = count()
        self._free = [(0, _ANY)]
        self._taken: dict[str, tuple[int, int]] = {}

    @property
    def file(self) -> int:
        """The descriptor of the file."""
        return self._file

    @property
    def size(self) -> int:
        """How many bytes of the file have been written to, from its beginning on."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)

    def put(self, content: memoryview, turn: int, inside: int = 0) -> Place:
        """Writes the bytes of an operand to a place for them, which begins in its page where that
        of a `turn` does, or so many bytes `inside` that line. Raises OSError if there is no
        room."""
        before = stagger(turn) + inside
        name, start = self._take(before + content.nbytes + len(GUARD))
        try:
            self._write((GUARD, content, GUARD), start + before - len(GUARD))
        except BaseException:
            self._give_back(name)
            raise
        return Place(name, start + before, content.nbytes)

    def remove(self, place: Place) -> None:
        """Others may have the place."""
        self._give_back(place.name)

    def _write(self, parts: Sequence[bytes | memoryview], offset: int) -> None:
        for part in parts:
            left = memoryview(part)
            while left:
                written = os.pwrite(self._file, left, offset)
                left, offset = left[written:], offset + written

    def _take(self, size: int) -> tuple[str, int]:
        """A new name, and where the first free pages begin that are enough."""
        pages = -(-size // PAGE_BYTES) * PAGE_BYTES
        with self._lock:
            number = next(n for n, (_, room) in enumerate(self._free) if room >= pages)
            start, room = self._free[number]
            rest = [(start + pages, room - pages)] if room > pages else []
            self._free[number : number + 1] = rest
            name = f"operand {next(self._names)}"
            self._taken[name] = start, pages
        return name, start

    def _give_back(self, name: str) -> None:
        """Pages are free again, in one piece with free ones in front of and behind them."""
        free: list[tuple[int, int]] = []
        with self._lock:
            for start, size in sorted([*self._free, self._taken.pop(name)]):
                if free and sum(free[-1]) == start:
                    first, before = free.pop()
                    free.append((first, before + size))
                else:
                    free.append((start, size))
            self._free = free


def _nameless_file(folder: Path) -> int:
    """The descriptor of a new file: in memory, or in the folder where the system has no such files
    or refuses them, as sandboxes may. Raises OSError."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return os.memfd_create("tasor-operands")
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.dup(file.fileno())
