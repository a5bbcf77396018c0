"""Writing at positions that are themselves data, told from the side of the result.

Index notation has no write: each element of the result folds over the updates that target it.
Without a reduction the last update in row-major order wins. Indices are int32 or int64; negative
ones count from the end, and an update out of bounds is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphopt.ops.indexing import normalised
from graphopt.ops.operands import (
    computed,
    require_axis,
    require_indices,
    require_numbers,
    require_one_dtype,
)
from graphopt.ops.spec import OpSpec, Sample
from tensorgen.expr import (
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    all_of,
    apply,
    compute,
    const,
    neutral_element,
    reduce,
    select,
)
from tensorgen.types import (
    Array,
    DType,
    Shape,
    ShapeError,
    TensorType,
    boolean,
    float32,
    int32,
    int64,
    row_major_strides,
)

_FOLDS = {"add": Fold.SUM, "mul": Fold.PRODUCT, "max": Fold.MAX, "min": Fold.MIN}
REDUCTIONS = ("none", *_FOLDS)


def _require_scatter(
    op: str, x: TensorType, indices: TensorType, updates: TensorType, reduction: str
) -> None:
    require_indices(op, indices)
    require_one_dtype(op, x, updates)
    if reduction not in REDUCTIONS:
        raise ShapeError(
            f"{op}: expected a reduction of {', '.join(REDUCTIONS)}, got {reduction!r}"
        )
    if reduction != "none":
        require_numbers(op, x)


def _scattered(
    current: Expr,
    reduction: str,
    extents: Shape,
    guarded: Callable[[Sequence[Expr], Expr, Expr], Expr],
    update: Callable[[Sequence[Expr]], Expr],
) -> Expr:
    """One element of the result, over updates numbered by axes of those extents.

    `guarded(axes, value, neutral)` is the value if the update at these axes targets this element.
    """
    if reduction in _FOLDS:
        fold = _FOLDS[reduction]
        neutral = neutral_element(fold, current.dtype)
        folded = reduce(fold, extents, lambda *axes: guarded(axes, update(axes), neutral))
        return apply(fold.value, current, folded)
    strides = row_major_strides(extents)
    none = const(-1, int64)

    def number(*axes: Expr) -> Expr:
        flat: Expr = const(0, int64)
        for position, (axis, stride) in enumerate(zip(axes, strides, strict=True)):
            term = axis if stride == 1 else axis * stride
            flat = term if position == 0 else flat + term
        return guarded(axes, flat, none)

    last = reduce(Fold.MAX, extents, number)
    place = []
    for position, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        quotient = last if stride == 1 else last // stride
        place.append(quotient if position == 0 else quotient % extent)
    return select(last >= 0, update(place), current)


def _combine(reduction: str, current: Any, update: Any) -> Any:
    match reduction:
        case "add":
            return current + update
        case "mul":
            return current * update
        case "max":
            return np.maximum(current, update)
        case "min":
            return np.minimum(current, update)
        case _:
            return update


# scatter_elements


def _scatter_elements_type(
    x: TensorType, indices: TensorType, updates: TensorType, *, axis: int, reduction: str
) -> TensorType:
    _require_scatter("scatter_elements", x, indices, updates, reduction)
    require_axis("scatter_elements", axis, x.rank)
    fits = indices.rank == x.rank and all(
        size <= extent or position == axis
        for position, (size, extent) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    if not fits or updates.shape != indices.shape:
        raise ShapeError(
            f"scatter_elements: expected indices and updates of one shape, no larger than {x} but "
            f"on axis {axis}, got {indices} and {updates}"
        )
    return x


def _scatter_elements_compute(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str
) -> TensorExpr:
    def body(*axes: Expr) -> Expr:
        # Only where an update reaches may indices be read.
        reached = [
            axes[n] < indices.shape[n]
            for n in range(x.type.rank)
            if n != axis and indices.shape[n] < x.shape[n]
        ]

        def place(inner: Sequence[Expr]) -> tuple[Expr, ...]:
            return (*axes[:axis], inner[0], *axes[axis + 1 :])

        def guarded(inner: Sequence[Expr], value: Expr, neutral: Expr) -> Expr:
            target = normalised(indices[place(inner)], x.shape[axis])
            chosen = select(target.equals(axes[axis]), value, neutral)
            return select(all_of(reached), chosen, neutral) if reached else chosen

        return _scattered(
            x[axes],
            reduction,
            (indices.shape[axis],),
            guarded,
            lambda inner: updates[place(inner)],
        )

    return compute(x.shape, body)


def _scatter_elements_reference(
    x: Array, indices: Array, updates: Array, *, axis: int, reduction: str
) -> Array:
    result = computed(x).copy()
    values = computed(updates)
    for place in np.ndindex(*indices.shape):
        target = (*place[:axis], int(indices[place]), *place[axis + 1 :])
        result[target] = _combine(reduction, result[target], values[place])
    return np.asarray(result.astype(x.dtype))


def _sample(
    x: Shape,
    indices: Shape,
    updates: Shape,
    dtype: DType = float32,
    index: DType = int64,
    **params: int | str,
) -> Sample:
    types = (TensorType(dtype, x), TensorType(index, indices), TensorType(dtype, updates))
    return Sample(types, tuple(sorted(params.items())))  # fmt: skip


scatter_elements = OpSpec(
    name="scatter_elements",
    arity=3,
    params=("axis", "reduction"),
    infer=_scatter_elements_type,
    compute=_scatter_elements_compute,
    reference=_scatter_elements_reference,
    samples=(
        _sample((3, 3), (2, 3), (2, 3), axis=0, reduction="none"),
        _sample((3, 4), (2, 5), (2, 5), axis=1, reduction="add"),
        _sample((3, 2), (4, 1), (4, 1), axis=0, reduction="mul", dtype=int32),
        _sample((2, 3), (2, 4), (2, 4), axis=1, reduction="max", index=int32),
        _sample((2, 3, 2), (1, 4, 2), (1, 4, 2), axis=1, reduction="min"),
        _sample((3, 4), (1, 5), (1, 5), axis=1, reduction="none", dtype=int64),
        _sample((3,), (0,), (0,), axis=0, reduction="none"),
        _sample((3,), (0,), (0,), axis=0, reduction="add"),
        _sample((3,), (2,), (2,), axis=0, reduction="none", dtype=boolean),
    ),
    family="scatter",
    doc="x with each update folded into the element whose index along one axis is given.",
)

# scatter_nd


def _scatter_nd_type(
    x: TensorType, indices: TensorType, updates: TensorType, *, reduction: str
) -> TensorType:
    _require_scatter("scatter_nd", x, indices, updates, reduction)
    if indices.rank < 1 or indices.shape[-1] > x.rank:
        raise ShapeError(
            f"scatter_nd: expected index tuples of at most {x.rank} along the last axis, "
            f"got {indices}"
        )
    expected = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    if updates.shape != expected:
        raise ShapeError(f"scatter_nd: expected updates of shape {list(expected)}, got {updates}")
    return x


def _scatter_nd_compute(
    x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str
) -> TensorExpr:
    depth = indices.shape[-1]
    extents = indices.shape[:-1]
    # A single update is one update along an axis of one.
    axes_of_updates = extents if extents else (1,)

    def body(*axes: Expr) -> Expr:
        def guarded(inner: Sequence[Expr], value: Expr, neutral: Expr) -> Expr:
            place = tuple(inner) if extents else ()
            hits = [
                normalised(indices[(*place, n)], x.shape[n]).equals(axes[n]) for n in range(depth)
            ]
            return select(all_of(hits), value, neutral) if hits else value

        def update(inner: Sequence[Expr]) -> Expr:
            place = tuple(inner) if extents else ()
            return updates[(*place, *axes[depth:])]

        return _scattered(x[axes], reduction, axes_of_updates, guarded, update)

    return compute(x.shape, body)


def _scatter_nd_reference(x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    result = computed(x).copy()
    values = computed(updates)
    for place in np.ndindex(*indices.shape[:-1]):
        target = tuple(int(index) for index in indices[place])
        result[target] = _combine(reduction, result[target], values[place])
    return np.asarray(result.astype(x.dtype))


scatter_nd = OpSpec(
    name="scatter_nd",
    arity=3,
    params=("reduction",),
    infer=_scatter_nd_type,
    compute=_scatter_nd_compute,
    reference=_scatter_nd_reference,
    samples=(
        _sample((4,), (3, 1), (3,), reduction="none"),
        _sample((3, 4), (5, 2), (5,), reduction="add"),
        _sample((3, 4), (2, 2, 1), (2, 2, 4), reduction="mul", dtype=int32),
        _sample((3, 2), (4, 1), (4, 2), reduction="max", index=int32),
        _sample((3, 2), (2, 2, 2), (2, 2), reduction="min"),
        _sample((3, 2), (3, 2, 1), (3, 2, 2), reduction="none", dtype=int64),
        _sample((3, 2), (1,), (2,), reduction="none"),
        _sample((3, 2), (0, 2), (0,), reduction="add"),
    ),
    family="scatter",
    doc="x with each update folded into the slice at a tuple of indices.",
)

SCATTER: tuple[OpSpec, ...] = (scatter_elements, scatter_nd)
