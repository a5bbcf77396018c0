"""Importers of pooling: windows or whole images folded to their maximum, mean or norm.

An average is a window sum divided by a constant tensor of counts (one number where all are equal).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.indexing import bounded_indices
from graphopt.onnx_import.node import Importer, OnnxNode, spatial_shape
from graphopt.onnx_import.sliding import Sliding, explicit_pads, per_axis, sliding_windows
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    broadcast_to,
    mean,
    pad,
    reduced,
    reshape,
    scalar,
    tensor,
    with_scalar,
)
from tensorgen.types import Array, row_major_strides

MAX_COUNTED = 2**24
"""Bound on the table of window counts of an average."""


def _windows(node: OnnxNode) -> Sliding:
    sizes = spatial_shape(node, node.input(0))
    kernel = node.integers("kernel_shape")
    if len(kernel) != len(sizes):
        raise node.error(f"kernel_shape with {len(sizes)} sizes", list(kernel))
    return sliding_windows(node, sizes, kernel)


def _pool(name: str, x: Value, windows: Sliding) -> Value:
    return OP[name](
        x,
        kernel=windows.kernel,
        strides=windows.strides,
        pads=windows.extended_pads,
        dilations=windows.dilations,
    )


def _max_pool(node: OnnxNode) -> tuple[Value, ...]:
    x, windows = node.input(0), _windows(node)
    pooled = _pool("max_pool", x, windows)
    if not node.wants(1):
        return (pooled,)
    if np.any(_counts(node, windows) == 0):
        raise node.error("windows that hold at least one element each", "a window of padding")
    indices = _pool("max_pool_index", x, windows)
    if node.integer("storage_order", 0):
        indices = _column_major(indices, x)
    return pooled, indices


def _column_major(indices: Value, x: Value) -> Value:
    """Row-major flat indices into x as flat indices with the spatial axes in reverse order."""
    sizes = x.type.shape[2:]
    image = prod(sizes)
    within = with_scalar("mod", indices, image)
    terms = [apply("sub", indices, within)]
    strides = row_major_strides(sizes)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        position = with_scalar("mod", with_scalar("floordiv", within, stride), size)
        terms.append(with_scalar("mul", position, prod(sizes[:axis])))
    return reduce(lambda total, term: apply("add", total, term), terms)


def _counts(node: OnnxNode, windows: Sliding, *, padding: bool = False) -> Array:
    """How many elements each window holds, with or without padding; overhang never counts.

    Of rank 0 if all windows hold equally many.
    """
    factors: list[Array] = []
    for axis, size in enumerate(spatial_shape(node, node.input(0))):
        if windows.outputs[axis] * windows.kernel[axis] > MAX_COUNTED:
            got = f"{windows.outputs[axis]} windows of {windows.kernel[axis]}"
            raise node.unsupported(f"windows of at most {MAX_COUNTED} elements per axis", got)
        starts = np.arange(windows.outputs[axis]) * windows.strides[axis]
        taps = np.arange(windows.kernel[axis]) * windows.dilations[axis]
        positions = starts[:, None] + taps[None, :] - windows.before[axis]
        if padding:
            inside = positions < size + windows.after[axis]
        else:
            inside = (positions >= 0) & (positions < size)
        factors.append(inside.sum(axis=1))
    if all(factor.size and factor.min() == factor.max() for factor in factors):
        factors = [factor[0] for factor in factors]
    elif prod(windows.outputs) > MAX_COUNTED:
        raise node.unsupported(f"at most {MAX_COUNTED} windows", prod(windows.outputs))
    counts: Array = np.asarray(reduce(np.multiply.outer, factors))
    return counts


def _average_pool(node: OnnxNode) -> tuple[Value, ...]:
    x, windows = node.input(0), _windows(node)
    padding = node.integer("count_include_pad", 0) != 0
    counts = _counts(node, windows, padding=padding)
    total = _pool("sum_pool", x, windows)
    return (apply("div", total, tensor(counts, x.type.dtype)),)


def _lp_pool(node: OnnxNode) -> tuple[Value, ...]:
    """(sum of |x| ** p) ** (1 / p)."""
    power = _exponent(node)
    raised = _powered(node.input(0), power)
    return (_root(_pool("sum_pool", raised, _windows(node)), power),)


def _exponent(node: OnnxNode) -> float:
    power = node.number("p", 2)
    if not power >= 1:
        raise node.error("p of at least 1", power)
    return power


def _powered(x: Value, power: float) -> Value:
    if power == 2:
        return apply("mul", x, x)
    magnitude = apply("abs", x)
    return magnitude if power == 1 else with_scalar("pow", magnitude, power)


def _root(x: Value, power: float) -> Value:
    if power == 2:
        return apply("sqrt", x)
    return x if power == 1 else apply("pow", x, scalar(1 / power, x.type.dtype))


def _spatial_axes(node: OnnxNode) -> tuple[int, ...]:
    x = node.input(0)
    spatial_shape(node, x, least=0)
    return tuple(range(2, x.type.rank))


def _global_average_pool(node: OnnxNode) -> tuple[Value, ...]:
    return (mean(node.input(0), _spatial_axes(node), keepdims=True),)


def _global_max_pool(node: OnnxNode) -> tuple[Value, ...]:
    return (reduced("reduce_max", node.input(0), _spatial_axes(node), keepdims=True),)


def _global_lp_pool(node: OnnxNode) -> tuple[Value, ...]:
    power = _exponent(node)
    raised = _powered(node.input(0), power)
    return (_root(reduced("reduce_sum", raised, _spatial_axes(node), keepdims=True), power),)


def _max_unpool(node: OnnxNode) -> tuple[Value, ...]:
    """Elements put back at the flat positions that MaxPool gave, zero elsewhere.

    Positions refer to the shape that the window sizes imply; an output shape that is given extends
    it with zeros at the ends.
    """
    x, indices = node.input(0), node.input(1)
    sizes = spatial_shape(node, x)
    if x.type.shape != indices.type.shape:
        raise node.error(f"indices of shape {list(x.type.shape)}", indices.type)
    rank = len(sizes)
    kernel, strides = per_axis(node, "kernel_shape", rank), per_axis(node, "strides", rank)
    before, after = explicit_pads(node, rank)
    implied = (
        *x.type.shape[:2],
        *(
            (size - 1) * stride - begin - end + span
            for size, stride, begin, end, span in zip(
                sizes, strides, before, after, kernel, strict=True
            )
        ),
    )
    given = node.optional(2) is not None
    shape = node.integers_of(2, "the output shape") if given else implied
    if len(shape) != len(implied) or any(
        a < b or b < 0 for a, b in zip(shape, implied, strict=True)
    ):
        raise node.error(f"an output shape of at least {list(implied)}", list(shape))
    zeros = broadcast_to(scalar(0, x.type.dtype), (prod(implied),))
    scattered = OP["scatter_elements"](
        zeros,
        reshape(bounded_indices(node, (prod(implied),)), (indices.type.size,)),
        reshape(x, (x.type.size,)),
        axis=0,
        reduction="none",
    )
    margins = tuple(size - inner for size, inner in zip(shape, implied, strict=True))
    return (pad(reshape(scattered, implied), (0,) * len(shape), margins),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "AveragePool"): _average_pool,
    ("", "GlobalAveragePool"): _global_average_pool,
    ("", "GlobalLpPool"): _global_lp_pool,
    ("", "GlobalMaxPool"): _global_max_pool,
    ("", "LpPool"): _lp_pool,
    ("", "MaxPool"): _max_pool,
    ("", "MaxUnpool"): _max_unpool,
}
