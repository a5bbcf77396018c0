"""ONNX models as calls of PyTorch's functions: the right calls, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tasor.peer_cases import write_case
from tasor.peer_engines import open_model
from tasor.peer_torch import UntranslatedError, torch_program
from tasor.peers import deviation
from tasor.suites.builder import GraphBuilder, Tensor
from tensorgen.types import Array

FOLDER = Path()

STAND_IN = SimpleNamespace(
    from_numpy=lambda array: array,
    add=np.add,
    sub=np.subtract,
    matmul=np.matmul,
    softmax=lambda x, axis: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    clamp=np.clip,
    mean=lambda x, dim, keepdim: x.mean(tuple(dim), keepdims=keepdim),
)
"""As much of the module as these models need, on arrays."""


def model_of(*nodes: onnx.NodeProto, **constants: Array) -> onnx.ModelProto:
    """A model from x to y."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [2, 3])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_operands_go_in_their_order_and_constants_are_read() -> None:
    model = model_of(
        helper.make_node("Sub", ["w", "x"], ["a"]),
        helper.make_node("Sub", ["a", "x"], ["b"]),
        helper.make_node("ReduceMean", ["b"], ["y"], axes=[1], keepdims=0),
        w=np.full((2, 3), 9, np.float32),
    )
    program = torch_program(model, STAND_IN, FOLDER)
    (y,) = program.run({"x": X})
    np.testing.assert_array_equal(y, (9 - 2 * X).mean(1))
    np.testing.assert_array_equal(program.run({"x": -X})[0], (9 + 2 * X).mean(1))


def test_values_are_given_up_after_their_last_reader() -> None:
    model = model_of(
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "a"], ["b"]),
        helper.make_node("Add", ["b", "w"], ["y"]),
        w=np.ones((2, 3), np.float32),
    )
    freed = [len(step.freed) for step in torch_program(model, STAND_IN, FOLDER).steps]
    # x, then a, then b; the weights stay.
    assert freed == [1, 1, 1]


def test_bounds_of_a_clip_may_be_left_out() -> None:
    low = model_of(helper.make_node("Clip", ["x", "l"], ["y"]), l=np.array(2, np.float32))
    high = model_of(helper.make_node("Clip", ["x", "", "h"], ["y"]), h=np.array(3, np.float32))
    for model, expected in ((low, X.clip(2, None)), (high, X.clip(None, 3))):
        (y,) = torch_program(model, STAND_IN, FOLDER).run({"x": X})
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("LSTM", ["x"], ["y"]), "expected an operator among Add, .*got 'LSTM'"),
        (helper.make_node("Relu", ["x"], ["y"], domain="own"), "expected operators of ONNX"),
        (helper.make_node("Reshape", ["x", "x"], ["y"]), "expected a shape that is known"),
        (
            helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER"),
            "expected explicit padding, got an operator Conv",
        ),
        (helper.make_node("ReduceMean", ["x"], ["y"]), "expected axes that are known"),
    ],
)
def test_what_is_not_known_is_refused_on_one_line(node: onnx.NodeProto, message: str) -> None:
    model = model_of(node, w=np.ones((1, 1, 1), np.float32))
    module = SimpleNamespace(**vars(STAND_IN), nn=None, relu=None)
    with pytest.raises(UntranslatedError, match=message) as caught:
        torch_program(model, module, FOLDER)
    assert "\n" not in str(caught.value)


def _convolutions(graph: GraphBuilder) -> Tensor:
    x = graph.relu(graph.batch_norm(graph.conv(graph.input("x", (2, 6, 9, 8)), 4, 3, pad=1)))
    x = graph.conv(x, 8, (3, 2), stride=2, dilation=(1, 2), groups=2, bias=True)
    return graph.conv_transpose(x, 5, 4, stride=2, pad=1)


def _lopsided(graph: GraphBuilder) -> Tensor:
    x, w = graph.input("x", (1, 2, 5, 5)), graph.normal((3, 2, 3, 3), 1.0, "w")
    kernel: dict[str, Any] = {"kernel_shape": (3, 3), "pads": (0, 1, 2, 1), "strides": (1, 2)}
    convolved = graph.node("Conv", [x, w], (1, 3, 5, 3), **kernel)
    return graph.node("MaxPool", [convolved], (1, 3, 5, 2), **kernel)


def _pools(graph: GraphBuilder) -> Tensor:
    x = graph.relu6(graph.input("x", (1, 3, 7, 7)))
    window: dict[str, Any] = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)}
    pooled = graph.node("AveragePool", [x], (1, 3, 4, 4), **window)
    whole = graph.node("AveragePool", [x], (1, 3, 4, 4), count_include_pad=1, **window)
    most = graph.node("MaxPool", [x], (1, 3, 4, 4), **window)
    joined = graph.node("Concat", [pooled, whole, most], (1, 9, 4, 4), axis=1)
    return graph.node("GlobalAveragePool", [joined], (1, 9, 1, 1))


def _matrices(graph: GraphBuilder) -> Tensor:
    x = graph.reshape(graph.input("x", (2, 3, 4)), (6, 4))
    weights, bias = graph.normal((5, 4), 1.0, "w"), graph.normal((5,), 1.0, "b")
    x = graph.node("Gemm", [x, weights, bias], (6, 5), transB=1, alpha=0.5, beta=2.0)
    x = graph.softmax(graph.transpose(x, (1, 0)))
    rows = graph.node("Gather", [x, graph.integers((4, -1, 0), "rows")], (3, 6), axis=0)
    bounds = [graph.integers(values, "bound") for values in ((1,), (6,), (1,), (2,))]
    some = graph.node("Slice", [rows, *bounds], (3, 3))
    padded = graph.node("Pad", [some, graph.integers((0, 1, 2, 0), "pads")], (5, 4))
    return graph.node("ReduceL2", [padded], (5,), axes=(1,), keepdims=0)


def _elementwise(graph: GraphBuilder) -> Tensor:
    x = graph.node("Exp", [graph.input("x", (2, 3))], (2, 3))
    for operator in ("Add", "Mul", "Div", "Sub", "Pow"):
        x = graph.elementwise(operator, x, graph.uniform((1, 3), 0.1, 0.9, "w"))
    for operator in ("Sqrt", "Sigmoid", "Tanh", "Erf"):
        x = graph.elementwise(operator, x)
    flat = graph.node("Flatten", [x], (2, 3), axis=-1)
    largest = graph.node("ReduceMax", [flat], (1, 3), axes=(0,))
    return graph.node("ReduceSum", [largest, graph.integers((1,), "axes")], (1,), keepdims=0)


@pytest.mark.slow  # PyTorch is half a gigabyte, which `make test` does not install
@pytest.mark.parametrize("build", [_convolutions, _lopsided, _pools, _matrices, _elementwise])
def test_it_computes_what_onnx_runtime_computes(
    build: Callable[[GraphBuilder], Tensor], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    graph = GraphBuilder("g")
    case = write_case(tmp_path / "m.onnx", graph.finish(build(graph)), name="g", group="g")
    opened: dict[str, Any] = {}
    for engine in ("torch", "onnxruntime"):
        opened[engine] = open_model(engine, case, 1, {})
        opened[engine].run()
    assert deviation(opened["onnxruntime"].outputs(), opened["torch"].outputs()) < 1e-5
