"""Loop nests: every kind of lanes, every tail, against the meaning of the stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.expr import (
    Expr,
    Fold,
    Reduce,
    Tensor,
    TensorExpr,
    apply,
    compute,
    maximum,
    reduce,
    reduce_sum,
    select,
    walk,
)
from tensorgen.loop import For, LoopKind, Space, Store, statements
from tensorgen.lower import lower
from tensorgen.lower_loops import Span, spans
from tensorgen.schedule import Lanes, Loops, RowStages, ScheduleError
from tensorgen.task import Task
from tensorgen.types import bfloat16, int32
from tests.compiled_kernels import Case, CompiledKernels, assert_same, evaluate_task
from tests.contraction_tasks import whole_inputs
from tests.stage_tasks import stage_task
from tests.stage_tasks import tensor_type as f

TASKS: dict[str, Task] = {
    "scalar": stage_task((f(), f()), lambda x, y: compute((), lambda: x[()] + y[()])),
    "chain": stage_task((f(5, 7), f(7)), lambda x, y: compute(
        (5, 7), lambda i, j: maximum(x[i, j] * y[j], 0.0))),
    "transpose": stage_task((f(5, 7),), lambda x: compute((7, 5), lambda i, j: x[j, i])),
    "rows": stage_task((f(5, 23),), lambda x: compute(
        (5,), lambda i: reduce_sum(23, lambda k: x[i, k]))),
    "columns": stage_task((f(23, 5),), lambda x: compute(
        (5,), lambda j: reduce_sum(23, lambda k: x[k, j]))),
    "everything": stage_task((f(3, 4, 5),), lambda x: compute(
        (), lambda: reduce_sum((3, 4, 5), lambda a, b, c: x[a, b, c]))),
    "outer axes": stage_task((f(3, 4, 5),), lambda x: compute(
        (4,), lambda j: reduce(Fold.MAX, (3, 5), lambda a, c: x[a, j, c]))),
    "window": stage_task((f(6, 11),), lambda x: compute(
        (4, 5), lambda i, j: reduce(Fold.MIN, (3, 3), lambda a, b: x[i + a, j * 2 + b]))),
    "padded": stage_task((f(6,),), lambda x: compute(
        (9,), lambda i: select((i >= 1) & (i < 7), x[i - 1], 5.0))),
    "enlarged": stage_task((f(3, 11), f(6, 22)), lambda x, y: compute(
        (6, 22), lambda i, j: y[i, j] * 2.0 + x[i // 2, j // 2])),
    "enlarged thrice": stage_task((f(23), f(3)), lambda x, y: compute(
        (69,), lambda i: x[i // 3] * y[i % 3])),
    "enlarged and cut": stage_task((f(13),), lambda x: compute(
        (21,), lambda i: x[(i + 3) // 2])),
    "enlarged twice": stage_task((f(6), f(4)), lambda x, y: compute(
        (12,), lambda i: x[i // 2] - y[i // 3])),
    "two sums": stage_task((f(4, 9), f(4, 6)), lambda x, y: compute(
        (4,), lambda i: reduce_sum(9, lambda k: x[i, k]) * reduce(Fold.MAX, 6, lambda k: y[i, k]))),
    "nested sums": stage_task((f(4, 9, 6),), lambda x: compute(
        (4,), lambda i: reduce(Fold.MAX, 9, lambda k: reduce_sum(6, lambda r: x[i, k, r])))),
    "product": stage_task((f(3, 5),), lambda x: compute(
        (3,), lambda i: reduce(Fold.PRODUCT, 5, lambda k: x[i, k]))),
    "empty sum": stage_task((f(3, 0),), lambda x: compute(
        (3,), lambda i: reduce_sum(0, lambda k: x[i, k]))),
    "empty result": stage_task((f(0, 3),), lambda x: compute((0, 3), lambda i, j: -x[i, j])),
    "ones": stage_task((f(1, 1, 1),), lambda x: compute((1, 1, 1), lambda i, j, k: -x[i, j, k])),
    "integers": stage_task((f(5, 9, dtype=int32),), lambda x: compute(
        (5,), lambda i: reduce(Fold.PRODUCT, 9, lambda k: x[i, k] * 77777))),
    "halves": stage_task((f(5, 9, dtype=bfloat16),), lambda x: compute(
        (5,), lambda i: reduce_sum(9, lambda k: x[i, k]))),
}  # fmt: skip

SCHEDULES = [
    Loops(lanes, tile, unroll, parallel)
    for lanes in Lanes
    for tile in (1, 2, 4, 2048)
    for unroll in (0, 9)
    for parallel in (0, 2)
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", TASKS)
def test_every_nest_is_right_by_the_interpreter(name: str, schedule: Loops) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    with np.errstate(all="ignore"):
        expected = evaluate_task(task, arrays)[0]
    assert_same(Case.of(task, schedule).interpret(arrays)[0], expected, 0.0)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_nest_is_right_compiled(threads: int, tmp_path: Path) -> None:
    chosen = SCHEDULES if threads == 1 else [s for s in SCHEDULES if s.parallel]
    cases = [Case.of(task, schedule) for task in TASKS.values() for schedule in chosen[::2]]
    compiled = CompiledKernels(cases, tmp_path, threads=threads)
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, f"{case.task} {case.schedule}")


@given(st.integers(0, 100), st.integers(1, 40))
def test_spans_cover_an_axis_once(extent: int, tile: int) -> None:
    covered = [
        span.start + block * span.length + part
        for span in spans(extent, tile)
        for block in range(span.blocks)
        for part in range(span.length)
    ]
    assert covered == list(range(extent))
    assert all(span.length <= tile for span in spans(extent, tile))


def test_full_tiles_come_before_the_tail() -> None:
    assert spans(10, 4) == (Span(0, 2, 4), Span(8, 1, 2))


# Rows


def normalisation(rows: int, columns: int, output: tuple[int, ...] = (3,)) -> Task:
    """The row minus its maximum, times its sum: what softmax does, in exact arithmetic."""
    x = Tensor(0, f(rows, columns))
    top, shifted, total = Tensor(1, f(rows)), Tensor(2, x.type), Tensor(3, f(rows))
    stages = (
        compute((rows,), lambda i: reduce(Fold.MAX, columns, lambda k: x[i, k])),
        compute((rows, columns), lambda i, j: x[i, j] - top[i]),
        compute((rows,), lambda i: reduce_sum(columns, lambda k: shifted[i, k])),
        compute((rows, columns), lambda i, j: shifted[i, j] * total[i]),
    )
    return Task((x.type,), stages, output, (False,))


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 1), st.sampled_from([0, 16, 4096]),
       st.sampled_from(SCHEDULES), st.sampled_from([(3,), (1, 3), (0, 2, 3)]))  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_rows_by_the_interpreter(
    rows: int, columns: int, depth: int, stack: int, inner: Loops, output: tuple[int, ...]
) -> None:
    task = normalisation(rows, columns, output)
    schedule = RowStages(depth, (inner,) * 4, 0, stack)
    arrays = whole_inputs(task)
    found = Case.of(task, schedule).interpret(arrays)
    for result, expected in zip(found, evaluate_task(task, arrays), strict=True):
        assert_same(result, expected, 0.0)


@given(st.integers(1, 4), st.integers(2, 70), st.integers(0, 1), st.sampled_from([1, 3, 4, 32]))
@settings(deadline=None, max_examples=40)
def test_stages_joined_to_a_reduction_by_the_interpreter(
    rows: int, columns: int, depth: int, lanes: int
) -> None:
    task = normalisation(rows, columns)
    if depth == 0:
        rows = 1
        task = normalisation(rows, columns)
    inner = Loops(Lanes.REDUCTION, lanes, 0, 0)
    plain = Loops(Lanes.OUTPUT, 2048, 0, 0)
    schedule = RowStages(depth, (inner, plain, inner, plain), 0, 4096, frozenset({1}))
    arrays = whole_inputs(task)
    (found,) = Case.of(task, schedule).interpret(arrays)
    assert_same(found, evaluate_task(task, arrays)[0], 0.0)


def test_a_result_cannot_be_joined() -> None:
    loops = (Loops(Lanes.REDUCTION, 4, 0, 0),) * 4
    with pytest.raises(ScheduleError, match="one axis of its own to join, got stage 1"):
        lower(normalisation(5, 11, (1, 3)), RowStages(1, loops, 0, 4096, frozenset({1})))


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_compiled(threads: int, tmp_path: Path) -> None:
    cases = [
        Case.of(
            normalisation(5, 11, output),
            RowStages(depth, (inner,) * 4, depth if threads > 1 else 0, stack),
        )
        for inner in (Loops(Lanes.OUTPUT, 4, 0, 0), Loops(Lanes.REDUCTION, 4, 0, 0))
        for depth in (0, 1)
        for stack in (0, 16, 4096)
        for output in ((3,), (0, 1, 3))
    ]
    compiled = CompiledKernels(cases, tmp_path, threads=threads)
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        for found, expected in zip(
            compiled.run(number, arrays), evaluate_task(case.task, arrays), strict=True
        ):
            assert_same(found, expected, 0.0, str(case.schedule))


def test_large_rows_live_in_scratch() -> None:
    task = normalisation(5, 11)
    loops = (Loops(Lanes.OUTPUT, 4, 0, 0),) * 4
    spaces = [b.space for b in lower(task, RowStages(1, loops, 0, 16)).kernel.scratch]
    assert spaces == [Space.SCRATCH]
    assert lower(task, RowStages(1, loops, 0, 4096)).kernel.scratch == ()


# The form of the loops


def loops_of(task: Task, schedule: Loops) -> list[For]:
    kernel = lower(task, schedule).kernel
    return [s for s in statements(kernel.body) if isinstance(s, For)]


def test_no_reduction_is_left() -> None:
    for task in TASKS.values():
        for schedule in SCHEDULES[::5]:
            for statement in statements(lower(task, schedule).kernel.body):
                if isinstance(statement, Store):
                    assert not any(isinstance(t, Reduce) for t in walk(statement.value))


def test_windows_are_written_out() -> None:
    loops = loops_of(TASKS["window"], Loops(Lanes.OUTPUT, 2048, 9, 0))
    assert [loop.axis.extent for loop in loops] == [4, 5]
    assert loops[-1].kind is LoopKind.SIMD


def test_contiguous_axes_are_one_loop() -> None:
    def body(x: Tensor) -> TensorExpr:
        def element(*axes: Expr) -> Expr:
            return apply("exp", x[axes])

        return compute((4, 5, 6), element)

    loops = loops_of(stage_task((f(4, 5, 6),), body), Loops(Lanes.OUTPUT, 2048, 0, 0))
    assert [loop.axis.extent for loop in loops] == [120]


def test_the_outermost_loops_are_shared() -> None:
    parallel = [
        loop
        for loop in loops_of(TASKS["transpose"], Loops(Lanes.NONE, 4, 0, 2))
        if loop.kind is LoopKind.PARALLEL
    ]
    assert [(loop.axis.extent, loop.collapse) for loop in parallel] == [(7, 2)]


@pytest.mark.parametrize(
    ("task", "stores"),
    [("enlarged", 2), ("enlarged thrice", 3), ("enlarged and cut", 1), ("enlarged twice", 1)],
)
def test_lanes_that_read_the_same_element_are_stored_together(task: str, stores: int) -> None:
    """Otherwise compilers gather it for each."""
    kernel = lower(TASKS[task], Loops(Lanes.OUTPUT, 2048, 0, 0)).kernel
    loops = [
        statement
        for statement in statements(kernel.body)
        if isinstance(statement, For) and statement.kind is LoopKind.SIMD
    ]
    assert {len(loop.body) for loop in loops} == {stores}
