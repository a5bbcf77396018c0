"""The k largest or smallest elements along an axis, by counting ranks.

The rank of an element is the number of elements before it in sorted order; among equal ones the
lower position comes first. Element p of the result is the one of rank p. With a NaN along the axis
the order is unspecified, but positions stay in bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.ops.operands import computed, require_axis, require_flag, require_numbers
from graphopt.ops.spec import OpSpec, sample
from tensorgen.expr import (
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    apply,
    compute,
    const,
    neutral_element,
    reduce,
    reduce_sum,
    select,
)
from tensorgen.types import Array, Shape, ShapeError, TensorType, float64, int32, int64


def _shape(op: str, x: TensorType, k: int, axis: int) -> Shape:
    require_numbers(op, x)
    require_axis(op, axis, x.rank)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"{op}: expected k between 0 and {x.shape[axis]}, got {k}")
    return (*x.shape[:axis], k, *x.shape[axis + 1 :])


def _ranked(
    x: Tensor,
    shape: Shape,
    axis: int,
    largest: bool,
    result: Callable[[Expr, Expr], Expr],
    otherwise: Expr,
) -> TensorExpr:
    """Of each rank p < k, `result(position, element)` of the element that has it."""
    extent = x.shape[axis]

    def body(*axes: Expr) -> Expr:
        def element(position: Expr) -> Expr:
            return x[(*axes[:axis], position, *axes[axis + 1 :])]

        def rank(position: Expr) -> Expr:
            mine = element(position)

            def precedes(other: Expr) -> Expr:
                theirs = element(other)
                better = theirs > mine if largest else theirs < mine
                tied = apply("and", theirs.equals(mine), other < position)
                return select(apply("or", better, tied), const(1, int64), 0)

            return reduce_sum(extent, precedes, names=["r"])

        def chosen(position: Expr) -> Expr:
            return select(
                rank(position).equals(axes[axis]), result(position, element(position)), otherwise
            )

        return reduce(Fold.MAX, extent, chosen, names=["k"])

    return compute(shape, body)


def _order(x: Array, k: int, axis: int, largest: bool) -> Any:
    """Positions of the k extremes, from a stable sort."""
    values = computed(x)
    if not largest:
        return np.take(np.argsort(values, axis=axis, kind="stable"), np.arange(k), axis=axis)
    backwards = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    descending = np.flip(x.shape[axis] - 1 - backwards, axis)
    return np.take(descending, np.arange(k), axis=axis)


def _values_type(x: TensorType, *, k: int, axis: int, largest: bool) -> TensorType:
    require_flag("top_k_values", "largest", largest)
    return TensorType(x.dtype, _shape("top_k_values", x, k, axis))


def _values_compute(x: Tensor, *, k: int, axis: int, largest: bool) -> TensorExpr:
    shape = _shape("top_k_values", x.type, k, axis)
    lowest = neutral_element(Fold.MAX, x.dtype)
    return _ranked(x, shape, axis, largest, lambda position, element: element, lowest)


def _values_reference(x: Array, *, k: int, axis: int, largest: bool) -> Array:
    result: Array = np.take_along_axis(x, _order(x, k, axis, largest), axis)
    return result


def _indices_type(x: TensorType, *, k: int, axis: int, largest: bool) -> TensorType:
    require_flag("top_k_indices", "largest", largest)
    return TensorType(int64, _shape("top_k_indices", x, k, axis))


def _indices_compute(x: Tensor, *, k: int, axis: int, largest: bool) -> TensorExpr:
    shape = _shape("top_k_indices", x.type, k, axis)
    return _ranked(x, shape, axis, largest, lambda position, element: position, const(0, int64))


def _indices_reference(x: Array, *, k: int, axis: int, largest: bool) -> Array:
    return np.asarray(_order(x, k, axis, largest), np.int64)


_SAMPLES = (
    sample((5,), k=3, axis=0, largest=True),
    sample((2, 4), k=2, axis=1, largest=False),
    sample((3, 2), k=3, axis=0, largest=True, dtype=int32),
    sample((2, 3, 2), k=1, axis=1, largest=False, dtype=float64),
    sample((2, 3), k=0, axis=1, largest=True),
)

top_k_values = OpSpec(
    name="top_k_values",
    arity=1,
    params=("k", "axis", "largest"),
    infer=_values_type,
    compute=_values_compute,
    reference=_values_reference,
    samples=_SAMPLES,
    family="ranking",
    doc="The k largest or smallest elements along an axis, sorted.",
)

top_k_indices = OpSpec(
    name="top_k_indices",
    arity=1,
    params=("k", "axis", "largest"),
    infer=_indices_type,
    compute=_indices_compute,
    reference=_indices_reference,
    samples=_SAMPLES,
    family="ranking",
    doc="Positions (int64) of the k largest or smallest elements along an axis, sorted.",
)

RANKING: tuple[OpSpec, ...] = (top_k_values, top_k_indices)
