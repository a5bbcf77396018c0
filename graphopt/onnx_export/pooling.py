"""Pooling as ONNX.

`MaxPool` takes floats and 8-bit integers; the other integers of up to 32 bits are exact in float64.
A sum is a convolution with ones, which is exact; where runtimes have none for the element type, it
is written as matrix products. What `MaxPool` does not take reduces windows laid out as axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Node
from graphopt.onnx_export.contraction import as_products
from graphopt.onnx_export.parameters import integers
from graphopt.onnx_export.term import (
    Exporter,
    Term,
    call,
    cast,
    elementwise,
    expand,
    reduced,
    reshape,
    take,
    transpose,
)
from graphopt.onnx_export.widening import BFLOAT16, NARROW, Widening, computed_in
from graphopt.onnx_export.windows import (
    axes_of_unfolded,
    counts_along,
    inside,
    positions,
    unfolded,
    windows_of,
)
from graphopt.ops.windows import Windows
from graphopt.terms import scalar
from tensorgen.expr import Fold, neutral_element
from tensorgen.types import (
    TensorType,
    boolean,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    row_major_strides,
    uint8,
    uint16,
    uint32,
)

MAX_POOLED_RANK = 3
"""Runtimes pool over at most this many spatial axes."""

MAX_STORED_ONES = 2**16
"""Weights of one are stored up to this number, so that tools see weights; else repeated."""

_POOLED: Widening = {
    **BFLOAT16,
    int16: float64,
    uint16: float64,
    int32: float64,
    uint32: float64,
}

_POOLABLE = frozenset({float16, float32, float64, int8, uint8})


def pooled_natively(windows: Windows) -> bool:
    """Whether runtimes take these windows in pooling operators and agree on their meaning.

    They refuse pads of the kernel's size, and differ on windows that hold padding alone.
    """
    pads = zip(windows.before, windows.after, windows.kernel, strict=True)
    return (
        len(windows.sizes) <= MAX_POOLED_RANK
        and all(max(before, after) < size for before, after, size in pads)
        and all(counts_along(windows, axis).all() for axis in range(len(windows.sizes)))
    )


def pooling(op_type: str, x: Term, windows: Windows, **more: int) -> Term:
    """An ONNX operator on windows; `output=1` is their position, where the operator has that."""
    dtype = int64 if more.get("output") else x.type.dtype
    return call(
        op_type,
        x,
        type=TensorType(dtype, (*x.type.shape[:2], *windows.outputs)),
        dilations=windows.dilations,
        kernel_shape=windows.kernel,
        pads=(*windows.before, *windows.after),
        strides=windows.strides,
        **more,
    )


def _max_pool(node: Node, x: Term) -> Term:
    windows = windows_of(node, integers(node, "kernel"))
    if x.type.dtype in _POOLABLE and pooled_natively(windows):
        return pooling("MaxPool", x, windows)
    _, elements = axes_of_unfolded(windows)
    return reduced("ReduceMax", unfolded(x, windows, _lowest(x)), elements, keepdims=False)


def _lowest(x: Term) -> Constant:
    dtype = x.type.dtype
    return scalar(neutral_element(Fold.MAX, dtype).value, dtype)


def _max_pool_index(node: Node, x: Term) -> Term:
    windows = windows_of(node, integers(node, "kernel"))
    if x.type.dtype in _POOLABLE and pooled_natively(windows):
        return pooling("MaxPool", x, windows, output=1)
    return _first_maximal(node, x, windows)


def _first_maximal(node: Node, x: Term, windows: Windows) -> Term:
    """The flat index of the first element, padding left out, that equals its window's maximum."""
    batch, channels = x.type.shape[:2]
    outputs, elements = axes_of_unfolded(windows)
    values = reshape(
        transpose(unfolded(x, windows, _lowest(x)), (0, 1, *outputs, *elements)),
        (batch, channels, prod(windows.outputs), prod(windows.kernel)),
    )
    wins = elementwise(
        "Equal", values, reduced("ReduceMax", values, (3,), keepdims=True), dtype=boolean
    )
    if x.type.dtype.is_float:
        wins = elementwise("Or", wins, elementwise("IsNaN", values, dtype=boolean))
    real = _for_each_element(windows, np.logical_and, inside)
    wins = elementwise("And", wins, Constant(real))
    first = call(
        "ArgMax",
        cast(wins, int32),
        type=TensorType(int64, values.type.shape[:3]),
        axis=3,
        keepdims=0,
        select_last_index=0,
    )
    strides = row_major_strides(windows.sizes)
    within = _for_each_element(
        windows, np.add, lambda windows, axis: positions(windows, axis) * strides[axis]
    )
    rows = np.arange(within.shape[0], dtype=np.int64) * within.shape[1]
    chosen = take(Constant(within.reshape(-1)), elementwise("Add", first, Constant(rows)), 0)
    planes = np.arange(batch * channels, dtype=np.int64) * prod(windows.sizes)
    bases = Constant(planes.reshape(batch, channels, 1))
    return reshape(elementwise("Add", chosen, bases), node.type.shape)


def _for_each_element(
    windows: Windows, combine: np.ufunc, along: Callable[[Windows, int], NDArray[Any]]
) -> NDArray[Any]:
    """A table (windows, elements of one) that combines what holds along each spatial axis."""
    rank = len(windows.sizes)
    table = reduce(combine.outer, (along(windows, axis) for axis in range(rank)))
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    return table.transpose(order).reshape(prod(windows.outputs), prod(windows.kernel))


def _ones(type: TensorType) -> Term:
    if type.size <= MAX_STORED_ONES:
        return Constant(np.ones(type.shape, type.dtype.numpy))
    return expand(scalar(1, type.dtype), type.shape)


def _sum_pool(node: Node, x: Term) -> Term:
    """Each channel convolved with ones on its own."""
    windows = windows_of(node, integers(node, "kernel"))
    channels = x.type.shape[1]
    ones = _ones(TensorType(x.type.dtype, (channels, 1, *windows.kernel)))
    if x.type.dtype not in (float32, float16):
        return as_products(x, ones, windows, channels)
    return call(
        "Conv",
        x,
        ones,
        type=TensorType(x.type.dtype, node.type.shape),
        dilations=windows.dilations,
        group=channels,
        kernel_shape=windows.kernel,
        pads=(*windows.before, *windows.after),
        strides=windows.strides,
    )


TABLE: Mapping[str, Exporter] = {
    "max_pool": computed_in(_POOLED, _max_pool),
    "max_pool_index": computed_in(_POOLED, _max_pool_index),
    "sum_pool": computed_in(NARROW, _sum_pool),
}
