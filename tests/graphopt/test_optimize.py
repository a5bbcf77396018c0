"""Optimizing: the same values, nothing left to do, and what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.graph import Constant, Graph, Input, Param, Value
from graphopt.ops import OP
from graphopt.optimize import default_rules, lowering_rules, optimize, prepare
from graphopt.reference import evaluate_graph
from graphopt.rewrite import StopReason
from tensorgen.types import TensorType, float32
from tests.compiled_kernels import assert_same
from tests.random_graphs import inputs_for, random_graph


def graph_of(x: Input, *outputs: Value) -> Graph:
    return Graph((x,), outputs, ("x",), tuple(f"y{n}" for n in range(len(outputs))))


X = Input(0, TensorType(float32, (1, 4, 6, 6)))


def scalar(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


@pytest.mark.parametrize("seed", range(40))
def test_values_are_kept(seed: int) -> None:
    graph = random_graph(seed, size=10)
    arrays = inputs_for(graph, seed)
    result = optimize(graph).graph
    assert result.output_names == graph.output_names
    assert result.inputs == graph.inputs
    for lowered in (result, prepare(result)):
        found = evaluate_graph(lowered, arrays)
        for array, expected in zip(found, evaluate_graph(graph, arrays), strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_the_result_is_optimal_for_the_rules(seed: int) -> None:
    graph = optimize(random_graph(seed)).graph
    again = optimize(graph)
    assert again.graph is graph
    assert again.applied == ()


def test_rewrites_are_counted() -> None:
    result = optimize(graph_of(X, OP["neg"](OP["neg"](X))))
    assert result.graph.outputs == (X,)
    assert sum(count for _, count in result.applied) >= 1
    assert [name for name, _ in result.applied] == sorted(name for name, _ in result.applied)
    assert result.stop is not StopReason.STEP_LIMIT
    assert result.seconds >= 0


def test_constants_are_folded_before_and_after() -> None:
    three = OP["add"](scalar(1), scalar(2))
    result = optimize(graph_of(X, OP["mul"](X, three)), rules=())
    (output,) = result.graph.outputs
    assert [v.array.item() for v in result.graph.values if isinstance(v, Constant)] == [3]
    assert output.type == X.type


def test_nothing_to_do_is_the_same_graph() -> None:
    graph = graph_of(X, OP["exp"](X))
    result = optimize(graph)
    assert result.graph is graph
    assert prepare(graph) is graph


def test_padding_becomes_an_operator() -> None:
    weight = Constant(np.ones((2, 4, 3, 3), np.float32))
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    graph = graph_of(
        X,
        OP["conv"](X, weight, groups=1, **window),
        OP["max_pool"](X, kernel=(3, 3), **window),
        OP["sum_pool"](X, kernel=(3, 3), **window),
    )
    lowered = prepare(graph)
    padded = [node for node in lowered.nodes if node.op.name in ("conv", "max_pool", "sum_pool")]
    assert all(not any(map(int, node.keywords["pads"])) for node in padded)  # type: ignore[arg-type]
    assert {node.op.name for node in lowered.nodes} >= {"pad"}
    arrays = {"x": np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(np.float32)}
    for found, expected in zip(
        evaluate_graph(lowered, arrays), evaluate_graph(graph, arrays), strict=True
    ):
        assert_same(found, expected, 64.0)


def test_normalisation_after_a_transposed_convolution_costs_nothing() -> None:
    random = np.random.default_rng(0)
    weight = Constant(random.standard_normal((3, 4, 4, 4)).astype(np.float32))
    channels = Constant(random.standard_normal((4, 1, 1)).astype(np.float32))
    scale, spread, shift = (
        Constant((1 + random.random((3, 1, 1))).astype(np.float32)) for _ in range(3)
    )
    window: dict[str, Param] = {
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "groups": 1,
    }
    y = OP["neg"](OP["conv_transpose"](OP["mul"](X, channels), weight, **window))
    graph = graph_of(X, OP["add"](OP["div"](OP["mul"](y, scale), spread), shift))
    result = optimize(graph)
    assert [node.op.name for node in result.graph.nodes] == ["conv_transpose", "add"]
    arrays = {"x": random.standard_normal((1, 4, 6, 6)).astype(np.float32)}
    [found], [expected] = (evaluate_graph(g, arrays) for g in (prepare(result.graph), graph))
    assert_same(found, expected, 256.0)


def test_rules_are_read_once() -> None:
    assert default_rules() is default_rules()
    assert lowering_rules() is lowering_rules()
    assert default_rules()
