"""Running folds: recognised, carried along in one pass, and of the same values as their meaning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.expr import (
    Axis,
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    cast,
    compute,
    const,
    neutral_element,
    reduce,
    select,
)
from tensorgen.loop import For, LoopKind, statements
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.running import running_fold
from tensorgen.schedule import Lanes, Loops, Method, RowStages, Schedule, ScheduleError
from tensorgen.simplify import simplify_tensor
from tensorgen.sketch import default_schedule, loop_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import DType, Shape, TensorType, float16, float32, int8, int32
from tests.compiled_kernels import assert_same, evaluate_task
from tests.contraction_tasks import whole_inputs

AVX2 = Target.named("x86-64-v3")


def running(
    shape: Shape,
    axis: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    fold: Fold = Fold.SUM,
    dtype: DType = float32,
) -> TensorExpr:
    """`f(fold of x up to a position)` along an axis, where f doubles and adds one."""
    x = Tensor(0, TensorType(dtype, shape))

    def body(*axes: Axis) -> Expr:
        def element(k: Expr) -> Expr:
            earlier, later = (axes[axis], k) if reverse else (k, axes[axis])
            counts = earlier < later if exclusive else earlier <= later
            return select(counts, x[(*axes[:axis], k, *axes[axis + 1 :])], zero)

        return reduce(fold, shape[axis], element) * 2 + 1

    zero = neutral_element(fold, dtype)
    return compute(shape, body)


def task_of(stage: TensorExpr) -> Task:
    return Task((stage.type,), (simplify_tensor(stage),), (0,), (False,))


def check(task: Task, schedule: Schedule, seed: int = 0) -> None:
    """Holds the loops against the meaning, on whole numbers: sums in any order are the same."""
    arrays = whole_inputs(task, seed)
    found = run_kernel(lower(task, schedule).kernel, arrays)
    for values, expected, type in zip(
        found, evaluate_task(task, arrays), task.output_types, strict=True
    ):
        assert_same(np.asarray(values).reshape(type.shape), expected, 0.0)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple),
    st.data(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((float32, int32, float16, int8)),
)
def test_every_shape_and_direction(
    shape: Shape, data: st.DataObject, exclusive: bool, reverse: bool, dtype: DType
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    fold = data.draw(st.sampled_from(Fold if dtype != float16 else (Fold.SUM, Fold.MAX)))
    stage = running(shape, axis, exclusive=exclusive, reverse=reverse, fold=fold, dtype=dtype)
    schedule = loop_schedule(task_of(stage), 2, fused=False)
    assert isinstance(schedule, Loops)
    assert schedule.method is Method.RUNNING or shape[axis] == 1
    check(task_of(stage), schedule)


@pytest.mark.parametrize("columns", [63, 64, 65, 200])
def test_totals_of_many_columns_are_carried_in_blocks(columns: int) -> None:
    task = task_of(running((5, columns), 0))
    check(task, default_schedule(task, AVX2, 1))


def test_each_element_is_read_once() -> None:
    kernel = lower(
        task_of(running((100,), 0)), Loops(Lanes.OUTPUT, 64, 0, 0, method=Method.RUNNING)
    ).kernel
    loops = [loop for loop in statements(kernel.body) if isinstance(loop, For)]
    assert [loop.axis.extent for loop in loops] == [100]


def test_an_exclusive_fold_never_reads_the_last_element() -> None:
    x = Tensor(0, TensorType(float32, (6,)))
    stage = compute(
        (7,), lambda i: reduce(Fold.SUM, 7, lambda k: select(k < i, x[k], const(0, float32)))
    )
    task = Task((TensorType(float32, (6,)),), (stage,), (0,), (False,))
    check(task, Loops(Lanes.OUTPUT, 64, 0, 0, method=Method.RUNNING))


def test_threads_share_the_axes_outside() -> None:
    task = task_of(running((40, 30, 5), 1))
    schedule = default_schedule(task, AVX2, 2)
    assert isinstance(schedule, Loops)
    assert schedule.parallel == 1
    kernel = lower(task, schedule).kernel
    shared = [
        loop
        for loop in statements(kernel.body)
        if isinstance(loop, For) and loop.kind is LoopKind.PARALLEL
    ]
    assert [loop.axis.extent for loop in shared] == [40]
    check(task, schedule)


def test_a_stage_between_others() -> None:
    x, total = Tensor(0, TensorType(float32, (3, 9))), Tensor(1, TensorType(float32, (3, 9)))
    stages = (
        running((3, 9), 1),
        compute((3, 9), lambda i, j: total[i, j] * 2 + x[i, 8 - j]),
    )
    task = Task((x.type,), stages, (1,), (False,))
    schedule = loop_schedule(task, 1, fused=False)
    assert isinstance(schedule, RowStages)
    assert schedule.stages[0].method is Method.RUNNING
    check(task, schedule)


X = Tensor(0, TensorType(float32, (9,)))
ZERO = const(0, float32)
OTHERS = {
    "every element": compute((9,), lambda i: reduce(Fold.SUM, 9, lambda k: X[k])),
    "other shorter": compute(
        (5,), lambda i: reduce(Fold.SUM, 9, lambda k: select(k <= i, X[k], ZERO))
    ),
    "not neutral": compute(
        (9,), lambda i: reduce(Fold.MAX, 9, lambda k: select(k <= i, X[k], ZERO))
    ),
    "two steps": compute(
        (9,), lambda i: reduce(Fold.SUM, 9, lambda k: select(k <= i * 2, X[k], ZERO))
    ),
    "ahead": compute((9,), lambda i: reduce(Fold.SUM, 9, lambda k: select(k <= i + 1, X[k], ZERO))),
    "from both ends": compute(
        (9,), lambda i: reduce(Fold.SUM, 9, lambda k: select(k + i <= 8, X[k], ZERO))
    ),
    "weighted by position": compute(
        (9,),
        lambda i: reduce(Fold.SUM, 9, lambda k: select(k <= i, X[k] * cast(i, float32), ZERO)),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_running_fold(name: str) -> None:
    stage = OTHERS[name]
    assert running_fold(stage.axes, stage.body) is None
    task = Task((X.type,), (stage,), (0,), (False,))
    with pytest.raises(ScheduleError, match="running: expected a fold of all earlier elements"):
        lower(task, Loops(Lanes.OUTPUT, 64, 0, 0, method=Method.RUNNING))
    check(task, loop_schedule(task, 1, fused=False))
