"""Importers that move elements along a time axis by sample: ReverseSequence and TensorScatter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode, same_type
from graphopt.ops import OP
from graphopt.terms import (
    apply,
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


def _batch_first(rank: int, batch: int, time: int) -> Shape:
    """The permutation that puts the batch and the time axis first."""
    return (batch, time, *(axis for axis in range(rank) if axis not in (batch, time)))


def _inverse(perm: Shape) -> Shape:
    return tuple(int(axis) for axis in np.argsort(perm))


def _per_sample(node: OnnxNode, position: int, batch: int, purpose: str) -> Value:
    """An operand with one integer per sample: (batch, 1) in int64."""
    value = node.input(position)
    if value.type.shape != (batch,) or not value.type.dtype.is_integer:
        raise node.error(f"{purpose} as {batch} integers", value.type)
    return reshape(cast(value, int64), (batch, 1))


def _read(x: Value, index: Value) -> Value:
    """Elements of x (batch, time, …) at indices (batch, count)."""
    return OP["gather_nd"](x, reshape(index, (*index.type.shape, 1)), batch_dims=1)


def _reverse_sequence(node: OnnxNode) -> tuple[Value, ...]:
    """The first elements of each sequence, as many as its length, in reverse order."""
    x = node.input(0)
    rank = x.type.rank
    batch = node.axis(node.integer("batch_axis", 1), rank, "batch_axis")
    time = node.axis(node.integer("time_axis", 0), rank, "time_axis")
    if batch == time:
        raise node.error("a batch_axis other than the time_axis", batch)
    perm = _batch_first(rank, batch, time)
    lengths = _per_sample(node, 1, x.type.shape[batch], "sequence lengths")
    steps = tensor(np.arange(x.type.shape[time]), int64)
    mirrored = apply("sub", with_scalar("sub", lengths, 1), steps)
    index = OP["where"](apply("lt", steps, lengths), mirrored, steps)
    return (transpose(_read(transpose(x, perm), index), _inverse(perm)),)


def _tensor_scatter(node: OnnxNode) -> tuple[Value, ...]:
    """Updates written into a cache along an axis, from a position per sample on."""
    cache, update = node.input(0), node.input(1)
    same_type(node, cache, update)
    rank = cache.type.rank
    if rank < 2 or update.type.rank != rank:
        raise node.error("a cache and an update of one rank of at least 2", update.type)
    axis = node.axis(node.integer("axis", -2), rank)
    mode = node.text("mode", "linear")
    if mode not in ("linear", "circular"):
        raise node.error("mode linear or circular", quoted(mode))
    length, count = cache.type.shape[axis], update.type.shape[axis]
    expected = (*cache.type.shape[:axis], count, *cache.type.shape[axis + 1 :])
    if axis == 0 or update.type.shape != expected or count > length:
        raise node.error(f"an update that fits {cache.type} on an axis after the first",
                         update.type)  # fmt: skip
    if node.optional(2) is None:
        rest = slice_axis(cache, axis, count, length - count)
        return (concat([update, rest], axis),)
    if count == 0:
        return (cache,)
    batch = cache.type.shape[0]
    starts = _per_sample(node, 2, batch, "write indices")
    steps = tensor(np.arange(length), int64)
    number = apply("sub", steps, starts)
    if mode == "circular":
        number = with_scalar("mod", number, length)
    written = apply("and", apply("le", scalar(0, int64), number), with_scalar("lt", number, count))
    index = with_scalar("min", with_scalar("max", number, 0), count - 1)
    perm = _batch_first(rank, 0, axis)
    fresh = _read(transpose(update, perm), index)
    mask = reshape(written, (batch, length, *((1,) * (rank - 2))))
    result = OP["where"](mask, fresh, transpose(cache, perm))
    return (transpose(result, _inverse(perm)),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "ReverseSequence"): _reverse_sequence,
    ("", "TensorScatter"): _tensor_scatter,
}
