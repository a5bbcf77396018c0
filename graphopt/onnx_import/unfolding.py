"""Importer of Col2Im: columns of patches added up to an image.

Every pixel sums the patch elements that lie on it. Which these are is known when the model is
compiled, so a pixel gathers them; pixels with fewer than others read a zero instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Value
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.onnx_import.sliding import explicit_pads, per_axis
from graphopt.ops import OP
from graphopt.ops.windows import Windows
from graphopt.terms import pad, reshape
from tensorgen.types import Shape

MAX_TABLE = 2**26
"""Images are refused whose pixels have more contributions together."""


def _col2im(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    sizes = node.integers_of(1, "the image shape")
    kernel = node.integers_of(2, "the block shape")
    rank = len(sizes)
    if x.type.rank != 3 or len(kernel) != rank or min(*sizes, *kernel, 1) < 1:
        raise node.error("columns (n, c * block, count) and sizes of at least 1", x.type)
    begin, end = explicit_pads(node, rank)
    windows = Windows.of(
        "Col2Im",
        sizes,
        kernel,
        per_axis(node, "strides", rank),
        (*begin, *end),
        per_axis(node, "dilations", rank),
    )
    taps, count = prod(kernel), prod(windows.outputs)
    n, rows, columns = x.type.shape
    if rows % taps or columns != count:
        raise node.error(f"columns of shape (n, c * {taps}, {count})", x.type)
    if taps * count > MAX_TABLE:
        raise node.unsupported(f"at most {MAX_TABLE} patch elements", taps * count)
    channels = rows // taps
    # One zero after the elements of each channel, for pixels to read that have too few.
    flat = pad(reshape(x, (n, channels, taps * count)), (0, 0, 0), (0, 0, 1))
    table = _contributions(windows)
    pixels, depth = table.shape
    read = OP["gather"](flat, Constant(table.reshape(-1)), axis=2)
    image = reshape(read, (n, channels, pixels, depth))
    summed = OP["reduce_sum"](image, axes=(3,), keepdims=False)
    return (reshape(summed, (n, channels, *sizes)),)


def _contributions(windows: Windows) -> NDArray[np.int64]:
    """For each pixel the flat indices (tap, window) on it; the number of elements if none."""
    taps, count = prod(windows.kernel), prod(windows.outputs)
    pixels = prod(windows.sizes)
    target = np.full((taps, count), pixels, dtype=np.int64)
    grids = np.meshgrid(*(np.arange(size) for size in windows.outputs), indexing="ij")
    for number, tap in enumerate(product(*(range(size) for size in windows.kernel))):
        target[number] = _pixels_under(windows, tap, [grid.reshape(-1) for grid in grids])
    order = np.argsort(target.reshape(-1), kind="stable")
    sorted_pixels = target.reshape(-1)[order]
    inside = sorted_pixels < pixels
    order, sorted_pixels = order[inside], sorted_pixels[inside]
    rank_in_pixel = np.arange(len(order)) - np.searchsorted(sorted_pixels, sorted_pixels)
    depth = int(rank_in_pixel.max(initial=0)) + 1
    table = np.full((pixels, depth), taps * count, dtype=np.int64)
    table[sorted_pixels, rank_in_pixel] = order
    return table


def _pixels_under(
    windows: Windows, tap: Shape, outputs: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The flat pixel that an element of every window lies on; the number of pixels if none."""
    flat = np.zeros_like(outputs[0])
    inside = np.ones(len(flat), dtype=np.bool_)
    for axis, size in enumerate(windows.sizes):
        position = (
            outputs[axis] * windows.strides[axis]
            + tap[axis] * windows.dilations[axis]
            - windows.before[axis]
        )
        inside &= (position >= 0) & (position < size)
        flat = flat * size + position
    return np.where(inside, flat, prod(windows.sizes))


TABLE: Mapping[tuple[str, str], Importer] = {("", "Col2Im"): _col2im}
