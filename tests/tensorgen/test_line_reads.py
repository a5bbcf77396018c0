"""Lines of the cache that the steps of a tile read."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.expr import Axis, const
from tensorgen.line_reads import LineReads, lying_across
from tensorgen.simplify import affine
from tensorgen.target import LINE_BYTES
from tensorgen.task import Task
from tensorgen.types import int64
from tests.contraction_tasks import convolution, matmul


def reads_of(task: Task) -> LineReads:
    contraction = contraction_of(task)
    assert contraction is not None
    roles = assign_roles(contraction, 1)
    return LineReads.of(roles, 0, roles.rows[-1])


def test_steps_along_a_row_share_its_lines() -> None:
    """Sixteen steps on each line, of which a row of 64 elements has 4, or 5 where they begin."""
    reads = reads_of(matmul((), 8, 32, 64, constant=(False, True)))
    assert reads.lines(6) == pytest.approx(6 * (1 + 252 / 64) / 64)


def test_neighbouring_rows_share_the_line_of_a_step() -> None:
    reads = reads_of(convolution((8, 8), (1, 1), channels=(64, 32)))
    assert reads.lines(6) == pytest.approx(1 + 20 / 64)


def test_a_window_finds_its_lines_again_while_they_are_remembered() -> None:
    """The three taps of a row are 64 steps apart, one for each channel."""
    reads = reads_of(convolution((8, 8), (1, 3), channels=(64, 32)))
    again, anew = (1 + 28 / 64) / 3, 1 + 20 / 64
    assert reads.lines(6) == reads.lines(6, 64) == pytest.approx(again)
    assert reads.lines(6, 63) == pytest.approx(anew)


AXES = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 8)), max_size=3)


@given(AXES, st.integers(0, 40), st.sampled_from([1, 8, 16]))
def test_vectors_across_lines_are_those_that_are(
    strides: list[tuple[int, int]], constant: int, lanes: int
) -> None:
    """Vectors of 64 bytes do wherever they do not begin a line, every second one of 32 bytes."""
    axes = [Axis(n, extent, f"k{n}") for n, (_, extent) in enumerate(strides)]
    index = affine(const(constant, int64))
    for axis, (step, _) in zip(axes, strides, strict=True):
        index = index.plus(affine(axis).scaled(step))
    places = [
        constant + sum(n * step for n, (step, _) in zip(place, strides, strict=True))
        for place in product(*(range(axis.extent) for axis in axes))
    ]
    apart = sum(place % lanes != 0 for place in places) / len(places)
    expected = apart * lanes * 4 / LINE_BYTES
    assert lying_across(index, axes, lanes, 4) == pytest.approx(expected)
