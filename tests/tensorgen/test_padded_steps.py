"""Steps that read padding alone: which are left out, for which tiles, and that nothing changes."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.contraction import Contraction, assign_roles, contraction_of
from tensorgen.expr import Select, const
from tensorgen.loop import If, statements
from tensorgen.lower import lower
from tensorgen.padded_steps import (
    Padding,
    are_uniform,
    needed_share,
    roles_without_padding,
)
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.sketch import contraction_estimate
from tensorgen.target import Target
from tensorgen.task import Task
from tests.compiled_kernels import (
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
)
from tests.contraction_tasks import convolution, matmul, padded, whole_inputs, with_epilogue
from tests.contraction_tiles import candidates

LINE = padded(convolution((12,), (3,), channels=(5, 18), dilations=(4,)), (4,), (4,))
CAUSAL = padded(convolution((16,), (2,), channels=(5, 7), dilations=(8,)), (8,), (0,))
IMAGE = padded(
    with_epilogue(convolution((6, 8), (3, 3), channels=(3, 19), dilations=(3, 4)), "bias"),
    (3, 4),
    (3, 4),
)
COLUMN = padded(convolution((7, 5), (3, 1), channels=(3, 9), batch=2), (1, 0), (1, 0))
"""Padded above and below alone."""

FAR = padded(convolution((6, 6), (3, 3), channels=(3, 17), dilations=(6, 6)), (6, 6), (6, 6))
"""All steps but that in the middle read padding."""

GROUPS = padded(
    convolution((4, 8), (3, 3), channels=(2, 3), groups=2, dilations=(2, 4)), (2, 4), (2, 4)
)

SIDES = padded(
    with_epilogue(convolution((5, 6), (3, 3), channels=(32, 19), dilations=(2, 1)), "bias"),
    (1, 1),
    (1, 1),
)
"""Positions along a line differ at the sides of the image: those keep their padding, and lines
above and below are left out."""

SMALL = padded(convolution((7, 7), (3, 3), channels=(32, 17), batch=2), (1, 1), (1, 1))

TASKS = {
    "line": LINE,
    "causal": CAUSAL,
    "image": IMAGE,
    "far": FAR,
    "groups": GROUPS,
    "column": COLUMN,
    "sides": SIDES,
    "small": SMALL,
}

BARE = {name: task for name, task in TASKS.items() if task not in (SIDES, SMALL)}
"""Those of which no padding is read at all."""


def without_padding(task: Task, contraction: Contraction) -> Contraction | None:
    padding = Padding.of(task, contraction)
    return None if padding is None else padding.in_place(contraction)


def bare(task: Task) -> Contraction:
    contraction = contraction_of(task)
    assert contraction is not None
    found = without_padding(task, contraction)
    assert found is not None
    return found


def skipping(task: Task, isa: str, parallel: bool = False) -> list[RegisterTile]:
    return [tile for tile in candidates(task, isa, parallel) if tile.skips_padding]


@pytest.mark.parametrize(
    ("task", "share", "inner"),
    [
        (LINE, (2 + 3 + 2) / 9, 4),
        (CAUSAL, 3 / 4, 8),
        (IMAGE, (4 / 6) * (4 / 6), 4),
        (FAR, 1 / 9, 6),
        (GROUPS, (4 / 6) * (4 / 6), 4),
        (COLUMN, 19 / 21, 5),
    ],
    ids=BARE,
)
def test_how_many_steps_are_needed(task: Task, share: float, inner: int) -> None:
    """Whole numbers of a dilation are alike: of six lines and a dilation of three the first three
    see two of three taps, and so do the others."""
    contraction = bare(task)
    assert needed_share(contraction) == pytest.approx(share)
    assert inner in {axis.extent for axis in contraction.axes}
    assert contraction.prologue is None


def test_tiles_are_uniform_along_the_inner_axis() -> None:
    roles = assign_roles(bare(IMAGE), 1)
    assert [axis.extent for axis in roles.rows] == [6, 2, 4]
    assert are_uniform(roles)


def test_neighbours_that_differ_are_not_told_apart_by_a_condition() -> None:
    """Without a dilation each position of the border has steps of its own: such tiles keep their
    padding."""
    task = padded(convolution((8,), (3,), channels=(3, 18)), (1,), (1,))
    assert not are_uniform(assign_roles(bare(task), 1))
    assert not skipping(task, "avx512")
    tile = next(t for t in candidates(task, "avx512") if t.vector_operand == 1)
    message = "expected steps at which whole tiles read zeros around a factor, to skip them, got"
    with pytest.raises(ScheduleError, match=message):
        lower(task, replace(tile, skips_padding=True, prologue=0, together=False))


def test_what_has_no_zeros_around_it_is_refused() -> None:
    plain = matmul((), 4, 17, 3, constant=(False, True))
    contraction = contraction_of(plain)
    assert contraction is not None
    assert without_padding(plain, contraction) is None
    tile = candidates(plain, "avx512")[0]
    message = "expected steps at which whole tiles read zeros around a factor, to skip them, got"
    with pytest.raises(ScheduleError, match=message):
        lower(plain, replace(tile, skips_padding=True))


def test_nothing_is_packed_from_where_padding_is_not_read() -> None:
    """Neither at run time nor, of a constant, at compile time."""
    tile = next(t for t in skipping(IMAGE, "avx512") if t.vector_operand == 1 and t.vectors_outer)
    with pytest.raises(ScheduleError, match="expected nothing packed at run time, to skip padding"):
        lower(IMAGE, replace(tile, row_block=4 * tile.rows))
    constant = replace(LINE, constant=(True, False))
    assert not skipping(constant, "avx512")


def test_other_values_than_zero_stay() -> None:
    stage = LINE.stages[0]
    assert isinstance(stage.body, Select)
    ones = replace(stage, body=replace(stage.body, otherwise=const(1.0, stage.type.dtype)))
    task = replace(LINE, stages=(ones, *LINE.stages[1:]))
    contraction = contraction_of(task)
    assert contraction is not None
    assert without_padding(task, contraction) is None


@pytest.mark.parametrize(
    ("task", "share"), [(SIDES, 13 / 15), (SMALL, 19 / 21)], ids=["sides", "small"]
)
@pytest.mark.parametrize("vector", [0, 1])
def test_lines_are_left_out_beside_a_padded_copy(task: Task, share: float, vector: int) -> None:
    """Whichever factor lies along the lanes: pixels or features."""
    contraction = contraction_of(task)
    assert contraction is not None
    assert not are_uniform(assign_roles(bare(task), vector))
    roles = roles_without_padding(task, contraction, vector)
    assert roles is not None
    assert are_uniform(roles)
    assert roles.contraction.prologue is not None
    assert needed_share(roles.contraction) == pytest.approx(share)
    assert [t for t in skipping(task, "avx512") if t.vector_operand == vector]


def test_few_lines_are_not_worth_their_conditions() -> None:
    """Of a large image, and where few steps lie between two conditions."""
    for task in (
        padded(convolution((80, 8), (3, 3), channels=(32, 19)), (1, 1), (1, 1)),
        padded(convolution((7, 7), (3, 3), channels=(8, 19)), (1, 1), (1, 1)),
    ):
        assert not skipping(task, "avx512")


@pytest.mark.parametrize("isa", ["c99", "avx512", "neon"])
@pytest.mark.parametrize("name", TASKS)
def test_every_tile_is_right_by_the_interpreter(name: str, isa: str) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = skipping(task, isa)
    assert tiles
    for schedule in tiles[:: max(1, len(tiles) // 5)]:
        found = Case.of(task, schedule).interpret(arrays)[0]
        assert_same(found, expected, 0.0, f"{name} {schedule}")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_are_right_when_compiled(threads: int, strict: bool, tmp_path: Path) -> None:
    cases = []
    for task in TASKS.values():
        tiles = skipping(task, "c99", threads > 1)
        cases += [Case.of(task, tile) for tile in tiles[:: len(tiles) // 6 + 1]]
    compiled = CompiledKernels(
        cases, tmp_path, target=Target.named("c99"), threads=threads, strict=strict
    )
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


def test_sums_in_blocks_leave_out_whole_tiles() -> None:
    """A block within one step of the window: where that is padding, partial sums are not read."""
    tile = next(
        t for t in skipping(IMAGE, "avx512") if t.source is VectorSource.PACKED and t.vectors_outer
    )
    for depth in (1, 3, 9):
        schedule = replace(tile, depth=depth, epilogue_ahead=False, panels_ahead=False)
        arrays = whole_inputs(IMAGE)
        expected = evaluate_task(IMAGE, arrays)[0]
        assert_same(Case.of(IMAGE, schedule).interpret(arrays)[0], expected, 0.0, str(schedule))
    conditions = [s for s in statements(lower(IMAGE, schedule).kernel.body) if isinstance(s, If)]
    assert conditions


def test_no_padded_copy_is_made() -> None:
    for schedule in skipping(IMAGE, "avx512"):
        assert not lower(IMAGE, schedule).kernel.scratch or schedule.depth, str(schedule)


@st.composite
def dilated(draw: st.DrawFn) -> Task:
    rank = draw(st.integers(1, 2))
    dilations = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    outputs = tuple(d * draw(st.integers(1, 3)) for d in dilations)
    reach = tuple(d * (k - 1) for d, k in zip(dilations, kernel, strict=True))
    fronts = tuple(draw(st.integers(0, r)) for r in reach)
    behind = tuple(draw(st.integers(0, r - f)) for r, f in zip(reach, fronts, strict=True))
    return padded(
        convolution(outputs, kernel, channels=(2, 5), dilations=dilations), fronts, behind
    )


@given(dilated())
@settings(deadline=None)
def test_guards_let_through_what_is_in_the_image(task: Task) -> None:
    """The needed share is that of the points at which the padded factor is read inside."""
    contraction = contraction_of(task)
    found = None if contraction is None else without_padding(task, contraction)
    if contraction is None or found is None:
        return
    inside = np.ones(task.inputs[0].shape, np.float32)
    ones = [inside, np.ones(task.inputs[1].shape, np.float32)]
    steps = evaluate_task(task, ones)[0].sum()
    every = prod(axis.extent for axis in (*contraction.axes, *contraction.reduction))
    assert needed_share(found) * every == pytest.approx(steps)
    assert all(guard.bounds[0] < 0 for guard in found.guards)


def test_large_dilations_skip_padding_by_rule() -> None:
    """Three quarters of the products of an image of 24 x 24 with a dilation of 18 are of zeros."""
    far = padded(
        convolution((24, 24), (3, 3), channels=(64, 64), dilations=(18, 18)), (18, 18), (18, 18)
    )
    best = contraction_estimate(far, Target.named("x86-64-v4"), 1, filtering=False)
    assert best is not None
    assert isinstance(best.schedule, RegisterTile)
    assert best.schedule.skips_padding
