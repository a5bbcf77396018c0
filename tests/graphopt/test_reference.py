"""Evaluation with numpy references, and constant folding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import reference
from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.ops import OP
from graphopt.reference import ConstantFolder, evaluate_graph
from tensorgen.types import ShapeError, TensorType, float32

X = Input(0, TensorType(float32, (2, 3)))


def f32(values: Any) -> Constant:
    return Constant(np.array(values, np.float32))


def graph(*outputs: Value) -> Graph:
    return Graph((X,), outputs, ("x",), tuple(f"y{n}" for n in range(len(outputs))))


def test_outputs_may_be_inputs_constants_and_nodes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    results = evaluate_graph(graph(X, f32(7), OP["add"](X, f32(1))), {"x": x})
    for result, expected in zip(results, (x, np.float32(7), x + 1), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "expected an array for input 'x', got none"),
        ({"x": np.zeros((3, 2), np.float32)}, r"expected float32\[2,3\] for input 'x', got"),
        ({"x": np.zeros((2, 3))}, r"got float64\[2,3\]"),
    ],
)
def test_wrong_inputs_are_refused(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        evaluate_graph(graph(X), inputs)


def test_folding_goes_bottom_up_and_stops_at_inputs() -> None:
    term = OP["add"](X, OP["mul"](OP["neg"](f32(2)), f32([1, 2, 3])))
    folded = ConstantFolder()(term)
    assert folded == OP["add"](X, f32([-2, -4, -6]))


def test_what_cannot_be_folded_is_the_same_object() -> None:
    term = OP["exp"](OP["add"](X, f32(1)))
    assert ConstantFolder()(term) is term


def test_results_that_grow_stay_nodes() -> None:
    small = OP["broadcast_to"](f32(1), shape=(16, 16))
    large = OP["broadcast_to"](f32(1), shape=(1024, 1024))
    assert isinstance(ConstantFolder()(small), Constant)
    assert ConstantFolder()(large) is large


def test_what_a_contraction_multiplies_is_folded_however_large() -> None:
    x = Input(0, TensorType(float32, (2, 1024)))
    filled = OP["broadcast_to"](f32(2), shape=(1024, 512))
    scaled = OP["mul"](filled, f32(np.arange(512)))
    product = OP["matmul"](x, OP["transpose"](OP["transpose"](scaled, perm=(1, 0)), perm=(1, 0)))
    folded = ConstantFolder()(product)
    assert isinstance(folded, Node)
    factor = folded.inputs[1]
    assert isinstance(factor, Constant)
    np.testing.assert_array_equal(factor.array, np.tile(2 * np.arange(512), (1024, 1)))


def test_a_factor_beyond_the_total_or_too_much_work_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = Input(0, TensorType(float32, (2, 1024)))
    product = OP["matmul"](x, OP["broadcast_to"](f32(2), shape=(1024, 512)))
    with monkeypatch.context() as limits:
        limits.setattr(reference, "MAX_FOLDED_TOTAL", 4 * 1024 * 512 - 1)
        assert ConstantFolder()(product) is product
    monkeypatch.setattr(reference, "MAX_FOLDED_READS", 1024 * 512 - 1)
    assert ConstantFolder()(product) is product


def test_a_factor_that_depends_on_an_input_is_left() -> None:
    x = Input(0, TensorType(float32, (2, 1024)))
    scale = Input(1, TensorType(float32, (512,)))
    scaled = OP["mul"](OP["broadcast_to"](f32(2), shape=(1024, 512)), scale)
    product = OP["matmul"](x, scaled)
    assert ConstantFolder()(product) is product


def test_work_and_total_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    product = OP["matmul"](f32(np.eye(8)), f32(np.ones((8, 8))))
    assert isinstance(ConstantFolder()(product), Constant)
    monkeypatch.setitem(reference.MAX_FOLDED_TERMS, "matmul", 8**3 - 1)
    assert ConstantFolder()(product) is product
    monkeypatch.setattr(reference, "MAX_FOLDED_TOTAL", 20)
    fold = ConstantFolder()
    results = [fold(OP["neg"](f32([n, n, n]))) for n in range(2)]
    assert [isinstance(value, Constant) for value in results] == [True, False]
