"""Runs of an axis whose place other axes move: what counts as one, and where it lies."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.expr import Axis, Const, Expr, const
from tensorgen.moving_edges import MovingRun, moving_run
from tensorgen.simplify import simplify
from tensorgen.types import int64

PLACE, PHASE, LINE = Axis(0, 9, "w"), Axis(1, 2, "k"), Axis(2, 4, "line")


def inside(place: Expr, extent: int) -> tuple[Expr, ...]:
    """The conditions under which an element is on an image, simplified as those of kernels are;
    those that always hold are none."""
    conditions = (simplify(const(0, int64) <= place), simplify(place < extent))
    return tuple(part for part in conditions if not isinstance(part, Const))


def test_an_image_inside_padding_moves_with_the_phase() -> None:
    """The second of two phases sees no padding in front, and one element behind."""
    row = inside(LINE - 1, 3)
    run = moving_run((*row, *inside(PLACE + PHASE - 1, 8)), PLACE)
    assert run is not None
    assert (run.length, run.firsts, run.others) == (8, (0, 1), row)
    assert [simplify(run.first.expr, {PHASE: const(k, int64)}) for k in (0, 1)] == [
        const(1, int64),
        const(0, int64),
    ]


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param(inside(PLACE - 1, 7), id="lies still"),
        pytest.param(inside(PLACE + PHASE - 1, 9), id="leaves the axis"),
        pytest.param(inside(PLACE - PHASE * 4, 8), id="leaves it behind"),
        pytest.param(inside(PLACE * 2 + PHASE - 1, 8), id="every second element"),
        pytest.param(inside(PLACE // 2 + PHASE - 1, 3), id="pairs of elements"),
        pytest.param(inside(PLACE + PHASE - 1, 8)[:1], id="one end"),
        pytest.param((*inside(PLACE + PHASE - 1, 8), PLACE < 7), id="one end twice"),
        pytest.param((PHASE <= PLACE, PLACE < 8), id="grows"),
        pytest.param((), id="no condition"),
    ],
)
def test_other_conditions_leave_no_such_run(conditions: tuple[Expr, ...]) -> None:
    assert moving_run(conditions, PLACE) is None


@given(
    st.integers(-12, 12), st.integers(-3, 3), st.integers(-3, 3), st.integers(1, 12), st.booleans()
)
def test_a_run_has_exactly_the_elements_that_meet_the_conditions(
    start: int, by_phase: int, by_line: int, extent: int, backwards: bool
) -> None:
    slope = -1 if backwards else 1
    place = PLACE * slope + PHASE * by_phase + LINE * by_line + start
    run = moving_run(inside(place, extent), PLACE)
    if run is None:
        return
    for k, line in product(range(PHASE.extent), range(LINE.extent)):
        elements = [slope * w + k * by_phase + line * by_line + start for w in range(PLACE.extent)]
        expected = [w for w, element in enumerate(elements) if 0 <= element < extent]
        assert list(places(run, k, line)) == expected


def places(run: MovingRun, phase: int, line: int) -> range:
    """The elements of a run at one phase and line."""
    first = simplify(run.first.expr, {PHASE: const(phase, int64), LINE: const(line, int64)})
    assert isinstance(first, Const)
    return range(int(first.value), int(first.value) + run.length)
