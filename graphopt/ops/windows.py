"""Sliding windows over the spatial axes of a tensor: the arithmetic of convolution and pooling.

Windows start in the padded input at multiples of the stride; as many are taken as fit (floor).
Sizes are per spatial axis. What it does not: read elements or say what padding holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphopt.ops.operands import require_at_least, require_length
from tensorgen.expr import Expr
from tensorgen.types import Array, Shape, ShapeError

_SPATIAL_NAMES = {1: "w", 2: "hw", 3: "dhw"}


def spatial_names(prefix: str, rank: int) -> list[str]:
    """Display names of spatial axes: oh, ow for prefix o; o0, o1, … from four axes on."""
    letters = _SPATIAL_NAMES.get(rank)
    return [f"{prefix}{letters[n] if letters is not None else n}" for n in range(rank)]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of `kernel` elements, `dilations` apart, over axes of `sizes` padded on both ends."""

    sizes: Shape
    kernel: Shape
    strides: Shape
    before: Shape
    after: Shape
    dilations: Shape

    @staticmethod
    def of(
        op: str,
        sizes: Shape,
        kernel: Shape,
        strides: Shape,
        pads: Shape,
        dilations: Shape,
    ) -> Windows:
        """Validated windows; `pads` gives the begin of every axis, then the end of every axis."""
        rank = len(sizes)
        require_length(op, "kernel sizes", kernel, rank)
        require_length(op, "strides", strides, rank)
        require_length(op, "pads", pads, 2 * rank)
        require_length(op, "dilations", dilations, rank)
        require_at_least(op, "kernel sizes", kernel, 1)
        require_at_least(op, "strides", strides, 1)
        require_at_least(op, "pads", pads, 0)
        require_at_least(op, "dilations", dilations, 1)
        windows = Windows(sizes, kernel, strides, pads[:rank], pads[rank:], dilations)
        for axis, (padded, span) in enumerate(zip(windows.padded, windows.spans, strict=True)):
            if padded < span:
                raise ShapeError(
                    f"{op}: expected a padded size of at least {span} on spatial axis {axis}, "
                    f"got {padded}"
                )
        return windows

    @property
    def padded(self) -> Shape:
        """Sizes with padding."""
        parts = zip(self.before, self.sizes, self.after, strict=True)
        return tuple(before + size + after for before, size, after in parts)

    @property
    def spans(self) -> Shape:
        """Elements from the first to the last of one window."""
        return tuple(
            (size - 1) * dilation + 1
            for size, dilation in zip(self.kernel, self.dilations, strict=True)
        )

    @property
    def outputs(self) -> Shape:
        """Number of windows along each axis."""
        parts = zip(self.padded, self.spans, self.strides, strict=True)
        return tuple((padded - span) // stride + 1 for padded, span, stride in parts)

    def positions(self, outputs: Sequence[Expr], kernel: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where in the unpadded input element `kernel` of window `outputs` lies."""
        places = zip(outputs, self.strides, kernel, self.dilations, self.before, strict=True)
        return tuple(
            output * stride + element * dilation - before
            for output, stride, element, dilation, before in places
        )

    def inside(self, positions: Sequence[Expr]) -> tuple[Expr, ...]:
        """The conditions under which a position is no padding."""
        pairs = zip(positions, self.sizes, strict=True)
        return tuple(
            condition for position, size in pairs for condition in (position >= 0, position < size)
        )

    def view(self, array: Array, fill: Any) -> Any:
        """The windows of a numpy array with these trailing axes: (…, outputs…, kernel…)."""
        rank = len(self.sizes)
        leading = array.ndim - rank
        width = [(0, 0)] * leading + list(zip(self.before, self.after, strict=True))
        padded = np.pad(array, width, constant_values=fill)
        axes = tuple(range(leading, array.ndim))
        every = np.lib.stride_tricks.sliding_window_view(padded, self.spans, axis=axes)
        starts = tuple(slice(None, None, stride) for stride in self.strides)
        elements = tuple(slice(None, None, dilation) for dilation in self.dilations)
        return every[(slice(None),) * leading + starts + elements]
