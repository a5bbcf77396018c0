"""Scattering as loops: one pass over the updates, in their order, whatever the indices are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt.ops import OP
from graphopt.ops.scatter import REDUCTIONS
from tensorgen.expr import Tensor, TensorExpr, compute, const, maximum
from tensorgen.loop import For, LoopKind, statements
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.scatter import scatter
from tensorgen.schedule import Lanes, Loops, Method, ScheduleError
from tensorgen.simplify import simplify_tensor
from tensorgen.sketch import loop_schedule
from tensorgen.task import Task
from tensorgen.types import DType, Shape, TensorType, float16, float32, int32, int64

TYPES = (float32, int32, int64, float16)


def task_of(
    name: str, shapes: tuple[Shape, Shape, Shape], dtype: DType, index: DType, **params: Any
) -> Task:
    types = tuple(
        TensorType(t, shape) for t, shape in zip((dtype, index, dtype), shapes, strict=True)
    )
    expr = OP[name].compute(*(Tensor(n, type) for n, type in enumerate(types)), **params)
    return Task(types, (simplify_tensor(expr),), (0,), (False,) * 3)


def check(task: Task, name: str, extents: Shape, seed: int, **params: Any) -> Loops:
    """Holds the loops against the operator on whole numbers, with indices from both ends of axes
    of those extents; gives the schedule."""
    rng = np.random.default_rng(seed)
    x, indices, updates = task.inputs
    arrays = [
        rng.integers(-3, 4, x.shape).astype(x.dtype.numpy),
        rng.integers(-np.array(extents), extents, indices.shape).astype(indices.dtype.numpy),
        rng.integers(-2, 3, updates.shape).astype(x.dtype.numpy),
    ]
    schedule = loop_schedule(task, 2, fused=False)
    assert isinstance(schedule, Loops)
    (found,) = run_kernel(lower(task, schedule).kernel, arrays)
    np.testing.assert_array_equal(found.reshape(x.shape), OP[name].reference(*arrays, **params))
    return schedule


@settings(deadline=None)
@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple),
    st.data(),
    st.sampled_from(REDUCTIONS),
    st.sampled_from(TYPES),
    st.sampled_from((int32, int64)),
)
def test_scatter_elements(
    shape: Shape, data: st.DataObject, reduction: str, dtype: DType, index: DType
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    indices = tuple(
        data.draw(st.integers(1, 9 if n == axis else size)) for n, size in enumerate(shape)
    )
    params = {"axis": axis, "reduction": reduction}
    task = task_of("scatter_elements", (shape, indices, indices), dtype, index, **params)
    seed = data.draw(st.integers(0, 99))
    schedule = check(task, "scatter_elements", (shape[axis],), seed, **params)
    rounds = dtype == float16 and reduction != "none"
    assert (schedule.method is Method.SCATTER) is not rounds


@settings(deadline=None)
@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple),
    st.data(),
    st.sampled_from(REDUCTIONS),
    st.sampled_from(TYPES),
)
def test_scatter_nd(shape: Shape, data: st.DataObject, reduction: str, dtype: DType) -> None:
    depth = data.draw(st.integers(1, len(shape)))
    outer = tuple(data.draw(st.lists(st.integers(1, 4), max_size=2)))
    shapes = (shape, (*outer, depth), (*outer, *shape[depth:]))
    task = task_of("scatter_nd", shapes, dtype, int64, reduction=reduction)
    seed = data.draw(st.integers(0, 99))
    schedule = check(task, "scatter_nd", shape[:depth], seed, reduction=reduction)
    rounds = dtype == float16 and reduction != "none"
    assert (schedule.method is Method.SCATTER) is not rounds


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_updates_out_of_bounds_are_left_out(reduction: str) -> None:
    params = {"axis": 0, "reduction": reduction}
    task = task_of("scatter_elements", ((4,), (5,), (5,)), float32, int64, **params)
    x, updates = np.arange(4, dtype=np.float32), np.arange(5, dtype=np.float32) + 7
    bounds = np.iinfo(np.int64)
    indices = np.array([4, -5, bounds.max, bounds.min, 3])
    kernel = lower(task, loop_schedule(task, 1, fused=False)).kernel
    (found,) = run_kernel(kernel, [x, indices, updates])
    expected = OP["scatter_elements"].reference(x, indices[4:], updates[4:], **params)
    np.testing.assert_array_equal(found, expected)


def test_threads_share_the_axes_outside_the_places() -> None:
    shapes = ((40, 30, 50), (40, 20, 50), (40, 20, 50))
    task = task_of("scatter_elements", shapes, float32, int64, axis=1, reduction="add")
    kernel = lower(task, loop_schedule(task, 2, fused=False)).kernel
    loops = [s for s in statements(kernel.body) if isinstance(s, For)]
    assert [s.axis.extent for s in loops if s.kind is LoopKind.PARALLEL] == [40]
    assert sorted(s.axis.extent for s in loops) == [20, 30, 40, 50, 50]


X, INDICES = Tensor(0, TensorType(float32, (9,))), Tensor(1, TensorType(int64, (5,)))
OTHERS: dict[str, TensorExpr] = {
    "a gather": compute((5,), lambda i: X[INDICES[i]]),
    "at its own place": compute((9,), lambda i: maximum(X[i], const(0, float32))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_scatter(name: str) -> None:
    stage = OTHERS[name]
    assert scatter(stage.axes, stage.body) is None
    task = Task((X.type, INDICES.type), (stage,), (0,), (False, False))
    with pytest.raises(ScheduleError, match="scatter: expected updates where data says"):
        lower(task, Loops(Lanes.NONE, 1, 0, 0, method=Method.SCATTER))
