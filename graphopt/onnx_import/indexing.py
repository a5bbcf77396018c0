"""Importers of operators that read or write at given positions.

Where the number of results depends on data (Compress, NonZero, Unique), that data must be constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import cast, integers, reshape
from tensorgen.types import Shape, int32, int64


def bounded_indices(node: OnnxNode, sizes: Shape) -> Value:
    """The second operand as indices into axes of `sizes`, one size for each of its last axis.

    Constants out of bounds are a mistake of the model; what data brings is up to the operators.
    """
    value = node.input(1)
    if not value.type.dtype.is_integer:
        raise node.error("indices of an integer type", value.type)
    if isinstance(value, Constant):
        indices: Any = value.array
        limits = np.array(sizes, np.int64)
        wrong = (indices < -limits) | (indices >= limits)
        outside = np.broadcast_to(indices, wrong.shape)[wrong]
        if outside.size:
            raise node.error(f"indices into {list(sizes)}", f"index {outside[0]}")
    return value if value.type.dtype == int32 else cast(value, int64)


def _along_axis(node: OnnxNode) -> tuple[Value, int, Value]:
    """The tensor, the axis, and the indices into that axis."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0), x.type.rank)
    return x, axis, bounded_indices(node, (x.type.shape[axis],))


def _tuples(node: OnnxNode, batch: int) -> tuple[Value, Value]:
    """The tensor, and tuples of indices into its axes from `batch` on."""
    x, depth = node.input(0), node.input(1).type.shape[-1:]
    if not depth or not 0 <= batch <= x.type.rank - depth[0]:
        raise node.error(f"index tuples into {x.type} from axis {batch} on", node.input(1).type)
    return x, bounded_indices(node, x.type.shape[batch : batch + depth[0]])


def _gather(node: OnnxNode) -> tuple[Value, ...]:
    x, axis, indices = _along_axis(node)
    return (OP["gather"](x, indices, axis=axis),)


def _gather_elements(node: OnnxNode) -> tuple[Value, ...]:
    x, axis, indices = _along_axis(node)
    return (OP["gather_elements"](x, indices, axis=axis),)


def _gather_nd(node: OnnxNode) -> tuple[Value, ...]:
    batch = node.integer("batch_dims", 0)
    x, indices = _tuples(node, batch)
    return (OP["gather_nd"](x, indices, batch_dims=batch),)


def _reduction(node: OnnxNode) -> str:
    reduction = node.text("reduction", "none")
    if reduction not in ("none", "add", "mul", "max", "min"):
        raise node.error("reduction none, add, mul, max or min", reduction)
    return reduction


def _scatter_elements(node: OnnxNode) -> tuple[Value, ...]:
    x, axis, indices = _along_axis(node)
    reduction = _reduction(node)
    return (OP["scatter_elements"](x, indices, node.input(2), axis=axis, reduction=reduction),)


def _scatter_nd(node: OnnxNode) -> tuple[Value, ...]:
    x, indices = _tuples(node, 0)
    return (OP["scatter_nd"](x, indices, node.input(2), reduction=_reduction(node)),)


def _one_hot(node: OnnxNode) -> tuple[Value, ...]:
    indices, values = cast(node.input(0), int64), node.input(2)
    depth = node.constant(1, "the depth")
    if depth.size != 1:
        raise node.error("a depth of one element", depth.shape)
    axis = node.axis(node.integer("axis", -1), indices.type.rank + 1)
    return (OP["one_hot"](indices, values, axis=axis, depth=int(depth.reshape(-1)[0])),)


def _top_k(node: OnnxNode) -> tuple[Value, ...]:
    """The k extremes in order, whether or not the model asks for order."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", -1), x.type.rank)
    k = node.integer("k") if node.version < 10 else node.integer_of(1, "k")
    largest = node.integer("largest", 1) != 0
    return (
        OP["top_k_values"](x, k=k, axis=axis, largest=largest),
        OP["top_k_indices"](x, k=k, axis=axis, largest=largest),
    )


def _compress(node: OnnxNode) -> tuple[Value, ...]:
    """The slices, or the elements of the flat tensor, for which a condition holds."""
    x = node.input(0)
    condition = node.constant(1, "the condition").astype(bool).reshape(-1)
    if node.has("axis"):
        axis = node.axis(node.integer("axis"), x.type.rank)
    else:
        x, axis = reshape(x, (x.type.size,)), 0
    if len(condition) > x.type.shape[axis]:
        raise node.error(f"a condition of at most {x.type.shape[axis]}", len(condition))
    chosen = integers([int(position) for position in np.flatnonzero(condition)])
    return (OP["gather"](x, chosen, axis=axis),)


def _nonzero(node: OnnxNode) -> tuple[Value, ...]:
    array = node.constant(0, "the tensor whose elements are looked for")
    return (Constant(np.array(np.nonzero(np.atleast_1d(array)), np.int64)),)


def _unique(node: OnnxNode) -> tuple[Value, ...]:
    """Distinct elements or slices, sorted or by first occurrence, with where and how often."""
    array = node.constant(0, "the tensor whose distinct elements are looked for")
    axis = node.axis(node.integer("axis"), array.ndim) if node.has("axis") else None
    values: Any
    values, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not node.integer("sorted", 1):
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, inverse, counts = first[order], rank[inverse.reshape(-1)], counts[order]
    results = (first, inverse.reshape(-1), counts)
    return Constant(values), *(Constant(item.astype(np.int64)) for item in results)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "Compress"): _compress,
    ("", "Gather"): _gather,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    ("", "NonZero"): _nonzero,
    ("", "OneHot"): _one_hot,
    ("", "Scatter"): _scatter_elements,
    ("", "ScatterElements"): _scatter_elements,
    ("", "ScatterND"): _scatter_nd,
    ("", "TopK"): _top_k,
    ("", "Unique"): _unique,
}
