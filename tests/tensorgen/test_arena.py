"""Memory for arenas: large enough, aligned, writable, and on large pages where there are some."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from tensorgen.arena import (
    ARENA_ALIGNMENT,
    LEAST_ON_LARGE_PAGES,
    aligned,
    new_arena,
)
from tensorgen.large_pages import LARGE_PAGE

SMALL, LARGE = 1000, 3 * LARGE_PAGE + 5


@pytest.mark.parametrize(
    "size", [0, 1, SMALL, LEAST_ON_LARGE_PAGES - 1, LEAST_ON_LARGE_PAGES, LARGE_PAGE, LARGE]
)
def test_an_arena_is_aligned_and_every_byte_of_it_can_be_written(size: int) -> None:
    arena = new_arena(size)
    assert arena.nbytes >= size
    assert arena.ctypes.data % ARENA_ALIGNMENT == 0
    arena[:] = 7
    assert (arena == 7).all()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_a_large_arena_asks_for_large_pages() -> None:
    arena = new_arena(LARGE)
    assert arena.ctypes.data % LARGE_PAGE == 0
    begin, flags = f"{arena.ctypes.data:x}", ""
    within = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            low, high = (int(part, 16) for part in first.split("-"))
            within = low <= int(begin, 16) < high
        elif within and first == "VmFlags:":
            flags = line
    assert " hg" in flags


def test_where_the_advice_is_refused_the_memory_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 12345, raising=False)
    arena = new_arena(LARGE)
    assert arena.nbytes >= LARGE
    assert arena.ctypes.data % ARENA_ALIGNMENT == 0


def test_a_system_without_large_pages_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert new_arena(LARGE).nbytes >= LARGE


def test_too_large_an_arena_is_no_memory() -> None:
    with pytest.raises(MemoryError):
        new_arena(1 << 60)


def test_bytes_from_an_aligned_address_on_are_the_same_memory() -> None:
    memory = np.zeros(300, np.uint8)
    part = aligned(memory, 128)
    part[0] = 1
    assert memory.sum() == 1
    assert part.ctypes.data % 128 == 0
    assert aligned(memory, 128, 96).ctypes.data % 128 == 96
