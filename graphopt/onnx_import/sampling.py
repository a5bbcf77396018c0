"""Importers that read between the elements of an image: GridSample and DeformConv.

Positions are data. Around each, the neighbours that the kernel reaches are read with one gather
from the image laid out with its channels last, weighted, and summed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.neighbours import (
    Neighbours,
    between,
    channels_last,
    limited,
    weighted_sum,
)
from graphopt.onnx_import.node import Importer, OnnxNode, same_type, spatial_shape
from graphopt.onnx_import.sliding import explicit_pads, per_axis
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    cast,
    reshape,
    scalar,
    slice_axis,
    tensor,
    transpose,
    with_scalar,
)
from tensorgen.types import Array, Shape, float32, int64

CUBIC_COEFFICIENT = -0.75

MAX_NEIGHBOURS = 4**3
"""Kernels that read more elements around a position are refused."""


# Neighbours of a position


def _offsets(mode: str, rank: int) -> list[tuple[int, ...]]:
    """The neighbours of the element at the floor of a position, by axis."""
    reach = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    return list(product(reach, repeat=rank))


def _kernel_weight(distance: Value, mode: str) -> Value:
    """The weight at a distance from the position."""
    d = apply("abs", distance)
    if mode == "linear":
        return apply("sub", scalar(1, d.type.dtype), d)
    a = CUBIC_COEFFICIENT
    near = _polynomial(d, (a + 2, -(a + 3), 0.0, 1.0))
    far = _polynomial(d, (a, -5 * a, 8 * a, -4 * a))
    return OP["where"](with_scalar("le", d, 1), near, far)


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's scheme, highest power first."""
    result = with_scalar("mul", x, coefficients[0])
    for coefficient in coefficients[1:-1]:
        shifted = result if coefficient == 0 else with_scalar("add", result, coefficient)
        result = apply("mul", shifted, x)
    return with_scalar("add", result, coefficients[-1])


def _reflected(x: Value, low: float, high: float) -> Value:
    """A position mirrored at both borders until it lies between them."""
    span = high - low
    if span <= 0:
        return with_scalar("mul", x, 0)
    distance = apply("abs", with_scalar("sub", x, low))
    folded = with_scalar("fmod", distance, 2 * span)
    mirrored = apply("sub", scalar(2 * span, x.type.dtype), folded)
    return with_scalar("add", apply("min", folded, mirrored), low)


@dataclass(frozen=True, slots=True)
class Sampler:
    """How GridSample reads: kernel, what lies beyond the borders, where corners are."""

    mode: str
    padding: str
    align_corners: bool

    def position(self, normal: Value, size: int) -> Value:
        """The position among `size` elements that -1 … 1 stands for."""
        shifted = with_scalar("add", normal, 1)
        if self.align_corners:
            return with_scalar("mul", shifted, (size - 1) / 2)
        return with_scalar("mul", with_scalar("sub", with_scalar("mul", shifted, size), 1), 0.5)

    def borders(self, size: int) -> tuple[float, float]:
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)

    def pulled_in(self, position: Value, size: int) -> Value:
        """The position moved inside, if what lies beyond the borders is not zero."""
        match self.padding:
            case "border" if self.mode != "cubic":
                # A cubic keeps its distance to the border; only what it reads is moved inside.
                return limited(position, 0, size - 1)
            case "reflection":
                return _reflected(position, *self.borders(size))
            case _:
                return position

    def neighbours(self, positions: Sequence[Value], sizes: Shape) -> Neighbours:
        """Of positions (n, count, 1) per axis."""
        offsets = np.array(_offsets(self.mode, len(sizes)))
        indices, inside, weights = [], [], []
        for axis, (position, size) in enumerate(zip(positions, sizes, strict=True)):
            nearest = self.mode == "nearest"
            if nearest:
                start = self.pulled_in(apply("round", position), size)
            else:
                position = self.pulled_in(position, size)
                start = apply("floor", position)
            element = apply("add", start, tensor(offsets[:, axis], start.type.dtype))
            if not nearest:
                weights.append(_kernel_weight(apply("sub", position, element), self.mode))
            if self.padding == "zeros":
                inside.append(between(element, size))
            elif self.padding == "reflection":
                element = apply("trunc", _reflected(element, *self.borders(size)))
            indices.append(cast(limited(element, 0, size - 1), int64))
        return Neighbours(tuple(indices), tuple(inside), tuple(weights))


def _grid_sample(node: OnnxNode) -> tuple[Value, ...]:
    x, grid = node.input(0), node.input(1)
    sizes = spatial_shape(node, x)
    rank = len(sizes)
    if grid.type.rank != rank + 2 or grid.type.shape[-1] != rank:
        raise node.error(f"a grid of shape (n, …, {rank})", grid.type)
    if grid.type.shape[0] != x.type.shape[0] or 0 in sizes:
        raise node.error(f"a grid for each of {x.type.shape[0]} images with pixels", grid.type)
    sampler = _sampler(node)
    if len(_offsets(sampler.mode, rank)) > MAX_NEIGHBOURS:
        raise node.unsupported(f"at most {MAX_NEIGHBOURS} neighbours of a position", rank)
    wide = float32 if grid.type.dtype.is_half else grid.type.dtype
    n, count = grid.type.shape[0], prod(grid.type.shape[1:-1])
    flat = cast(reshape(grid, (n, count, rank)), wide)
    # The grid names the last axis first.
    positions = [
        sampler.position(slice_axis(flat, 2, rank - 1 - axis, 1), size)
        for axis, size in enumerate(sizes)
    ]
    neighbours = sampler.neighbours(positions, sizes)
    mixed = x.type.dtype if sampler.mode == "nearest" else wide
    result = weighted_sum(cast(channels_last(x), mixed), neighbours, sizes)
    shape = (n, x.type.shape[1], *grid.type.shape[1:-1])
    return (cast(reshape(transpose(result, (0, 2, 1)), shape), x.type.dtype),)


def _sampler(node: OnnxNode) -> Sampler:
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    mode = node.text("mode", "linear")
    mode = modes.get(mode, mode)
    padding = node.text("padding_mode", "zeros")
    if mode not in ("nearest", "linear", "cubic"):
        raise node.error("mode nearest, linear or cubic", quoted(mode))
    if padding not in ("zeros", "border", "reflection"):
        raise node.error("padding_mode zeros, border or reflection", quoted(padding))
    return Sampler(mode, padding, node.integer("align_corners", 0) != 0)


# Deformable convolution


def _deform_conv(node: OnnxNode) -> tuple[Value, ...]:
    """Each kernel element of each result reads at its place plus an offset that is data."""
    x, w, offset = node.input(0), node.input(1), node.input(2)
    same_type(node, x, w, offset)
    sizes = spatial_shape(node, x, 2)
    groups, offset_groups = node.integer("group", 1), node.integer("offset_group", 1)
    n, channels = x.type.shape[:2]
    if len(sizes) != 2 or w.type.rank != 4 or offset.type.rank != 4:
        raise node.unsupported("images of two spatial axes", f"{x.type}, {w.type}, {offset.type}")
    kernel, outputs = w.type.shape[2:], offset.type.shape[2:]
    taps, count = prod(kernel), prod(outputs)
    fits = (
        groups >= 1
        and offset_groups >= 1
        and channels == w.type.shape[1] * groups
        and w.type.shape[0] % groups == 0
        and channels % offset_groups == 0
        and offset.type.shape[:2] == (n, offset_groups * taps * 2)
    )
    if not fits:
        raise node.error("operands whose channels fit the groups", f"{x.type} and {offset.type}")
    depth = channels // offset_groups
    # Offset groups become images of their own.
    images = channels_last(reshape(x, (n * offset_groups, depth, *sizes)))
    moved = reshape(offset, (n * offset_groups, taps, 2, count))
    strides, dilations = per_axis(node, "strides", 2), per_axis(node, "dilations", 2)
    before, _ = explicit_pads(node, 2)
    positions = []
    for axis in range(2):
        still = _kernel_positions(
            kernel, outputs, axis, strides[axis], dilations[axis], before[axis]
        )
        shifted = reshape(slice_axis(moved, 2, axis, 1), (n * offset_groups, taps, count))
        position = apply("add", shifted, tensor(still.reshape(taps, count), x.type.dtype))
        positions.append(reshape(position, (n * offset_groups, taps * count, 1)))
    sampler = Sampler("linear", "zeros", True)
    read = weighted_sum(images, sampler.neighbours(positions, sizes), sizes)
    mask = node.optional(4)
    if mask is not None:
        if mask.type.shape != (n, offset_groups * taps, *outputs):
            raise node.error(f"a mask of {[n, offset_groups * taps, *outputs]}", mask.type)
        read = apply("mul", read, reshape(mask, (n * offset_groups, taps * count, 1)))
    columns = transpose(reshape(read, (n, offset_groups, taps, count, depth)), (0, 1, 4, 2, 3))
    columns = reshape(columns, (n, groups, channels // groups * taps, count))
    per_group = w.type.shape[0] // groups
    weights = reshape(w, (groups, per_group, channels // groups * taps))
    result = reshape(OP["matmul"](weights, columns), (n, w.type.shape[0], *outputs))
    bias = node.optional(3)
    if bias is not None:
        result = apply("add", result, reshape(bias, (w.type.shape[0], 1, 1)))
    return (result,)


def _kernel_positions(
    kernel: Shape, outputs: Shape, axis: int, stride: int, dilation: int, before: int
) -> Array:
    """Where each kernel element of each result lies along an axis: (kernel…, outputs…)."""
    elements = np.arange(kernel[axis]) * dilation - before
    starts = np.arange(outputs[axis]) * stride
    shape = [1, 1, 1, 1]
    shape[axis], shape[2 + axis] = kernel[axis], outputs[axis]
    return np.broadcast_to((elements[:, None] + starts).reshape(shape), (*kernel, *outputs))


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "DeformConv"): _deform_conv,
    ("", "GridSample"): _grid_sample,
}
