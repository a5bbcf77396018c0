"""Reading pixels at positions that are data: gathers from images, weighted and summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

from graphopt.graph import Value
from graphopt.ops import OP
from graphopt.terms import apply, reshape, scalar, transpose, with_scalar
from tensorgen.types import Shape


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What is read around positions: one index, validity and weight per axis and neighbour.

    Each has the shape (positions…, neighbours); `inside` holds conditions, `weights` factors.
    """

    indices: tuple[Value, ...]
    inside: tuple[Value, ...]
    weights: tuple[Value, ...]


def channels_last(x: Value) -> Value:
    """(n, c, spatial…) as (n, pixels, c)."""
    n, c, *sizes = x.type.shape
    return transpose(reshape(x, (n, c, prod(sizes))), (0, 2, 1))


def flat_index(indices: Sequence[Value], sizes: Shape) -> Value:
    """The row-major index of positions given per axis."""
    result = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        result = apply("add", with_scalar("mul", result, size), index)
    return result


def gathered(pixels: Value, index: Value) -> Value:
    """Pixels (n, pixels, c) at indices (n, count) of each image: (n, count, c)."""
    n, count = index.type.shape
    return OP["gather_nd"](pixels, reshape(index, (n, count, 1)), batch_dims=1)


def weighted_sum(pixels: Value, neighbours: Neighbours, sizes: Shape) -> Value:
    """The interpolated pixels: (n, positions, c), of neighbours shaped (n, positions, k)."""
    index = flat_index(neighbours.indices, sizes)
    n, count, depth = index.type.shape
    channels = pixels.type.shape[2]
    read = gathered(pixels, reshape(index, (n, count * depth)))
    read = reshape(read, (n, count, depth, channels))
    if neighbours.inside:
        valid = reduce(partial(apply, "and"), neighbours.inside)
        read = OP["where"](reshape(valid, (n, count, depth, 1)), read, scalar(0, pixels.type.dtype))
    if neighbours.weights:
        weight = reduce(partial(apply, "mul"), neighbours.weights)
        read = apply("mul", read, reshape(weight, (n, count, depth, 1)))
    if depth == 1:
        return reshape(read, (n, count, channels))
    return OP["reduce_sum"](read, axes=(2,), keepdims=False)


def limited(x: Value, low: float, high: float) -> Value:
    """x, but no less than `low` and no more than `high`."""
    return with_scalar("min", with_scalar("max", x, low), high)


def between(element: Value, size: int) -> Value:
    """Whether an index, a float, is one of `size` elements."""
    low = apply("le", scalar(0, element.type.dtype), element)
    return apply("and", low, with_scalar("le", element, size - 1))
