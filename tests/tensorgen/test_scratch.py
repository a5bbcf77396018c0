"""Where a kernel's scratch lies: nothing overlaps, and threads are far from each other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.loop import Buffer, LoopKernel, Space
from tensorgen.scratch import MOST_AHEAD, copies_bytes, scratch_layout
from tensorgen.target import LINE_BYTES
from tensorgen.types import DType, float32, float64

SPACES = st.sampled_from([Space.SCRATCH, Space.SHARED])
SIZES = st.integers(1, 200_000)


def kernel_with(*scratch: Buffer) -> LoopKernel:
    return LoopKernel((), (), scratch, ())


@given(st.lists(st.tuples(SIZES, SPACES, st.sampled_from([float32, float64])), max_size=4),
       st.integers(1, 5))  # fmt: skip
def test_all_copies_have_lines_of_their_own(
    buffers: list[tuple[int, Space, DType]], threads: int
) -> None:
    kernel = kernel_with(
        *(Buffer(n, "b", dtype, size, space) for n, (size, space, dtype) in enumerate(buffers))
    )
    layout = scratch_layout(kernel, threads)
    pieces = [(layout.size, layout.size)]
    for buffer, place in zip(kernel.scratch, layout.places, strict=True):
        for thread in range(threads if buffer.space is Space.SCRATCH else 1):
            begin = place + thread * layout.apart
            assert begin % LINE_BYTES == 0
            pieces.append((begin, begin + buffer.size * buffer.dtype.bytes))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(sorted(pieces)))


@pytest.mark.parametrize(("size", "gap"), [(100, 448), (1 << 16, MOST_AHEAD)])
def test_threads_are_as_far_apart_as_prefetchers_go(size: int, gap: int) -> None:
    kernel = kernel_with(
        Buffer(0, "a", float32, size, Space.SCRATCH), Buffer(1, "b", float32, 12, Space.SHARED)
    )
    layout = scratch_layout(kernel, 3)
    own = -(-size * 4 // LINE_BYTES) * LINE_BYTES
    assert layout.places == (LINE_BYTES, 0)
    assert layout.apart == own + gap
    assert layout.size == LINE_BYTES + 3 * own + 2 * gap


def test_one_thread_needs_no_more_than_its_buffers() -> None:
    buffers = (Buffer(0, "a", float32, 5, Space.SCRATCH), Buffer(1, "b", float32, 7, Space.SHARED))
    assert scratch_layout(kernel_with(*buffers), 1).size == 2 * LINE_BYTES
    assert [copies_bytes(kernel_with(*buffers), buffer, 1) for buffer in buffers] == [20, 28]


def test_copies_reach_from_the_first_thread_to_the_last() -> None:
    own = Buffer(0, "a", float32, 5, Space.SCRATCH)
    shared = Buffer(1, "b", float32, 7, Space.SHARED)
    kernel = kernel_with(own, shared)
    assert copies_bytes(kernel, own, 3) == 2 * scratch_layout(kernel, 3).apart + 20
    assert copies_bytes(kernel, shared, 3) == 28
