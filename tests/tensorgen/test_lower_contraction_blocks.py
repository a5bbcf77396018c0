"""Register tiles in blocks: sums interrupted between blocks, and rows packed a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from tensorgen.contraction import Roles, assign_roles, contraction_of
from tensorgen.dense_copy import with_copy
from tensorgen.expr import Axis
from tensorgen.loop import For, LoopKind, Space, statements
from tensorgen.lower import lower
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.sketch_tiles import register_tiles
from tensorgen.target import Target
from tensorgen.task import Task
from tests.asked_places import places_in_turn
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
    runnable_isas,
)
from tests.contraction_tasks import (
    convolution,
    matmul,
    typical_core,
    whole_inputs,
    with_epilogue,
)
from tests.contraction_tiles import TASKS, candidates

BY_CONSTANT = matmul((), 21, 67, 24, constant=(False, True))
FILTERED = convolution((3, 7), (2, 1), channels=(6, 71))


def depths(axes: Sequence[Axis]) -> list[int]:
    """The numbers of products that blocks of a sum over such axes can have."""
    found, inside = {1}, 1
    for axis in reversed(axes):
        found |= {inside * d for d in range(1, axis.extent + 1) if axis.extent % d == 0}
        inside *= axis.extent
    return sorted(found)


def roles_of(task: Task, schedule: RegisterTile) -> Roles:
    """What the axes of the task are under a schedule."""
    return roles_of_operand(task, schedule.vector_operand, schedule.copied)


@cache
def roles_of_operand(task: Task, vector_operand: int, copied: int | None) -> Roles:
    """The same for all schedules with that operand along the lanes and that copy."""
    contraction = contraction_of(task)
    assert contraction is not None
    if copied is not None:
        contraction = with_copy(task, contraction, copied)
        assert contraction is not None
    return assign_roles(contraction, vector_operand)


def check_order(
    task: Task, schedules: Sequence[RegisterTile], whole: Callable[[RegisterTile], RegisterTile]
) -> None:
    """Not a bit of the result differs from that of the schedules made `whole`."""
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(type.shape).astype(np.float32) for type in task.inputs]
    for schedule in schedules:
        expected = Case.of(task, whole(schedule)).interpret(arrays)[0]
        found = Case.of(task, schedule).interpret(arrays)[0]
        np.testing.assert_array_equal(found, expected, str(schedule))


def in_blocks(task: Task, isa: str) -> list[RegisterTile]:
    """Tiles for the task whose sums are taken in blocks."""
    found = []
    for schedule in candidates(task, isa):
        roles = roles_of(task, schedule)
        if roles.rows:
            found += [
                replace(schedule, vectors_outer=True, depth=depth, row_block=0)
                for depth in depths(roles.reduction)
            ]
    return found


@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TASKS)
def test_sums_in_blocks_are_right_by_the_interpreter(name: str, count: int) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = in_blocks(task, "avx2")
    for schedule in tiles[:: max(len(tiles) // count, 1)]:
        assert_same(Case.of(task, schedule).interpret(arrays)[0], expected, 0.0, str(schedule))


def test_sums_in_blocks_are_right_in_c(tmp_path: Path) -> None:
    cases = []
    for name in ("matmul by a constant", "convolution 2D", "grouped", "padded images"):
        task = TASKS[name]
        for kind in (None, "bias", "residual"):
            other = task if kind is None or len(task.stages) > 1 else with_epilogue(task, kind)
            tiles = in_blocks(other, "avx2")
            cases += [Case.of(other, schedule) for schedule in tiles[:: max(len(tiles) // 6, 1)]]
    target = Target.named(ISA_TARGETS[runnable_isas()[-1]])
    if target.isa not in ("avx2", "avx512"):
        pytest.skip("needs vectors of eight elements")
    compiled = CompiledKernels(cases, tmp_path, target=Target.named("x86-64-v3"))
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


@pytest.mark.parametrize("task", [BY_CONSTANT, FILTERED], ids=str)
def test_each_block_of_a_sum_asks_for_the_next_one(task: Task) -> None:
    """All lines of the packed factor but those of the first block are asked for in the block that
    is read before theirs, behind the end of a panel, too: not earlier, when the caches near the
    core would lose them."""
    tried = 0
    for schedule in in_blocks(task, "avx512")[::23]:
        if schedule.source is not VectorSource.PACKED:
            continue
        panels = replace(schedule, panels_ahead=True, ahead=False, backwards=False)
        lowered = lower(task, panels)
        contraction = contraction_of(task)
        assert contraction is not None
        packed = lowered.kernel.inputs[contraction.operands[schedule.vector_operand]]
        size = schedule.depth * schedule.vectors * schedule.lanes
        asked: dict[int, set[int]] = {}
        block = 0
        for buffer, place, is_read in places_in_turn(lowered.kernel.body, {}):
            if buffer is packed and is_read:
                block = place // size
            elif buffer is packed:
                asked.setdefault(block, set()).add(place // 16)
        for number in range(1, packed.size // size):
            lines = {place // 16 for place in range(number * size, (number + 1) * size)}
            assert asked[number - 1] >= lines, f"{panels}: block {number}"
        tried += 1
    assert tried > 3


def with_packed_rows(task: Task, isa: str, parallel: bool = False) -> list[RegisterTile]:
    """Tiles for the task whose rows are packed at run time: a tile at a time, two, or all rows."""
    found = []
    for schedule in candidates(task, isa, parallel):
        rows = roles_of(task, schedule).rows
        if not rows or schedule.source is VectorSource.RUNTIME or schedule.skips_padding:
            continue
        every = -(-rows[-1].extent // schedule.rows)
        found += [
            replace(
                schedule, vectors_outer=True, row_packed=False, depth=0, grid=False, ahead=False,
                panels_ahead=schedule.source is VectorSource.PACKED,
                row_block=tiles * schedule.rows,
            )
            for tiles in sorted({1, 2, every})
        ]  # fmt: skip
    return list(dict.fromkeys(found))


def in_place(tiles: list[RegisterTile]) -> list[RegisterTile]:
    """The same with blocks of rows that stay where they are."""
    return [replace(tile, block_in_place=True) for tile in tiles]


def in_groups(task: Task, tiles: list[RegisterTile]) -> list[RegisterTile]:
    """The same that have several blocks of rows, with vector tiles in groups of one or of two."""
    found = []
    for number, tile in enumerate(tiles):
        roles = roles_of(task, tile)
        if tile.row_block < roles.rows[-1].extent and len(roles.vectors) == 1:
            packed = tile.source is VectorSource.PACKED
            backwards = packed and number % 3 == 0
            found.append(replace(tile, panel_group=1 + number % 2, backwards=backwards))
    return found


@pytest.mark.parametrize("name", TASKS)
def test_rows_in_blocks_are_right_by_the_interpreter(name: str) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = with_packed_rows(task, "avx2", parallel=len(name) % 2 == 0)
    some = tiles[:: max(len(tiles) // 4, 1)]
    grouped = in_groups(task, tiles)
    grouped = grouped[:: max(len(grouped) // 3, 1)]
    for schedule in (*some, *in_place(some), *grouped, *in_place(grouped)):
        assert_same(Case.of(task, schedule).interpret(arrays)[0], expected, 0.0, str(schedule))


@pytest.mark.parametrize(
    # Vectors of SSE are spelled like those of AVX2.
    "isa",
    ["c99", pytest.param("sse42", marks=pytest.mark.slow), "avx2", "avx512"],
)
def test_rows_in_blocks_are_right_in_c(isa: str, tmp_path: Path) -> None:
    """Several tiles of rows and of columns, whole and not, with one thread and with two."""
    tasks = [
        matmul((), 37, 70, 19, constant=(False, True)),
        matmul((3,), 21, 40, 5, constant=(False, True), shared=True),
        with_epilogue(matmul((), 29, 67, 16, transposed=(True, False)), "bias"),
        TASKS["padded images"],
    ]
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    cases = []
    for task in tasks:
        for parallel in (False, True):
            tiles = with_packed_rows(task, isa, parallel)
            some = tiles[:: max(len(tiles) // 5, 1)]
            grouped = in_groups(task, tiles)
            grouped = grouped[:: max(len(grouped) // 4, 1)]
            every = (*some, *in_place(some[::2]), *grouped, *in_place(grouped[1::2]))
            cases += [Case.of(task, tile) for tile in every]
    compiled = CompiledKernels(cases, tmp_path, target=Target.named(ISA_TARGETS[isa]))
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


def test_rows_in_blocks_keep_the_order_of_a_sum() -> None:
    task = matmul((), 23, 40, 24, constant=(False, True))
    tiles = with_packed_rows(task, "avx2")[::9]
    whole = partial(replace, row_block=0, block_in_place=False, panel_group=0, backwards=False)
    grouped = in_groups(task, tiles)
    check_order(task, [*tiles, *in_place(tiles), *grouped, *in_place(grouped)], whole)


def test_all_blocks_of_rows_go_over_a_group_of_panels_before_the_next() -> None:
    """Panels of the packed factor are read in this order: those of a group once for each block of
    rows, and then those of the next; the last group and its last panel are shorter."""
    task = matmul((), 24, 70, 16, constant=(False, True))
    tile = next(
        tile
        for tile in in_place(with_packed_rows(task, "avx2"))
        if (tile.rows, tile.vectors, tile.source) == (4, 2, VectorSource.PACKED)
    )
    grouped = replace(tile, row_block=12, panel_group=2, panels_ahead=False)
    kernel = lower(task, grouped).kernel
    packed = next(buffer for buffer in kernel.inputs if buffer.name.endswith("_packed"))
    panels = [
        place // (16 * 16)
        for buffer, place, is_read in places_in_turn(kernel.body, {})
        if buffer is packed and is_read
    ]
    turns = [panel for panel, _ in groupby(panels)]
    assert turns == [0, 1, 0, 1, 2, 3, 2, 3, 4]


def test_one_block_of_all_rows_is_packed_by_all_threads() -> None:
    task = matmul((), 24, 256, 16, constant=(False, True))
    tile = next(t for t in with_packed_rows(task, "avx2", parallel=True) if t.rows == 4)
    for block, space in ((24, Space.SHARED), (12, Space.SCRATCH)):
        kernel = lower(task, replace(tile, row_block=block)).kernel
        (panel,) = (buffer for buffer in kernel.scratch if buffer.name == "rows")
        assert (panel.space, panel.size) == (space, block * 16)


def test_threads_share_blocks_that_stay_in_place_without_a_copy() -> None:
    task = matmul((), 24, 256, 16, constant=(False, True))
    tile = next(t for t in with_packed_rows(task, "avx2", parallel=True) if t.rows == 4)
    kernel = lower(task, replace(tile, row_block=12, block_in_place=True)).kernel
    assert kernel.scratch == ()
    loops = [loop for loop in statements(kernel.body) if isinstance(loop, For)]
    shared = [loop.axis.extent for loop in loops if loop.kind is LoopKind.PARALLEL]
    assert shared == [2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_block": 7}, "expected blocks of a multiple of 4 rows, got 7"),
        ({"vectors_outer": False}, "expected rows inside the loop over vector tiles"),
        ({"row_packed": True}, "a broadcast factor not packed yet"),
        ({"grid": True}, "expected rows inside the loop over vector tiles"),
        ({"source": VectorSource.RUNTIME}, "expected rows inside the loop over vector tiles"),
        ({"row_block": 0, "block_in_place": True}, "expected a length of the blocks of rows"),
        ({"row_block": 0, "panel_group": 2}, "expected a length of the blocks of rows"),
        ({"row_block": 24, "panel_group": 2}, "expected several blocks of rows and one axis"),
    ],
)
def test_what_does_not_go_with_blocks_of_rows_is_refused(
    change: dict[str, object], message: str
) -> None:
    task = matmul((), 24, 64, 16, constant=(False, True))
    tile = next(t for t in with_packed_rows(task, "avx2") if t.rows == 4)
    with pytest.raises(ScheduleError, match=message):
        lower(task, replace(tile, **change))  # type: ignore[arg-type]


def test_blocks_keep_the_order_of_a_sum() -> None:
    """Not a bit of the result depends on where a sum is interrupted."""
    task = matmul((), 9, 11, 24, constant=(False, True))
    check_order(task, in_blocks(task, "avx2")[::7], lambda tile: replace(tile, depth=0))


def test_blocks_divide_the_sum() -> None:
    task = matmul((), 9, 11, 24, constant=(False, True))
    schedule = in_blocks(task, "avx2")[0]
    with pytest.raises(ScheduleError, match="expected a depth that divides 24 products"):
        lower(task, replace(schedule, depth=5))
    with pytest.raises(ScheduleError, match="expected rows inside the loop over vector tiles"):
        lower(task, replace(schedule, vectors_outer=False))


def test_blocks_are_taken_where_the_second_cache_is_too_slow() -> None:
    """On small planes AVX2 would read panel and rows from the second cache, faster than it gives
    them; tiles of AVX-512 compute longer on what they have read. A short sum stays near."""
    deep = convolution((7, 7), (1, 1), channels=(2048, 512))
    short = convolution((7, 7), (1, 1), channels=(64, 512))
    for task, isa, expected in (
        (deep, "avx2", True),
        (deep, "avx512", False),
        (short, "avx2", False),
    ):
        contraction, core = contraction_of(task), typical_core(isa)
        assert contraction is not None
        estimates = register_tiles(task, contraction, core, 1)
        best = min(estimates, key=lambda estimate: estimate.cycles).schedule
        assert bool(best.depth) == expected, str(best)
        assert best.depth * best.vectors * best.lanes * 4 <= core.loads[0][0], str(best)
