"""Memory on large pages, where the system lets programs ask for some.

It needs the standard library alone: the process that measures has nothing else. What it does not:
decide what is worth large pages (`arena`, `tune.local_measurer`).
"""

from __future__ import annotations

import mmap
from contextlib import suppress

LARGE_PAGE = 2 << 20
"""Bytes of a large page."""


def large_pages(size: int) -> mmap.mmap:
    """At least so many zeros from the first address on that is a multiple of LARGE_PAGE. Raises
    OSError.

    They are private: what is shared gets large pages on fewer systems.
    """
    pages = -(-size // LARGE_PAGE) + 1
    found = mmap.mmap(-1, pages * LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        # A system built without large pages refuses the advice; the memory is as good as any.
        with suppress(OSError):
            found.madvise(advice)
    return found
