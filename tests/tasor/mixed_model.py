"""One small network with most of what code generation has to spell in its own way for a machine.

Convolutions (dense, strided, depthwise, 1x1), pooling, concatenation, matrix products of constants
and of activations, softmax, the transcendental functions, float64, float16, bfloat16, quantized and
plain integers of every width, and comparisons and casts of special values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tensorgen.types import Array

SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3e-39, -1e-45, 1.1754944e-38, 3.4e38, -3.4e38,
    127.5, 128.0, -128.5, 255.5, 256.0, -1e10, 1e10, 4e18, -1e19, float("inf"), -float("inf"),
    float("nan"),
)  # fmt: skip
"""Signed zeros, halves, subnormals, limits of the integers, and what is not a number."""


class _Builder:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: int, *shape: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, name: str, dtype: int) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, dtype, None))

    def constant(self, array: Array) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int, dtype: type = np.float32) -> str:
        return self.constant((self.rng.standard_normal(shape) * 0.3).astype(dtype))

    def node(
        self, operator: str, operands: Sequence[str], result: str = "", **attributes: Any
    ) -> str:
        name = result if result else f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, operands, [name], **attributes))
        return name

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "mixed", self.inputs, self.outputs, self.initializers)
        opsets = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def mixed_model() -> onnx.ModelProto:
    """The network; all shapes are fixed."""
    build = _Builder()
    _images(build)
    _halves(build)
    _integers(build)
    _special(build)
    return build.model()


def _images(build: _Builder) -> None:
    """float32: a small convolutional network with a self-attention on top."""
    node, weights = build.node, build.weights
    image = build.input("image", TensorProto.FLOAT, 1, 5, 15, 17)
    convolved = node(
        "Conv", [image, weights(12, 5, 3, 3), weights(12)], pads=[1, 1, 1, 1], strides=[2, 2]
    )
    active = node("Relu", [convolved])
    deep = node("Conv", [active, weights(12, 1, 3, 3), weights(12)], pads=[1, 1, 1, 1], group=12)
    pooled = node("MaxPool", [active], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    both = node("Concat", [node("HardSwish", [deep]), pooled], axis=1)
    mixed = node("Sigmoid", [node("Conv", [both, weights(16, 24, 1, 1), weights(16)])])
    smaller = node("AveragePool", [mixed], kernel_shape=[2, 2], strides=[2, 2])
    features = node("Flatten", [node("GlobalAveragePool", [smaller])])
    scores = node("Add", [node("MatMul", [features, weights(16, 11)]), weights(11)])
    node("Softmax", [scores], "probabilities", axis=-1)
    build.output("probabilities", TensorProto.FLOAT)

    rows = node("Reshape", [mixed, build.constant(np.array([16, 72], np.int64))])
    columns = node("Transpose", [rows], perm=[1, 0])
    attention = node("Softmax", [node("MatMul", [rows, columns])], axis=-1)
    attended = node("MatMul", [attention, rows])
    normalized = node("LayerNormalization", [attended, weights(72), weights(72)], axis=-1)
    total = node("Erf", [node("Add", [normalized, rows])])
    waves = node("Add", [node("Sin", [total]), node("Tanh", [total])])
    powers = node("Mul", [node("Exp", [total]), node("Log", [node("Add", [rows, rows])])])
    node("Div", [waves, node("Sqrt", [node("Exp", [powers])])], "attended")
    build.output("attended", TensorProto.FLOAT)

    wide = node("Cast", [attended], to=TensorProto.DOUBLE)
    product = node("MatMul", [wide, weights(72, 9, dtype=np.float64)])
    node("ReduceLogSumExp", [product], "wide", keepdims=0)
    build.output("wide", TensorProto.DOUBLE)


def _halves(build: _Builder) -> None:
    """float16 and bfloat16, computed in float32 and rounded."""
    node = build.node
    half = build.input("half", TensorProto.FLOAT16, 7, 6)
    product = node("MatMul", [half, build.weights(6, 9, dtype=np.float16)])
    node("Softmax", [node("Add", [product, build.weights(9, dtype=np.float16)])], "halves")
    build.output("halves", TensorProto.FLOAT16)

    brain = build.input("brain", TensorProto.BFLOAT16, 3, 10)
    doubled = node("Mul", [brain, build.weights(10, dtype=ml_dtypes.bfloat16)])
    node("Tanh", [node("Add", [doubled, brain])], "brains")
    build.output("brains", TensorProto.BFLOAT16)


def _integers(build: _Builder) -> None:
    """Quantized products, and plain integers of several widths."""
    node, constant = build.node, build.constant
    pixels = build.input("pixels", TensorProto.UINT8, 6, 20)
    table = constant(build.rng.integers(-128, 128, (20, 7)).astype(np.int8))
    zero_point = constant(np.array(128, np.uint8))
    product = node("MatMulInteger", [pixels, table, zero_point])
    node("Mul", [product, product], "squares")
    build.output("squares", TensorProto.INT32)

    scale = constant(np.array(0.037, np.float32))
    real = node("DequantizeLinear", [pixels, scale, zero_point])
    node("QuantizeLinear", [node("Sqrt", [node("Abs", [real])]), scale, zero_point], "quantized")
    build.output("quantized", TensorProto.UINT8)

    counts = build.input("counts", TensorProto.INT64, 4, 6)
    seven = constant(np.array([7, -7, 3, -3, 1 << 40, 11], np.int64))
    quotient = node("Div", [counts, seven])
    remainder = node("Mod", [counts, seven])
    wrapped = node("Mul", [counts, node("Mul", [counts, counts])])
    node("Concat", [quotient, remainder, wrapped], "counted", axis=0)
    build.output("counted", TensorProto.INT64)
    node("CumSum", [wrapped, constant(np.array(1, np.int64))], "sums")
    build.output("sums", TensorProto.INT64)
    short = node("Cast", [counts], to=TensorProto.INT16)
    node("Concat", [node("Neg", [short]), node("Mul", [short, short])], "short", axis=1)
    build.output("short", TensorProto.INT16)
    node("ArgMax", [wrapped], "largest", axis=1)
    build.output("largest", TensorProto.INT64)
    shifted = node("Cast", [counts], to=TensorProto.UINT32)
    by = constant(np.array([0, 1, 5, 31, 2, 3], np.uint32))
    node("BitShift", [shifted, by], "shifted", direction="RIGHT")
    build.output("shifted", TensorProto.UINT32)


def _special(build: _Builder) -> None:
    """Special values through casts, comparisons and the functions that keep them apart."""
    node = build.node
    special = build.input("special", TensorProto.FLOAT, len(SPECIAL))
    for to in ("INT8", "UINT8", "INT32", "UINT64", "BOOL", "FLOAT16", "BFLOAT16"):
        if to in ("FLOAT16", "BFLOAT16"):
            finite = node("Where", [node("IsNaN", [special]), build.weights(1), special])
            node("Cast", [finite], f"as_{to}", to=TensorProto.DataType.Value(to))
        else:
            node("Cast", [special], f"as_{to}", to=TensorProto.DataType.Value(to))
        build.output(f"as_{to}", TensorProto.DataType.Value(to))
    one = build.constant(np.array(1, np.float32))
    node("Concat", [node("Less", [special, one]), node("IsInf", [special])], "compared", axis=0)
    build.output("compared", TensorProto.BOOL)
    known = node("Where", [node("IsNaN", [special]), one, special])
    tiny = build.constant(np.array(2.0**-3, np.float32))
    node("Mul", [known, tiny], "scaled")
    build.output("scaled", TensorProto.FLOAT)
    node(
        "Concat",
        [node(f, [known]) for f in ("Round", "Floor", "Sign", "Atan", "Exp")],
        "rounded",
        axis=0,
    )
    build.output("rounded", TensorProto.FLOAT)
    small = node("Gather", [known, build.constant(np.arange(10, dtype=np.int64))])
    row = node("Reshape", [small, build.constant(np.array([2, 5], np.int64))])
    subnormal = node("Mul", [row, build.constant(np.array(1e-39, np.float32))])
    node("MatMul", [subnormal, build.weights(5, 8)], "subnormal_product")
    build.output("subnormal_product", TensorProto.FLOAT)


def mixed_inputs() -> dict[str, Array]:
    """One array for each input of the network."""
    rng = np.random.default_rng(8)
    counts = rng.integers(-(1 << 62), 1 << 62, (4, 6))
    counts[:, 1:3] %= 100
    return {
        "image": rng.standard_normal((1, 5, 15, 17)).astype(np.float32),
        "half": rng.standard_normal((7, 6)).astype(np.float16),
        "brain": rng.standard_normal((3, 10)).astype(ml_dtypes.bfloat16),
        "pixels": rng.integers(0, 256, (6, 20)).astype(np.uint8),
        "counts": counts,
        "special": np.array(SPECIAL, np.float32),
    }
