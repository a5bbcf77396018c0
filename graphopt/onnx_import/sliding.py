"""The windows of convolution and pooling as ONNX describes them, with every size resolved.

Resolves `auto_pad`, default strides and dilations, and the output sizes that `ceil_mode` rounds
up. Sizes are per spatial axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import OnnxNode
from tensorgen.types import Shape

LARGEST_PARAMETER = 2**31
"""Strides, dilations and pads stay below this, so that positions stay far from overflow."""


@dataclass(frozen=True, slots=True)
class Sliding:
    """Kernel sizes, strides, dilations, padding at both ends, and windows along each axis.

    `after` counts real padding only; where `ceil_mode` adds a window that runs over the end,
    `overhang` says by how much.
    """

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape
    outputs: Shape
    overhang: Shape

    @property
    def pads(self) -> Shape:
        """Padding before every axis, then after every axis, overhang left out."""
        return (*self.before, *self.after)

    @property
    def extended_pads(self) -> Shape:
        """As `pads`, but wide enough for the windows that run over the end."""
        ends = (end + more for end, more in zip(self.after, self.overhang, strict=True))
        return (*self.before, *ends)


def per_axis(node: OnnxNode, name: str, rank: int, least: int = 1) -> Shape:
    """An attribute with one integer per spatial axis; all ones if absent."""
    values = node.integers(name, (1,) * rank)
    if len(values) != rank or not all(least <= value < LARGEST_PARAMETER for value in values):
        raise node.error(f"{name} with {rank} values of at least {least}", list(values))
    return values


def explicit_pads(node: OnnxNode, rank: int) -> tuple[Shape, Shape]:
    """The attribute `pads` as sizes before and after; zeros if absent."""
    pads = node.integers("pads", (0,) * (2 * rank))
    if len(pads) != 2 * rank or not all(abs(pad) < LARGEST_PARAMETER for pad in pads):
        raise node.error(f"{2 * rank} pads", list(pads))
    return pads[:rank], pads[rank:]


def auto_pad_mode(node: OnnxNode) -> str:
    """How padding is chosen: NOTSET, VALID, SAME_UPPER or SAME_LOWER."""
    mode = node.text("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.error("auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER", quoted(mode))
    return mode


def split_padding(mode: str, totals: Sequence[int]) -> tuple[Shape, Shape]:
    """Padding shared between both ends; an odd element goes to the end in SAME_UPPER."""
    smaller = tuple(max(total, 0) // 2 for total in totals)
    larger = tuple(max(total, 0) - half for total, half in zip(totals, smaller, strict=True))
    return (smaller, larger) if mode == "SAME_UPPER" else (larger, smaller)


def sliding_windows(node: OnnxNode, sizes: Shape, kernel: Shape) -> Sliding:
    """The windows of `kernel` over spatial `sizes` that the node's attributes describe."""
    rank = len(sizes)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    if any(size < 1 for size in kernel):
        raise node.error("kernel sizes of at least 1", list(kernel))
    spans = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    mode = auto_pad_mode(node)
    # With automatic padding ONNX gives the same sizes whether or not they are rounded up.
    round_up = node.integer("ceil_mode", 0) != 0 and mode == "NOTSET"
    before, after = explicit_pads(node, rank)
    if mode == "VALID":
        before, after = (0,) * rank, (0,) * rank
    elif mode != "NOTSET":
        totals = tuple(
            (-(-size // stride) - 1) * stride + span - size
            for size, stride, span in zip(sizes, strides, spans, strict=True)
        )
        before, after = split_padding(mode, totals)
    outputs: list[int] = []
    overhang: list[int] = []
    for axis, (size, stride, span) in enumerate(zip(sizes, strides, spans, strict=True)):
        padded = before[axis] + size + after[axis]
        if padded < span:
            raise node.error(f"a padded size of at least {span} on spatial axis {axis}", padded)
        count = (padded - span) // stride + 1
        if round_up and (padded - span) % stride and count * stride < before[axis] + size:
            count += 1
        outputs.append(count)
        overhang.append(max((count - 1) * stride + span - padded, 0))
    return Sliding(kernel, strides, dilations, before, after, tuple(outputs), tuple(overhang))
