"""Importers of operators that move, cut, join or repeat elements.

Every shape, axis and position is resolved here: no -1, no negative axis, no clamping is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.terms import (
    apply,
    broadcast_to,
    concat,
    pad,
    reshape,
    scalar,
    slice_all,
    slice_axis,
    tensor,
    transpose,
)
from tensorgen.types import MAX_ELEMENTS, Shape, boolean, int64

MAX_DIAGONAL = 2**24
"""Bound on the row and column numbers that a triangle is told by."""


def _reshape(node: OnnxNode) -> tuple[Value, ...]:
    """0 copies a size (unless `allowzero`), -1 takes what is left."""
    x = node.input(0)
    wanted = list(node.integers_of(1, "the shape"))
    if not node.integer("allowzero", 0):
        for axis, size in enumerate(wanted):
            if size == 0:
                if axis >= x.type.rank:
                    raise node.error(f"a shape that copies sizes of {x.type}", wanted)
                wanted[axis] = x.type.shape[axis]
    if any(size < -1 for size in wanted) or wanted.count(-1) > 1:
        raise node.error("a shape with at most one -1", wanted)
    if -1 in wanted:
        others = prod(size for size in wanted if size != -1)
        if others == 0 or x.type.size % others:
            raise node.error(f"a shape for {x.type.size} elements", wanted)
        wanted[wanted.index(-1)] = x.type.size // others
    return (_resized(node, x, tuple(wanted)),)


def _resized(node: OnnxNode, x: Value, shape: Shape) -> Value:
    if prod(shape) != x.type.size:
        raise node.error(f"a shape for {x.type.size} elements", list(shape))
    return reshape(x, shape)


def _flatten(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    axis, rank = node.integer("axis", 1), x.type.rank
    if not -rank <= axis <= rank:
        raise node.error(f"axis within -{rank} … {rank}", axis)
    split = axis + rank if axis < 0 else axis
    return (reshape(x, (prod(x.type.shape[:split]), prod(x.type.shape[split:]))),)


def _given_axes(node: OnnxNode) -> tuple[int, ...] | None:
    """Axes as the second operand or as an attribute; None if neither is there."""
    if node.optional(1) is not None:
        return node.integers_of(1, "the axes")
    return node.integers("axes") if node.has("axes") else None


def _squeeze(node: OnnxNode) -> tuple[Value, ...]:
    x, given = node.input(0), _given_axes(node)
    shape = x.type.shape
    if given is None:
        removed = tuple(axis for axis, size in enumerate(shape) if size == 1)
    else:
        removed = node.axes(given, x.type.rank)
        if any(shape[axis] != 1 for axis in removed):
            raise node.error("axes of size 1", f"axes {list(removed)} of {x.type}")
    kept = tuple(size for axis, size in enumerate(shape) if axis not in removed)
    return (reshape(x, kept),)


def _unsqueeze(node: OnnxNode) -> tuple[Value, ...]:
    x, given = node.input(0), _given_axes(node)
    if given is None:
        raise node.error("axes", "none")
    rank = x.type.rank + len(given)
    added = node.axes(given, rank)
    sizes = iter(x.type.shape)
    return (reshape(x, tuple(1 if axis in added else next(sizes) for axis in range(rank))),)


def _transpose(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    perm = node.integers("perm", tuple(reversed(range(x.type.rank))))
    if sorted(perm) != list(range(x.type.rank)):
        raise node.error(f"perm to be a permutation of {x.type.rank} axes", list(perm))
    return (transpose(x, perm),)


def _concat(node: OnnxNode) -> tuple[Value, ...]:
    parts = node.operands
    if not parts:
        raise node.error("at least one operand", "none")
    return (concat(parts, node.axis(node.integer("axis", 1), parts[0].type.rank)),)


def _split(node: OnnxNode) -> tuple[Value, ...]:
    """Sizes from the second operand or the attribute, else equal, the last one smaller."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0), x.type.rank)
    total = x.type.shape[axis]
    if node.optional(1) is not None:
        sizes = node.integers_of(1, "the sizes")
    elif node.has("split"):
        sizes = node.integers("split")
    else:
        count = node.integer("num_outputs", len(node.outputs))
        if count != len(node.outputs):
            raise node.error(f"num_outputs {len(node.outputs)}", count)
        each = -(-total // count)
        sizes = tuple(max(min(each, total - position * each), 0) for position in range(count))
    if sum(sizes) != total or any(size < 0 for size in sizes) or len(sizes) != len(node.outputs):
        raise node.error(f"{len(node.outputs)} sizes that add up to {total}", list(sizes))
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    return tuple(
        slice_axis(x, axis, start, size) for start, size in zip(starts, sizes, strict=True)
    )


def _slice(node: OnnxNode) -> tuple[Value, ...]:
    """Bounds are clamped to the tensor; a negative step walks backwards."""
    x = node.input(0)
    rank = x.type.rank
    if node.version < 10:
        begins, ends = node.integers("starts"), node.integers("ends")
        axes = node.integers("axes", tuple(range(len(begins))))
        steps: tuple[int, ...] = (1,) * len(begins)
    else:
        begins, ends = node.integers_of(1, "the starts"), node.integers_of(2, "the ends")
        given = node.optional(3) is not None
        axes = node.integers_of(3, "the axes") if given else tuple(range(len(begins)))
        given = node.optional(4) is not None
        steps = node.integers_of(4, "the steps") if given else (1,) * len(begins)
    if not len(begins) == len(ends) == len(axes) == len(steps):
        raise node.error("starts, ends, axes and steps of equal number", len(begins))
    if len(node.axes(axes, rank)) != len(axes) or 0 in steps:
        raise node.error("steps other than 0", list(steps))
    starts, strides, sizes = [0] * rank, [1] * rank, list(x.type.shape)
    for begin, end, axis, step in zip(begins, ends, axes, steps, strict=True):
        position = node.axis(axis, rank)
        chosen = _chosen(begin, end, step, x.type.shape[position])
        starts[position] = chosen.start if len(chosen) else 0
        strides[position], sizes[position] = step, len(chosen)
    return (slice_all(x, starts, strides, tuple(sizes)),)


def _chosen(begin: int, end: int, step: int, size: int) -> range:
    """The positions of a slice. Unlike in Python, a first position below the axis is moved into it
    also when walking backwards."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = min(max(begin + size if begin < 0 else begin, 0), high)
    last = min(max(end + size if end < 0 else end, low), high)
    return range(first, last, step)


def _expand(node: OnnxNode) -> tuple[Value, ...]:
    x, wanted = node.input(0), node.integers_of(1, "the shape")
    try:
        shape = np.broadcast_shapes(x.type.shape, wanted)
    except ValueError:
        raise node.error(f"a shape that {x.type} broadcasts with", list(wanted)) from None
    return (broadcast_to(x, _bounded(node, shape)),)


def _bounded(node: OnnxNode, shape: Sequence[int]) -> Shape:
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes) or prod(sizes) > MAX_ELEMENTS:
        raise node.error("sizes of at least 0 and at most 2**40 elements", list(sizes))
    return sizes


def _tile(node: OnnxNode) -> tuple[Value, ...]:
    x, repeats = node.input(0), node.integers_of(1, "the repeats")
    if len(repeats) != x.type.rank or any(count < 0 for count in repeats):
        raise node.error(f"{x.type.rank} repeats of at least 0", list(repeats))
    apart: list[int] = []
    repeated: list[int] = []
    for size, count in zip(x.type.shape, repeats, strict=True):
        apart += [size] if count == 1 else [1, size]
        repeated += [size] if count == 1 else [count, size]
    result = tuple(size * count for size, count in zip(x.type.shape, repeats, strict=True))
    spread = broadcast_to(reshape(x, tuple(apart)), _bounded(node, repeated))
    return (reshape(spread, result),)


def _pad(node: OnnxNode) -> tuple[Value, ...]:
    """Negative pads cut elements off, before anything is added."""
    x = node.input(0)
    rank = x.type.rank
    mode = node.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise node.error("mode constant, reflect, edge or wrap", quoted(mode))
    if node.version < 11:
        pads = node.integers("pads")
        fill: Value = scalar(node.number("value", 0.0), x.type.dtype)
        axes = tuple(range(rank))
    else:
        pads = node.integers_of(1, "the pads")
        fill = _fill(node, x)
        axes = tuple(range(rank))
        if node.optional(3) is not None:
            given = node.integers_of(3, "the axes")
            node.axes(given, rank)
            axes = tuple(node.axis(axis, rank) for axis in given)
    if len(pads) != 2 * len(axes):
        raise node.error(f"{2 * len(axes)} pads", list(pads))
    before, after = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = pads[position], pads[position + len(axes)]
    cut = _cut(node, x, before, after)
    low, high = [max(size, 0) for size in before], [max(size, 0) for size in after]
    sizes = zip(low, cut.type.shape, high, strict=True)
    _bounded(node, [a + size + b for a, size, b in sizes])
    return (pad(cut, low, high, fill, mode),)


def _fill(node: OnnxNode, x: Value) -> Value:
    given = node.optional(2)
    if given is None:
        return scalar(0, x.type.dtype)
    if given.type.size != 1 or given.type.dtype != x.type.dtype:
        raise node.error(f"one fill value of type {x.type.dtype.name}", given.type)
    return reshape(given, ())


def _cut(node: OnnxNode, x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    starts = [max(-size, 0) for size in before]
    ends = [max(-size, 0) for size in after]
    sizes = tuple(
        size - start - end for size, start, end in zip(x.type.shape, starts, ends, strict=True)
    )
    if any(size < 0 for size in sizes):
        raise node.error("pads that leave sizes of at least 0", [*before, *after])
    return slice_all(x, starts, (1,) * len(starts), sizes)


def _dropout(node: OnnxNode) -> tuple[Value, ...]:
    """The operand itself and a mask that keeps everything: dropout is for training."""
    x = node.input(0)
    training = node.optional(2) is not None and bool(node.constant(2, "the training mode").any())
    if training:
        ratio = node.optional(1)
        share = 0.5 if ratio is None else float(node.constant(1, "the ratio").reshape(-1)[0])
        if share != 0:
            raise node.unsupported("inference mode", "training mode with a random mask")
    kept = scalar(1, boolean if node.version >= 10 else x.type.dtype)
    return x, broadcast_to(kept, x.type.shape)


def _trilu(node: OnnxNode) -> tuple[Value, ...]:
    """The upper or lower triangle from diagonal k; zeros elsewhere."""
    x = node.input(0)
    if x.type.rank < 2:
        raise node.error("a matrix or a stack of matrices", x.type)
    offset = 0 if node.optional(1) is None else node.integer_of(1, "the diagonal")
    rows, columns = x.type.shape[-2:]
    if max(rows, columns) > MAX_DIAGONAL:
        raise node.unsupported(f"matrices of at most {MAX_DIAGONAL} rows and columns", x.type)
    diagonal = max(-rows - 1, min(offset, columns + 1))
    first = tensor(np.arange(rows)[:, None] + diagonal, int64)
    column = tensor(np.arange(columns)[None, :], int64)
    kept = apply("le", first, column) if node.integer("upper", 1) else apply("le", column, first)
    return (apply("where", kept, x, scalar(0, x.type.dtype)),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "Concat"): _concat,
    ("", "Dropout"): _dropout,
    ("", "Expand"): _expand,
    ("", "Flatten"): _flatten,
    ("", "Pad"): _pad,
    ("", "Reshape"): _reshape,
    ("", "Slice"): _slice,
    ("", "Split"): _split,
    ("", "Squeeze"): _squeeze,
    ("", "Tile"): _tile,
    ("", "Transpose"): _transpose,
    ("", "Trilu"): _trilu,
    ("", "Unsqueeze"): _unsqueeze,
}
