"""Elements at positions known at compile time, by the cheapest operator that reads them."""

from __future__ import annotations

import numpy as np

from graphopt.graph import Value
from graphopt.ops import OP
from graphopt.terms import broadcast_to, integers, reshape, slice_axis
from tensorgen.types import Array


def taken(x: Value, positions: Array, axis: int) -> Value:
    """The elements at constant positions along an axis, by the cheapest operator that does it."""
    size, count = x.type.shape[axis], len(positions)
    if (
        count
        and count % size == 0
        and np.array_equal(positions, np.repeat(np.arange(size), count // size))
    ):
        return repeated(x, count // size, axis)
    steps = np.diff(positions)
    if count > 1 and steps[0] != 0 and np.all(steps == steps[0]):
        return slice_axis(x, axis, int(positions[0]), count, int(steps[0]))
    return OP["gather"](x, integers([int(position) for position in positions]), axis=axis)


def repeated(x: Value, times: int, axis: int) -> Value:
    """Each element along an axis that many times in a row."""
    if times == 1:
        return x
    before, size, after = x.type.shape[:axis], x.type.shape[axis], x.type.shape[axis + 1 :]
    apart = reshape(x, (*before, size, 1, *after))
    wide = broadcast_to(apart, (*before, size, times, *after))
    return reshape(wide, (*before, size * times, *after))
