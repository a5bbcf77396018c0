"""Rankings: recognised, made by insertion, stable, and the same as their meaning says."""

from __future__ import annotations

from collections.abc import Callable

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
    apply,
    compute,
    const,
    neutral_element,
    reduce,
    reduce_sum,
    select,
)
from tensorgen.loop import For, LoopKind, statements
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.ranking import ranking
from tensorgen.schedule import Lanes, Loops, Method, ScheduleError
from tensorgen.simplify import simplify_tensor
from tensorgen.sketch import default_schedule, loop_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, DType, Shape, TensorType, float16, float32, int8, int32, int64
from tests.compiled_kernels import evaluate_task

AVX2 = Target.named("x86-64-v3")
Precedes = Callable[[Expr, Expr, Expr, Expr], Expr]


def ranked(
    x: Tensor, axis: int, count: int, precedes: Precedes, positions: bool = False
) -> TensorExpr:
    """The first `count` along an axis, or their positions, where `precedes(theirs, mine, other,
    position)` says what comes first."""
    extent = x.shape[axis]

    def body(*axes: Axis) -> Expr:
        def at(place: Expr) -> Expr:
            return x[(*axes[:axis], place, *axes[axis + 1 :])]

        def rank(k: Expr) -> Expr:
            return reduce_sum(
                extent, lambda r: select(precedes(at(r), at(k), r, k), const(1, int64), 0)
            )

        def chosen(k: Expr) -> Expr:
            result = k if positions else at(k)
            return select(rank(k).equals(axes[axis]), result, lowest)

        return reduce(Fold.MAX, extent, chosen)

    lowest = const(0, int64) if positions else neutral_element(Fold.MAX, x.dtype)
    return compute((*x.shape[:axis], count, *x.shape[axis + 1 :]), body)


def largest(theirs: Expr, mine: Expr, other: Expr, position: Expr) -> Expr:
    return apply("or", theirs > mine, apply("and", theirs.equals(mine), other < position))


def smallest(theirs: Expr, mine: Expr, other: Expr, position: Expr) -> Expr:
    return apply("or", theirs < mine, apply("and", theirs.equals(mine), other < position))


def task_of(x: Tensor, stage: TensorExpr) -> Task:
    return Task((x.type,), (simplify_tensor(stage),), (0,), (False,))


def check(task: Task, schedule: Loops, array: Array) -> None:
    (found,) = run_kernel(lower(task, schedule).kernel, [array])
    (expected,) = evaluate_task(task, [array])
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
    st.data(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((float32, float16, int8, int32, int64)),
)
def test_every_shape_with_equal_elements(
    shape: Shape, data: st.DataObject, positions: bool, most: bool, dtype: DType
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(1, shape[axis]))
    array = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-2, 3, shape)
    x = Tensor(0, TensorType(dtype, shape))
    task = task_of(x, ranked(x, axis, count, largest if most else smallest, positions))
    schedule = loop_schedule(task, 2, fused=False)
    assert isinstance(schedule, Loops)
    assert schedule.method is Method.RANKING or shape[axis] == 1 or count == 1
    check(task, schedule, array.astype(dtype.numpy))


@pytest.mark.parametrize("order", ["rising", "falling", "infinite"])
def test_orders_that_insert_all_or_nothing(order: str) -> None:
    values = {
        "rising": np.arange(40.0),
        "falling": -np.arange(40.0),
        "infinite": np.full(40, -np.inf),
    }[order]
    x = Tensor(0, TensorType(float32, (40,)))
    for positions in (False, True):
        task = task_of(x, ranked(x, 0, 7, largest, positions))
        schedule = loop_schedule(task, 1, fused=False)
        assert isinstance(schedule, Loops)
        check(task, schedule, values.astype(np.float32))


def test_threads_share_the_rows() -> None:
    x = Tensor(0, TensorType(float32, (30, 200)))
    task = task_of(x, ranked(x, 1, 5, largest))
    schedule = default_schedule(task, AVX2, 2)
    assert isinstance(schedule, Loops)
    loops = [s for s in statements(lower(task, schedule).kernel.body) if isinstance(s, For)]
    assert [s.axis.extent for s in loops if s.kind is LoopKind.PARALLEL] == [30]
    check(task, schedule, np.random.default_rng(0).standard_normal((30, 200)).astype(np.float32))


X = Tensor(0, TensorType(float32, (9,)))
OTHERS: dict[str, Precedes] = {
    "unstable": lambda theirs, mine, other, position: theirs > mine,
    "last first": lambda theirs, mine, other, position: apply(
        "or", theirs > mine, apply("and", theirs.equals(mine), other > position)
    ),
    "of others": lambda theirs, mine, other, position: apply(
        "or", theirs > mine * 2, apply("and", theirs.equals(mine), other < position)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_ranking(name: str) -> None:
    stage = ranked(X, 0, 3, OTHERS[name])
    assert ranking(stage.axes, stage.body) is None
    with pytest.raises(ScheduleError, match="ranking: expected the first elements in order"):
        lower(task_of(X, stage), Loops(Lanes.NONE, 1, 0, 0, method=Method.RANKING))
