"""Small terms over Tasor's operators that passes and importers build from, trivial cases left out.

A cast to the same type, a reshape to the same shape and the like give their operand back, so the
graph gets no operator that does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.ops import OP
from tensorgen.types import Array, DType, Shape


def scalar(value: float | int | bool, dtype: DType) -> Constant:
    """A constant of rank 0."""
    return Constant(np.array(value).astype(dtype.numpy))


def tensor(array: Array, dtype: DType) -> Constant:
    """A constant converted to an element type."""
    return Constant(array.astype(dtype.numpy))


def integers(values: Sequence[int]) -> Constant:
    """An int64 constant of rank 1."""
    return Constant(np.array(values, dtype=np.int64))


def apply(name: str, *operands: Value) -> Value:
    """A scalar operator of each element, operands broadcast."""
    return OP[name](*operands)


def with_scalar(name: str, x: Value, value: float | int) -> Value:
    """A binary scalar operator with a number of x's element type on the right."""
    return OP[name](x, scalar(value, x.type.dtype))


def cast(x: Value, dtype: DType) -> Value:
    """Conversion to another element type."""
    return x if x.type.dtype == dtype else OP["cast"](x, to=dtype.name)


def bitcast(x: Value, dtype: DType) -> Value:
    """The same bits read as another element type of equal width."""
    return x if x.type.dtype == dtype else OP["bitcast"](x, to=dtype.name)


def reshape(x: Value, shape: Shape) -> Value:
    """The same elements in row-major order under another shape of equal size."""
    return x if x.type.shape == shape else OP["reshape"](x, shape=shape)


def transpose(x: Value, perm: Sequence[int]) -> Value:
    """Axes reordered: axis i of the result is axis perm[i] of x."""
    identity = tuple(perm) == tuple(range(x.type.rank))
    return x if identity else OP["transpose"](x, perm=tuple(perm))


def broadcast_to(x: Value, shape: Shape) -> Value:
    """x repeated along new leading axes and along axes of size one."""
    return x if x.type.shape == shape else OP["broadcast_to"](x, shape=shape)


def concat(parts: Sequence[Value], axis: int) -> Value:
    """Tensors joined along an axis."""
    return parts[0] if len(parts) == 1 else OP["concat"](*parts, axis=axis)


def slice_all(x: Value, starts: Sequence[int], steps: Sequence[int], sizes: Shape) -> Value:
    """The elements starts[i] + k * steps[i], 0 <= k < sizes[i], along every axis i."""
    whole = all(start == 0 for start in starts) and all(step == 1 for step in steps)
    if whole and sizes == x.type.shape:
        return x
    return OP["slice"](x, starts=tuple(starts), steps=tuple(steps), sizes=sizes)


def slice_axis(x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """The elements start + k * step, 0 <= k < size, along one axis."""
    starts = [0] * x.type.rank
    steps = [1] * x.type.rank
    starts[axis], steps[axis] = start, step
    sizes = (*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])
    return slice_all(x, starts, steps, sizes)


def pad(
    x: Value,
    before: Sequence[int],
    after: Sequence[int],
    fill: Value | None = None,
    mode: str = "constant",
) -> Value:
    """x with that many elements added at both ends of every axis; `fill` is zero if None."""
    if not any(before) and not any(after):
        return x
    value = scalar(0, x.type.dtype) if fill is None else fill
    return OP["pad"](x, value, before=tuple(before), after=tuple(after), mode=mode)


def reduced(name: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """A fold over sorted axes (`reduce_sum` and so on)."""
    return OP[name](x, axes=tuple(axes), keepdims=keepdims) if axes else x


def mean(x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """The mean over sorted axes, in x's element type; integers are divided toward zero."""
    total = reduced("reduce_sum", x, axes, keepdims)
    count = prod(x.type.shape[axis] for axis in axes)
    return total if count == 1 else with_scalar("div", total, count)
