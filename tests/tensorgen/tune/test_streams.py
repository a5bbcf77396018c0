"""Streams: few addresses for many indices."""

from __future__ import annotations

import pytest

from tensorgen.expr import Axis, Expr
from tensorgen.tune.assembly_page import NoAssembly
from tensorgen.tune.streams import REACHED_ROWS, Access, Stream, streams_of

ROW, COLUMN, LANE = (
    Axis(position, 100, name) for position, name in ((1, "i"), (2, "j"), (3, "lane"))
)
APART, STEP = Axis(10, 1 << 20, "apart"), Axis(11, 1 << 20, "step")
NUMBERS = frozenset((APART.position, STEP.position))


def places(*indices: Expr, known: tuple[int, int] | None = None) -> list[tuple[Stream, int, int]]:
    """Of each index of one array its stream, the rows behind it, and the bytes."""
    accesses = {n: Access(0, index, known) for n, index in enumerate(indices)}
    found = streams_of(accesses, NUMBERS)
    return [
        (found.streams[place.stream], place.rows, place.behind)
        for place in (found.places[n] for n in range(len(indices)))
    ]


def test_constants_lie_behind_one_stream() -> None:
    first, second = places(ROW * 20 + COLUMN + 3, ROW * 20 + COLUMN + 44)
    assert first[0] == second[0]
    assert first[0].step(ROW.position) == ((None, 20),)
    assert first[0].step(COLUMN.position) == ((None, 1),)
    assert first[0].step(LANE.position) == ()
    assert (first[2], second[2]) == (12, 176)


def test_other_steps_are_other_streams() -> None:
    first, second, third = places(ROW * 20, ROW * 21, ROW * STEP)
    assert len({first[0], second[0], third[0]}) == 3
    assert third[0].step(ROW.position) == ((STEP.position, 1),)


def test_rows_that_addresses_reach_are_in_one_stream() -> None:
    """Base and index times 1, 2, 4 or 8: fourteen rows take five streams."""
    found = places(*(ROW + APART * row if row else ROW + 0 for row in range(14)))
    for row, (stream, behind, _) in enumerate(found):
        begin = dict(stream.begin).get(APART.position, 0)
        assert begin + behind == row
        assert behind in (0, *REACHED_ROWS)
    assert len({stream for stream, _, _ in found}) == 5


def test_sums_that_differ_in_several_numbers_have_streams_of_their_own() -> None:
    found = places(ROW + APART, ROW + STEP, ROW + APART + STEP)
    assert len({stream for stream, _, _ in found}) == 3
    assert all(rows == 0 for _, rows, _ in found)


def test_known_axes_are_constants() -> None:
    (found,) = places(ROW * 20 + LANE * 3, known=(LANE.position, 8))
    assert found[2] == 4 * 3 * 8
    assert found[0].step(LANE.position) == ()


@pytest.mark.parametrize("index", [ROW // 2, ROW * COLUMN, ROW + COLUMN % 3, ROW + (1 << 30)])
def test_what_does_not_go_straight_on_or_too_far_is_left_to_compilers(index: Expr) -> None:
    with pytest.raises(NoAssembly):
        places(index)
