"""16-bit floats: computed in float32 after the pass, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from tensorgen.evaluate import evaluate
from tensorgen.expr import (
    Apply,
    Cast,
    Const,
    Expr,
    Tensor,
    TensorExpr,
    cast,
    compute,
    const,
    maximum,
    reduce_sum,
    select,
    walk,
)
from tensorgen.types import DType, TensorType, bfloat16, float16, float32, int16
from tensorgen.widen import widen

HALVES = pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)


def meanings(dtype: DType) -> list[TensorExpr]:
    x, y = (Tensor(n, TensorType(dtype, (5, 4))) for n in range(2))
    return [
        compute((5, 4), lambda i, j: x[i, j] * y[i, j] + 0.1),
        compute((5,), lambda i: reduce_sum(4, lambda k: x[i, k] * y[i, k])),
        compute((5, 4), lambda i, j: select(x[i, j] < y[i, j], x[i, j], -y[i, j])),
        compute((5, 4), lambda i, j: cast(cast(x[i, j] + y[i, j], dtype), float32) * 3.0),
        compute((5, 4), lambda i, j: maximum(x[i, j], const(1 / 3, dtype))),
        compute((5, 4), lambda i, j: Cast(x[i, j] + y[i, j], int16, bits=True)),
        compute((5, 4), lambda i, j: Cast(Cast(x[i, j], int16, bits=True), dtype, bits=True)),
    ]


def is_arithmetic_on_halves(term: Expr) -> bool:
    if isinstance(term, Apply):
        return any(arg.dtype.is_half for arg in term.args)
    return isinstance(term, Const) and term.dtype.is_half


@HALVES
def test_no_operator_is_left_on_a_half(dtype: DType) -> None:
    for tensor in meanings(dtype):
        wide = widen(tensor.body)
        assert not any(map(is_arithmetic_on_halves, walk(wide)))
        assert wide.dtype == tensor.body.dtype.computed


@HALVES
def test_values_stay_the_same(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    operands = [rng.standard_normal((5, 4)).astype(dtype.numpy) for _ in range(2)]
    for tensor in meanings(dtype):
        body = widen(tensor.body)
        stored = cast(body, tensor.body.dtype)
        expected = evaluate(tensor, operands)
        found = evaluate(TensorExpr(tensor.axes, stored), operands)
        np.testing.assert_array_equal(found, expected, err_msg=str(tensor))


@HALVES
def test_literals_are_rounded_first(dtype: DType) -> None:
    wide = widen(const(0.1, dtype))
    assert isinstance(wide, Const)
    assert wide == const(float(dtype.numpy.type(0.1)), float32)


def test_other_types_are_left_alone() -> None:
    x = Tensor(0, TensorType(float32, (3,)))
    body = compute((3,), lambda i: x[i] * 2.0 + 1.0).body
    assert widen(body) == body
