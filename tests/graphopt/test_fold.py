"""Constant folding: what is computed, and what is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.fold import FoldLimits, fold_constants
from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.ops import OP, OPS
from graphopt.ops.spec import OpSpec
from tensorgen.types import Kind, TensorType, float32, int64

X = Input(0, TensorType(float32, (2, 3)))


def constant(values: object) -> Constant:
    return Constant(np.asarray(values, dtype=np.float32))


def graph(*outputs: Value) -> Graph:
    return Graph((X,), outputs, ("x",), tuple(f"y{n}" for n in range(len(outputs))))


def test_constants_are_computed_and_the_rest_is_kept() -> None:
    weight = OP["mul"](OP["neg"](constant([1, 2, 3])), constant(2))
    folded = fold_constants(graph(OP["add"](X, weight)))
    assert folded.outputs == (OP["add"](X, constant([-2, -4, -6])),)


def test_nothing_to_fold_is_the_same_graph() -> None:
    whole = graph(OP["add"](OP["neg"](X), constant([1, 2, 3])))
    assert fold_constants(whole) is whole


def test_equal_terms_become_one_value() -> None:
    first = OP["exp"](OP["add"](X, OP["neg"](constant(1))))
    second = OP["exp"](OP["add"](X, constant(-1)))
    folded = fold_constants(graph(first, second))
    assert folded.outputs[0] is folded.outputs[1]


def test_growth_is_not_folded() -> None:
    wide = OP["broadcast_to"](constant([1, 2, 3]), shape=(10_000, 3))
    whole = graph(OP["add"](X, constant(1)), wide)
    assert fold_constants(whole) is whole
    assert isinstance(fold_constants(graph(wide), FoldLimits(growth=1e6)).outputs[0], Constant)


def test_small_growth_is_folded() -> None:
    small = OP["broadcast_to"](constant([1, 2, 3]), shape=(2, 3))
    assert isinstance(fold_constants(graph(small)).outputs[0], Constant)


def test_long_computations_are_not_folded() -> None:
    square = constant(np.eye(64))
    product = OP["matmul"](square, square)
    assert isinstance(fold_constants(graph(product)).outputs[0], Constant)
    limited = fold_constants(graph(product), FoldLimits(work=64**3 - 1))
    assert isinstance(limited.outputs[0], Node)


def test_no_warning_escapes() -> None:
    divided = OP["div"](constant([1, 0]), constant([0, 0]))
    [result] = fold_constants(graph(divided)).outputs
    assert isinstance(result, Constant)
    assert np.isinf(result.array[0])
    assert np.isnan(result.array[1])


def _array(type: TensorType) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    if type.dtype.kind is Kind.BOOL:
        return np.ones(type.shape, dtype=np.bool_)
    fill = 0 if type.dtype == int64 else 1
    return np.full(type.shape, fill).astype(type.dtype.numpy)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_operator_folds_to_its_type(op: OpSpec) -> None:
    for sample in op.samples:
        operands = [Constant(_array(type)) for type in sample.types]
        node = op(*operands, **sample.keywords)
        [result] = fold_constants(graph(node), FoldLimits(small_bytes=2**30)).outputs
        assert isinstance(result, Constant)
        assert result.type == node.type
        assert result.array.flags.c_contiguous


@given(st.lists(st.sampled_from(["neg", "exp", "abs"]), max_size=20))
def test_a_chain_of_constants_folds_to_one(names: list[str]) -> None:
    value: Value = constant([0.5])
    for name in names:
        value = OP[name](value)
    [result] = fold_constants(graph(OP["add"](X, value))).outputs
    assert isinstance(result, Node)
    assert isinstance(result.inputs[1], Constant)
