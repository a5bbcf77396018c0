"""Flat accesses and merged axes: the same elements in fewer loops."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.evaluate import evaluate
from tensorgen.expr import (
    Fold,
    Reduce,
    Tensor,
    TensorExpr,
    canonical,
    compute,
    expression_text,
    reduce_sum,
)
from tensorgen.flat import (
    FlatStage,
    flat_index,
    flat_loads,
    index_terms,
    merge_axes,
    merge_reduction_axes,
    mergeable,
)
from tensorgen.simplify import affine
from tensorgen.types import Array, Shape, TensorType, float32


def flattened(tensor: TensorExpr) -> FlatStage:
    """The stage with every load flat."""

    index = flat_index(tensor.axes, tensor.type.shape)
    return FlatStage(tensor.axes, index, flat_loads(tensor.body))


def stored(stage: FlatStage, size: int, operands: list[Array]) -> Array:
    """The buffer that a flat stage writes: its value and index, evaluated over its axes."""
    flat = [operand.reshape(-1) for operand in operands]
    values = evaluate(canonical(stage.axes, stage.body), flat)
    places = evaluate(canonical(stage.axes, stage.index), flat)
    result = np.full(size, np.nan, values.dtype)
    result[places.reshape(-1)] = values.reshape(-1)
    return result


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@settings(deadline=None, max_examples=60)
def test_merging_keeps_every_element(sizes: list[int], data: st.DataObject) -> None:
    shape: Shape = tuple(sizes)
    order = data.draw(st.permutations(range(len(shape))))
    spread = [data.draw(st.booleans()) for _ in shape]
    x = Tensor(0, TensorType(float32, tuple(shape[axis] for axis in order)))
    y = Tensor(
        1, TensorType(float32, tuple(1 if s else n for s, n in zip(spread, shape, strict=True)))
    )
    tensor = compute(
        shape,
        lambda *axes: (
            x[tuple(axes[axis] for axis in order)]
            + y[tuple(0 if s else a for s, a in zip(spread, axes, strict=True))]
        ),
    )
    rng = np.random.default_rng(0)
    operands: list[Array] = [
        rng.integers(-9, 9, t.shape).astype(np.float32) for t in (x.type, y.type)
    ]
    stage = flattened(tensor)
    merged = merge_axes(stage)
    assert len(merged.axes) <= len(stage.axes)
    assert prod(a.extent for a in merged.axes) == prod(shape)
    expected = evaluate(tensor, operands).reshape(-1)
    np.testing.assert_array_equal(stored(merged, expected.size, operands), expected)


def test_contiguous_axes_become_one() -> None:
    x = Tensor(0, TensorType(float32, (3, 4, 5)))
    merged = merge_axes(flattened(compute((3, 4, 5), lambda i, j, k: x[i, j, k] * 2.0)))
    assert [axis.extent for axis in merged.axes] == [60]
    assert affine(merged.index).coefficient(merged.axes[0]) == 1


def test_transposed_axes_stay_apart() -> None:
    x = Tensor(0, TensorType(float32, (4, 3)))
    merged = merge_axes(flattened(compute((3, 4), lambda i, j: x[j, i])))
    assert [axis.extent for axis in merged.axes] == [3, 4]


def test_a_broadcast_operand_keeps_its_axis_apart() -> None:
    x, y = Tensor(0, TensorType(float32, (2, 3, 4))), Tensor(1, TensorType(float32, (4,)))
    merged = merge_axes(flattened(compute((2, 3, 4), lambda i, j, k: x[i, j, k] + y[k])))
    assert [axis.extent for axis in merged.axes] == [6, 4]


def test_divided_axes_stay_apart() -> None:
    x = Tensor(0, TensorType(float32, (2, 3)))
    tensor = compute((2, 4), lambda i, j: x[i, j // 2])
    stage = flattened(tensor)
    outer, inner = stage.axes
    assert not mergeable(outer, inner, list(index_terms(stage.body)))
    assert [axis.extent for axis in merge_axes(stage).axes] == [2, 4]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.booleans())
@settings(deadline=None, max_examples=30)
def test_merging_a_reduction_keeps_its_value(sizes: list[int], swap: bool) -> None:
    shape = tuple(sizes)
    x = Tensor(0, TensorType(float32, tuple(reversed(shape)) if swap else shape))
    tensor = compute((), lambda: reduce_sum(shape, lambda *k: x[tuple(reversed(k)) if swap else k]))
    array = np.arange(prod(shape), dtype=np.float32)
    flat = merge_reduction_axes(flattened(tensor).body)
    expected = evaluate(tensor, [array.reshape(x.shape)])
    np.testing.assert_array_equal(evaluate(canonical((), flat), [array]), expected)
    if not swap:
        assert isinstance(flat, Reduce)
        assert len(flat.axes) <= 1


def test_a_merged_reduction_reads_in_order() -> None:
    x = Tensor(0, TensorType(float32, (3, 4, 5)))
    tensor = compute((3,), lambda i: reduce_sum((4, 5), lambda k, r: x[i, k, r]))
    flat = merge_reduction_axes(flattened(tensor).body)
    assert isinstance(flat, Reduce)
    assert flat.fold is Fold.SUM
    assert [axis.extent for axis in flat.axes] == [20]


def test_flat_index_text() -> None:
    i, j = compute((3, 4), lambda i, j: i + j).axes
    assert expression_text(flat_index((i, j), (3, 4))) == "i * 4 + j"
    assert expression_text(flat_index((), ())) == "0"
