"""Contractions as ONNX. ONNX multiplies matrices of 32 bits and more, and convolves floats only."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from graphopt.graph import Constant, Node
from graphopt.onnx_export.parameters import integer, integers, text
from graphopt.onnx_export.term import Exporter, Term, call, padded, reshape, take, transpose
from graphopt.onnx_export.widening import BFLOAT16, MODULAR, NARROW, computed_in
from graphopt.onnx_export.windows import unfolded, windows_of
from graphopt.ops.windows import Windows
from graphopt.terms import scalar
from tensorgen.types import Shape, TensorType


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
    return _products(unfolded(x, windows, scalar(0, x.type.dtype)), w, groups)


def _products(elements: Term, w: Term, groups: int) -> Term:
    """The convolution of windows laid out as axes (n, c, o0, k0, o1, k1, …) with w."""
    rank = w.type.rank - 2
    places, taps = tuple(range(2, 2 + 2 * rank, 2)), tuple(range(3, 3 + 2 * rank, 2))
    outputs = tuple(elements.type.shape[axis] for axis in places)
    batch, positions = elements.type.shape[0], prod(outputs)
    channels, depth = w.type.shape[0], prod(w.type.shape[1:])
    columns = transpose(elements, (0, 1, *taps, *places))
    matrices = reshape(columns, (batch, groups, depth, positions))
    weights = reshape(w, (groups, channels // groups, depth))
    shape = (batch, groups, channels // groups, positions)
    product = call("MatMul", weights, matrices, type=TensorType(elements.type.dtype, shape))
    return reshape(product, (batch, channels, *outputs))


# Transposed convolution


def _conv_transpose(node: Node, x: Term, w: Term) -> Term:
    if not x.type.dtype.is_float:
        return computed_in(NARROW, _transposed_products)(node, x, w)
    return computed_in(BFLOAT16, _transposed)(node, x, w)


def _transposed(node: Node, x: Term, w: Term) -> Term:
    if has_transposed_form(node):
        return transposed_convolution(node, x, w)
    return _transposed_products(node, x, w)


def has_transposed_form(node: Node) -> bool:
    """Whether ONNX's operator gives the result: it lengthens one by less than the stride only."""
    rank = node.type.rank - 2
    before, after = _ends(node)
    strides = integers(node, "strides")
    return min(before) >= 0 and all(-after[n] < strides[n] for n in range(rank))


def _ends(node: Node) -> tuple[Shape, Shape]:
    pads = integers(node, "pads")
    return pads[: len(pads) // 2], pads[len(pads) // 2 :]


def transposed_convolution(node: Node, x: Term, w: Term, bias: Term | None = None) -> Term:
    """ONNX's transposed convolution of floats, with one number per output channel added if there
    is a bias."""
    before, after = _ends(node)
    groups = integer(node, "groups")
    operands = (x, _inputs_first(w, groups))
    return call(
        "ConvTranspose",
        *(operands if bias is None else (*operands, bias)),
        type=TensorType(x.type.dtype, node.type.shape),
        dilations=integers(node, "dilations"),
        group=groups,
        kernel_shape=w.type.shape[2:],
        output_padding=tuple(max(-size, 0) for size in after),
        pads=(*before, *(max(size, 0) for size in after)),
        strides=integers(node, "strides"),
    )


def _inputs_first(w: Term, groups: int) -> Term:
    """Weights (oc, c / groups, kernel…) as (c, oc / groups, kernel…)."""
    outputs, inputs, *kernel = w.type.shape
    split = (groups, outputs // groups, inputs, *kernel)
    perm = (0, 2, 1, *range(3, len(split)))
    shape = (groups * inputs, outputs // groups, *kernel)
    if isinstance(w, Constant):
        return Constant(w.array.reshape(split).transpose(perm).reshape(shape))
    return reshape(transpose(reshape(w, split), perm), shape)


def _transposed_products(node: Node, x: Term, w: Term) -> Term:
    """A transposed convolution as a product of matrices: one has, for each result and tap, the
    element of x that is multiplied, or zero."""
    rank = node.type.rank - 2
    none = (0,) * x.type.rank
    sizes = x.type.shape[2:]
    elements: Term = padded(x, none, (0, 0, *(1,) * rank), scalar(0, x.type.dtype))
    strides, dilations = integers(node, "strides"), integers(node, "dilations")
    before, _ = _ends(node)
    for axis in range(rank):
        outputs = np.arange(node.type.shape[2 + axis], dtype=np.int64)
        taps = np.arange(w.type.shape[2 + axis], dtype=np.int64) * dilations[axis]
        place, left = np.divmod(outputs[:, None] + before[axis] - taps, strides[axis])
        read = (left == 0) & (place >= 0) & (place < sizes[axis])
        elements = take(elements, Constant(np.where(read, place, sizes[axis])), 2 + 2 * axis)
    return _products(elements, w, integer(node, "groups"))


TABLE: Mapping[str, Exporter] = {
    "matmul": computed_in(NARROW, _matmul),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "einsum": computed_in(MODULAR, _einsum),
}
