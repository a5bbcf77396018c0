"""The interpreter of index notation: laziness, bounds, rounding, boxes and gathers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen import evaluate as module
from tensorgen.evaluate import evaluate
from tensorgen.expr import (
    Cast,
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    all_of,
    apply,
    cast,
    compute,
    const,
    minimum,
    reduce,
    reduce_sum,
    select,
)
from tensorgen.gather import gather
from tensorgen.types import (
    Array,
    DType,
    Shape,
    TensorType,
    bfloat16,
    boolean,
    float16,
    float32,
    int8,
    int32,
    int64,
    uint8,
    uint16,
)


def tensor(operand: int, *shape: int, dtype: DType = float32) -> Tensor:
    return Tensor(operand, TensorType(dtype, shape))


def counting(*shape: int, dtype: DType = float32) -> Array:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)


# Grids


def test_axes_constants_and_scalars() -> None:
    assert evaluate(compute((), lambda: const(3, int32)), []).item() == 3
    expression = compute((2, 3), lambda i, j: i * 3 + j)
    np.testing.assert_array_equal(evaluate(expression, []), counting(2, 3, dtype=int64))
    x = tensor(0)
    scalar = np.array(4, np.float32)
    assert evaluate(compute((2,), lambda i: x[()] + 1), [scalar]).tolist() == [5, 5]


def test_empty_output_and_empty_reduction() -> None:
    x = tensor(0, 0, 3)
    assert evaluate(compute((0, 3), lambda i, j: x[i, j]), [counting(0, 3)]).shape == (0, 3)
    for fold, neutral in (
        (Fold.SUM, 0),
        (Fold.PRODUCT, 1),
        (Fold.MAX, -np.inf),
        (Fold.MIN, np.inf),
    ):
        expression = compute((3,), lambda j, fold=fold: reduce(fold, 0, lambda k: x[k, j]))
        assert evaluate(expression, [counting(0, 3)]).tolist() == [neutral] * 3


def test_reduction_over_axes_that_do_not_vary() -> None:
    x = tensor(0, 4)
    total = compute((4,), lambda i: reduce_sum((3, 2), lambda k, r: x[i]))
    np.testing.assert_array_equal(evaluate(total, [counting(4)]), 6 * counting(4))
    product = compute((4,), lambda i: reduce_sum((3, 4), lambda k, r: x[i] * x[r]))
    np.testing.assert_array_equal(evaluate(product, [counting(4)]), 18 * counting(4))


def test_nested_and_sibling_reductions() -> None:
    x = tensor(0, 3, 5)

    def body(i: Expr) -> Expr:
        largest = reduce(Fold.MAX, 5, lambda k: x[i, k])
        norm = reduce_sum(5, lambda k: (x[i, k] - largest) * (x[i, k] - largest))
        return norm + reduce_sum(3, lambda r: x[r, 0])

    values = counting(3, 5)
    expected = ((values - values.max(1, keepdims=True)) ** 2).sum(1) + values[:, 0].sum()
    np.testing.assert_array_equal(evaluate(compute((3,), body), [values]), expected)


def test_boxes_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = tensor(0, 5, 7, 6, dtype=int32), tensor(1, 6, 4, dtype=int32)

    def body(n: Expr, i: Expr, j: Expr) -> Expr:
        product = reduce_sum(6, lambda k: select(k < n + 3, x[n, i, k], 0) * y[k, j])
        return product + x[n, 6 - i, minimum(j, 5)]

    expression = compute((5, 7, 4), body)
    operands = [counting(5, 7, 6, dtype=int32), counting(6, 4, dtype=int32)]
    whole = evaluate(expression, operands)
    for limit in (1, 10, 100):
        monkeypatch.setattr(module, "GRID_ELEMENTS", limit)
        np.testing.assert_array_equal(evaluate(expression, operands), whole)


def test_boxes_of_a_contraction_read_its_factors_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Boxes are cut for what is made on the way: the factors, not all of their products. With one
    box for each channel, a convolution of volumes read its data as often as it has channels."""
    read: list[int] = []

    def counted(*given: Any) -> Any:
        found = gather(*given)
        read.append(found.size)
        return found

    monkeypatch.setattr(module, "gather", counted)
    monkeypatch.setattr(module, "GRID_ELEMENTS", 2**12)
    x, w = tensor(0, 16, 100), tensor(1, 64, 16, 3)

    def body(c: Expr, i: Expr) -> Expr:
        return reduce_sum((16, 3), lambda k, t: w[c, k, t] * x[k, i + t])

    operands = [counting(16, 100), counting(64, 16, 3)]
    result = evaluate(compute((64, 98), body), operands)
    windows = np.lib.stride_tricks.sliding_window_view(operands[0], 3, axis=1)
    np.testing.assert_allclose(result, np.einsum("ckt,kit->ci", operands[1], windows), rtol=1e-6)
    assert max(read) <= 2**12
    once = 64 * 16 * 3 + 98 * 16 * 3
    assert sum(read) <= 4 * once


def test_shared_terms_are_evaluated_once() -> None:
    x = tensor(0, 3)

    def body(i: Expr) -> Expr:
        value: Expr = x[i]
        for _ in range(60):
            value = value + value
        return value

    result = evaluate(compute((3,), body), [counting(3)])
    np.testing.assert_array_equal(result, np.ldexp([0.0, 1.0, 2.0], 60))


# Laziness and bounds


def shifted(guard: bool) -> TensorExpr:
    x = tensor(0, 4)
    return compute((6,), lambda i: select(all_of([i >= 1, i < 5]), x[i - 1], 0) if guard else x[i])


def test_select_guards_loads() -> None:
    assert evaluate(shifted(guard=True), [counting(4)]).tolist() == [0, 0, 1, 2, 3, 0]


def test_load_out_of_bounds_is_an_error() -> None:
    message = r"load of x: expected an index of axis 0 below 4, got 4"
    with pytest.raises(IndexError, match=message):
        evaluate(shifted(guard=False), [counting(4)])


def test_guard_that_is_too_wide_is_an_error() -> None:
    x = tensor(0, 4)
    expression = compute((6,), lambda i: select(i < 5, x[i], 0))
    with pytest.raises(IndexError, match="got 4"):
        evaluate(expression, [counting(4)])


def test_condition_of_a_guarded_select_is_guarded() -> None:
    x = tensor(0, 4, dtype=int64)
    expression = compute((6,), lambda i: select(i < 4, select(x[i] >= 2, x[x[i] - 2], -1), -2))
    operand = counting(4, dtype=int64)
    assert evaluate(expression, [operand]).tolist() == [-1, -1, 0, 1, -2, -2]


def test_a_shared_load_is_checked_under_each_guard() -> None:
    x = tensor(0, 4)

    def body(i: Expr) -> Expr:
        return select(i < 4, x[i], 0) + select(i < 3, x[i], 0) + select(i < 5, x[i], 0)

    with pytest.raises(IndexError, match="got 4"):
        evaluate(compute((6,), body), [counting(4)])


def test_guard_reaches_into_reductions_and_out_of_empty_operands() -> None:
    x, y = tensor(0, 3, 2), tensor(1, 0)
    expression = compute((5,), lambda i: select(i < 3, reduce_sum(2, lambda k: x[i, k]), 7))
    assert evaluate(expression, [counting(3, 2)]).tolist() == [1, 5, 9, 7, 7]
    never = compute((3,), lambda i: select(i < 0, y[i], x[i, 0]))
    assert evaluate(never, [counting(3, 2), counting(0)]).tolist() == [0, 2, 4]
    with pytest.raises(IndexError, match="load of y"):
        evaluate(compute((3,), lambda i: select(i < 1, y[i], 0)), [counting(3, 2), counting(0)])


def test_division_by_zero_is_silent_under_a_guard() -> None:
    x = tensor(0, 3, dtype=int32)
    expression = compute(
        (3,), lambda i: select(x[i].equals(0), const(-1, int32), const(6, int32) / x[i])
    )
    assert evaluate(expression, [counting(3, dtype=int32)]).tolist() == [-1, 6, 3]


def test_operand_of_another_type_is_our_bug() -> None:
    x = tensor(0, 4)
    with pytest.raises(AssertionError, match=r"operand x: expected float32\[4\], got float32\[5\]"):
        evaluate(compute((4,), lambda i: x[i]), [counting(5)])


# Arithmetic


def test_integers_wrap() -> None:
    x = tensor(0, 2, dtype=int8)
    operand = np.array([100, -128], np.int8)
    assert evaluate(compute((2,), lambda i: x[i] * 2), [operand]).tolist() == [-56, 0]
    assert evaluate(compute((2,), lambda i: -x[i]), [operand]).tolist() == [-100, -128]
    total = compute((), lambda: reduce_sum(2, lambda k: x[k] * x[k]))
    assert evaluate(total, [operand]).tolist() == 16
    y = tensor(0, 2, dtype=uint8)
    small = np.array([0, 5], np.uint8)
    assert evaluate(compute((2,), lambda i: y[i] - 1), [small]).tolist() == [255, 4]


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_narrow_floats_round_once(dtype: DType) -> None:
    x = tensor(0, 3000, dtype=dtype)
    ones = np.ones(3000, dtype.numpy)
    total = evaluate(compute((), lambda: reduce_sum(3000, lambda k: x[k])), [ones])
    # Sums in 16 bits would stop growing at 2048 or 256.
    assert total == np.float32(3000).astype(dtype.numpy)


def test_explicit_cast_to_a_narrow_float_rounds() -> None:
    x = tensor(0, 1)
    expression = compute((1,), lambda i: cast(cast(x[i], float16), float32))
    assert evaluate(expression, [np.array([1 + 2**-20], np.float32)]).tolist() == [1]


def test_bits_of_a_narrow_float() -> None:
    x = tensor(0, 2, dtype=bfloat16)
    expression = compute((2,), lambda i: Cast(x[i], uint16, bits=True))
    operand = np.array([1, -2], bfloat16.numpy)
    assert evaluate(expression, [operand]).tolist() == [0x3F80, 0xC000]


def test_boolean_folds() -> None:
    x = tensor(0, 2, 2, dtype=boolean)
    operand = np.array([[True, False], [False, False]])
    some = compute((2,), lambda i: reduce(Fold.MAX, 2, lambda k: x[i, k]))
    every = compute((2,), lambda i: reduce(Fold.MIN, 2, lambda k: x[i, k]))
    assert evaluate(some, [operand]).tolist() == [True, False]
    assert evaluate(every, [operand]).tolist() == [False, False]


def test_results_do_not_alias_operands() -> None:
    x = tensor(0, 3)
    operand = counting(3)
    result = evaluate(compute((3,), lambda i: x[i]), [operand])
    assert not np.shares_memory(result, operand)
    assert result.flags.c_contiguous


def test_predicates_of_narrow_floats() -> None:
    x = tensor(0, 2, dtype=float16)
    expression = compute((2,), lambda i: apply("isnan", x[i]))
    operand = np.array([np.nan, 1], np.float16)
    assert evaluate(expression, [operand]).tolist() == [True, False]


# Gathers


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.data(),
)
@settings(deadline=None, max_examples=200)
def test_gather_is_advanced_indexing(
    shape: list[int], grid: list[int], data: st.DataObject
) -> None:
    array = counting(*shape)
    indices = []
    for size in shape:
        extents = [data.draw(st.sampled_from([1, extent])) for extent in grid]
        seed = data.draw(st.integers(0, 99))
        random = np.random.default_rng(seed).integers(0, size, extents)
        even = np.arange(random.size).reshape(extents) % size
        indices.append(data.draw(st.sampled_from([random, even, size - 1 - even])))
    result = gather(array, indices, len(grid))
    assert result.ndim == len(grid)
    np.testing.assert_array_equal(result, array[tuple(indices)])


@pytest.mark.parametrize("shape", [(4, 6), (3, 5)])
def test_plain_axes_are_read_without_a_copy(shape: Shape) -> None:
    array = counting(*shape)
    rows, columns = (np.arange(size) for size in shape)
    transposed = gather(array, [rows[None, :], columns[::-1, None]], 2)
    assert np.shares_memory(transposed, array)
    np.testing.assert_array_equal(transposed, array[:, ::-1].T)
