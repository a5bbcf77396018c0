"""Reading at positions that are themselves data: gathers and one-hot.

Indices are int32 or int64; negative ones count from the end. ONNX leaves an index out of bounds
undefined; here it reads the nearest element, so that no data can make a kernel read elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphopt.ops.operands import require_axis, require_indices
from graphopt.ops.spec import OpSpec, Sample
from tensorgen.expr import (
    Expr,
    Tensor,
    TensorExpr,
    cast,
    compute,
    maximum,
    minimum,
    select,
)
from tensorgen.types import (
    Array,
    DType,
    Shape,
    ShapeError,
    TensorType,
    float32,
    int32,
    int64,
)


def normalised(index: Expr, size: int) -> Expr:
    """The index as int64, counted from the front if it was negative."""
    wide = cast(index, int64)
    return select(wide < 0, wide + size, wide)


def bounded(index: Expr, size: int) -> Expr:
    """The normalised index, or the nearest one within bounds."""
    return maximum(minimum(normalised(index, size), size - 1), 0)


def _bounded_array(indices: Array, size: int) -> NDArray[np.int64]:
    """As `bounded`, on arrays."""
    wide = indices.astype(np.int64)
    result: NDArray[np.int64] = np.clip(np.where(wide < 0, wide + size, wide), 0, max(size - 1, 0))
    return result


def _require_elements(place: str, x: TensorType, axis: int, indices: TensorType) -> None:
    if x.shape[axis] == 0 and indices.size:
        raise ShapeError(f"{place}: expected elements to choose from on axis {axis}, got {x}")


def _sample(
    x: Shape,
    indices: Shape,
    *more: Shape,
    dtype: DType = float32,
    index: DType = int64,
    **params: int | str,
) -> Sample:
    """A sample whose operands have one element type, but for the second, the indices."""
    types = (
        TensorType(dtype, x),
        TensorType(index, indices),
        *(TensorType(dtype, shape) for shape in more),
    )
    return Sample(types, tuple(sorted(params.items())))


# gather


def _gather_type(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_indices("gather", indices)
    require_axis("gather", axis, x.rank)
    _require_elements("gather", x, axis, indices)
    return TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _gather_compute(x: Tensor, indices: Tensor, *, axis: int) -> TensorExpr:
    result = _gather_type(x.type, indices.type, axis=axis)
    end = axis + indices.type.rank

    def body(*axes: Expr) -> Expr:
        index = bounded(indices[axes[axis:end]], x.shape[axis])
        return x[(*axes[:axis], index, *axes[end:])]

    return compute(result.shape, body)


def _gather_reference(x: Array, indices: Array, *, axis: int) -> Array:
    result: Array = np.take(x, _bounded_array(indices, x.shape[axis]), axis=axis)
    return result


gather = OpSpec(
    name="gather",
    arity=2,
    params=("axis",),
    infer=_gather_type,
    compute=_gather_compute,
    reference=_gather_reference,
    samples=(
        _sample((4, 3), (2,), axis=0),
        _sample((3, 4), (2, 2), axis=1, index=int32),
        _sample((4, 3), (), axis=0, dtype=int32),
        _sample((2, 3, 2), (5,), axis=1),
        _sample((3,), (0,), axis=0),
    ),
    family="indexing",
    doc="The slices of x along an axis at the given indices.",
)

# gather_elements


def _gather_elements_type(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_indices("gather_elements", indices)
    require_axis("gather_elements", axis, x.rank)
    fits = indices.rank == x.rank and all(
        size <= extent or position == axis
        for position, (size, extent) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    if not fits:
        raise ShapeError(
            f"gather_elements: expected indices no larger than {x} but on axis {axis}, "
            f"got {indices}"
        )
    _require_elements("gather_elements", x, axis, indices)
    return TensorType(x.dtype, indices.shape)


def _gather_elements_compute(x: Tensor, indices: Tensor, *, axis: int) -> TensorExpr:
    def body(*axes: Expr) -> Expr:
        index = bounded(indices[axes], x.shape[axis])
        return x[(*axes[:axis], index, *axes[axis + 1 :])]

    return compute(indices.shape, body)


def _gather_elements_reference(x: Array, indices: Array, *, axis: int) -> Array:
    sections = [slice(0, size) for size in indices.shape]
    sections[axis] = slice(None)
    result: Array = np.take_along_axis(
        x[tuple(sections)], _bounded_array(indices, x.shape[axis]), axis
    )
    return result


gather_elements = OpSpec(
    name="gather_elements",
    arity=2,
    params=("axis",),
    infer=_gather_elements_type,
    compute=_gather_elements_compute,
    reference=_gather_elements_reference,
    samples=(
        _sample((3, 3), (2, 3), axis=0),
        _sample((3, 4), (2, 5), axis=1, index=int32),
        _sample((2, 3, 2), (2, 2, 2), axis=1, dtype=int32),
        _sample((3,), (0,), axis=0),
    ),
    family="indexing",
    doc="Element p of the result is x at p with the index along one axis replaced.",
)

# gather_nd


def _gather_nd_type(x: TensorType, indices: TensorType, *, batch_dims: int) -> TensorType:
    require_indices("gather_nd", indices)
    if not (0 <= batch_dims < indices.rank and batch_dims <= x.rank):
        raise ShapeError(
            f"gather_nd: expected batch_dims below the rank of the indices, got {batch_dims} for "
            f"{x} and {indices}"
        )
    depth = indices.shape[-1]
    if batch_dims + depth > x.rank or x.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ShapeError(
            f"gather_nd: expected {batch_dims} equal leading sizes and index tuples of at most "
            f"{x.rank - batch_dims}, got {x} and {indices}"
        )
    for axis in range(batch_dims, batch_dims + depth):
        _require_elements("gather_nd", x, axis, indices)
    return TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch_dims + depth :]))


def _gather_nd_compute(x: Tensor, indices: Tensor, *, batch_dims: int) -> TensorExpr:
    result = _gather_nd_type(x.type, indices.type, batch_dims=batch_dims)
    tuple_rank = indices.type.rank - 1

    def body(*axes: Expr) -> Expr:
        place, rest = axes[:tuple_rank], axes[tuple_rank:]
        read = (
            bounded(indices[(*place, n)], x.shape[batch_dims + n]) for n in range(indices.shape[-1])
        )
        return x[(*axes[:batch_dims], *read, *rest)]

    return compute(result.shape, body)


def _gather_nd_reference(x: Array, indices: Array, *, batch_dims: int) -> Array:
    depth = indices.shape[-1]
    batch = x.shape[:batch_dims]
    result = np.empty((*indices.shape[:-1], *x.shape[batch_dims + depth :]), x.dtype)
    for place in np.ndindex(*batch):
        inner, found = indices[place], x[place]
        chosen = (_bounded_array(inner[..., n], found.shape[n]) for n in range(depth))
        result[place] = found[tuple(chosen)] if depth else found
    return result


gather_nd = OpSpec(
    name="gather_nd",
    arity=2,
    params=("batch_dims",),
    infer=_gather_nd_type,
    compute=_gather_nd_compute,
    reference=_gather_nd_reference,
    samples=(
        _sample((3, 4), (5, 2), batch_dims=0),
        _sample((3, 4, 2), (2, 2, 1), batch_dims=0, index=int32),
        _sample((2, 3, 4), (2, 5, 1), batch_dims=1, dtype=int32),
        _sample((2, 3, 4), (2, 2), batch_dims=1),
        _sample((3, 4), (0, 1), batch_dims=0),
    ),
    family="indexing",
    doc="The slices of x at tuples of indices, which lie along the last axis of the indices.",
)

# one_hot


def _one_hot_type(indices: TensorType, values: TensorType, *, axis: int, depth: int) -> TensorType:
    require_indices("one_hot", indices)
    require_axis("one_hot", axis, indices.rank + 1)
    if values.shape != (2,) or depth < 0:
        raise ShapeError(
            f"one_hot: expected values (off, on) and a depth of at least 0, got {values} and "
            f"{depth}"
        )
    return TensorType(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))


def _one_hot_compute(indices: Tensor, values: Tensor, *, axis: int, depth: int) -> TensorExpr:
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])

    def body(*axes: Expr) -> Expr:
        index = normalised(indices[(*axes[:axis], *axes[axis + 1 :])], depth)
        return select(index.equals(axes[axis]), values[1], values[0])

    return compute(shape, body)


def _one_hot_reference(indices: Array, values: Array, *, axis: int, depth: int) -> Array:
    wide = np.expand_dims(indices.astype(np.int64), axis)
    hot = np.arange(depth).reshape((-1,) + (1,) * (indices.ndim - axis))
    return np.asarray(np.where((wide == hot) | (wide == hot - depth), values[1], values[0]))


one_hot = OpSpec(
    name="one_hot",
    arity=2,
    params=("axis", "depth"),
    infer=_one_hot_type,
    compute=_one_hot_compute,
    reference=_one_hot_reference,
    samples=tuple(
        Sample(
            (TensorType(index, shape), TensorType(float32, (2,))),
            (("axis", axis), ("depth", depth)),
        )
        for index, shape, axis, depth in (
            (int64, (3,), 1, 4),
            (int32, (2, 3), 0, 5),
            (int64, (2, 3), 1, 2),
            (int64, (), 0, 3),
            (int64, (2,), 1, 0),
        )
    ),
    family="indexing",
    doc="`values[1]` where the index equals the position along the new axis, else `values[0]`.",
)


INDEXING: tuple[OpSpec, ...] = (gather, gather_elements, gather_nd, one_hot)
