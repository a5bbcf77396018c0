"""Register tiles: every candidate of every instruction set against the meaning of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.dialects import VECTOR_DIALECTS
from tensorgen.expr import Const, const
from tensorgen.loop import (
    For,
    LoopKind,
    Prefetch,
    Space,
    Store,
    TransposeBlock,
    statements,
)
from tensorgen.lower import lower
from tensorgen.lower_loops import replace_axes
from tensorgen.panel_lines import PanelLines
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.sketch_tiles import register_tiles
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import float32, float64, int64
from tests.asked_places import asked_places
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
    runnable_isas,
)
from tests.contraction_tasks import (
    EPILOGUES,
    convolution,
    matmul,
    padded,
    typical_core,
    whole_inputs,
    with_epilogue,
)
from tests.contraction_tiles import TASKS, candidates

ISAS = ("c99", "sse42", "avx2", "avx512", "neon", "neon32")

ALIKE = {"sse42", "neon32"}
"""Those with the vectors of another, whose loops differ in spelling only."""


def sampled(isas: Sequence[str]) -> list[object]:
    return [pytest.param(isa, marks=pytest.mark.slow) if isa in ALIKE else isa for isa in isas]


def shared_tiles(task: Task, isa: str) -> tuple[RegisterTile, ...]:
    """Every register tile for several threads, each as a grid, too, where it can be one."""
    tiles = candidates(task, isa, parallel=True)
    grids = (
        replace(tile, grid=True)
        for tile in tiles
        if tile.source is not VectorSource.RUNTIME and not (tile.prologue or tile.row_block)
    )
    return tuple(dict.fromkeys((*tiles, *grids)))


@pytest.mark.parametrize("isa", sampled(ISAS))
@pytest.mark.parametrize("name", TASKS)
def test_every_tile_is_right_by_the_interpreter(name: str, isa: str) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = candidates(task, isa)
    # Bounded, spread over the candidates; the compiled sweep tries all of them.
    for schedule in tiles[:: max(1, len(tiles) // 3)]:
        found = Case.of(task, schedule).interpret(arrays)[0]
        assert_same(found, expected, 0.0, f"{name} {schedule}")


@pytest.mark.parametrize("isa", ["c99", "avx512"])
@pytest.mark.parametrize("name", ["matmul by a constant", "row", "transposed constant"])
def test_backwards_is_the_same(name: str, isa: str) -> None:
    """Tiles from last to first, the remainder before them: the same elements, sum for sum."""
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = candidates(task, isa)
    for schedule in tiles[:: max(1, len(tiles) // 6)]:
        case = Case.of(task, replace(schedule, backwards=True))
        assert_same(case.interpret(arrays)[0], expected, 0.0, f"{name} {schedule}")


def check_compiled(isa: str, strict: bool, every: int, cache: Path) -> None:
    """Every `every`-th candidate of all tasks, compiled, is right."""
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    pairs = [(name, schedule) for name in TASKS for schedule in candidates(TASKS[name], isa)]
    chosen = pairs[::every]
    cases = [Case.of(TASKS[name], schedule) for name, schedule in chosen]
    target = Target.named(ISA_TARGETS[isa])
    compiled = CompiledKernels(cases, cache, target=target, strict=strict)
    for number, ((name, schedule), case) in enumerate(zip(chosen, cases, strict=True)):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, f"{name} {schedule}")


COMPILED = sampled(("c99", "sse42", "avx2", "avx512"))


@pytest.mark.parametrize("isa", COMPILED)
def test_tiles_are_right_compiled(isa: str, tmp_path: Path) -> None:
    # The sweep below compiles all of them.
    check_compiled(isa, False, 29, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True], ids=["fused", "strict"])
@pytest.mark.parametrize("isa", COMPILED)
def test_every_tile_is_right_compiled(isa: str, strict: bool, tmp_path: Path) -> None:
    check_compiled(isa, strict, 1, tmp_path)


small = st.integers(1, 6)


@st.composite
def contractions(draw: st.DrawFn) -> Task:
    """A random contraction, with a random epilogue or none."""
    flags = st.tuples(st.booleans(), st.booleans())
    constant = draw(flags)
    dtype = draw(st.sampled_from([float32, float64]))
    if draw(st.booleans()):
        batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
        task = matmul(
            batch, draw(small), draw(st.integers(1, 20)), draw(small),
            transposed=draw(flags), shared=draw(st.booleans()), constant=constant, dtype=dtype,
        )  # fmt: skip
    else:
        rank = draw(st.integers(1, 3))

        def values(low: int, high: int) -> tuple[int, ...]:
            return tuple(draw(st.integers(low, high)) for _ in range(rank))

        task = convolution(
            values(1, 4), values(1, 3), channels=(draw(st.integers(1, 3)), draw(small)),
            groups=draw(st.integers(1, 3)), strides=values(1, 3), dilations=values(1, 2),
            batch=draw(st.integers(1, 2)), constant=constant, dtype=dtype,
        )  # fmt: skip
    kind = draw(st.sampled_from([None, *EPILOGUES]))
    task = task if kind is None else with_epilogue(task, kind)
    width = task.inputs[0].shape[-1]
    front = draw(st.integers(0, width - 1))
    behind = draw(st.integers(0, width - 1 - front))
    return padded(task, (front,), (behind,)) if front + behind else task


@given(contractions(), st.sampled_from(ISAS), st.data())
@settings(deadline=None, max_examples=25)
def test_random_contractions_by_the_interpreter(task: Task, isa: str, data: st.DataObject) -> None:
    contraction = contraction_of(task)
    if contraction is None:
        return
    tiles = candidates(task, isa) + shared_tiles(task, isa)
    if not tiles:
        return
    schedule = data.draw(st.sampled_from(tiles))
    arrays = whole_inputs(task)
    case = Case.of(task, schedule)
    assert_same(case.interpret(arrays)[0], evaluate_task(task, arrays)[0], 0.0, str(schedule))


# The form of the loops


@pytest.mark.parametrize(("vector", "inner"), [(0, "i"), (1, "lane")])
def test_a_tile_is_stored_along_its_nearest_neighbours(vector: int, inner: str) -> None:
    """out[i, 2 * j + n]: columns lie 2 apart and rows 38, be they the tile's lanes or not."""
    task = with_epilogue(matmul((2,), 5, 19, 3), "interleave")
    for schedule in candidates(task, "avx512"):
        if schedule.vector_operand != vector or 19 % schedule.rows == 1 or schedule.rows == 1:
            continue
        loops = [s for s in statements(lower(task, schedule).kernel.body) if isinstance(s, For)]
        stores = [
            loop.axis.name
            for loop in loops
            if isinstance(loop.body[0], Store) and loop.body[0].buffer.space is Space.OUTPUT
        ]
        assert set(stores) == {inner}, str(schedule)


def test_threads_share_all_tiles_at_once() -> None:
    """One loop is shared, tails included: threads meet once."""
    task = matmul((2,), 9, 40, 3)
    for schedule in shared_tiles(task, "avx512"):
        kernel = lower(task, schedule).kernel
        loops = [s for s in statements(kernel.body) if isinstance(s, For)]
        assert [s for s in loops if s.kind is LoopKind.PARALLEL] == [kernel.body[0]], str(schedule)
        assert len(kernel.body) == 1


@pytest.mark.parametrize("every", [11, pytest.param(5, marks=pytest.mark.slow)])
def test_threads_compute_the_same(every: int, tmp_path: Path) -> None:
    cases = [
        Case.of(task, schedule)
        for task in map(
            TASKS.__getitem__, ("batched", "convolution 2D", "grouped", "padded groups")
        )
        for schedule in shared_tiles(task, "c99")[::every]
    ]
    compiled = CompiledKernels(cases, tmp_path, target=Target.named("c99"), threads=2)
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


def test_threads_turn_and_copy_the_same(tmp_path: Path) -> None:
    """Slabs that lie together and dense copies, made by one thread or shared, are whole when the
    tiles read them."""
    cases = []
    for name in ("padded, with a stride", "pointwise with a stride", "line with a stride"):
        tiles = [t for t in shared_tiles(TASKS[name], "c99") if t.together or t.copied is not None]
        cases += [Case.of(TASKS[name], schedule) for schedule in tiles[:: len(tiles) // 6 + 1]]
    compiled = CompiledKernels(cases, tmp_path, target=Target.named("c99"), threads=2)
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


def test_padding_is_made_by_the_thread_that_reads_it() -> None:
    """Inside the loops over images and groups every thread has a slab of one group; inside none,
    the whole plane is made once, for all threads."""
    task = TASKS["padded groups"]
    for schedule in candidates(task, "avx512", parallel=True):
        kernel = lower(task, schedule).kernel
        (slab,) = (buffer for buffer in kernel.scratch if buffer.name == "padded")
        assert slab.space is (Space.SCRATCH if schedule.prologue else Space.SHARED)
        plane = 4 * 19
        sizes = [{12 * plane}, {6 * plane, 4 * plane}, {2 * plane}, {2 * 2 * 19}]
        assert slab.size in sizes[schedule.prologue], str(schedule)
        outermost = [s for s in kernel.body if isinstance(s, For)]
        assert bool(outermost) == bool(schedule.prologue)
        assert all(loop.kind is LoopKind.PARALLEL for loop in outermost)


def test_what_comes_from_afar_is_asked_for_ahead() -> None:
    """A factor read in place, too large for the caches near the core: the next tile's lines."""
    far = convolution((64, 64), (1, 1), channels=(64, 8))
    near = convolution((8, 8), (1, 1), channels=(64, 8))
    for task, expected in ((far, True), (near, False)):
        for schedule in candidates(task, "avx512"):
            if schedule.source is VectorSource.RUNTIME:
                continue
            asked = [
                s for s in statements(lower(task, schedule).kernel.body) if isinstance(s, Prefetch)
            ]
            assert schedule.ahead == expected == bool(asked), str(schedule)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "task",
    [
        matmul((), 21, 67, 3, constant=(False, True)),
        matmul((), 67, 45, 3, constant=(True, False)),
        convolution((3, 7), (2, 1), channels=(3, 71)),
    ],
    ids=str,
)
def test_every_line_of_the_next_panel_is_asked_for(task: Task, backwards: bool) -> None:
    """Where packed panels come from afar, the tiles that read one ask for all of the next one."""
    contraction = contraction_of(task)
    assert contraction is not None
    core = replace(typical_core("avx512", contraction.dtype), second_cache=0)
    tried = 0
    tiles = dict.fromkeys(e.schedule for e in register_tiles(task, contraction, core, 1))
    for schedule in tuple(tiles)[::3]:
        outer = schedule.vector_operand if schedule.vectors_outer else 1 - schedule.vector_operand
        lowered = lower(task, replace(schedule, backwards=backwards))
        packed = lowered.kernel.inputs[contraction.operands[outer]]
        asked: dict[int, set[int]] = {}
        asked_places(lowered.kernel.body, {}, asked)
        if not schedule.panels_ahead:
            assert packed.number not in asked or schedule.ahead
            continue
        if schedule.source is VectorSource.RUNTIME and schedule.vectors_outer:
            continue
        tried += 1
        packing = lowered.packing[packed.number]
        assert packing is not None
        panel = packed.size // packing.type.shape[0]
        last = backwards and schedule.vectors_outer
        others = range(packed.size - panel) if last else range(panel, packed.size)
        lines = {place // 16 for place in asked[packed.number]}
        assert lines >= {place // 16 for place in others}, str(schedule)
    assert tried


@pytest.mark.parametrize(
    "task",
    [
        matmul((), 21, 67, 3),
        matmul((2,), 21, 67, 3, shared=True),
        matmul((), 21, 70, 20, transposed=(False, True)),
        convolution((9, 9), (1, 1), channels=(5, 13)),
        convolution((11, 13), (3, 2), channels=(3, 13)),
    ],
    ids=str,
)
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_every_line_is_asked_for_that_the_next_panel_is_packed_from(task: Task, isa: str) -> None:
    """Where panels are packed from afar, the tiles that read one ask for what the next one in their
    loop is packed from. The first panel of a loop nobody asks for, nor a shorter one's next."""
    contraction = contraction_of(task)
    assert contraction is not None
    core = replace(typical_core(isa, contraction.dtype), second_cache=0)
    tried = 0
    tiles = dict.fromkeys(e.schedule for e in register_tiles(task, contraction, core, 1))
    for schedule in tiles:
        if schedule.source is not VectorSource.RUNTIME or not schedule.panels_ahead:
            continue
        tried += 1
        roles = assign_roles(contraction, schedule.vector_operand)
        kernel = lower(task, schedule).kernel
        source = kernel.inputs[contraction.operands[schedule.vector_operand]]
        asked: dict[int, set[int]] = {}
        asked_places(kernel.body, {}, asked)
        assert set(asked) <= {source.number, *(b.number for b in kernel.inputs if schedule.ahead)}
        lines = {place // 16 for place in asked.get(source.number, ())}
        factor = roles.contraction.factors[schedule.vector_operand]
        *outer, column = roles.vectors
        width = schedule.vectors * schedule.lanes
        first: set[int] = set()
        later: set[int] = set()
        for point in product(
            *(range(axis.extent) for axis in (*roles.batch, *outer, *roles.reduction, column))
        ):
            axes = (*roles.batch, *outer, *roles.reduction, column)
            values = {axis: const(n, int64) for axis, n in zip(axes, point, strict=True)}
            place = replace_axes(factor.expr, values)
            assert isinstance(place, Const)
            (first if point[-1] < width else later).add(int(place.value) // 16)
        assert lines >= later - first, str(schedule)
    assert tried


def test_lines_that_a_panel_is_packed_from_are_numbered_once() -> None:
    """Each number is a place of its own, along the lanes or along the sum."""
    for task, near in (
        (matmul((), 8, 70, 5), "lanes"),
        (matmul((), 8, 70, 35, transposed=(False, True)), "sum"),
    ):
        contraction = contraction_of(task)
        assert contraction is not None
        roles = assign_roles(contraction, 1)
        lines = PanelLines.of(roles, 1, 24)
        assert lines is not None
        assert lines.count == {"lanes": 5 * 2, "sum": 24 * 3}[near]
        places = set()
        for number in range(lines.count):
            point = tuple(lines.point(const(number, int64)).values())
            assert all(isinstance(place, Const) for place in point)
            places.add(tuple(place.value for place in point if isinstance(place, Const)))
        assert len(places) == lines.count
        assert all(0 <= k < roles.reduction[0].extent and 0 <= lane < 24 for k, lane in places)


def test_nothing_is_asked_for_where_no_line_has_neighbours() -> None:
    task = convolution((9, 9), (1, 1), channels=(5, 13), strides=(2, 2))
    contraction = contraction_of(task)
    assert contraction is not None
    roles = assign_roles(contraction, 0)
    assert PanelLines.of(roles, 0, 16) is None
    tile = next(
        s for s in candidates(task, "avx512")
        if s.source is VectorSource.RUNTIME and s.vector_operand == 0
    )  # fmt: skip
    assert not tile.panels_ahead
    with pytest.raises(ScheduleError, match="expected neighbours along the lanes"):
        lower(task, replace(tile, panels_ahead=True, vectors=1))


def test_relaid_constants_are_filled_with_zeros() -> None:
    task = matmul((), 5, 19, 3, constant=(False, True))
    schedule = next(
        s for s in candidates(task, "avx512") if s.source is VectorSource.PACKED and s.vectors == 1
    )
    case = Case.of(task, schedule)
    x, y = whole_inputs(task)
    packed = case.kernel_inputs([x, y])[schedule.vector_operand]
    assert packed.shape == (2, 3, 16)
    np.testing.assert_array_equal(packed[0], y[:, :16])
    np.testing.assert_array_equal(packed[1, :, :3], y[:, 16:])
    assert not packed[1, :, 3:].any()


def test_a_tile_refuses_what_is_no_contraction() -> None:
    task = matmul((), 4, 4, 4)
    schedule = candidates(task, "avx512")[0]
    stage = replace(task.stages[0], body=task.stages[0].body + 1.0)
    other = Task(task.inputs, (stage,), (0,), task.constant)
    with pytest.raises(ScheduleError, match="register_tile: expected a contraction, got out"):
        lower(other, schedule)


def test_a_tile_refuses_a_factor_without_an_axis_for_the_lanes() -> None:
    schedule = replace(candidates(matmul((), 4, 4, 4), "avx512")[0], vector_operand=1)
    task = matmul((), 4, 1, 4)
    message = "register_tile: expected an axis along the lanes, got none"
    with pytest.raises(ScheduleError, match=message):
        lower(task, schedule)


def test_every_dialect_is_tried() -> None:
    assert {isa for isa, _ in VECTOR_DIALECTS} <= set(ISAS)


def test_rows_stored_across_the_lanes_are_transposed_in_blocks() -> None:
    """out[i, j] by lanes along i: neighbours of a row come from different vectors."""
    task = matmul((), 37, 21, 3, constant=(True, False))
    for kind in (None, "residual", "row bias"):
        turned = task if kind is None else with_epilogue(task, kind)
        for schedule in candidates(turned, "avx512"):
            if schedule.vector_operand != 0 or schedule.rows == 1:
                continue
            assert schedule.turned
            kernel = lower(turned, schedule).kernel
            blocks = [s for s in statements(kernel.body) if isinstance(s, TransposeBlock)]
            assert blocks, str(schedule)
            assert all(block.rows <= 16 and block.columns <= 16 for block in blocks)
