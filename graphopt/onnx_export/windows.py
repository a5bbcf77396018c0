"""Sliding windows laid out as axes, for element types that ONNX has no convolution or pooling for.

Each spatial axis is gathered at constant positions, so that (n, c, h, w) becomes
(n, c, oh, kh, ow, kw). What follows is a matrix product or a reduction, exact in any type.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Node
from graphopt.onnx_export.errors import ExportError
from graphopt.onnx_export.parameters import integers
from graphopt.onnx_export.term import Term, padded, take
from graphopt.ops.windows import Windows
from tensorgen.types import Shape

MAX_POSITIONS = 2**24
"""An axis is not laid out as more windows times elements than this."""


def windows_of(node: Node, kernel: Shape) -> Windows:
    """The windows of a convolution or pooling node over its first operand."""
    strides, pads, dilations = (integers(node, name) for name in ("strides", "pads", "dilations"))
    return Windows.of(node.op.name, node.inputs[0].type.shape[2:], kernel, strides, pads, dilations)


def counts_along(windows: Windows, axis: int) -> NDArray[np.int64]:
    """How many elements that are no padding each window has along one axis."""
    dilation, kernel = windows.dilations[axis], windows.kernel[axis]
    starts = np.arange(windows.outputs[axis], dtype=np.int64) * windows.strides[axis]
    starts -= windows.before[axis]
    first = np.maximum(-(starts // dilation), 0)
    last = np.minimum((windows.sizes[axis] - 1 - starts) // dilation, kernel - 1)
    return np.asarray(np.maximum(last - first + 1, 0), np.int64)


def counts(windows: Windows) -> NDArray[np.int64]:
    """How many elements that are no padding each window has: an array that broadcasts to outputs.

    Its size is one along axes where all windows have equally many.
    """
    each = (counts_along(windows, axis) for axis in range(len(windows.sizes)))
    distinct = (along[:1] if np.all(along == along[:1]) else along for along in each)
    return np.asarray(reduce(np.multiply.outer, distinct), np.int64)


def positions(windows: Windows, axis: int) -> NDArray[np.int64]:
    """Positions in the unpadded axis: row o has those of window o's elements.

    ExportError if they are too many to be stored.
    """
    outputs, kernel = windows.outputs[axis], windows.kernel[axis]
    if outputs * kernel > MAX_POSITIONS:
        raise ExportError(
            f"windows: expected at most {MAX_POSITIONS} positions on an axis in an element type "
            f"that ONNX has no pooling or convolution for, got {outputs} windows of {kernel}; "
            "cast to float32 first"
        )
    starts = np.arange(outputs, dtype=np.int64) * windows.strides[axis]
    elements = np.arange(kernel, dtype=np.int64) * windows.dilations[axis]
    return starts[:, None] + elements - windows.before[axis]


def inside(windows: Windows, axis: int) -> NDArray[np.bool_]:
    """Which of `positions` are no padding."""
    found = positions(windows, axis)
    return (found >= 0) & (found < windows.sizes[axis])


def unfolded(x: Term, windows: Windows, fill: Constant) -> Term:
    """Every window's elements: (n, c, o0, k0, o1, k1, …), with `fill` for padding."""
    if any(windows.before) or any(windows.after):
        x = padded(x, (0, 0, *windows.before), (0, 0, *windows.after), fill)
    for axis, before in enumerate(windows.before):
        x = take(x, Constant(positions(windows, axis) + before), 2 + 2 * axis)
    return x


def axes_of_unfolded(windows: Windows) -> tuple[Shape, Shape]:
    """The axes of `unfolded` that number windows, and those that number a window's elements."""
    rank = len(windows.sizes)
    return tuple(range(2, 2 + 2 * rank, 2)), tuple(range(3, 3 + 2 * rank, 2))
