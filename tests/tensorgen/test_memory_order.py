"""Memory orders: places and elements, and tasks on tensors in other orders."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.composition import inline
from tensorgen.contraction import contraction_of
from tensorgen.evaluate import evaluate
from tensorgen.expr import Fold, Reduce, Tensor, compute
from tensorgen.memory_order import Together, reordered
from tensorgen.task import Task
from tensorgen.types import Array, TensorType, float32
from tensorgen.window import window_of
from tests.compiled_kernels import evaluate_task
from tests.contraction_tasks import convolution, padded, whole_inputs, with_epilogue
from tests.window_tasks import Spatial, whole_numbers, window_task


def stored(array: Array, order: Together) -> Array:
    """A tensor as it lies in memory, by numpy."""
    shape = array.shape
    split = array.reshape(
        *shape[: order.axis],
        shape[order.axis] // order.block,
        order.block,
        *shape[order.axis + 1 :],
    )
    moved = np.moveaxis(split, order.axis + 1, -1)
    return np.ascontiguousarray(moved).reshape(order.stored(TensorType(float32, shape)).shape)


@st.composite
def orders(draw: st.DrawFn) -> tuple[tuple[int, ...], Together]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(shape) - 1))
    block = draw(st.integers(1, 3))
    shape[axis] = block * draw(st.integers(1, 3))
    return tuple(shape), Together(axis, block)


@settings(max_examples=60, deadline=None)
@given(chosen=orders())
def test_elements_are_where_they_are_placed(chosen: tuple[tuple[int, ...], Together]) -> None:
    shape, order = chosen
    type = TensorType(float32, shape)
    array = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    x = Tensor(0, order.stored(type))
    read = compute(shape, lambda *axes: x[order.place(axes, shape)])
    np.testing.assert_array_equal(evaluate(read, [stored(array, order)]), array)
    y = Tensor(0, type)
    written = compute(x.shape, lambda *axes: y[order.element(axes, shape)])
    np.testing.assert_array_equal(evaluate(written, [array]), stored(array, order))


CONVOLUTION = convolution((3, 5), (3, 3), channels=(6, 4), strides=(2, 1))
TASKS = {
    "convolution": CONVOLUTION,
    "padded": padded(CONVOLUTION, (1, 0), (1, 2)),
    "epilogue": with_epilogue(CONVOLUTION, "residual"),
    "depthwise": window_task((Spatial(9, 3, 2, 1, 1), Spatial(8, 3, 1, 1, 0)), weighted=True),
    "pool": window_task((Spatial(9, 3, 1, 1, 1),) * 2, fold=Fold.MAX, epilogue="residual"),
}


def inputs_of(task: Task) -> list[Array]:
    return whole_inputs(task) if contraction_of(task) is not None else whole_numbers(task, 1)


@pytest.mark.parametrize("data", [None, "all", "blocks"])
@pytest.mark.parametrize("result", [None, "all", "blocks"])
@pytest.mark.parametrize("name", TASKS)
def test_a_task_computes_the_same_in_other_orders(
    name: str, data: str | None, result: str | None
) -> None:
    task = TASKS[name]
    places: dict[int, Together] = {}
    blocks = {6: 2, 4: 2, 3: 3}
    [output] = task.output_types
    for operand, type, kind in (
        (0, task.inputs[0], data),
        (len(task.inputs) + len(task.stages) - 1, output, result),
    ):
        if kind is not None:
            extent = type.shape[1]
            places[operand] = Together(1, extent if kind == "all" else blocks[extent])
    changed = reordered(task, places)
    arrays = inputs_of(task)
    [expected] = evaluate_task(task, arrays)
    if data is not None:
        arrays[0] = stored(arrays[0], places[0])
    if result is not None:
        expected = stored(expected, places[len(task.inputs) + len(task.stages) - 1])
    [found] = evaluate_task(changed, arrays)
    np.testing.assert_array_equal(found, expected)
    assert (contraction_of(changed) is None) == (contraction_of(task) is None)


def test_sums_run_through_memory() -> None:
    for task in (CONVOLUTION, padded(CONVOLUTION, (1, 1), (1, 1))):
        stage = next(
            s for s in reordered(task, {0: Together(1, 6)}).stages if isinstance(s.body, Reduce)
        )
        assert isinstance(stage.body, Reduce)
        assert [axis.extent for axis in stage.body.axes] == [3, 3, 6]


def test_padding_is_stored_as_what_it_pads() -> None:
    task = padded(CONVOLUTION, (1, 1), (1, 1))
    padding, *_ = reordered(task, {0: Together(1, 6)}).stages
    assert padding.type.shape == (1, 7, 7, 6)


@pytest.mark.parametrize(
    ("block", "channels", "shape"),
    [
        (12, 6, (1, 7, 7, 6)),
        (12, 8, (1, 7, 7, 8)),
        (3, 6, (1, 2, 7, 7, 3)),
        (4, 6, (1, 3, 7, 7, 2)),
    ],
)
def test_padding_of_a_part_is_stored_in_whole_blocks(
    block: int, channels: int, shape: tuple[int, ...]
) -> None:
    """The last of 12 channels, as a network that splits them has it."""
    task = padded(convolution((5, 5), (3, 3), channels=(channels, 4)), (1, 1), (1, 1))
    x = Tensor(0, TensorType(float32, (1, 12, 5, 5)))
    part = compute((1, channels, 5, 5), lambda n, c, h, w: x[n, c + 12 - channels, h, w])
    padding, *after = task.stages
    task = replace(
        task, inputs=(x.type, *task.inputs[1:]), stages=(inline(padding, 0, part), *after)
    )
    changed = reordered(task, {0: Together(1, block)})
    assert changed.stages[0].type.shape == shape
    array, *others = whole_inputs(task)
    [expected] = evaluate_task(task, [array, *others])
    [found] = evaluate_task(changed, [stored(array, Together(1, block)), *others])
    np.testing.assert_array_equal(found, expected)


def test_windows_over_channels_that_lie_together_are_windows() -> None:
    task = reordered(TASKS["pool"], {0: Together(1, 3), 2: Together(1, 3)})
    # Three channels are fewer than a vector is worth.
    assert window_of(task) is None
    wide = window_task((Spatial(9, 3, 1, 1, 1),) * 2, planes=(1, 8), fold=Fold.MAX)
    window = window_of(reordered(wide, {0: Together(1, 8), 1: Together(1, 8)}))
    assert window is not None
    assert window.columns.output.extent == 8
    assert len(window.guards) == 2
