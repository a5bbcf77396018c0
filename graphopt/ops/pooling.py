"""Pooling: folds over sliding windows of the spatial axes of (n, c, spatial…).

Padding is never read: it contributes the neutral element. An average is a sum divided by a count,
which the importer composes; it also enlarges the end pads where ONNX rounds the output size up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphopt.ops.operands import computed, lowest, require_numbers
from graphopt.ops.spec import OpSpec, Sample, sample
from graphopt.ops.windows import Windows, spatial_names
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
    Shape,
    ShapeError,
    TensorType,
    float64,
    int8,
    int32,
    int64,
    row_major_strides,
)

_PARAMS = ("kernel", "strides", "pads", "dilations")


def _windows(
    op: str, x: TensorType, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
) -> Windows:
    require_numbers(op, x)
    if x.rank < 3:
        raise ShapeError(f"{op}: expected x of shape (n, c, spatial…), got {x}")
    return Windows.of(op, x.shape[2:], kernel, strides, pads, dilations)


def _fold(
    x: Tensor,
    windows: Windows,
    fold: Fold,
    axes: tuple[Expr, ...],
    contribution: Callable[[tuple[Expr, ...]], Expr],
    prefix: str = "k",
) -> Expr:
    """The fold of `contribution(indices into x)` over one window, padding left out."""
    n, c, *outputs = axes

    def element(*kernel: Expr) -> Expr:
        positions = windows.positions(outputs, kernel)
        value = contribution((n, c, *positions))
        inside = all_of(windows.inside(positions))
        return select(inside, value, neutral_element(fold, value.dtype))

    return reduce(fold, windows.kernel, element, spatial_names(prefix, len(windows.kernel)))


def _pooled(x: Tensor, windows: Windows, body: Callable[..., Expr]) -> TensorExpr:
    names = ["n", "c", *spatial_names("o", len(windows.sizes))]
    return compute((*x.shape[:2], *windows.outputs), body, names=names)


def _samples() -> tuple[Sample, ...]:
    return (
        sample((1, 2, 4, 6), kernel=(2, 2), strides=(2, 2), pads=(0,) * 4, dilations=(1, 1)),
        sample((2, 1, 5, 5), kernel=(3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1)),
        sample((1, 3, 7, 5), kernel=(3, 2), strides=(2, 3), pads=(0, 1, 1, 0), dilations=(2, 1)),
        sample((1, 2, 9), kernel=(4,), strides=(3,), pads=(1, 2), dilations=(1,), dtype=int32),
        sample((1, 1, 3, 3), kernel=(3, 3), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1),
               dtype=int8),
        sample((1, 2, 2, 3, 2), kernel=(1, 2, 2), strides=(1, 1, 1), pads=(0, 0, 1, 0, 0, 0),
               dilations=(1, 1, 1), dtype=float64),
        sample((0, 2, 4, 4), kernel=(2, 2), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1)),
    )  # fmt: skip


def _pool(name: str, fold: Fold, numpy: Callable[..., Array], doc: str) -> OpSpec:
    def infer(
        x: TensorType, *, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
    ) -> TensorType:
        windows = _windows(name, x, kernel, strides, pads, dilations)
        return TensorType(x.dtype, (*x.shape[:2], *windows.outputs))

    def meaning(
        x: Tensor, *, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
    ) -> TensorExpr:
        windows = _windows(name, x.type, kernel, strides, pads, dilations)
        return _pooled(
            x, windows, lambda *axes: _fold(x, windows, fold, axes, lambda indices: x[indices])
        )

    def reference(
        x: Array, *, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
    ) -> Array:
        windows = Windows.of(name, x.shape[2:], kernel, strides, pads, dilations)
        values = computed(x)
        neutral = lowest(values.dtype) if fold is Fold.MAX else 0
        view = windows.view(values, neutral)
        return numpy(view, axis=tuple(range(-len(kernel), 0))).astype(x.dtype)

    return OpSpec(
        name=name,
        arity=1,
        params=_PARAMS,
        infer=infer,
        compute=meaning,
        reference=reference,
        samples=_samples(),
        family="pooling",
        doc=doc,
    )


max_pool = _pool(
    "max_pool", Fold.MAX, np.max, "Maximum of each window; padding never wins. NaN if it has NaN."
)
sum_pool = _pool("sum_pool", Fold.SUM, np.sum, "Sum of each window; padding adds nothing.")


def _index_type(
    x: TensorType, *, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
) -> TensorType:
    windows = _windows("max_pool_index", x, kernel, strides, pads, dilations)
    return TensorType(int64, (*x.shape[:2], *windows.outputs))


def _index_compute(
    x: Tensor, *, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
) -> TensorExpr:
    windows = _windows("max_pool_index", x.type, kernel, strides, pads, dilations)
    strides_of_x = row_major_strides(x.shape)

    def body(*axes: Expr) -> Expr:
        maximum = _fold(x, windows, Fold.MAX, axes, lambda indices: x[indices], "m")

        def index_if_maximal(indices: tuple[Expr, ...]) -> Expr:
            value = x[indices]
            wins = value.equals(maximum)
            if x.dtype.is_float:
                # The maximum is NaN exactly if some value is: then the first NaN is meant.
                wins = apply("or", wins, apply("isnan", value))
            flat: Expr = const(0, int64)
            for position, (index, stride) in enumerate(zip(indices, strides_of_x, strict=True)):
                term = index if stride == 1 else index * stride
                flat = term if position == 0 else flat + term
            return select(wins, flat, neutral_element(Fold.MIN, int64))

        # Row-major order of a window is the order of flat indices: the first is the smallest.
        return _fold(x, windows, Fold.MIN, axes, index_if_maximal)

    return _pooled(x, windows, body)


def _index_reference(
    x: Array, *, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape
) -> Array:
    windows = Windows.of("max_pool_index", x.shape[2:], kernel, strides, pads, dilations)
    values = computed(x)
    shape = (*x.shape[:2], *windows.outputs, -1)
    shape = (*shape[:-1], int(np.prod(kernel)))
    view = windows.view(values, lowest(values.dtype)).reshape(shape)
    flat = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    indices = windows.view(flat, -1).reshape(shape)
    # Order the elements of each window so that padding comes last, then let the first maximum win.
    order = np.argsort(indices < 0, axis=-1, kind="stable")
    winner = np.argmax(np.take_along_axis(view, order, -1), axis=-1)[..., None]
    chosen = np.take_along_axis(order, winner, -1)
    result: Array = np.take_along_axis(indices, chosen, -1)[..., 0]
    return result


max_pool_index = OpSpec(
    name="max_pool_index",
    arity=1,
    params=_PARAMS,
    infer=_index_type,
    compute=_index_compute,
    reference=_index_reference,
    samples=_samples(),
    family="pooling",
    doc=(
        "Row-major index into all of x of the first maximum of each window, int64. Every window "
        "must hold an element of x; the first NaN counts as the maximum."
    ),
)

POOLING: tuple[OpSpec, ...] = (max_pool, sum_pool, max_pool_index)
