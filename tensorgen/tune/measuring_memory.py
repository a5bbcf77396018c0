"""The memory of kernels that are measured: operands, results and scratch, between guards.

What it does: maps anonymous memory, fills it from files, and finds out whether a kernel stored
outside of what it was given. It needs the standard library alone, since the process that measures
has nothing else. What it does not: know what the bytes mean.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from tensorgen.large_pages import LARGE_PAGE, large_pages

GUARD_BYTES = 64
"""In front of and behind every piece of memory; addresses are multiples of it."""

GUARD = b"\xa5" * GUARD_BYTES
_UNSET = 0xFF  # a pattern that is no number in any float type

LARGE_FROM = 128 << 10
"""Bytes from which on it matters which pages they are on."""

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
    same one shares few sets of a cache, which real operands do not. `large` memory is on large
    pages, where the system has some.
    """

    def __init__(self, size: int, turn: int = 0, inside: int = 0, *, large: bool = False) -> None:
        offset = stagger(turn) + inside
        whole = offset + size + GUARD_BYTES
        self._map = large_pages(whole) if large else mmap.mmap(-1, whole)
        begins = -_address(self._map) % LARGE_PAGE if large else 0
        self._found(begins + offset, size)
        self._guard(size)

    def _found(self, offset: int, size: int) -> None:
        """The memory is so many bytes from an offset in the map on."""
        self._offset, self.size = offset, size
        self._start = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._start) + offset

    @property
    def taken(self) -> int:
        """The bytes of its pages."""
        return len(self._map)

    @staticmethod
    def part(whole: mmap.mmap, offset: int, size: int) -> Memory:
        """A piece of a map that others have written, guards included."""
        memory = Memory.__new__(Memory)
        memory._map = whole
        memory._found(offset, size)
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

    def copy(self, turn: int, *, large: bool = False) -> Memory:
        """The same content elsewhere, as far inside a line."""
        memory = Memory(self.size, turn, self._offset % GUARD_BYTES, large=large)
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


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
