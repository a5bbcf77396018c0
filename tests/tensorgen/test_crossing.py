"""Reads across the lanes: recognised, transposed in blocks, and right at every edge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.crossing import crossing
from tensorgen.expr import Expr, Tensor, TensorExpr, apply, compute, maximum, reduce_sum, select
from tensorgen.loop import For, LoopKind, TransposeBlock, statements
from tensorgen.lower import lower
from tensorgen.schedule import Lanes, Loops, Method, Schedule, ScheduleError
from tensorgen.sketch import default_schedule, merged_stage
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import DType, Shape, float16, float32, float64, int32, int64
from tests.compiled_kernels import Case, CompiledKernels, assert_same, evaluate_task
from tests.contraction_tasks import whole_inputs
from tests.stage_tasks import stage_task
from tests.stage_tasks import tensor_type as f

AVX2 = Target.named("x86-64-v3")
BLOCKS = Loops(Lanes.OUTPUT, 16, 0, 0, method=Method.BLOCKS)


def turned(rows: int, columns: int, dtype: DType = float32) -> Task:
    return stage_task(
        (f(columns, rows, dtype=dtype),),
        lambda x: compute((rows, columns), lambda i, j: x[j, i]),
    )


def check(task: Task, schedule: Schedule) -> None:
    """The loops compute what the task means."""
    arrays = whole_inputs(task)
    (found,) = Case.of(task, schedule).interpret(arrays)
    assert_same(found, evaluate_task(task, arrays)[0], 0.0)


TASKS: dict[str, Task] = {
    "smaller than a block": turned(5, 7),
    "one block": turned(16, 16),
    "blocks and more": turned(67, 130),
    "one more": turned(65, 129),
    "few rows": turned(4, 200),
    "few columns": turned(200, 4),
    "halves": turned(20, 35, float16),
    "doubles": turned(20, 35, float64),
    "integers": turned(35, 20, int32),
    "long integers": turned(35, 20, int64),
    "arithmetic": stage_task((f(30, 70), f(70, 30), f(70)), lambda x, y, z: compute(
        (70, 30), lambda i, j: maximum(x[j, i] * y[i, j] + z[i], 0.0) * x[j, i])),
    "two operands": stage_task((f(30, 70), f(30, 70)), lambda x, y: compute(
        (70, 30), lambda i, j: x[j, i] - y[j, i])),
    "channels first": stage_task((f(2, 9, 11, 20),), lambda x: compute(
        (2, 20, 9, 11), lambda n, c, h, w: apply("sqrt", maximum(x[n, h, w, c], 0.0)))),
    "channels last": stage_task((f(2, 20, 9, 11),), lambda x: compute(
        (2, 9, 11, 20), lambda n, h, w, c: x[n, c, h, w])),
    "an axis between": stage_task((f(20, 3, 18),), lambda x: compute(
        (18, 3, 20), lambda i, j, k: x[k, j, i])),
    "a part": stage_task((f(40, 50),), lambda x: compute(
        (30, 20), lambda i, j: x[j * 2 + 1, i + 7] + 1.0)),
    "padded beside": stage_task((f(20, 30), f(25)), lambda x, y: compute(
        (30, 20), lambda i, j: x[j, i] + select(i < 25, y[i], 0.0))),
    "another way, too": stage_task((f(20, 6, 30), f(30, 20, 6)), lambda x, y: compute(
        (6, 30, 20), lambda i, j, k: x[k, i, j] + y[j, k, i])),
    "backwards": stage_task((f(20, 30),), lambda x: compute(
        (30, 20), lambda i, j: x[19 - j, i])),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_the_rule_makes_blocks(name: str) -> None:
    schedule = default_schedule(TASKS[name], AVX2, 1)
    assert schedule == BLOCKS


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("tile", [8, 16])
def test_blocks_are_right_by_the_interpreter(name: str, tile: int) -> None:
    check(TASKS[name], Loops(Lanes.OUTPUT, tile, 0, 0, method=Method.BLOCKS))


@pytest.mark.parametrize("tile", [1, 2, 3, 5])
def test_small_blocks(tile: int) -> None:
    check(turned(19, 13), Loops(Lanes.OUTPUT, tile, 0, 0, method=Method.BLOCKS))


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_are_right_in_c(threads: int, tmp_path: Path) -> None:
    cases = [
        Case.of(
            task, Loops(Lanes.OUTPUT, tile, 0, threads - 1, streamed=streamed, method=BLOCKS.method)
        )
        for task in TASKS.values()
        for tile, streamed in ((16, False), (8, True))
    ]
    compiled = CompiledKernels(cases, tmp_path, threads=threads)
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        (found,) = compiled.run(number, arrays)
        assert_same(found, evaluate_task(case.task, arrays)[0], 0.0, str(case))


@given(st.permutations(range(3)), st.lists(st.integers(1, 20), min_size=3, max_size=3))
@settings(deadline=None, max_examples=30)
def test_any_transposition(order: list[int], sizes: list[int]) -> None:
    shape: Shape = tuple(sizes[axis] for axis in order)

    def body(x: Tensor) -> TensorExpr:
        def element(*axes: Expr) -> Expr:
            return x[tuple(axes[order.index(axis)] for axis in range(3))]

        return compute(shape, element)

    task = stage_task((f(*sizes),), body)
    array = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    schedule = default_schedule(task, AVX2, 1)
    assert isinstance(schedule, Loops)
    (found,) = Case.of(task, schedule).interpret([array])
    np.testing.assert_array_equal(found, array.transpose(order))


def test_threads_share_the_blocks() -> None:
    schedule = default_schedule(TASKS["blocks and more"], AVX2, 2)
    kernel = lower(TASKS["blocks and more"], schedule).kernel
    loops = [s for s in statements(kernel.body) if isinstance(s, For)]
    assert [s.axis.extent for s in loops if s.kind is LoopKind.PARALLEL][:1] == [2]


def test_a_plain_transposition_has_no_copy() -> None:
    plain = lower(TASKS["blocks and more"], BLOCKS).kernel
    blocks = [s for s in statements(plain.body) if isinstance(s, TransposeBlock)]
    assert {block.target for block in blocks} == {plain.outputs[0]}
    computed = lower(TASKS["arithmetic"], BLOCKS).kernel
    blocks = [s for s in statements(computed.body) if isinstance(s, TransposeBlock)]
    assert blocks
    assert computed.outputs[0] not in {block.target for block in blocks}


OTHERS: dict[str, Task] = {
    "in order": stage_task((f(9, 20),), lambda x: compute((9, 20), lambda i, j: -x[i, j])),
    "one element": stage_task((f(9),), lambda x: compute((9, 20), lambda i, j: x[i])),
    "with a step": stage_task((f(9, 40),), lambda x: compute((9, 20), lambda i, j: x[i, j * 2])),
    "three rows": turned(3, 200),
    "three columns": turned(200, 3),
    "under a condition": stage_task((f(15, 30),), lambda x: compute(
        (30, 20), lambda i, j: select(j < 15, x[j, i], 0.0))),
    "where data says": stage_task((f(50, 30), f(20, dtype=int64)), lambda x, y: compute(
        (30, 20), lambda i, j: x[y[j], i])),
    "a sum": stage_task((f(40, 30),), lambda x: compute(
        (30, 20), lambda i, j: reduce_sum(4, lambda k: x[j + k, i]))),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_crosses_no_lanes(name: str) -> None:
    merged = merged_stage(OTHERS[name].stages[0], 0)
    assert crossing(merged.axes, merged.body) is None
    with pytest.raises(ScheduleError, match="blocks: expected reads across the lanes, got none"):
        lower(OTHERS[name], BLOCKS)
