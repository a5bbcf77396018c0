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
    groups = integer(node, "groups")
    return computed_in(NARROW, lambda node, x, w: as_products(x, w, windows, groups))(node, x, w)


def as_products(x: Term, w: Term, windows: Windows, groups: int) -> Term:
    """A convolution in any element type that matrices are multiplied in, integers included.

    Per group, the matrix (oc, c * kernel) times the matrix (c * kernel, outputs).
    """
    batch, positions = x.type.shape[0], prod(windows.outputs)
    channels, depth = w.type.shape[0], prod(w.type.shape[1:])
    outputs, elements = axes_of_unfolded(windows)
    unfolded_x = unfolded(x, windows, scalar(0, x.type.dtype))
    columns = transpose(unfolded_x, (0, 1, *elements, *outputs))
    matrices = reshape(columns, (batch, groups, depth, positions))
    weights = reshape(w, (groups, channels // groups, depth))
    shape = (batch, groups, channels // groups, positions)
    product = call("MatMul", weights, matrices, type=TensorType(x.type.dtype, shape))
    return reshape(product, (batch, channels, *windows.outputs))


TABLE: Mapping[str, Exporter] = {
    "matmul": computed_in(NARROW, _matmul),
    "conv": _conv,
    "einsum": computed_in(MODULAR, _einsum),
}
