"""Importers that pool regions of interest: RoiAlign and MaxRoiPool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.neighbours import channels_last, flat_index, limited
from graphopt.onnx_import.node import Importer, OnnxNode, same_type
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    broadcast_to,
    cast,
    concat,
    reshape,
    scalar,
    slice_axis,
    tensor,
    transpose,
    with_scalar,
)
from tensorgen.types import Shape, int64

MAX_SAMPLES = 4096
"""Bins with more samples along an axis are refused."""


@dataclass(frozen=True, slots=True)
class _Bins:
    """RoiAlign's output grid, samples per bin, and where they lie in a region."""

    outputs: Shape
    samples: Shape
    scale: float
    half_pixel: bool

    def positions(self, regions: Value, axis: int) -> Value:
        """Sample positions along a spatial axis: (regions, outputs * samples)."""
        start, end = (
            with_scalar(
                "sub",
                with_scalar("mul", slice_axis(regions, 1, column, 1), self.scale),
                0.5 if self.half_pixel else 0.0,
            )
            for column in (1 - axis, 3 - axis)
        )
        extent = apply("sub", end, start)
        if not self.half_pixel:
            extent = with_scalar("max", extent, 1)
        bins, per_bin = self.outputs[axis], self.samples[axis]
        inner = (np.arange(per_bin) + 0.5) / per_bin
        fractions = (np.arange(bins)[:, None] + inner).reshape(1, -1) / bins
        return apply("add", start, apply("mul", extent, tensor(fractions, extent.type.dtype)))


def _roi_align(node: OnnxNode) -> tuple[Value, ...]:
    x, regions, batch = node.input(0), node.input(1), node.input(2)
    if x.type.rank != 4 or 0 in x.type.shape[2:]:
        raise node.error("images of shape (n, c, h, w) with pixels", x.type)
    if regions.type.rank != 2 or regions.type.shape[1] != 4:
        raise node.error("regions of shape (count, 4)", regions.type)
    if batch.type.shape != (regions.type.shape[0],):
        raise node.error(f"{regions.type.shape[0]} batch indices", batch.type)
    same_type(node, x, regions)
    mode = node.text("mode", "avg")
    if mode not in ("avg", "max"):
        raise node.error("mode avg or max", quoted(mode))
    coordinates = "output_half_pixel"
    if node.version >= 16:
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    outputs = (node.integer("output_height", 1), node.integer("output_width", 1))
    if min(outputs) < 1:
        raise node.error("an output height and width of at least 1", list(outputs))
    bins = _Bins(outputs, (1, 1), node.number("spatial_scale", 1.0), coordinates == "half_pixel")
    samples = node.integer("sampling_ratio", 0)
    if samples > 0:
        parts = [(regions, batch, replace(bins, samples=(samples, samples)))]
    else:
        parts = _adaptive(node, regions, batch, bins)
    return (concat([_pooled_regions(x, *part, mode) for part in parts], 0),)


def _adaptive(
    node: OnnxNode, regions: Value, batch: Value, bins: _Bins
) -> list[tuple[Value, Value, _Bins]]:
    """Each region on its own: how many samples a bin has depends on its size."""
    known = node.known(regions, "regions of interest, without a sampling_ratio,").astype(np.float64)
    parts = []
    for number, (left, top, right, bottom) in enumerate(known * bins.scale):
        extents = (bottom - top, right - left)
        if not bins.half_pixel:
            extents = (max(extents[0], 1.0), max(extents[1], 1.0))
        wanted = np.ceil(np.array(extents) / bins.outputs)
        if not np.all(wanted <= MAX_SAMPLES):
            raise node.unsupported(f"at most {MAX_SAMPLES} samples along a bin", wanted.tolist())
        samples = tuple(max(int(count), 0) for count in wanted)
        own = replace(bins, samples=samples)
        parts.append((slice_axis(regions, 0, number, 1), slice_axis(batch, 0, number, 1), own))
    return parts


@dataclass(frozen=True, slots=True)
class _Corners:
    """Both pixels around each sample along one axis, (regions, samples, 2), and their weights.

    `inside` is (regions, samples): samples further than a pixel outside of the image count as zero.
    """

    indices: Value
    weights: Value
    inside: Value


def _corners(position: Value, size: int) -> _Corners:
    inside = apply(
        "and",
        apply("le", scalar(-1, position.type.dtype), position),
        with_scalar("le", position, size),
    )
    near = limited(position, 0, size - 1)
    low = apply("floor", near)
    high = with_scalar("min", with_scalar("add", low, 1), size - 1)
    far = apply("sub", near, low)
    shape = (*position.type.shape, 1)
    weights = concat(
        [reshape(apply("sub", scalar(1, far.type.dtype), far), shape), reshape(far, shape)], 2
    )
    return _Corners(
        cast(concat([reshape(low, shape), reshape(high, shape)], 2), int64), weights, inside
    )


def _pooled_regions(x: Value, regions: Value, batch: Value, bins: _Bins, mode: str) -> Value:
    """Regions pooled to (regions, c, outputs…)."""
    count, channels = regions.type.shape[0], x.type.shape[1]
    height, width = x.type.shape[2:]
    result_shape = (count, channels, *bins.outputs)
    if 0 in bins.samples:
        return broadcast_to(scalar(0, x.type.dtype), result_shape)
    rows, columns = (
        _corners(bins.positions(regions, axis), size) for axis, size in enumerate((height, width))
    )
    down, across = rows.inside.type.shape[1], columns.inside.type.shape[1]
    high, wide = (count, down, 1, 2, 1), (count, 1, across, 1, 2)
    image = reshape(cast(batch, int64), (count, 1, 1, 1, 1))
    index = flat_index(
        (image, reshape(rows.indices, high), reshape(columns.indices, wide)),
        (x.type.shape[0], height, width),
    )
    pixels = reshape(channels_last(x), (x.type.shape[0] * height * width, channels))
    read = OP["gather"](pixels, index, axis=0)
    product = apply("mul", reshape(rows.weights, high), reshape(columns.weights, wide))
    inside = apply(
        "and",
        reshape(rows.inside, (count, down, 1, 1, 1)),
        reshape(columns.inside, (count, 1, across, 1, 1)),
    )
    weight = OP["where"](inside, product, scalar(0, x.type.dtype))
    weighted = apply("mul", read, reshape(weight, (*weight.type.shape, 1)))
    split = reshape(
        weighted,
        (
            count, bins.outputs[0], bins.samples[0], bins.outputs[1], bins.samples[1], 2, 2,
            channels,
        ),
    )  # fmt: skip
    axes = (2, 4, 5, 6)
    if mode == "max":
        # As ONNX has it: the largest weighted pixel, not the largest interpolated sample.
        pooled: Value = OP["reduce_max"](split, axes=axes, keepdims=False)
    else:
        total = OP["reduce_sum"](split, axes=axes, keepdims=False)
        pooled = with_scalar("div", total, prod(bins.samples))
    return transpose(pooled, (0, 3, 1, 2))


# MaxRoiPool


def _max_roi_pool(node: OnnxNode) -> tuple[Value, ...]:
    """Maximum of the whole pixels of each bin, first along rows, then along columns."""
    x, regions = node.input(0), node.input(1)
    same_type(node, x, regions)
    if x.type.rank != 4 or 0 in x.type.shape[2:]:
        raise node.error("images of shape (n, c, h, w) with pixels", x.type)
    if regions.type.rank != 2 or regions.type.shape[1] != 5:
        raise node.error("regions of shape (count, 5)", regions.type)
    outputs = node.integers("pooled_shape")
    if len(outputs) != 2 or min(outputs) < 1:
        raise node.error("a pooled_shape of two sizes of at least 1", list(outputs))
    scale = node.number("spatial_scale", 1.0)
    count, channels = regions.type.shape[0], x.type.shape[1]
    height, width = x.type.shape[2:]
    images = OP["gather"](x, reshape(cast(slice_axis(regions, 1, 0, 1), int64), (count,)), axis=0)
    # Columns 1 … 4 are the left, top, right and bottom of a region.
    in_row = _membership(regions, (1, 3), scale, outputs[1], width)
    in_column = _membership(regions, (2, 4), scale, outputs[0], height)
    rows = _largest_member(
        reshape(images, (count, channels, height, 1, width)),
        reshape(in_row, (count, 1, 1, outputs[1], width)),
        4,
    )
    bins = _largest_member(
        reshape(rows, (count, channels, 1, height, outputs[1])),
        reshape(in_column, (count, 1, outputs[0], height, 1)),
        3,
    )
    empty = with_scalar("eq", bins, -np.inf)
    return (OP["where"](empty, scalar(0, x.type.dtype), bins),)


def _largest_member(x: Value, member: Value, axis: int) -> Value:
    masked = OP["where"](member, x, scalar(-np.inf, x.type.dtype))
    return OP["reduce_max"](masked, axes=(axis,), keepdims=False)


def _membership(
    regions: Value, columns: tuple[int, int], scale: float, bins: int, size: int
) -> Value:
    """Which of `size` pixels lie in each bin along an axis: (regions, bins, size)."""
    dtype = regions.type.dtype
    start, last = (
        _rounded(with_scalar("mul", slice_axis(regions, 1, column, 1), scale)) for column in columns
    )
    extent = with_scalar("max", with_scalar("add", apply("sub", last, start), 1), 1)
    width = with_scalar("div", extent, bins)
    low = apply("floor", apply("mul", width, tensor(np.arange(bins), dtype)))
    high = apply("ceil", apply("mul", width, tensor(np.arange(1, bins + 1), dtype)))
    shape = (regions.type.shape[0], bins, 1)
    pixels = tensor(np.arange(size), dtype)
    return apply(
        "and",
        apply("le", reshape(apply("add", low, start), shape), pixels),
        apply("lt", pixels, reshape(apply("add", high, start), shape)),
    )


def _rounded(x: Value) -> Value:
    """x to the nearest integer, halves away from zero."""
    return apply("mul", apply("sign", x), apply("floor", with_scalar("add", apply("abs", x), 0.5)))


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "MaxRoiPool"): _max_roi_pool,
    ("", "RoiAlign"): _roi_align,
}
