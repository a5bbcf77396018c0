"""Memory that is out of the caches: as it was, and slow to read."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.target import host_target
from tensorgen.tune.cache_lines import DROP_LINES, drop_lines_source

CHASE = """#include <stdint.h>
#include <time.h>

/* Nanoseconds of a step from each place to the one that it names, until the first is met again. */
double chase(const int64_t *next);
double chase(const int64_t *next)
{
    struct timespec begun, ended;
    int64_t place = 0;
    long steps = 0;

    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        place = next[place];
        steps++;
    } while (place != 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return ((double)(ended.tv_sec - begun.tv_sec) * 1e9
        + (double)(ended.tv_nsec - begun.tv_nsec)) / (double)steps;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("lines")
    path = build_library(
        {"chase.c": f"#define _POSIX_C_SOURCE 199309L\n{CHASE}", "lines.c": drop_lines_source()},
        target=host_target(), flags=("-Wall", "-Wextra", "-Werror"), cache=folder,
    )  # fmt: skip
    loaded = ctypes.CDLL(str(path))
    loaded.chase.restype = ctypes.c_double
    return loaded


def test_what_is_dropped_comes_from_main_memory(library: ctypes.CDLL) -> None:
    """Steps go to one line after the other in an order that no prefetcher knows."""
    if host_target().architecture not in ("x86_64", "aarch64"):
        pytest.skip("this processor lets no program put lines out of its caches")
    lines, elements = 2048, 8
    order = np.random.default_rng(0).permutation(np.arange(1, lines)) * elements
    path = np.array([0, *order, 0], np.int64)
    places = np.zeros(lines * elements, np.int64)
    places[path[:-1]] = path[1:]
    before = places.copy()
    address = ctypes.c_void_p(places.ctypes.data)
    near, far = [], []
    for _ in range(9):
        library.chase(address)
        near.append(library.chase(address))
        getattr(library, DROP_LINES)(address, ctypes.c_long(places.nbytes))
        far.append(library.chase(address))
    assert min(far) > 2 * min(near)
    np.testing.assert_array_equal(places, before)


def test_a_piece_may_begin_and_end_within_lines(library: ctypes.CDLL) -> None:
    memory = np.arange(1024, dtype=np.uint8)
    before = memory.copy()
    for begin, size in ((0, 0), (1, 1), (63, 2), (17, 1000)):
        address = ctypes.c_void_p(memory.ctypes.data + begin)
        getattr(library, DROP_LINES)(address, ctypes.c_long(size))
    np.testing.assert_array_equal(memory, before)
