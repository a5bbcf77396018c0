"""Memory for arenas: where the system lets programs ask for large pages, on those.

Kernels write to many places of an arena at a time (a plane for each point of a filter, a row of
each image), each in a page of its own, of which cores remember only a few. Measured gains are up to
15 % of a filtered convolution.
What it does not: decide how large an arena is (`memory`).
"""

from __future__ import annotations

from math import prod

import numpy as np

from tensorgen.large_pages import LARGE_PAGE, large_pages
from tensorgen.types import Array, Shape

ARENA_ALIGNMENT = 64
"""Bytes that the address of an arena is a multiple of: a cache line, and the widest vector."""

LEAST_ON_LARGE_PAGES = 256 << 10
"""Arenas below this are on few small pages."""


def new_arena(size_bytes: int) -> Array:
    """At least so many bytes of any content, aligned for every library. Raises MemoryError."""
    if size_bytes < LEAST_ON_LARGE_PAGES:
        return aligned(np.empty(size_bytes + ARENA_ALIGNMENT, np.uint8), ARENA_ALIGNMENT)
    try:
        pages = large_pages(size_bytes)
    except OSError as error:
        raise MemoryError(str(error)) from error
    return aligned(np.frombuffer(pages, np.uint8), LARGE_PAGE)


def empty_array(shape: Shape, dtype: np.dtype[np.generic], alignment: int, place: int = 0) -> Array:
    """An array of any content that begins `place` bytes behind a multiple of `alignment`."""
    size = prod(shape) * dtype.itemsize
    memory = aligned(np.empty(size + alignment, np.uint8), alignment, place)
    return memory[:size].view(dtype).reshape(shape)


def aligned(memory: Array, alignment: int, place: int = 0) -> Array:
    """The bytes from the first address on that is `place` more than a multiple of `alignment`."""
    return memory[(place - memory.ctypes.data) % alignment :]
