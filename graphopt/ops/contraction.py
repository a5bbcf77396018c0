"""Contractions: matrix multiplication, convolution and Einstein summation.

Products of elements summed over shared axes, in the operands' own element type (integers wrap;
widen first for products of 8-bit integers). Rank-1 matrix products are the importer's business.
"""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np

from graphopt.ops.elementwise import broadcast_shapes, element
from graphopt.ops.groups import channel_read, over_groups, require_groups
from graphopt.ops.operands import computed, require_numbers
from graphopt.ops.spec import OpSpec, Sample, sample
from graphopt.ops.windows import Windows, spatial_names
from tensorgen.expr import (
    Axis,
    Expr,
    Tensor,
    TensorExpr,
    all_of,
    compute,
    const,
    reduce_sum,
    select,
)
from tensorgen.types import Array, Shape, ShapeError, TensorType, float64, int8, int32, int64

# Matrix multiplication


def _matmul_type(x: TensorType, y: TensorType) -> TensorType:
    dtype = require_numbers("matmul", x, y)
    if x.rank < 2 or y.rank < 2:
        raise ShapeError(f"matmul: expected operands of rank at least 2, got {x} and {y}")
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: expected as many columns of x as rows of y, got {x.shape[-1]} and "
            f"{y.shape[-2]}"
        )
    batch = broadcast_shapes("matmul batch", x.shape[:-2], y.shape[:-2])
    return TensorType(dtype, (*batch, x.shape[-2], y.shape[-1]))


def _matmul_compute(x: Tensor, y: Tensor) -> TensorExpr:
    result = _matmul_type(x.type, y.type)
    batch_rank = result.rank - 2
    batch_names = ["n"] if batch_rank == 1 else [f"n{axis}" for axis in range(batch_rank)]

    def body(*axes: Axis) -> Expr:
        *batch, i, j = axes

        def product(k: Expr) -> Expr:
            return _batched(x, batch, (i, k)) * _batched(y, batch, (k, j))

        return reduce_sum(x.shape[-1], product, names=["k"])

    return compute(result.shape, body, names=[*batch_names, "i", "j"])


def _batched(tensor: Tensor, batch: list[Axis], matrix: tuple[Expr, Expr]) -> Expr:
    """The element of a stack of matrices; batch sizes of one are broadcast, matrix sizes not."""
    sizes = tensor.shape[:-2]
    zero = const(0, int64)
    leading = (
        axis if size == axis.extent else zero
        for size, axis in zip(sizes, batch[len(batch) - len(sizes) :], strict=True)
    )
    return tensor[(*leading, *matrix)]


def _matmul_reference(x: Array, y: Array) -> Array:
    result: Array = np.matmul(computed(x), computed(y)).astype(x.dtype)
    return result


matmul = OpSpec(
    name="matmul",
    arity=2,
    params=(),
    infer=_matmul_type,
    compute=_matmul_compute,
    reference=_matmul_reference,
    samples=(
        sample((3, 5), (5, 4)),
        sample((2, 3, 5), (5, 4)),
        sample((2, 1, 3, 2), (5, 2, 1)),
        sample((1, 1), (1, 7), dtype=int32),
        sample((3, 4), (4, 2), dtype=int8),
        sample((2, 0), (0, 3), dtype=float64),
    ),
    family="contraction",
    doc="Matrix product over the last two axes; leading axes broadcast.",
)

# Convolution


def _conv_windows(
    x: TensorType, w: TensorType, strides: Shape, pads: Shape, dilations: Shape
) -> Windows:
    return Windows.of("conv", x.shape[2:], w.shape[2:], strides, pads, dilations)


def _conv_type(
    x: TensorType,
    w: TensorType,
    *,
    strides: Shape,
    pads: Shape,
    dilations: Shape,
    groups: int,
) -> TensorType:
    dtype = require_groups("conv", x, w, groups)
    windows = _conv_windows(x, w, strides, pads, dilations)
    return TensorType(dtype, (x.shape[0], w.shape[0], *windows.outputs))


def _conv_compute(
    x: Tensor, w: Tensor, *, strides: Shape, pads: Shape, dilations: Shape, groups: int
) -> TensorExpr:
    windows = _conv_windows(x.type, w.type, strides, pads, dilations)
    rank = len(windows.sizes)

    def body(n: Expr, oc: Expr, *outputs: Expr) -> Expr:
        def product(ic: Expr, *kernel: Expr) -> Expr:
            positions = windows.positions(outputs, kernel)
            element = x[(n, channel_read(w, groups, oc, ic), *positions)]
            read = select(all_of(windows.inside(positions)), element, 0)
            return read * w[(oc, ic, *kernel)]

        names = ["ic", *spatial_names("k", rank)]
        return reduce_sum((w.shape[1], *windows.kernel), product, names=names)

    names = ["n", "oc", *spatial_names("o", rank)]
    return compute((x.shape[0], w.shape[0], *windows.outputs), body, names=names)


def _conv_reference(
    x: Array, w: Array, *, strides: Shape, pads: Shape, dilations: Shape, groups: int
) -> Array:
    windows = Windows.of("conv", x.shape[2:], w.shape[2:], strides, pads, dilations)
    rank = len(windows.sizes)
    kernel_axes = tuple(range(rank))

    def part(inputs: Array, weights: Array) -> Array:
        summed = np.tensordot(
            windows.view(inputs, 0),
            weights,
            axes=((1, *(axis - rank for axis in kernel_axes)), (1, *(2 + n for n in kernel_axes))),
        )
        return np.moveaxis(summed, -1, 1)

    return over_groups(x, w, groups, part).astype(x.dtype)


conv = OpSpec(
    name="conv",
    arity=2,
    params=("strides", "pads", "dilations", "groups"),
    infer=_conv_type,
    compute=_conv_compute,
    reference=_conv_reference,
    samples=(
        sample(
            (1, 3, 5, 5), (4, 3, 3, 3), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), groups=1
        ),
        sample(
            (2, 2, 5, 7), (3, 2, 3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=1
        ),
        sample(
            (1, 4, 6, 5), (6, 2, 3, 2), strides=(2, 1), pads=(1, 0, 2, 1), dilations=(1, 2),
            groups=2,
        ),
        sample(
            (1, 3, 4, 4), (3, 1, 3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=3
        ),
        sample(
            (1, 2, 3, 3), (4, 1, 1, 1), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), groups=2
        ),
        sample(
            (2, 3, 9), (2, 3, 3), strides=(3,), pads=(0, 1), dilations=(2,), groups=1, dtype=int32
        ),
        sample(
            (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), strides=(1, 2, 1), pads=(0, 1, 0, 0, 0, 1),
            dilations=(1, 1, 1), groups=1,
        ),
        sample(
            (0, 2, 4, 4), (3, 2, 1, 1), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), groups=1
        ),
    ),
    family="contraction",
    doc="Cross-correlation of x (n, c, spatial…) with w (oc, c/groups, kernel…), zero padded.",
)  # fmt: skip

# Einstein summation


def _einsum_labels(equation: str, operands: int) -> tuple[tuple[str, ...], str]:
    """Labels of each operand and of the result; ShapeError if the equation is malformed.

    Without an arrow the result has the labels that occur once, sorted, as in numpy.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = tuple(left.split(","))
    if not all(part.isascii() and (part.isalpha() or not part) for part in (*inputs, right)):
        raise ShapeError(f"einsum: expected letters, commas and one arrow, got {equation!r}")
    if len(inputs) != operands:
        raise ShapeError(f"einsum: expected {operands} terms for its operands, got {equation!r}")
    counts = Counter(left.replace(",", ""))
    if not arrow:
        right = "".join(sorted(label for label, count in counts.items() if count == 1))
    if len(set(right)) != len(right) or not set(right) <= set(counts):
        raise ShapeError(
            f"einsum: expected each result label once and among the operands', got {equation!r}"
        )
    return inputs, right


def _einsum_extents(inputs: tuple[str, ...], shapes: tuple[Shape, ...]) -> dict[str, int]:
    """The extent of each label: sizes agree, or are one and broadcast between operands."""
    extents: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        if len(labels) != len(shape):
            raise ShapeError(f"einsum: expected rank {len(labels)} for {labels!r}, got {shape}")
        own: dict[str, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise ShapeError(
                    f"einsum: expected equal sizes for {label!r}, got {own[label]} and {size}"
                )
        for label, size in own.items():
            known = extents.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise ShapeError(
                    f"einsum: expected equal sizes for {label!r}, got {known} and {size}"
                )
            extents[label] = size if known == 1 else known
    return extents


def _einsum_type(*types: TensorType, equation: str) -> TensorType:
    dtype = require_numbers("einsum", *types)
    inputs, result = _einsum_labels(equation, len(types))
    extents = _einsum_extents(inputs, tuple(type.shape for type in types))
    return TensorType(dtype, tuple(extents[label] for label in result))


def _einsum_compute(*tensors: Tensor, equation: str) -> TensorExpr:
    inputs, result = _einsum_labels(equation, len(tensors))
    extents = _einsum_extents(inputs, tuple(tensor.shape for tensor in tensors))
    summed = [label for label in sorted(extents) if label not in result]

    def product(axes: dict[str, Axis]) -> Expr:
        factors = [
            element(tensor, tuple(axes[label] for label in labels))
            for tensor, labels in zip(tensors, inputs, strict=True)
        ]
        return prod(factors[1:], start=factors[0])

    def body(*outputs: Axis) -> Expr:
        kept = dict(zip(result, outputs, strict=True))
        if not summed:
            return product(kept)

        def inner(*axes: Axis) -> Expr:
            return product({**kept, **dict(zip(summed, axes, strict=True))})

        return reduce_sum([extents[label] for label in summed], inner, names=summed)

    return compute(tuple(extents[label] for label in result), body, names=list(result))


def _einsum_reference(*arrays: Array, equation: str) -> Array:
    result: Array = np.asarray(np.einsum(equation, *(computed(array) for array in arrays)))
    return result.astype(arrays[0].dtype)


einsum = OpSpec(
    name="einsum",
    arity=None,
    params=("equation",),
    infer=_einsum_type,
    compute=_einsum_compute,
    reference=_einsum_reference,
    samples=(
        sample((3, 4), (4, 5), equation="ik,kj->ij"),
        sample((2, 3, 4), (2, 5, 4), equation="bhd,bqd->hbq"),
        sample((3, 3), equation="ii->i"),
        sample((3, 3), dtype=int64, equation="ii->"),
        sample((2, 3), equation="ij->ji"),
        sample((2, 3), (1, 3), (3,), equation="ij,ij,j->i"),
        sample((2, 3), (3, 4), equation="ab,bc"),
        Sample((TensorType(float64, ()), TensorType(float64, (2,))), (("equation", ",a->a"),)),
    ),
    family="contraction",
    doc="Einstein summation with letters for axes; repeated letters take diagonals.",
)

CONTRACTION: tuple[OpSpec, ...] = (matmul, conv, einsum)
