"""Lines that go from core to core: who has a piece of memory, and who reads parts of others."""

from __future__ import annotations

from tensorgen.crossing_lines import (
    READ_ELSEWHERE,
    Team,
    lies_in_pieces,
    task_bytes_elsewhere,
)
from tensorgen.expr import Axis, Expr, Tensor, compute, reduce_sum
from tensorgen.simplify import affine
from tensorgen.task import Task
from tensorgen.types import TensorType, float32

ROWS, COLUMNS = Axis(0, 6, "i"), Axis(1, 8, "j")
INDEX = affine(ROWS * 8 + COLUMNS)


def test_the_axis_of_the_longest_steps_lies_in_pieces() -> None:
    axes = (ROWS, COLUMNS)
    assert lies_in_pieces(INDEX, axes, ROWS)
    assert not lies_in_pieces(INDEX, axes, COLUMNS)
    assert lies_in_pieces(affine(ROWS + COLUMNS * 6), axes, COLUMNS)


def test_an_axis_of_one_element_makes_no_steps() -> None:
    one = Axis(2, 1, "n")
    assert lies_in_pieces(affine(one * 1000 + ROWS * 8 + COLUMNS), (one, ROWS, COLUMNS), ROWS)


def test_threads_read_their_own_pieces_parts_of_all_or_all() -> None:
    axes, other = (ROWS, COLUMNS), Axis(2, 3, "k")
    team = Team(2, 96)
    assert team.read_elsewhere(96, INDEX, axes, ROWS) == 0.0
    assert team.read_elsewhere(96, INDEX, axes, COLUMNS) == 48.0
    assert team.read_elsewhere(96, INDEX, (*axes, other), other) == 96.0
    assert Team(4, 96).made_elsewhere(96, INDEX, axes, ROWS) == 0.0
    assert Team(4, 96).made_elsewhere(96, INDEX, axes, COLUMNS) == 24.0


def test_what_the_caches_do_not_hold_is_with_no_core() -> None:
    axes, other = (ROWS, COLUMNS), Axis(2, 3, "k")
    team = Team(2, 95)
    assert team.read_elsewhere(96, INDEX, axes, COLUMNS) == 0.0
    assert team.read_elsewhere(96, INDEX, (*axes, other), other) == 0.0
    assert team.made_elsewhere(96, INDEX, axes, COLUMNS) == 0.0


def test_threads_tear_lines_that_each_has_a_short_piece_of() -> None:
    """Two threads have 4 columns each of every row, 16 bytes; 32 columns of floats are a pair of
    lines, and rows are pieces of memory."""
    axes = (ROWS, COLUMNS)
    assert Team(2, 96).tears(INDEX, axes, COLUMNS, 4)
    assert not Team(2, 96).tears(INDEX, axes, ROWS, 4)
    for extent, expected in ((64, True), (66, False)):
        wide = Axis(2, extent, "k")
        assert Team(2, 96).tears(affine(ROWS * 100 + wide), (ROWS, wide), wide, 4) == expected


def mean_task(together: bool, constant: bool = False) -> Task:
    """Sums over planes of 5 x 7, of each of 16 channels, which are together in memory or apart."""
    shape = (5, 7, 16) if together else (16, 5, 7)
    x = Tensor(0, TensorType(float32, shape))

    def body(c: Axis) -> Expr:
        def element(h: Axis, w: Axis) -> Expr:
            return x[h, w, c] if together else x[c, h, w]

        return reduce_sum((5, 7), element)

    return Task((x.type,), (compute((16,), body),), (0,), (constant,))


def test_a_mean_over_planes_reads_elsewhere_where_channels_are_together() -> None:
    amount = 5 * 7 * 16 * 4
    team = Team(2, 1e9)
    assert task_bytes_elsewhere(mean_task(together=False), team) == 0.0
    assert task_bytes_elsewhere(mean_task(together=True), team) == amount / 2
    assert task_bytes_elsewhere(mean_task(together=True), Team(2, amount - 1)) == 0.0
    assert task_bytes_elsewhere(mean_task(together=True, constant=True), team) == 0.0


def test_planes_that_are_turned_are_read_again_so_that_a_part_is_paid() -> None:
    x = Tensor(0, TensorType(float32, (16, 35)))
    turned = Task((x.type,), (compute((35, 16), lambda p, c: x[c, p]),), (0,), (False,))
    assert task_bytes_elsewhere(turned, Team(2, 1e9)) == READ_ELSEWHERE * 16 * 35 * 4 / 2
