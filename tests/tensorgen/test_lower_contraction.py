"""Register tiles: every candidate of every instruction set against the meaning of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.dense_copy import with_copy
from tensorgen.dialects import VECTOR_DIALECTS
from tensorgen.expr import Axis, Const, Expr, const
from tensorgen.loop import (
    Allocate,
    Declare,
    For,
    LoopKind,
    Prefetch,
    Space,
    Stmt,
    Store,
    TransposeBlock,
    statements,
)
from tensorgen.lower import lower
from tensorgen.lower_loops import replace_axes
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.sketch_tiles import register_tiles
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import float32, float64, int64
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

ISAS = ("c99", "sse42", "avx2", "avx512", "neon", "neon32")


def candidates(task: Task, isa: str, parallel: bool = False) -> list[RegisterTile]:
    """Every register tile for the task, each once."""
    contraction = contraction_of(task)
    assert contraction is not None, str(task)
    core = typical_core(isa, contraction.dtype)
    tiles = register_tiles(task, contraction, core, 2 if parallel else 1)
    return list(dict.fromkeys(estimate.schedule for estimate in tiles))


def shared_tiles(task: Task, isa: str) -> list[RegisterTile]:
    """Every register tile for several threads, each as a grid, too, where it can be one."""
    tiles = candidates(task, isa, parallel=True)
    grids = (
        replace(tile, grid=True)
        for tile in tiles
        if tile.source is not VectorSource.RUNTIME and not (tile.prologue or tile.row_block)
    )
    return list(dict.fromkeys((*tiles, *grids)))


TASKS: dict[str, Task] = {
    "matmul": matmul((), 7, 37, 3),
    "matmul by a constant": matmul((), 5, 19, 3, constant=(False, True)),
    "constant by matmul": matmul((), 13, 5, 3, constant=(True, False)),
    "row": matmul((), 1, 33, 5, constant=(False, True)),
    "column": matmul((), 17, 1, 5),
    "outer product": matmul((), 5, 18, 1),
    "transposed x": matmul((), 6, 17, 4, transposed=(True, False)),
    "transposed y": matmul((), 6, 17, 4, transposed=(False, True)),
    "transposed y, blocks": matmul((), 5, 21, 19, transposed=(False, True)),
    "both transposed": matmul((), 6, 5, 4, transposed=(True, True)),
    "transposed constant": matmul((), 6, 20, 4, transposed=(False, True), constant=(False, True)),
    "batched": matmul((2, 2), 5, 17, 3),
    "batched, shared y": matmul((3,), 4, 9, 3, shared=True, constant=(False, True)),
    "batched constant": matmul((2,), 4, 9, 3, constant=(False, True)),
    "double": matmul((), 5, 11, 3, dtype=float64),
    "double constant": matmul((), 5, 11, 3, constant=(False, True), dtype=float64),
    "convolution 1D": convolution((11,), (3,), channels=(2, 5)),
    "convolution 2D": convolution((4, 5), (3, 2), channels=(2, 7), strides=(2, 1)),
    "convolution 3D": convolution((2, 2, 3), (2, 1, 2), channels=(2, 3), dilations=(1, 2, 2)),
    "pointwise": convolution((3, 7), (1, 1), channels=(3, 6), batch=2),
    "grouped": convolution((5, 4), (2, 2), channels=(2, 3), groups=2),
    "depthwise": convolution((4, 6), (3, 3), channels=(1, 1), groups=5),
    "variable weights": convolution((3, 5), (2, 2), channels=(2, 5), constant=(False, False)),
    **{f"{kind} after matmul": with_epilogue(matmul((), 5, 19, 3), kind) for kind in EPILOGUES},
    **{
        f"{kind} after convolution": with_epilogue(
            convolution((3, 5), (2, 2), channels=(2, 5)), kind
        )
        for kind in EPILOGUES
    },
    "flatten after batched": with_epilogue(matmul((2,), 3, 5, 2), "flatten"),
    "padded line": padded(convolution((11,), (3,), channels=(2, 5)), (1,), (2,)),
    "padded images": padded(
        convolution((4, 5), (3, 2), channels=(2, 7), strides=(2, 1), batch=2), (1, 0), (0, 1)
    ),
    "padded groups": padded(
        convolution((3, 17), (2, 3), channels=(2, 3), groups=3, batch=2), (1, 1), (1, 1)
    ),
    "padded, with a stride": padded(
        convolution((2, 9), (3, 3), channels=(9, 5), strides=(2, 2)), (1, 1), (1, 1)
    ),
    "padded, far from even": padded(
        convolution((2, 3), (2, 4), channels=(17, 3), strides=(1, 3)), (1, 2), (0, 1)
    ),
    "pointwise with a stride": convolution(
        (3, 5), (1, 1), channels=(16, 6), strides=(2, 2), batch=2
    ),
    "line with a stride": convolution((11,), (3,), channels=(5, 6), strides=(2,)),
    "groups with a stride": with_epilogue(
        convolution((3, 3), (1, 1), channels=(3, 2), strides=(2, 3), groups=2), "bias"
    ),
    "padded volume": padded(
        convolution((2, 2, 3), (2, 1, 2), channels=(2, 3), dilations=(1, 2, 2)),
        (0, 0, 1),
        (1, 0, 2),
    ),
    "padded, variable weights": padded(
        convolution((3, 5), (2, 2), channels=(2, 5), constant=(False, False)), (1, 2), (2, 1)
    ),
    "bias after padded": padded(
        with_epilogue(convolution((3, 5), (3, 3), channels=(2, 5)), "bias"), (1, 1), (1, 1)
    ),
    "residual after padded": padded(
        with_epilogue(convolution((3, 5), (3, 3), channels=(2, 5)), "residual"), (1, 1), (1, 1)
    ),
}


@pytest.mark.parametrize("isa", ISAS)
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


COMPILED = ("c99", "sse42", "avx2", "avx512")


@pytest.mark.parametrize("isa", COMPILED)
def test_tiles_are_right_compiled(isa: str, tmp_path: Path) -> None:
    check_compiled(isa, False, 11, tmp_path)


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


# Sums in blocks


def depths(axes: Sequence[Axis]) -> list[int]:
    """The numbers of products that blocks of a sum over such axes can have."""
    found, inside = {1}, 1
    for axis in reversed(axes):
        found |= {inside * d for d in range(1, axis.extent + 1) if axis.extent % d == 0}
        inside *= axis.extent
    return sorted(found)


def in_blocks(task: Task, isa: str) -> list[RegisterTile]:
    """Tiles for the task whose sums are taken in blocks."""
    contraction = contraction_of(task)
    assert contraction is not None
    found = []
    for schedule in candidates(task, isa):
        read = contraction
        if schedule.copied is not None:
            copied = with_copy(task, contraction, schedule.copied)
            assert copied is not None
            read = copied
        roles = assign_roles(read, schedule.vector_operand)
        if roles.rows:
            found += [
                replace(schedule, vectors_outer=True, depth=depth, row_block=0)
                for depth in depths(roles.reduction)
            ]
    return found


@pytest.mark.parametrize("name", TASKS)
def test_sums_in_blocks_are_right_by_the_interpreter(name: str) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = in_blocks(task, "avx2")
    for schedule in tiles[:: max(len(tiles) // 12, 1)]:
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


def with_packed_rows(task: Task, isa: str, parallel: bool = False) -> list[RegisterTile]:
    """Tiles for the task whose rows are packed at run time: a tile at a time, two, or all rows."""
    contraction = contraction_of(task)
    assert contraction is not None
    found = []
    for schedule in candidates(task, isa, parallel):
        read = contraction
        if schedule.copied is not None:
            copied = with_copy(task, contraction, schedule.copied)
            assert copied is not None
            read = copied
        rows = assign_roles(read, schedule.vector_operand).rows
        if not rows or schedule.source is VectorSource.RUNTIME:
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


@pytest.mark.parametrize("name", TASKS)
def test_rows_packed_at_run_time_are_right_by_the_interpreter(name: str) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = with_packed_rows(task, "avx2", parallel=len(name) % 2 == 0)
    for schedule in tiles[:: max(len(tiles) // 4, 1)]:
        assert_same(Case.of(task, schedule).interpret(arrays)[0], expected, 0.0, str(schedule))


def test_rows_packed_at_run_time_are_right_in_c(tmp_path: Path) -> None:
    """Several tiles of rows and of columns, whole and not, with one thread and with two."""
    tasks = [
        matmul((), 37, 70, 19, constant=(False, True)),
        matmul((3,), 21, 40, 5, constant=(False, True), shared=True),
        with_epilogue(matmul((), 29, 67, 16, transposed=(True, False)), "bias"),
        TASKS["padded images"],
    ]
    for isa in runnable_isas():
        cases = []
        for task in tasks:
            for parallel in (False, True):
                tiles = with_packed_rows(task, isa, parallel)
                cases += [Case.of(task, tile) for tile in tiles[:: max(len(tiles) // 5, 1)]]
        compiled = CompiledKernels(cases, tmp_path / isa, target=Target.named(ISA_TARGETS[isa]))
        for number, case in enumerate(cases):
            arrays = whole_inputs(case.task)
            expected = evaluate_task(case.task, arrays)[0]
            assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


def test_packed_rows_keep_the_order_of_a_sum() -> None:
    task = matmul((), 23, 40, 24, constant=(False, True))
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(type.shape).astype(np.float32) for type in task.inputs]
    for schedule in with_packed_rows(task, "avx2")[::9]:
        whole = Case.of(task, replace(schedule, row_block=0)).interpret(arrays)[0]
        found = Case.of(task, schedule).interpret(arrays)[0]
        np.testing.assert_array_equal(found, whole, str(schedule))


def test_one_block_of_all_rows_is_packed_by_all_threads() -> None:
    task = matmul((), 24, 256, 16, constant=(False, True))
    tile = next(t for t in with_packed_rows(task, "avx2", parallel=True) if t.rows == 4)
    for block, space in ((24, Space.SHARED), (12, Space.SCRATCH)):
        kernel = lower(task, replace(tile, row_block=block)).kernel
        (panel,) = (buffer for buffer in kernel.scratch if buffer.name == "rows")
        assert (panel.space, panel.size) == (space, block * 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_block": 7}, "expected blocks of a multiple of 4 rows, got 7"),
        ({"vectors_outer": False}, "expected rows inside the loop over vector tiles"),
        ({"row_packed": True}, "a broadcast factor not packed yet"),
        ({"grid": True}, "expected rows inside the loop over vector tiles"),
        ({"source": VectorSource.RUNTIME}, "expected rows inside the loop over vector tiles"),
    ],
)
def test_what_does_not_go_with_packed_rows_is_refused(
    change: dict[str, object], message: str
) -> None:
    task = matmul((), 24, 64, 16, constant=(False, True))
    tile = next(t for t in with_packed_rows(task, "avx2") if t.rows == 4)
    with pytest.raises(ScheduleError, match=message):
        lower(task, replace(tile, **change))  # type: ignore[arg-type]


def test_blocks_keep_the_order_of_a_sum() -> None:
    """Not a bit of the result depends on where a sum is interrupted."""
    task = matmul((), 9, 11, 24, constant=(False, True))
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(type.shape).astype(np.float32) for type in task.inputs]
    for schedule in in_blocks(task, "avx2")[::7]:
        whole = Case.of(task, replace(schedule, depth=0)).interpret(arrays)[0]
        found = Case.of(task, schedule).interpret(arrays)[0]
        np.testing.assert_array_equal(found, whole, str(schedule))


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


def test_threads_compute_the_same(tmp_path: Path) -> None:
    cases = [
        Case.of(task, schedule)
        for task in map(
            TASKS.__getitem__, ("batched", "convolution 2D", "grouped", "padded groups")
        )
        for schedule in shared_tiles(task, "c99")[::5]
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


def asked_places(
    body: tuple[Stmt, ...], values: dict[Axis, Expr], asked: dict[int, set[int]]
) -> None:
    """The flat places of every buffer, by its number, whose lines a kernel asks for."""
    for statement in body:
        match statement:
            case For(axis=axis):
                for value in range(axis.extent):
                    asked_places(statement.body, {**values, axis: const(value, int64)}, asked)
            case Allocate() | Declare():
                asked_places(statement.body, values, asked)
            case Prefetch(buffer=buffer):
                place = replace_axes(statement.index, values)
                assert isinstance(place, Const)
                asked.setdefault(buffer.number, set()).add(int(place.value))
            case _:
                pass


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
        tried += 1
        packing = lowered.packing[packed.number]
        assert packing is not None
        panel = packed.size // packing.type.shape[0]
        last = backwards and schedule.vectors_outer
        others = range(packed.size - panel) if last else range(panel, packed.size)
        lines = {place // 16 for place in asked[packed.number]}
        assert lines >= {place // 16 for place in others}, str(schedule)
    assert tried


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
