"""Reductions along axes: folds, positions of extremes, and cumulative folds.

Folds of no elements give the neutral element. Means, norms and softmax are composed by the
importer. Booleans are cast by the importer first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.ops.operands import (
    computed,
    highest,
    lowest,
    require_axis,
    require_flag,
    require_numbers,
)
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
    select,
)
from tensorgen.types import (
    Array,
    Shape,
    ShapeError,
    TensorType,
    float64,
    int8,
    int32,
    int64,
    uint8,
)


def _reduced_shape(op: str, shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    require_flag(op, "keepdims", keepdims)
    for axis in axes:
        require_axis(op, axis, len(shape))
    if list(axes) != sorted(set(axes)):
        raise ShapeError(f"{op}: expected distinct axes in ascending order, got {list(axes)}")
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _merged(rank: int, reduced: dict[int, Expr], kept: list[Expr]) -> tuple[Expr, ...]:
    """Indices of all axes: those of `reduced` by axis, the others from `kept` in order."""
    remaining = iter(kept)
    return tuple(reduced[axis] if axis in reduced else next(remaining) for axis in range(rank))


def _folding(name: str, fold: Fold, numpy: Callable[..., Any], doc: str) -> OpSpec:
    def infer(x: TensorType, *, axes: Shape, keepdims: bool) -> TensorType:
        require_numbers(name, x)
        return TensorType(x.dtype, _reduced_shape(name, x.shape, axes, keepdims))

    def meaning(x: Tensor, *, axes: Shape, keepdims: bool) -> TensorExpr:
        shape = _reduced_shape(name, x.shape, axes, keepdims)

        def body(*outputs: Expr) -> Expr:
            kept = [
                output
                for position, output in enumerate(outputs)
                if not (keepdims and position in axes)
            ]
            if not axes:
                return x[outputs]

            def element(*inner: Expr) -> Expr:
                return x[_merged(x.type.rank, dict(zip(axes, inner, strict=True)), kept)]

            return reduce(fold, [x.shape[axis] for axis in axes], element)

        return compute(shape, body)

    def reference(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        values = computed(x)
        initial = {
            Fold.SUM: 0,
            Fold.PRODUCT: 1,
            Fold.MAX: lowest(values.dtype),
            Fold.MIN: highest(values.dtype),
        }[fold]
        with np.errstate(all="ignore"):
            result = numpy(values, axis=tuple(axes), keepdims=keepdims, initial=initial)
        return np.asarray(result).astype(x.dtype)

    return OpSpec(
        name=name,
        arity=1,
        params=("axes", "keepdims"),
        infer=infer,
        compute=meaning,
        reference=reference,
        samples=(
            sample((3, 4), axes=(1,), keepdims=False),
            sample((3, 4), axes=(0,), keepdims=True),
            sample((2, 3, 5), axes=(0, 2), keepdims=False),
            sample((2, 3, 5), axes=(0, 1, 2), keepdims=True, dtype=int64),
            sample((2, 1, 3), axes=(1,), keepdims=False, dtype=int8),
            sample((2, 0), axes=(1,), keepdims=False),
            sample((2, 0), axes=(1,), keepdims=True, dtype=uint8),
            sample((3,), axes=(), keepdims=False),
            sample((), axes=(), keepdims=True, dtype=float64),
        ),
        family="reduction",
        doc=doc,
    )


reduce_sum = _folding("reduce_sum", Fold.SUM, np.sum, "Sum over axes; 0 over none.")
reduce_prod = _folding("reduce_prod", Fold.PRODUCT, np.prod, "Product over axes; 1 over none.")
reduce_max = _folding(
    "reduce_max", Fold.MAX, np.max, "Maximum over axes, NaN if one is NaN; the lowest over none."
)
reduce_min = _folding(
    "reduce_min", Fold.MIN, np.min, "Minimum over axes, NaN if one is NaN; the highest over none."
)


def _extreme_position(name: str, fold: Fold, numpy: Callable[..., Any]) -> OpSpec:
    def infer(x: TensorType, *, axis: int, last: bool) -> TensorType:
        require_numbers(name, x)
        require_flag(name, "last", last)
        require_axis(name, axis, x.rank)
        if x.shape[axis] == 0:
            raise ShapeError(f"{name}: expected at least one element along axis {axis}, got {x}")
        return TensorType(int64, x.shape[:axis] + x.shape[axis + 1 :])

    def meaning(x: Tensor, *, axis: int, last: bool) -> TensorExpr:
        extent = x.shape[axis]

        def body(*outputs: Expr) -> Expr:
            def element(k: Expr) -> Expr:
                return x[(*outputs[:axis], k, *outputs[axis:])]

            extreme = reduce(fold, extent, element, names=["r"])

            def position_if_extreme(k: Expr) -> Expr:
                wins = element(k).equals(extreme)
                if x.dtype.is_float:
                    # The extreme is NaN exactly if some element is: then a NaN is meant.
                    wins = apply("or", wins, apply("isnan", element(k)))
                return select(wins, k, const(-1 if last else extent, int64))

            return reduce(Fold.MAX if last else Fold.MIN, extent, position_if_extreme)

        return compute(x.shape[:axis] + x.shape[axis + 1 :], body)

    def reference(x: Array, *, axis: int, last: bool) -> Array:
        values = computed(x)
        if not last:
            return np.asarray(numpy(values, axis=axis), dtype=np.int64)
        backwards = numpy(np.flip(values, axis), axis=axis)
        return np.asarray(x.shape[axis] - 1 - backwards, dtype=np.int64)

    which = "maximum" if fold is Fold.MAX else "minimum"
    return OpSpec(
        name=name,
        arity=1,
        params=("axis", "last"),
        infer=infer,
        compute=meaning,
        reference=reference,
        samples=(
            sample((3, 5), axis=1, last=False),
            sample((3, 5), axis=0, last=True),
            sample((2, 3, 4), axis=1, last=False, dtype=int32),
            sample((4, 1), axis=1, last=True, dtype=float64),
            sample((7,), axis=0, last=False, dtype=uint8),
            sample((0, 2), axis=1, last=False),
        ),
        family="reduction",
        doc=f"Position (int64) of the first or last {which} along an axis; NaN is the {which}.",
    )


argmax = _extreme_position("argmax", Fold.MAX, np.argmax)
argmin = _extreme_position("argmin", Fold.MIN, np.argmin)


def _cumulative(name: str, fold: Fold, numpy: Callable[..., Any], doc: str) -> OpSpec:
    def infer(x: TensorType, *, axis: int, exclusive: bool, reverse: bool) -> TensorType:
        require_numbers(name, x)
        require_flag(name, "exclusive", exclusive)
        require_flag(name, "reverse", reverse)
        require_axis(name, axis, x.rank)
        return x

    def meaning(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> TensorExpr:
        def body(*outputs: Expr) -> Expr:
            def element(k: Expr) -> Expr:
                earlier, later = (outputs[axis], k) if reverse else (k, outputs[axis])
                counts = earlier < later if exclusive else earlier <= later
                value = x[(*outputs[:axis], k, *outputs[axis + 1 :])]
                return select(counts, value, neutral_element(fold, x.dtype))

            return reduce(fold, x.shape[axis], element)

        return compute(x.shape, body)

    def reference(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        values = np.flip(computed(x), axis) if reverse else computed(x)
        with np.errstate(all="ignore"):
            result = numpy(values, axis=axis, dtype=values.dtype)
        if exclusive and x.shape[axis]:
            neutral = 0 if fold is Fold.SUM else 1
            first = np.full_like(np.take(result, [0], axis=axis), neutral)
            rest = np.delete(result, -1, axis=axis)
            result = np.concatenate([first, rest], axis=axis)
        result = np.flip(result, axis) if reverse else result
        return np.asarray(result).astype(x.dtype)

    return OpSpec(
        name=name,
        arity=1,
        params=("axis", "exclusive", "reverse"),
        infer=infer,
        compute=meaning,
        reference=reference,
        samples=(
            sample((5,), axis=0, exclusive=False, reverse=False),
            sample((2, 5), axis=1, exclusive=True, reverse=False),
            sample((4, 3), axis=0, exclusive=False, reverse=True, dtype=int32),
            sample((2, 1, 3), axis=2, exclusive=True, reverse=True, dtype=float64),
            sample((2, 0), axis=1, exclusive=True, reverse=False),
        ),
        family="reduction",
        doc=doc,
    )


cumulative_sum = _cumulative(
    "cumulative_sum", Fold.SUM, np.cumsum, "Sum of the elements up to each position of an axis."
)
cumulative_product = _cumulative(
    "cumulative_product",
    Fold.PRODUCT,
    np.cumprod,
    "Product of the elements up to each position of an axis.",
)

REDUCTION: tuple[OpSpec, ...] = (
    reduce_sum,
    reduce_prod,
    reduce_max,
    reduce_min,
    argmax,
    argmin,
    cumulative_sum,
    cumulative_product,
)
