"""The graph builder: names, shapes and the estimate of mean and variance."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasor.suites.builder import GraphBuilder, Tensor, per_axis, window_shape


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (output,) = session.run(None, {"x": x.astype(np.float32)})
    return np.asarray(output)


def test_names_are_unique() -> None:
    graph = GraphBuilder("g")
    x = graph.input("x", (1, 4, 8, 8))
    for _ in range(3):
        x = graph.relu(graph.batch_norm(graph.conv(x, 4, 3, pad=1)))
    model = graph.finish(x)
    nodes = [node.name for node in model.graph.node]
    constants = [tensor.name for tensor in model.graph.initializer]
    assert len(set(nodes)) == len(nodes)
    assert len(set(constants)) == len(constants)
    assert [value.name for value in model.graph.output] == ["y"]


@settings(max_examples=30, deadline=None)
@given(
    size=st.integers(8, 16),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    pad=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_shapes_are_those_of_onnx(
    size: int, kernel: int, stride: int, pad: int, dilation: int
) -> None:
    graph = GraphBuilder("g")
    x = graph.input("x", (1, 2, size, size + 1))
    y = graph.conv(x, 3, kernel, stride=stride, pad=pad, dilation=dilation)
    onnx.checker.check_model(graph.finish(y), full_check=True)


@pytest.mark.parametrize("stride", [1, 2])
def test_conv_transpose_shape_is_that_of_onnx(stride: int) -> None:
    graph = GraphBuilder("g")
    y = graph.conv_transpose(graph.input("x", (1, 2, 5, 7)), 3, 4, stride=stride, pad=1)
    onnx.checker.check_model(graph.finish(y), full_check=True)


@given(mean=st.floats(-3, 3), deviation=st.floats(0.1, 3))
def test_moments_of_a_rectified_normal(mean: float, deviation: float) -> None:
    rectified = GraphBuilder("g").relu(Tensor("x", (1,), mean, deviation**2))
    samples = mean + deviation * np.random.default_rng(0).standard_normal(200_000)
    expected = np.maximum(samples, 0)
    assert rectified.mean == pytest.approx(expected.mean(), rel=0.05, abs=0.01 * deviation)
    assert rectified.variance == pytest.approx(expected.var(), rel=0.1, abs=0.02 * deviation**2)


def test_depth_keeps_activations_of_order_one() -> None:
    graph = GraphBuilder("g")
    x = graph.input("x", (1, 32, 12, 12))
    for _ in range(20):
        branch = graph.batch_norm(graph.conv(x, 32, 3, pad=1))
        x = graph.relu(graph.add(branch, x))
    output = run(graph.finish(x), np.random.default_rng(0).standard_normal((1, 32, 12, 12)))
    measured = float(np.mean(output.astype(np.float64) ** 2))
    assert x.power / 4 < measured < x.power * 4


def test_per_axis_spells_out_one_number() -> None:
    assert per_axis(3, 2) == (3, 3)
    assert per_axis((1, 7), 2) == (1, 7)


def test_window_shape_rounds_down() -> None:
    assert window_shape((7,), (3,), (2,), (0,), (1,)) == (3,)
    assert window_shape((8,), (3,), (2,), (0,), (1,)) == (3,)
