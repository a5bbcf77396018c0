"""Lines of the cache that the steps of a tile read."""

from __future__ import annotations

import pytest

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.line_reads import LineReads
from tensorgen.task import Task
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
