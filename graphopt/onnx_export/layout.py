"""Layout operators as ONNX. Runtimes move any element type; only padding lacks 16 bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphopt.graph import Constant, Node
from graphopt.onnx_export.parameters import integer, integers, text
from graphopt.onnx_export.term import (
    Exporter,
    Term,
    call,
    expand,
    identity,
    padded,
    reshape,
    take,
    transpose,
)
from graphopt.onnx_export.widening import BFLOAT16, SHORT, computed_in
from graphopt.terms import integers as vector
from tensorgen.types import Shape, TensorType


def _transpose(node: Node, x: Term) -> Term:
    perm = integers(node, "perm")
    return transpose(x, perm) if perm else identity(x)


def _reshape(node: Node, x: Term) -> Term:
    return reshape(x, node.type.shape)


def _broadcast_to(node: Node, x: Term) -> Term:
    return expand(x, node.type.shape)


def _concat(node: Node, *operands: Term) -> Term:
    return call("Concat", *operands, type=node.type, axis=integer(node, "axis"))


def _slice(node: Node, x: Term) -> Term:
    """Ends are exclusive; the one before the first element is spelled -size - 1."""
    starts, steps, sizes = (integers(node, name) for name in ("starts", "steps", "sizes"))
    rows: list[tuple[int, int, int, int]] = []
    for axis, (start, step, size) in enumerate(zip(starts, steps, sizes, strict=True)):
        extent = x.type.shape[axis]
        end = start + step * size
        if size == 0:
            rows += [(axis, 0, 0, 1)] if extent else []
        elif (start, step, size) != (0, 1, extent):
            rows.append((axis, start, end if end >= 0 else -extent - 1, step))
    if not rows:
        return identity(x)
    axes, begins, ends, strides = (vector(column) for column in zip(*rows, strict=True))
    return call("Slice", x, begins, ends, axes, strides, type=node.type)


def _pad(node: Node, x: Term, fill: Term) -> Term:
    before, after = integers(node, "before"), integers(node, "after")
    mode = text(node, "mode")
    if not any(before) and not any(after):
        return identity(x)
    if mode == "constant":
        return padded(x, before, after, fill)
    sizes = zip(before, x.type.shape, after, strict=True)
    furthest = {"reflect": 1, "wrap": 0}
    if mode == "edge" or all(max(low, high) <= n - furthest[mode] for low, n, high in sizes):
        pads = vector((*before, *after))
        result = TensorType(x.type.dtype, node.type.shape)
        return call("Pad", x, pads, type=result, mode=mode)
    return _repeated(x, before, after, mode)


def _repeated(x: Term, before: Shape, after: Shape, mode: str) -> Term:
    """Padding that repeats more than once, which runtimes refuse: gathers at constant positions."""
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        if low or high:
            positions = np.arange(x.type.shape[axis], dtype=np.int64)
            padding = np.pad(positions, (low, high), "reflect" if mode == "reflect" else "wrap")
            x = take(x, Constant(padding), axis)
    return x


def _insert_axis(node: Node, x: Term) -> Term:
    return call("Unsqueeze", x, vector((integer(node, "axis"),)), type=node.type)


def _unfold(node: Node, x: Term) -> Term:
    axis, size = integer(node, "axis"), integer(node, "size")
    starts = np.arange(node.type.shape[axis], dtype=np.int64)
    return take(x, Constant(starts[:, None] + np.arange(size, dtype=np.int64)), axis)


TABLE: Mapping[str, Exporter] = {
    "transpose": _transpose,
    "reshape": _reshape,
    "broadcast_to": computed_in(BFLOAT16, _broadcast_to),
    "concat": _concat,
    "slice": _slice,
    "pad": computed_in(SHORT, _pad),
    "insert_axis": _insert_axis,
    "unfold": _unfold,
}
