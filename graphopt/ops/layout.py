"""Layout operators: elements move, copy or disappear, none is calculated.

Shapes and positions are complete and validated: no -1, no negative axis, no clamping. The importer
resolves what ONNX leaves open.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from graphopt.ops.elementwise import element
from graphopt.ops.mixed_radix import reshaped_indices
from graphopt.ops.operands import (
    require_at_least,
    require_axis,
    require_length,
    require_one_dtype,
    require_rank,
)
from graphopt.ops.spec import OpSpec, sample
from tensorgen.expr import (
    Expr,
    Tensor,
    TensorExpr,
    all_of,
    apply,
    compute,
    const,
    maximum,
    minimum,
    select,
)
from tensorgen.types import Array, Shape, ShapeError, TensorType, boolean, float64, int32, int64


def _transpose_type(x: TensorType, *, perm: Shape) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise ShapeError(f"transpose: expected a permutation of {x.rank} axes, got {list(perm)}")
    return TensorType(x.dtype, tuple(x.shape[axis] for axis in perm))


def _transpose_compute(x: Tensor, *, perm: Shape) -> TensorExpr:
    return compute(
        tuple(x.shape[axis] for axis in perm),
        lambda *axes: x[tuple(axes[perm.index(axis)] for axis in range(len(perm)))],
    )


transpose = OpSpec(
    name="transpose",
    arity=1,
    params=("perm",),
    infer=_transpose_type,
    compute=_transpose_compute,
    reference=lambda x, *, perm: np.transpose(x, perm),
    samples=(
        sample((3, 4), perm=(1, 0)),
        sample((2, 3, 4), perm=(2, 0, 1)),
        sample((2, 1, 3, 5), perm=(0, 2, 3, 1), dtype=int64),
        sample((), perm=()),
        sample((0, 3), perm=(1, 0), dtype=boolean),
    ),
    family="layout",
    doc="Axis n of the result is axis perm[n] of x.",
)


def _reshape_type(x: TensorType, *, shape: Shape) -> TensorType:
    result = TensorType(x.dtype, shape)
    if result.size != x.size:
        raise ShapeError(f"reshape: expected a shape of {x.size} elements, got {list(shape)}")
    return result


def _reshape_compute(x: Tensor, *, shape: Shape) -> TensorExpr:
    return compute(shape, lambda *axes: x[reshaped_indices(x.shape, shape, axes)])


reshape = OpSpec(
    name="reshape",
    arity=1,
    params=("shape",),
    infer=_reshape_type,
    compute=_reshape_compute,
    reference=lambda x, *, shape: np.reshape(x, shape),
    samples=(
        sample((3, 4), shape=(12,)),
        sample((12,), shape=(3, 4)),
        sample((2, 3, 4), shape=(2, 12)),
        sample((6, 4), shape=(3, 8), dtype=int64),
        sample((4, 6), shape=(8, 3)),
        sample((4, 9), shape=(6, 6)),
        sample((1, 5, 1), shape=(5, 1)),
        sample((1, 1), shape=(), dtype=float64),
        sample((2, 0, 3), shape=(0, 6)),
    ),
    family="layout",
    doc="The same elements in row-major order under another shape.",
)


def _broadcast_to_type(x: TensorType, *, shape: Shape) -> TensorType:
    trailing = shape[len(shape) - x.rank :]
    if x.rank > len(shape) or any(
        size not in (1, extent) for size, extent in zip(x.shape, trailing, strict=True)
    ):
        raise ShapeError(f"broadcast_to: expected x to broadcast to {list(shape)}, got {x}")
    return TensorType(x.dtype, shape)


def _broadcast_to_compute(x: Tensor, *, shape: Shape) -> TensorExpr:
    return compute(shape, lambda *axes: element(x, axes))


broadcast_to = OpSpec(
    name="broadcast_to",
    arity=1,
    params=("shape",),
    infer=_broadcast_to_type,
    compute=_broadcast_to_compute,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    samples=(
        sample((3, 1), shape=(3, 4)),
        sample((), shape=(2, 2)),
        sample((4,), shape=(2, 3, 4), dtype=int32),
        sample((1, 3), shape=(0, 3)),
    ),
    family="layout",
    doc="Sizes of one, and missing leading axes, repeated to the given shape.",
)


def _concat_type(*types: TensorType, axis: int) -> TensorType:
    dtype = require_one_dtype("concat", *types)
    first = types[0]
    require_axis("concat", axis, first.rank)
    for type in types[1:]:
        require_rank("concat", "operands", type, first.rank)
        for position, (size, extent) in enumerate(zip(type.shape, first.shape, strict=True)):
            if position != axis and size != extent:
                raise ShapeError(
                    f"concat: expected sizes equal to {first} but on axis {axis}, got {type}"
                )
    total = sum(type.shape[axis] for type in types)
    return TensorType(dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _concat_compute(*tensors: Tensor, axis: int) -> TensorExpr:
    starts = [0, *accumulate(tensor.shape[axis] for tensor in tensors)]
    shape = (*tensors[0].shape[:axis], starts[-1], *tensors[0].shape[axis + 1 :])

    def body(*axes: Expr) -> Expr:
        def chosen(low: int, high: int) -> Expr:
            # A balanced tree of selects: neither deep nor long for many operands.
            if high - low == 1:
                index = axes[axis] - starts[low] if starts[low] else axes[axis]
                return tensors[low][(*axes[:axis], index, *axes[axis + 1 :])]
            middle = (low + high) // 2
            return select(axes[axis] < starts[middle], chosen(low, middle), chosen(middle, high))

        return chosen(0, len(tensors))

    return compute(shape, body)


concat = OpSpec(
    name="concat",
    arity=None,
    params=("axis",),
    infer=_concat_type,
    compute=_concat_compute,
    reference=lambda *arrays, axis: np.concatenate(arrays, axis=axis),
    samples=(
        sample((2, 3), (2, 5), axis=1),
        sample((2, 3), (1, 3), axis=0, dtype=int64),
        sample((2, 1), (2, 4), (2, 2), axis=1),
        sample((3,), axis=0),
        sample((2,), (0,), (1,), (3,), (2,), axis=0),
    ),
    family="layout",
    doc="The operands one after the other along an axis.",
)


def _slice_type(x: TensorType, *, starts: Shape, steps: Shape, sizes: Shape) -> TensorType:
    for what, values in (("starts", starts), ("steps", steps), ("sizes", sizes)):
        require_length("slice", what, values, x.rank)
    require_at_least("slice", "sizes", sizes, 0)
    for axis, (start, step, size) in enumerate(zip(starts, steps, sizes, strict=True)):
        if step == 0:
            raise ShapeError(f"slice: expected a step other than 0 on axis {axis}, got 0")
        last = start + (size - 1) * step
        low, high = (start, last) if step > 0 else (last, start)
        if not (low >= 0 and high < x.shape[axis]) and size:
            raise ShapeError(
                f"slice: expected positions below {x.shape[axis]} on axis {axis}, got "
                f"{size} from {start} in steps of {step}"
            )
    return TensorType(x.dtype, sizes)


def _slice_compute(x: Tensor, *, starts: Shape, steps: Shape, sizes: Shape) -> TensorExpr:
    return compute(
        sizes,
        lambda *axes: x[
            tuple(
                index * step + start for index, step, start in zip(axes, steps, starts, strict=True)
            )
        ],
    )


def _slice_reference(x: Array, *, starts: Shape, steps: Shape, sizes: Shape) -> Array:
    positions = (
        start + step * np.arange(size)
        for start, step, size in zip(starts, steps, sizes, strict=True)
    )
    return x[np.ix_(*positions)] if x.ndim else x


slice = OpSpec(
    name="slice",
    arity=1,
    params=("starts", "steps", "sizes"),
    infer=_slice_type,
    compute=_slice_compute,
    reference=_slice_reference,
    samples=(
        sample((5, 4), starts=(1, 0), steps=(1, 1), sizes=(3, 4)),
        sample((7,), starts=(0,), steps=(2,), sizes=(4,), dtype=int64),
        sample((5, 3), starts=(4, 2), steps=(-2, -1), sizes=(3, 3)),
        sample((5, 3), starts=(9, 1), steps=(1, 1), sizes=(0, 1)),
        sample((), starts=(), steps=(), sizes=()),
    ),
    family="layout",
    doc="`sizes` elements of each axis from `starts` in `steps`, which may be negative.",
)

PAD_MODES = ("constant", "reflect", "edge", "wrap")


def _pad_type(
    x: TensorType, fill: TensorType, *, before: Shape, after: Shape, mode: str
) -> TensorType:
    require_one_dtype("pad", x, fill)
    require_rank("pad", "a fill value", fill, 0)
    require_length("pad", "sizes before", before, x.rank)
    require_length("pad", "sizes after", after, x.rank)
    require_at_least("pad", "sizes", (*before, *after), 0)
    if mode not in PAD_MODES:
        raise ShapeError(f"pad: expected a mode of {', '.join(PAD_MODES)}, got {mode!r}")
    padded = zip(before, x.shape, after, strict=True)
    if mode != "constant" and any(size == 0 and low + high for low, size, high in padded):
        raise ShapeError(f"pad: expected elements to repeat in mode {mode}, got {x}")
    parts = zip(before, x.shape, after, strict=True)
    return TensorType(x.dtype, tuple(low + size + high for low, size, high in parts))


def _repeated(position: Expr, size: int, before: int, after: int, mode: str) -> Expr:
    """The index in 0 … size-1 that a position from -before on repeats."""
    match mode:
        case "edge":
            return minimum(maximum(position, 0), size - 1)
        case "wrap":
            return position % size
        case _:
            period = 2 * (size - 1)
            if period == 0:
                return const(0, int64)
            near = max(before, after) < size
            folded = apply("abs", position) if near else position % period
            return minimum(folded, period - folded)


def _pad_compute(x: Tensor, fill: Tensor, *, before: Shape, after: Shape, mode: str) -> TensorExpr:
    sizes = x.shape
    shape = _pad_type(x.type, fill.type, before=before, after=after, mode=mode).shape

    def body(*axes: Expr) -> Expr:
        indices: list[Expr] = []
        conditions: list[Expr] = []
        for axis, index in enumerate(axes):
            low, high = before[axis], after[axis]
            position = index - low if low else index
            if mode == "constant":
                conditions += [position >= 0] if low else []
                conditions += [position < sizes[axis]] if high else []
            elif low or high:
                position = _repeated(position, sizes[axis], low, high, mode)
            indices.append(position)
        value = x[tuple(indices)]
        return select(all_of(conditions), value, fill[()]) if conditions else value

    return compute(shape, body)


def _pad_reference(x: Array, fill: Array, *, before: Shape, after: Shape, mode: str) -> Array:
    width = list(zip(before, after, strict=True))
    if not width:
        return x
    match mode:
        case "edge":
            return np.pad(x, width, mode="edge")
        case "wrap":
            return np.pad(x, width, mode="wrap")
        case "reflect":
            return np.pad(x, width, mode="reflect")
        case _:
            return np.pad(x, width, constant_values=fill[()])


pad = OpSpec(
    name="pad",
    arity=2,
    params=("before", "after", "mode"),
    infer=_pad_type,
    compute=_pad_compute,
    reference=_pad_reference,
    samples=(
        sample((3, 4), (), before=(1, 0), after=(0, 2), mode="constant"),
        sample((5,), (), before=(2,), after=(4,), mode="reflect", dtype=int64),
        sample((3, 2), (), before=(7, 0), after=(5, 1), mode="reflect"),
        sample((1, 3), (), before=(2, 1), after=(0, 3), mode="reflect"),
        sample((3, 4), (), before=(2, 0), after=(1, 3), mode="edge"),
        sample((3, 2), (), before=(4, 0), after=(1, 3), mode="wrap"),
        sample((2, 0), (), before=(1, 1), after=(0, 2), mode="constant"),
        sample((0, 2), (), before=(0, 1), after=(0, 1), mode="edge"),
        sample((), (), before=(), after=(), mode="constant"),
    ),
    family="layout",
    doc=(
        "x surrounded by the fill value (constant), its mirror image without the edge (reflect), "
        "its edge or itself (wrap). The fill value is read in mode constant only."
    ),
)


def _insert_axis_type(x: TensorType, *, axis: int) -> TensorType:
    require_axis("insert_axis", axis, x.rank + 1)
    return TensorType(x.dtype, (*x.shape[:axis], 1, *x.shape[axis:]))


def _insert_axis_compute(x: Tensor, *, axis: int) -> TensorExpr:
    return compute(
        (*x.shape[:axis], 1, *x.shape[axis:]), lambda *axes: x[(*axes[:axis], *axes[axis + 1 :])]
    )


insert_axis = OpSpec(
    name="insert_axis",
    arity=1,
    params=("axis",),
    infer=_insert_axis_type,
    compute=_insert_axis_compute,
    reference=lambda x, *, axis: np.expand_dims(x, axis),
    samples=(sample((2, 3), axis=1), sample((2, 3), axis=2, dtype=int64), sample((), axis=0)),
    family="layout",
    doc="x with an axis of size one at that position of the result.",
)


def _unfold_type(x: TensorType, *, axis: int, size: int) -> TensorType:
    require_axis("unfold", axis, x.rank)
    require_at_least("unfold", "size", (size,), 1)
    if x.shape[axis] < size:
        raise ShapeError(f"unfold: expected at least {size} elements on axis {axis}, got {x}")
    places = x.shape[axis] - size + 1
    return TensorType(x.dtype, (*x.shape[:axis], places, size, *x.shape[axis + 1 :]))


def _unfold_compute(x: Tensor, *, axis: int, size: int) -> TensorExpr:
    return compute(
        _unfold_type(x.type, axis=axis, size=size).shape,
        lambda *axes: x[(*axes[:axis], axes[axis] + axes[axis + 1], *axes[axis + 2 :])],
    )


def _unfold_reference(x: Array, *, axis: int, size: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=axis)
    return np.moveaxis(windows, -1, axis + 1)


unfold = OpSpec(
    name="unfold",
    arity=1,
    params=("axis", "size"),
    infer=_unfold_type,
    compute=_unfold_compute,
    reference=_unfold_reference,
    samples=(
        sample((5,), axis=0, size=3),
        sample((2, 4, 3), axis=1, size=2, dtype=int64),
        sample((2, 3), axis=1, size=3),
        sample((0, 3), axis=1, size=1),
    ),
    family="layout",
    doc="Every run of `size` neighbours along an axis; the elements of a run follow on a new axis.",
)

LAYOUT: tuple[OpSpec, ...] = (
    transpose,
    reshape,
    broadcast_to,
    concat,
    slice,
    pad,
    insert_axis,
    unfold,
)
