"""Channels in groups, as convolutions and transposed convolutions have them.

x has shape (n, c, …) and w (oc, c/groups, …): the result's channels are cut into `groups` parts,
each of which reads its own part of the channels of x.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphopt.ops.operands import computed, require_numbers
from tensorgen.expr import Expr, Tensor
from tensorgen.types import Array, DType, ShapeError, TensorType


def require_groups(op: str, x: TensorType, w: TensorType, groups: int) -> DType:
    """The element type of both operands; ShapeError unless their channels fit together."""
    dtype = require_numbers(op, x, w)
    if x.rank < 3 or w.rank != x.rank:
        raise ShapeError(f"{op}: expected x (n, c, …) and w (oc, c/groups, …), got {x} and {w}")
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ShapeError(
            f"{op}: expected w of shape (oc, c/groups, …) with oc divisible by groups, for "
            f"{x.shape[1]} channels in {groups} groups, got {w}"
        )
    return dtype


def channel_read(w: Tensor, groups: int, oc: Expr, ic: Expr) -> Expr:
    """The channel of x that is number `ic` in the group of the result's channel `oc`."""
    return oc // (w.shape[0] // groups) * w.shape[1] + ic


def over_groups(x: Array, w: Array, groups: int, part: Callable[[Array, Array], Array]) -> Array:
    """`part` of each group's x and w, computed as floats are, joined along the channels."""
    inputs = np.split(computed(x), groups, axis=1)
    weights = np.split(computed(w), groups, axis=0)
    return np.concatenate([part(*pair) for pair in zip(inputs, weights, strict=True)], axis=1)
