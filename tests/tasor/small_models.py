"""Small models that the tests of the front door share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_model(x: str = "x", y: str = "y") -> onnx.ModelProto:
    """y = relu(x @ w + b) for x of shape [n, 6], with those names of input and output."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (6, 5)), ("b", (5,)))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [x, "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["sum"]),
            helper.make_node("Relu", ["sum"], [y]),
        ],
        "small",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["n", 5])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reshaping_model() -> onnx.ModelProto:
    """y = x reshaped to the sizes in the input `sizes`."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "sizes"], ["y"])],
        "reshaping",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, ["rank"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected_output(x: Any) -> Any:
    """What the small model gives for x."""
    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5,)))
    return np.maximum(x @ w + b, 0)


def assert_close(actual: Any, expected: Any) -> None:
    """Equal up to the rounding of float32 sums in another order."""
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
