"""Evaluation with numpy references, and constant folding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import reference
from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.ops import OP
from graphopt.reference import ConstantFolder, evaluate_graph, evaluate_in_float64
from tensorgen.types import ShapeError, TensorType, float16, float32, int64

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


def test_float64_hides_the_order_of_a_sum() -> None:
    x = Input(0, TensorType(float32, (1, 4096)))
    y = np.random.default_rng(6).normal(size=4096).astype(np.float32)
    values = np.random.default_rng(7).normal(size=(1, 4096)).astype(np.float32)

    def results(evaluate: Any) -> set[float]:
        found = set()
        for seed in range(8):
            order = np.random.default_rng(seed).permutation(4096)
            product = OP["matmul"](x, f32(y[order, None]))
            (result,) = evaluate(Graph((x,), (product,), ("x",), ("y",)), {"x": values[:, order]})
            found.add(float(result[0, 0]))
        return found

    assert len(results(evaluate_graph)) > 1
    assert len(results(evaluate_in_float64)) == 1


def test_float64_keeps_the_range_of_the_declared_type() -> None:
    """A mask of two lowest numbers is minus infinity, and its softmax NaN, as in float32."""
    twice = OP["add"](X, X)
    difference = OP["sub"](twice, twice)
    tiny = OP["log"](OP["exp"](X))
    x = np.array([[3e38, -3e38, 1.0], [-200.0, 200.0, 0.0]], np.float32)
    sums, differences, logarithms = evaluate_in_float64(graph(twice, difference, tiny), {"x": x})
    np.testing.assert_array_equal(sums, [[np.inf, -np.inf, 2.0], [-400.0, 400.0, 0.0]])
    np.testing.assert_array_equal(differences, [[np.nan, np.nan, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(
        logarithms, np.array([[np.inf, -np.inf, 1.0], [-np.inf, np.inf, 0.0]], np.float32)
    )


def test_float64_jumps_where_the_declared_type_does() -> None:
    """A quotient that float32 rounds up to a whole number."""
    above, below = np.float32(2.1), np.float32(0.7)
    assert float(above) / float(below) < 3 == above / below
    x = np.full((2, 3), above)
    quotient = OP["div"](X, f32(below))
    jumps = graph(
        OP["floor"](quotient), OP["cast"](quotient, to="int32"), OP["le"](f32(3), quotient)
    )
    floor, whole, reached = evaluate_in_float64(jumps, {"x": x})
    assert (floor == 3).all()
    assert (whole == 3).all()
    assert reached.all()


def test_float64_leaves_integers_and_rounds_halves() -> None:
    x = Input(0, TensorType(int64, (2,)))
    y = Input(1, TensorType(float16, (2,)))
    both = Graph((x, y), (OP["add"](x, x), OP["mul"](y, y)), ("x", "y"), ("a", "b"))
    given = {"x": np.array([2**62 - 1, -(2**62)]), "y": np.array([1.001, 200.0], np.float16)}
    integers, halves = evaluate_in_float64(both, given)
    np.testing.assert_array_equal(integers, [2**63 - 2, -(2**63)])
    assert halves.dtype == np.float16
    np.testing.assert_array_equal(halves, given["y"] * given["y"])


def test_a_constant_is_folded_in_float64() -> None:
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    folded = ConstantFolder()(OP["exp"](f32(x)))
    assert isinstance(folded, Constant)
    np.testing.assert_array_equal(folded.array, np.exp(x.astype(np.float64)).astype(np.float32))


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
