"""Importers of quantization: conversion to and from small integers, and arithmetic on them.

Products of quantized values are exact in int32, as ONNX defines them: zero points are subtracted
first, and the sums are scaled and rounded (halves to even, saturating) at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.onnx_import.constant_positions import repeated
from graphopt.onnx_import.contraction import convolution, matrix_product, per_channel
from graphopt.onnx_import.narrow import (
    BY_NUMBER,
    Encoded,
    NarrowType,
    SmallInteger,
    decoded,
    encoded,
    saturated,
)
from graphopt.onnx_import.node import Importer, OnnxNode, Operand, same_type
from graphopt.onnx_import.protobuf import element_type
from graphopt.terms import apply, cast, reshape, slice_axis
from tensorgen.types import DType, float32, int32, uint8

# Conversion


def _spread(node: OnnxNode, parameter: Value, x: Value) -> Value:
    """A scale or zero point shaped to broadcast against x: per tensor, axis or block."""
    if parameter.type.size == 1 and parameter.type.rank <= 1:
        return reshape(parameter, ())
    axis = node.axis(node.integer("axis", 1), x.type.rank)
    size = x.type.shape[axis]
    if parameter.type.rank == 1:
        if parameter.type.size != size:
            raise node.error(f"scales and zero points of {size} elements", parameter.type)
        return reshape(parameter, (size, *((1,) * (x.type.rank - axis - 1))))
    block = node.integer("block_size", 0)
    blocks = -(-size // block) if block > 0 else 0
    expected = (*x.type.shape[:axis], blocks, *x.type.shape[axis + 1 :])
    if block < 1 or parameter.type.shape != expected:
        raise node.error(f"scales and zero points of shape {list(expected)}", parameter.type)
    return slice_axis(repeated(parameter, block, axis), axis, 0, size)


def _quantized(scaled: Value, zero_point: Value | None, dtype: DType) -> Value:
    """Rounded, shifted by the zero point, and saturated."""
    rounded = cast(apply("round", scaled), scaled.type.dtype.computed)
    if zero_point is not None and not _is_zero(zero_point):
        rounded = apply("add", rounded, cast(zero_point, rounded.type.dtype))
    return cast(rounded, dtype)


def _is_zero(value: Value) -> bool:
    return isinstance(value, Constant) and not np.any(value.array)


def _shifted(x: Value, zero_point: Value | None) -> Value:
    """x minus its zero point, in int32."""
    wide = cast(x, int32)
    if zero_point is None or _is_zero(zero_point):
        return wide
    return apply("sub", wide, cast(zero_point, int32))


def _quantize_linear(node: OnnxNode) -> tuple[Operand, ...]:
    x, scale, zero_point = node.input(0), node.input(1), node.any_optional(2)
    target = uint8 if zero_point is None else _element(node, zero_point)
    number = node.integer("output_dtype", 0)
    if number:
        target = BY_NUMBER[number] if number in BY_NUMBER else element_type(number, node.place)
    if zero_point is not None and _element(node, zero_point) != target:
        raise node.error("a zero point of the type of the result", _element(node, zero_point).name)
    precision = node.integer("precision", 0)
    wide = element_type(precision, node.place) if precision else scale.type.dtype
    if not wide.is_float:
        raise node.error("a scale of a float type", wide.name)
    scaled = apply("div", cast(x, wide), cast(_spread(node, scale, x), wide))
    shift = None if zero_point is None else _spread(node, _wide(node, zero_point), x)
    match target:
        case DType():
            if not target.is_integer:
                raise node.error("a result of an integer or narrow type", target.name)
            return (_quantized(scaled, shift, target),)
        case NarrowType(_, SmallInteger()):
            return (saturated(_quantized(scaled, shift, int32), target),)
        case NarrowType():
            saturate = node.integer("saturate", 1) != 0
            return (encoded(_moved(scaled, shift), target, saturate=saturate),)
        case _:
            assert_never(target)


def _element(node: OnnxNode, value: Operand) -> DType | NarrowType:
    return value.type if isinstance(value, Encoded) else node.tensor_of(value).type.dtype


def _wide(node: OnnxNode, value: Operand) -> Value:
    """The operand itself, or its values if its type is narrow: integers in int32, else float32."""
    if not isinstance(value, Encoded):
        return node.tensor_of(value)
    return decoded(value, int32 if isinstance(value.type.encoding, SmallInteger) else float32)


def _moved(scaled: Value, shift: Value | None) -> Value:
    if shift is None or _is_zero(shift):
        return scaled
    return apply("add", scaled, cast(shift, scaled.type.dtype))


def _dequantize_linear(node: OnnxNode) -> tuple[Value, ...]:
    quantized, scale, zero_point = node.any_operand(0), node.input(1), node.any_optional(2)
    element = _element(node, quantized)
    if zero_point is not None and _element(node, zero_point) != element:
        raise node.error("operands of one element type", _element(node, zero_point).name)
    is_integer = isinstance(element, NarrowType) or element.is_integer
    if not is_integer or not scale.type.dtype.is_float:
        raise node.error("integers and scales of a float type", f"{element.name} and {scale.type}")
    x = _wide(node, quantized)
    number = node.integer("output_dtype", 0)
    dtype = element_type(number, node.place) if number else scale.type.dtype
    shift = None if zero_point is None else _spread(node, _wide(node, zero_point), x)
    wide = scale.type.dtype.computed
    factor = cast(_spread(node, scale, x), wide)
    # The zero point of a float is zero: ONNX asks for no other.
    value = x if x.type.dtype.is_float else _shifted(x, shift)
    return (cast(apply("mul", cast(value, wide), factor), dtype),)


# Arithmetic


def _per_row(parameter: Value) -> Value:
    """A parameter per row of a matrix; one number stands for all rows."""
    if parameter.type.rank != 1:
        return parameter
    return reshape(parameter, () if parameter.type.size == 1 else (parameter.type.size, 1))


def _per_column(parameter: Value) -> Value:
    """A parameter per column of a matrix; one number stands for all columns."""
    return reshape(parameter, ()) if parameter.type.shape == (1,) else parameter


def _per_output_channel(parameter: Value, rank: int) -> Value:
    """A parameter per output channel, for results of that rank."""
    return reshape(parameter, ()) if parameter.type.size == 1 else per_channel(parameter, rank)


def _weights_shifted(w: Value, zero_point: Value | None) -> Value:
    """Convolution weights, (oc, …), minus one zero point or one per output channel."""
    if zero_point is None:
        return _shifted(w, None)
    per_weight = (zero_point.type.size, *((1,) * (w.type.rank - 1)))
    return _shifted(w, reshape(zero_point, () if zero_point.type.size == 1 else per_weight))


def _matmul_integer(node: OnnxNode) -> tuple[Value, ...]:
    a, b = node.input(0), node.input(1)
    zero_of_a, zero_of_b = node.optional(2), node.optional(3)
    left = _shifted(a, None if zero_of_a is None else _per_row(zero_of_a))
    right = _shifted(b, None if zero_of_b is None else _per_column(zero_of_b))
    return (matrix_product(node, left, right),)


def _conv_integer(node: OnnxNode) -> tuple[Value, ...]:
    x, w = node.input(0), node.input(1)
    zero_of_x = node.optional(2)
    left = _shifted(x, None if zero_of_x is None else _single(node, zero_of_x))
    return (convolution(node, left, _weights_shifted(w, node.optional(3))),)


def _single(node: OnnxNode, parameter: Value) -> Value:
    if parameter.type.size != 1:
        raise node.error("one scale and zero point for the whole operand", parameter.type)
    return reshape(parameter, ())


def _qlinear_matmul(node: OnnxNode) -> tuple[Value, ...]:
    a, scale_of_a, zero_of_a, b, scale_of_b, zero_of_b, scale_of_y, zero_of_y = (
        node.input(position) for position in range(8)
    )
    product = matrix_product(
        node, _shifted(a, _per_row(zero_of_a)), _shifted(b, _per_column(zero_of_b))
    )
    scale = apply("mul", *(cast(_per_row(scale_of_a), float32),
                           cast(_per_column(scale_of_b), float32)))  # fmt: skip
    scale = apply("div", scale, cast(_per_row(scale_of_y), float32))
    scaled = apply("mul", cast(product, float32), scale)
    return (_quantized(scaled, _per_row(zero_of_y), zero_of_y.type.dtype),)


def _qlinear_conv(node: OnnxNode) -> tuple[Value, ...]:
    x, scale_of_x, zero_of_x, w, scale_of_w, zero_of_w, scale_of_y, zero_of_y = (
        node.input(position) for position in range(8)
    )
    sums = convolution(node, _shifted(x, _single(node, zero_of_x)), _weights_shifted(w, zero_of_w))
    bias = node.optional(8)
    if bias is not None:
        same_type(node, sums, bias)
        sums = apply("add", sums, per_channel(bias, sums.type.rank))
    factor = apply("mul", _single(node, scale_of_x), _per_output_channel(scale_of_w, x.type.rank))
    scale = apply("div", factor, _single(node, scale_of_y))
    scaled = apply("mul", cast(sums, float32), scale)
    return (_quantized(scaled, _single(node, zero_of_y), zero_of_y.type.dtype),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "ConvInteger"): _conv_integer,
    ("", "DequantizeLinear"): _dequantize_linear,
    ("", "MatMulInteger"): _matmul_integer,
    ("", "QLinearConv"): _qlinear_conv,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "QuantizeLinear"): _quantize_linear,
}
