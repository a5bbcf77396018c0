"""Importers of Resize and Upsample: interpolation along one axis after the other.

Where each result lies in the operand, and the weights of the elements around it, are known when
the model is compiled (`interpolation`). Nearest neighbours are a repetition, a strided slice or a
gather; a few taps are a weighted sum of these; many taps are a product with a constant matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.onnx_import.constant_positions import taken
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.interpolation import (
    COORDINATE_MODES,
    LINEAR,
    NEAREST_MODES,
    Coordinates,
    Taps,
    cubic_kernel,
    nearest_positions,
    weighted_taps,
)
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    broadcast_to,
    cast,
    integers,
    reshape,
    scalar,
    tensor,
)
from tensorgen.types import (
    Array,
    DType,
    Shape,
    boolean,
    float32,
    float64,
)

LARGEST_AXIS = 2**24
"""Results larger along an axis are refused: positions and weights are tabulated."""

MAX_SUMMED_TAPS = 4
"""More taps are a matrix product, or a reduction where the matrix would be too sparse."""

MATRIX_DENSITY = 16
"""A matrix product pays as long as a row has at least one nonzero element in so many."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis to resize: its coordinates in the operand, of `coordinates.out` results."""

    axis: int
    coordinates: Coordinates


def _along(values: Array, axis: int, rank: int, dtype: DType) -> Constant:
    """One constant per position of an axis, ready to broadcast."""
    shape = [1] * rank
    shape[axis] = len(values)
    return tensor(values.reshape(shape), dtype)


def interpolated(x: Value, taps: Taps, axis: int) -> Value:
    """Weighted sums of elements along an axis, in x's element type."""
    size, rank, dtype = x.type.shape[axis], x.type.rank, x.type.dtype
    count, depth = taps.positions.shape
    if depth <= MAX_SUMMED_TAPS:
        result: Value | None = None
        for tap in range(depth):
            weight = taps.weights[:, tap]
            part = taken(x, taps.positions[:, tap], axis)
            if not np.all(weight == 1):
                part = apply("mul", part, _along(weight, axis, rank, dtype))
            result = part if result is None else apply("add", result, part)
        assert result is not None, "there is at least one tap"
        return result
    if size <= MATRIX_DENSITY * depth:
        return _matrix_product(x, taps.matrix(size), axis)
    shape = (*x.type.shape[:axis], count, depth, *x.type.shape[axis + 1 :])
    flat = OP["gather"](x, integers([int(p) for p in taps.positions.reshape(-1)]), axis=axis)
    weights = taps.weights.reshape((count, depth) + (1,) * (rank - axis - 1))
    weighted = apply("mul", reshape(flat, shape), tensor(weights, dtype))
    return OP["reduce_sum"](weighted, axes=(axis + 1,), keepdims=False)


def _matrix_product(x: Value, matrix: Array, axis: int) -> Value:
    """A constant matrix (results, elements) applied along an axis."""
    before, size, after = x.type.shape[:axis], x.type.shape[axis], x.type.shape[axis + 1 :]
    outer, inner = int(np.prod(before)), int(np.prod(after))
    count = matrix.shape[0]
    if inner == 1:
        rows = reshape(x, (outer, size))
        result: Value = OP["matmul"](rows, tensor(matrix.T, x.type.dtype))
    else:
        stack = reshape(x, (outer, size, inner))
        result = OP["matmul"](tensor(matrix, x.type.dtype), stack)
    return reshape(result, (*before, count, *after))


# What the node asks for


def _resize(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    axes = _axes(node, x)
    mode = node.text("mode", "nearest")
    if any(item.coordinates.out == 0 for item in axes):
        return (broadcast_to(scalar(0, x.type.dtype), _resized_shape(x, axes)),)
    match mode:
        case "nearest":
            result = _nearest(node, x, axes)
        case "linear" | "bilinear" | "cubic" | "bicubic":
            result = _smooth(node, x, axes, mode.removeprefix("bi"))
        case _:
            raise node.error("mode nearest, linear or cubic", quoted(mode))
    return (_with_outside(node, result, axes),)


def _resized_shape(x: Value, axes: Sequence[_Axis]) -> Shape:
    outputs = {item.axis: item.coordinates.out for item in axes}
    return tuple(outputs.get(axis, size) for axis, size in enumerate(x.type.shape))


def _axes(node: OnnxNode, x: Value) -> list[_Axis]:
    """The axes whose elements change, with their coordinates."""
    rank = x.type.rank
    axes = tuple(range(rank))
    if node.has("axes"):
        given = node.integers("axes")
        axes = tuple(node.axis(axis, rank) for axis in given)
        if len(set(axes)) != len(axes):
            raise node.error("axes without repetition", list(given))
    sizes = tuple(x.type.shape[axis] for axis in axes)
    scales, outputs = _scales(node, sizes)
    mode = "asymmetric" if node.version < 11 else node.text("coordinate_transformation_mode")
    if mode not in COORDINATE_MODES:
        raise node.error(f"coordinate_transformation_mode {', '.join(COORDINATE_MODES)}",
                         quoted(mode))  # fmt: skip
    region = [0.0] * len(axes) + [1.0] * len(axes)
    if mode == "tf_crop_and_resize":
        region = [float(item) for item in node.constant(1, "the region of interest").reshape(-1)]
        if len(region) != 2 * len(axes) or not np.all(np.isfinite(region)):
            raise node.error(f"a region of {2 * len(axes)} finite numbers", region)
    result = []
    for position, axis in enumerate(axes):
        ends = (region[position], region[position + len(axes)])
        coordinates = Coordinates(mode, sizes[position], outputs[position], scales[position], ends)
        if not coordinates.is_identity:
            result.append(_Axis(axis, coordinates))
    return result


def _scales(node: OnnxNode, sizes: Shape) -> tuple[tuple[float, ...], Shape]:
    """The scale and the size of the result of every axis, from the operand that gives either."""
    if node.version >= 11 and _given(node, 3):
        wanted = node.integers_of(3, "the sizes")
        if len(wanted) != len(sizes) or any(not 0 <= size <= LARGEST_AXIS for size in wanted):
            raise node.error(f"{len(sizes)} sizes of at most {LARGEST_AXIS}", list(wanted))
        if 0 in sizes:
            raise node.error("axes with elements", list(sizes))
        return _from_sizes(node, sizes, wanted)
    if node.op_type == "Upsample" and node.version < 9:
        scales = np.array(node.numbers("scales"), dtype=np.float32)
    else:
        position = 2 if node.version >= 11 else 1
        scales = node.constant(position, "the scales").reshape(-1).astype(np.float32)
    if len(scales) != len(sizes) or not np.all(np.isfinite(scales) & (scales > 0)):
        raise node.error(f"{len(sizes)} scales above 0", scales.tolist())
    # ONNX computes the size of the result in the precision of the scales.
    outputs = np.floor(np.array(sizes, np.float32) * scales)
    if np.any(outputs > LARGEST_AXIS):
        raise node.error(f"sizes of at most {LARGEST_AXIS}", outputs.tolist())
    return tuple(float(scale) for scale in scales), tuple(int(size) for size in outputs)


def _given(node: OnnxNode, position: int) -> bool:
    value = node.optional(position)
    return value is not None and value.type.size > 0


def _from_sizes(node: OnnxNode, sizes: Shape, wanted: Shape) -> tuple[tuple[float, ...], Shape]:
    scales = tuple(out / size for out, size in zip(wanted, sizes, strict=True))
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    match policy:
        case "stretch":
            return scales, wanted
        case "not_larger" | "not_smaller":
            scale = (min if policy == "not_larger" else max)(scales)
            return (scale,) * len(sizes), tuple(int(scale * size + 0.5) for size in sizes)
        case _:
            raise node.error(
                "keep_aspect_ratio_policy stretch, not_larger or not_smaller", quoted(policy)
            )


def _nearest(node: OnnxNode, x: Value, axes: Sequence[_Axis]) -> Value:
    """Before opset 11 positions round toward zero where an axis grows, and up where it shrinks."""
    mode = node.text("nearest_mode", "round_prefer_floor") if node.version >= 11 else "floor"
    if mode not in NEAREST_MODES:
        raise node.error(f"nearest_mode {', '.join(NEAREST_MODES)}", quoted(mode))
    for item in axes:
        own = mode
        if node.version == 10 and item.coordinates.scale < 1:
            own = "ceil"
        x = taken(x, nearest_positions(item.coordinates, own), item.axis)
    return x


def _smooth(node: OnnxNode, x: Value, axes: Sequence[_Axis], mode: str) -> Value:
    dtype = x.type.dtype
    if dtype == boolean:
        raise node.error("numbers to interpolate", x.type)
    # Integers are interpolated in a float type that holds them, and truncated at the end.
    wide = float64 if dtype == float64 or (dtype.is_integer and dtype.bits > 16) else float32
    kernel = LINEAR if mode == "linear" else cubic_kernel(node.number("cubic_coeff_a", -0.75))
    antialias = node.integer("antialias", 0) != 0
    exclude = node.integer("exclude_outside", 0) != 0
    result = cast(x, wide)
    # The axis that shrinks most goes first, so that the others have less to do.
    for item in sorted(axes, key=lambda item: item.coordinates.scale):
        taps = weighted_taps(item.coordinates, kernel, antialias=antialias, exclude=exclude)
        result = interpolated(result, taps, item.axis)
    return cast(result, dtype)


def _with_outside(node: OnnxNode, x: Value, axes: Sequence[_Axis]) -> Value:
    """x with the extrapolation value at results that lie outside of the operand."""
    for item in axes:
        outside = item.coordinates.outside
        if np.any(outside):
            value = scalar(node.number("extrapolation_value", 0.0), x.type.dtype)
            x = OP["where"](_along(outside, item.axis, x.type.rank, boolean), value, x)
    return x


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "Resize"): _resize,
    ("", "Upsample"): _resize,
}
