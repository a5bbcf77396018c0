"""The memory of kernels that are measured: operands, results and scratch, between guards.

What it does: maps anonymous memory, fills it from files, and finds out whether a kernel stored
outside of what it was given. It needs the standard library alone, since the process that measures
has nothing else. What it does not: know what the bytes mean.
"""

from __future__ import annotations

import ctypes
import mmap
import os

GUARD_BYTES = 64
"""In front of and behind every piece of memory; addresses are multiples of it."""

GUARD = b"\xa5" * GUARD_BYTES
_UNSET = 0xFF  # a pattern that is no number in any float type

LARGE_PAGES_FROM = 4 << 20
"""Bytes from which on we ask for large pages, as numpy does for the arrays of a real call."""

_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

_STAGGER_LINES = 5
_MOST_LINES = 32


def stagger(turn: int) -> int:
    """How many bytes into a page the memory of that turn begins: behind a guard, at a multiple of
    64."""
    return GUARD_BYTES * (1 + turn * _STAGGER_LINES % _MOST_LINES)


class Memory:
    """`size` bytes at an `address` that is `inside` more than a multiple of 64, with guards around
    them.

    Pieces with different `turn`s begin at different places of a page: memory that all begins at the
    same one shares few sets of a cache, which real operands do not.
    """

    def __init__(self, size: int, turn: int = 0, inside: int = 0) -> None:
        self._offset = stagger(turn) + inside
        self._map = mmap.mmap(-1, self._offset + size + GUARD_BYTES)
        if size >= LARGE_PAGES_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self._found(size)
        self._guard(size)

    def _found(self, size: int) -> None:
        """The memory is so many bytes from the offset in the map on."""
        self.size = size
        self._start = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._start) + self._offset

    @staticmethod
    def part(whole: mmap.mmap, offset: int, size: int) -> Memory:
        """A piece of a map that others have written, guards included."""
        memory = Memory.__new__(Memory)
        memory._map, memory._offset = whole, offset
        memory._found(size)
        return memory

    @staticmethod
    def of_file(path: str, turn: int = 0) -> Memory:
        """The content of a file. Raises OSError."""
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            memory = Memory(size, turn)
            with memoryview(memory._map)[memory._offset : memory._offset + size] as content:
                done = 0
                while done < size and (count := file.readinto(content[done:])):
                    done += count
        return memory

    def copy(self, turn: int) -> Memory:
        """The same content elsewhere, as far inside a line."""
        memory = Memory(self.size, turn, self._offset % GUARD_BYTES)
        ctypes.memmove(memory.address, self.address, self.size)
        return memory

    def fetch(self, like: Memory) -> None:
        """Reads all of it, and of another piece as large with the same content, so that the caches
        hold both."""
        _compare(self.address, like.address, self.size)

    def forget(self, size: int) -> None:
        """Overwrites the first bytes, so that what a kernel does not store there is seen, and puts
        a guard behind them."""
        ctypes.memset(self.address, _UNSET, size)
        self._guard(size)

    def is_guarded(self, size: int) -> bool:
        """Whether nobody stored next to the first `size` bytes."""
        before, behind = self._offset - GUARD_BYTES, self._offset + size
        around = (self._map[before : self._offset], self._map[behind : behind + GUARD_BYTES])
        return around == (GUARD, GUARD)

    def _guard(self, size: int) -> None:
        self._map[self._offset - GUARD_BYTES : self._offset] = GUARD
        self._map[self._offset + size : self._offset + size + GUARD_BYTES] = GUARD

    def close(self) -> None:
        """Gives the memory back: not of a part, which is of others."""
        del self._start
        self._map.close()
