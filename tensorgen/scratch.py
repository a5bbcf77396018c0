"""Where a kernel's scratch lies: what one thread has side by side, and far from what others have.

What it does: says where each buffer begins, and how far from there the next thread's copy does.
What it does not: decide where in an arena the scratch of a kernel is (`graphopt.storage`).

Prefetchers go on with the strides of a loop where its data ends: by lines, and by as much as from
one point of a filter to the next. A line of another thread's scratch that comes so has to be asked
back for by the one that writes it. Measured with blocks of a filtered convolution, 268 KB for each
of two threads: 0.31 ms with copies side by side, 0.28 with those of a thread in one piece and
128 KiB between the pieces; where the cores share no cache 0.57 and 0.30.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorgen.loop import Buffer, LoopKernel, Space
from tensorgen.target import KIB, LINE_BYTES

MOST_AHEAD = 128 * KIB
"""Bytes that prefetchers are expected to go ahead: at most so many, and as many as there are."""


@dataclass(frozen=True, slots=True)
class ScratchLayout:
    """Bytes from the begin of a kernel's scratch to each buffer (the first thread's, if each has
    one), from what one thread has to what the next one has, and of all."""

    places: tuple[int, ...]
    apart: int
    size: int


def scratch_layout(kernel: LoopKernel, threads: int) -> ScratchLayout:
    """The layout for so many threads: first what they share."""
    shared = sum(_whole_lines(buffer) for buffer in kernel.scratch if not _has_copies(buffer))
    ends = {False: 0, True: shared}
    places = []
    for buffer in kernel.scratch:
        places.append(ends[_has_copies(buffer)])
        ends[_has_copies(buffer)] += _whole_lines(buffer)
    own = ends[True] - shared
    apart = own + min(own, MOST_AHEAD)
    return ScratchLayout(tuple(places), apart, shared + own + (threads - 1) * apart)


def copies_bytes(kernel: LoopKernel, buffer: Buffer, threads: int) -> int:
    """Bytes from the first thread's copy of a buffer to the end of the last one's."""
    others = threads - 1 if _has_copies(buffer) else 0
    return others * scratch_layout(kernel, threads).apart + buffer.size * buffer.dtype.bytes


def _has_copies(buffer: Buffer) -> bool:
    return buffer.space is Space.SCRATCH


def _whole_lines(buffer: Buffer) -> int:
    """Bytes of a buffer, in whole lines."""
    return -(-buffer.size * buffer.dtype.bytes // LINE_BYTES) * LINE_BYTES
