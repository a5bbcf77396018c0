"""Importers of normalizations that have no body in ONNX, or had none in an older opset.

Before opset 13, Softmax and its kin flatten their operand to a matrix and work on its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from graphopt.graph import Value
from graphopt.onnx_import.node import Importer, OnnxNode, spatial_shape
from graphopt.ops import OP
from graphopt.terms import apply, mean, reduced, reshape, scalar, with_scalar
from tensorgen.types import Shape


def _by_row(node: OnnxNode) -> tuple[Value, ...]:
    """The operator of opset 13 on each row of the flattened operand."""
    x, shape = node.input(0), _rows(node)
    (result,) = node.call(node.op_type, (reshape(x, shape),), version=13, axis=1)
    return (reshape(result, x.type.shape),)


def _rows(node: OnnxNode) -> Shape:
    x = node.input(0)
    axis = node.axis(node.integer("axis", 1), x.type.rank) if x.type.rank else 0
    return (prod(x.type.shape[:axis]), prod(x.type.shape[axis:]))


def _hardmax(node: OnnxNode) -> tuple[Value, ...]:
    """One at the first maximum along an axis, zero elsewhere."""
    x = node.input(0)
    if node.version < 13:
        return _by_row(node)
    axis = node.axis(node.integer("axis", -1), x.type.rank)
    position = OP["argmax"](x, axis=axis, last=False)
    dtype = x.type.dtype
    values = OP["concat"](*(reshape(scalar(n, dtype), (1,)) for n in (0, 1)), axis=0)
    return (OP["one_hot"](position, values, axis=axis, depth=x.type.shape[axis]),)


def _instance_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """Each channel of each image to mean 0 and variance 1, then scaled and shifted."""
    x, scale, bias = node.input(0), node.input(1), node.input(2)
    axes = tuple(range(2, 2 + len(spatial_shape(node, x))))
    for vector in (scale, bias):
        if vector.type.shape != (x.type.shape[1],):
            raise node.error(f"vectors of {x.type.shape[1]} channels", vector.type)
    centred = apply("sub", x, mean(x, axes, keepdims=True))
    variance = mean(apply("mul", centred, centred), axes, keepdims=True)
    deviation = apply("sqrt", with_scalar("add", variance, node.number("epsilon", 1e-5)))
    column = (x.type.shape[1], *((1,) * len(axes)))
    scaled = apply("mul", apply("div", centred, deviation), reshape(scale, column))
    return (apply("add", scaled, reshape(bias, column)),)


def _local_response(node: OnnxNode) -> tuple[Value, ...]:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta."""
    x, size = node.input(0), node.integer("size")
    if x.type.rank < 2 or not 1 <= size < 2**31:
        raise node.error("x of shape (n, c, …) and size of at least 1", f"{x.type}, size {size}")
    channels = x.type.shape[1]
    inner = prod(x.type.shape[2:])
    planes = reshape(x, (x.type.shape[0], 1, channels, inner))
    squares = apply("mul", planes, planes)
    # Beyond the first and last channel there is nothing, so a wider window changes nothing.
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    sums = OP["sum_pool"](
        squares,
        kernel=(before + after + 1, 1),
        strides=(1, 1),
        pads=(before, 0, after, 0),
        dilations=(1, 1),
    )
    weighted = with_scalar("mul", sums, node.number("alpha", 1e-4) / size)
    base = with_scalar("add", weighted, node.number("bias", 1.0))
    divided = apply("div", planes, with_scalar("pow", base, node.number("beta", 0.75)))
    return (reshape(divided, x.type.shape),)


def _lp_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """x divided by its L1 or L2 norm along an axis; zero where the norm is zero."""
    x, power = node.input(0), node.integer("p", 2)
    if power not in (1, 2):
        raise node.error("p of 1 or 2", power)
    axis = node.axis(node.integer("axis", -1), x.type.rank)
    terms = apply("abs", x) if power == 1 else apply("mul", x, x)
    total = reduced("reduce_sum", terms, (axis,), keepdims=True)
    norm = total if power == 1 else apply("sqrt", total)
    zero = scalar(0, x.type.dtype)
    return (apply("where", apply("eq", norm, zero), zero, apply("div", x, norm)),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "Hardmax"): _hardmax,
    ("", "InstanceNormalization"): _instance_normalization,
    ("", "LRN"): _local_response,
    ("", "LogSoftmax"): _by_row,
    ("", "LpNormalization"): _lp_normalization,
    ("", "Softmax"): _by_row,
}
