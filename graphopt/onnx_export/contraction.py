"""Contractions as ONNX. ONNX multiplies matrices of 32 bits and more, and convolves floats only."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from graphopt.graph import Node
from graphopt.onnx_export.parameters import integer, text
from graphopt.onnx_export.term import Exporter, Term, call, reshape, transpose
from graphopt.onnx_export.widening import BFLOAT16, MODULAR, NARROW, computed_in
from graphopt.onnx_export.windows import axes_of_unfolded, unfolded, windows_of
from graphopt.onnx_import.terms import scalar
from graphopt.ops.windows import Windows
from tensorgen.types import TensorType


def _matmul(node: Node, x: Term, y: Term) -> Term:
    return call("MatMul", x, y, type=TensorType(x.type.dtype, node.type.shape))


def _einsum(node: Node, *operands: Term) -> Term:
    result = TensorType(operands[0].type.dtype, node.type.shape)
    return call("Einsum", *operands, type=result, equation=text(node, "equation"))


def convolution(node: Node, x: Term, w: Term, bias: Term | None = None) -> Term:
    """ONNX's convolution of floats, with one number per output channel added if there is a bias."""
    windows = windows_of(node, w.type.shape[2:])
    operands = (x, w) if bias is None else (x, w, bias)
    return call(
        "Conv",
        *operands,
        type=TensorType(x.type.dtype, node.type.shape),
        dilations=windows.dilations,
        group=integer(node, "groups"),
        kernel_shape=windows.kernel,
        pads=(*windows.before, *windows.after),
        strides=windows.strides,
    )


def _conv(node: Node, x: Term, w: Term) -> Term:
    windows = windows_of(node, w.type.shape[2:])
    if x.type.dtype.is_float:
        return computed_in(BFLOAT16, convolution)(node, x, w)
    return computed_in(NARROW, _integer_convolution(windows))(node, x, w)


def _integer_convolution(windows: Windows) -> Exporter:
    """Per group, the matrix (oc, c * kernel) times the matrix (c * kernel, outputs)."""

    def export(node: Node, x: Term, w: Term) -> Term:
        groups = integer(node, "groups")
        batch, channels = x.type.shape[:2]
        depth = channels // groups * prod(windows.kernel)
        outputs, elements = axes_of_unfolded(windows)
        columns = transpose(
            unfolded(x, windows, scalar(0, x.type.dtype)), (0, 1, *elements, *outputs)
        )
        matrices = reshape(columns, (batch, groups, depth, prod(windows.outputs)))
        weights = reshape(w, (groups, w.type.shape[0] // groups, depth))
        shape = (batch, groups, weights.type.shape[1], prod(windows.outputs))
        product = call("MatMul", weights, matrices, type=TensorType(x.type.dtype, shape))
        return reshape(product, node.type.shape)

    return export


TABLE: Mapping[str, Exporter] = {
    "matmul": computed_in(NARROW, _matmul),
    "conv": _conv,
    "einsum": computed_in(MODULAR, _einsum),
}
