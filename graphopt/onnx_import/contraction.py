"""Importers of contractions: MatMul, Gemm, Einsum, convolutions, and BatchNormalization.

BatchNormalization is a scale and a shift per channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from string import ascii_letters

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode, same_type, spatial_shape
from graphopt.onnx_import.sliding import (
    auto_pad_mode,
    explicit_pads,
    per_axis,
    sliding_windows,
    split_padding,
)
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    cast,
    reshape,
    slice_all,
    transpose,
    with_scalar,
)
from tensorgen.types import Shape

MAX_PHASES = 4096
"""A transposed convolution with more phases (the product of its strides) is refused."""


def matrix_product(node: OnnxNode, x: Value, y: Value) -> Value:
    """numpy's matmul: operands of rank 1 are a row on the left and a column on the right."""
    if x.type.rank == 0 or y.type.rank == 0:
        raise node.error("operands of rank at least 1", f"{x.type} and {y.type}")
    left = reshape(x, (1, *x.type.shape)) if x.type.rank == 1 else x
    right = reshape(y, (*y.type.shape, 1)) if y.type.rank == 1 else y
    result: Value = OP["matmul"](left, right)
    shape = list(result.type.shape)
    if x.type.rank == 1:
        del shape[-2]
    if y.type.rank == 1:
        del shape[-1]
    return reshape(result, tuple(shape))


def _matmul(node: OnnxNode) -> tuple[Value, ...]:
    return (matrix_product(node, node.input(0), node.input(1)),)


def _gemm(node: OnnxNode) -> tuple[Value, ...]:
    """alpha * op(a) @ op(b) + beta * c."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    if a.type.rank != 2 or b.type.rank != 2:
        raise node.error("matrices", f"{a.type} and {b.type}")
    left = transpose(a, (1, 0)) if node.integer("transA", 0) else a
    right = transpose(b, (1, 0)) if node.integer("transB", 0) else b
    result: Value = _scaled(OP["matmul"](left, right), node.number("alpha", 1.0))
    beta = node.number("beta", 1.0)
    if c is None or beta == 0:
        return (result,)
    total = apply("add", result, _scaled(c, beta))
    if total.type.shape != result.type.shape:
        raise node.error(f"c that broadcasts to {list(result.type.shape)}", c.type)
    return (total,)


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else with_scalar("mul", x, factor)


def _einsum(node: OnnxNode) -> tuple[Value, ...]:
    operands = node.operands
    equation = _without_ellipsis(node, node.text("equation"), operands)
    return (OP["einsum"](*operands, equation=equation),)


def _without_ellipsis(node: OnnxNode, equation: str, operands: tuple[Value, ...]) -> str:
    """The equation with unused letters in place of each ellipsis, aligned from the right."""
    text = "".join(equation.split())
    if "..." not in text:
        return text
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise node.error(f"an equation with {len(operands)} terms", quoted(equation))
    hidden = [
        value.type.rank - len(term.replace("...", ""))
        for term, value in zip(terms, operands, strict=True)
        if "..." in term
    ]
    unused = [letter for letter in ascii_letters if letter not in text]
    depth = max(hidden, default=0)
    if min(hidden, default=0) < 0 or depth > len(unused):
        raise node.error("an equation that fits its operands", quoted(equation))
    letters = "".join(unused[:depth])
    expanded = [
        term.replace("...", letters[depth - (value.type.rank - len(term.replace("...", ""))) :])
        for term, value in zip(terms, operands, strict=True)
    ]
    if not arrow:
        counts = left.replace(",", "").replace("...", "")
        right = "..." + "".join(sorted(c for c in set(counts) if counts.count(c) == 1))
    return f"{','.join(expanded)}->{right.replace('...', letters)}"


# Convolution


def convolution(node: OnnxNode, x: Value, w: Value) -> Value:
    """The convolution that the node's attributes describe, without bias."""
    sizes = spatial_shape(node, x)
    if w.type.rank != x.type.rank:
        raise node.error(f"weights of rank {x.type.rank}", w.type)
    if node.integers("kernel_shape", w.type.shape[2:]) != w.type.shape[2:]:
        raise node.error(f"kernel_shape {list(w.type.shape[2:])}", node.integers("kernel_shape"))
    windows = sliding_windows(node, sizes, w.type.shape[2:])
    x, before = _cropped(x, windows.before, leading=2, end=False)
    x, after = _cropped(x, windows.after, leading=2, end=True)
    return OP["conv"](
        x,
        w,
        strides=windows.strides,
        pads=(*before, *after),
        dilations=windows.dilations,
        groups=node.integer("group", 1),
    )


def _cropped(x: Value, pads: Shape, *, leading: int, end: bool) -> tuple[Value, Shape]:
    """x without the elements that negative pads remove, and the pads that remain."""
    crops = (*((0,) * leading), *(max(-size, 0) for size in pads))
    sizes = tuple(size - crop for size, crop in zip(x.type.shape, crops, strict=True))
    starts = (0,) * x.type.rank if end else crops
    return slice_all(x, starts, (1,) * x.type.rank, sizes), tuple(max(size, 0) for size in pads)


def biased(x: Value, bias: Value | None) -> Value:
    """x plus one number per channel (axis 1)."""
    return x if bias is None else apply("add", x, per_channel(bias, x.type.rank))


def per_channel(x: Value, rank: int) -> Value:
    """A vector laid along axis 1 of a tensor of that rank."""
    return reshape(x, (x.type.size, *((1,) * (rank - 2))))


def _conv(node: OnnxNode) -> tuple[Value, ...]:
    return (biased(convolution(node, node.input(0), node.input(1)), _bias(node)),)


def _bias(node: OnnxNode) -> Value | None:
    bias = node.optional(2)
    if bias is None:
        return None
    if bias.type.rank != 1:
        raise node.error("a bias of rank 1", bias.type)
    same_type(node, node.input(0), bias)
    return bias


# Transposed convolution


def _conv_transpose(node: OnnxNode) -> tuple[Value, ...]:
    """Output position o = i * stride + k * dilation - before, summed over i and k."""
    x, w = node.input(0), node.input(1)
    sizes = spatial_shape(node, x)
    rank = len(sizes)
    groups = node.integer("group", 1)
    if w.type.rank != x.type.rank or groups < 1 or w.type.shape[0] % groups:
        raise node.error(f"weights of rank {x.type.rank} in {groups} groups", w.type)
    same_type(node, x, w)
    kernel = w.type.shape[2:]
    if node.integers("kernel_shape", kernel) != kernel or any(size < 1 for size in kernel):
        raise node.error(f"kernel_shape {list(kernel)} of at least 1", "another")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    if prod(strides) > MAX_PHASES:
        raise node.unsupported(f"strides with a product of at most {MAX_PHASES}", strides)
    before, outputs = _transposed_extents(node, sizes, kernel, strides, dilations)
    if any(size < 1 for size in outputs):
        raise node.error("output sizes of at least 1", list(outputs))
    parts = zip(sizes, kernel, strides, dilations, before, outputs, strict=True)
    after = tuple(
        (size - 1) * stride + (taps - 1) * dilation + 1 - low - kept
        for size, taps, stride, dilation, low, kept in parts
    )
    result = OP["conv_transpose"](
        x,
        _as_conv_takes_them(w, groups),
        strides=strides,
        pads=(*before, *after),
        dilations=dilations,
        groups=groups,
    )
    return (biased(result, _bias(node)),)


def _transposed_extents(
    node: OnnxNode, sizes: Shape, kernel: Shape, strides: Shape, dilations: Shape
) -> tuple[Shape, Shape]:
    """What is cut off the front of each axis, and the output sizes."""
    rank = len(sizes)
    added = per_axis(node, "output_padding", rank, 0) if node.has("output_padding") else (0,) * rank
    full = tuple(
        (size - 1) * stride + extra + (taps - 1) * dilation + 1
        for size, stride, extra, taps, dilation in zip(
            sizes, strides, added, kernel, dilations, strict=True
        )
    )
    mode = auto_pad_mode(node)
    wanted = node.integers("output_shape", ())
    if wanted:
        if len(wanted) < rank:
            raise node.error(f"output_shape with {rank} sizes", list(wanted))
        outputs = tuple(wanted[-rank:])
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        outputs = tuple(size * stride for size, stride in zip(sizes, strides, strict=True))
    else:
        begin, end = explicit_pads(node, rank) if mode == "NOTSET" else ((0,) * rank,) * 2
        outputs = tuple(f - b - e for f, b, e in zip(full, begin, end, strict=True))
        return begin, outputs
    totals = tuple(f - o for f, o in zip(full, outputs, strict=True))
    begin, _ = split_padding(mode, totals)
    return begin, outputs


def _as_conv_takes_them(w: Value, groups: int) -> Value:
    """Weights (c, oc / groups, taps…) as (oc, c / groups, taps…)."""
    channels, per_group, *taps = w.type.shape
    grouped = reshape(w, (groups, channels // groups, per_group, *taps))
    swapped = transpose(grouped, (0, 2, 1, *range(3, grouped.type.rank)))
    return reshape(swapped, (groups * per_group, channels // groups, *taps))


# Normalization


def _batch_normalization(node: OnnxNode) -> tuple[Value, ...]:
    """x * s + b per channel, s = scale / sqrt(variance + epsilon), b = bias - mean * s."""
    if node.integer("training_mode", 0):
        return _batch_normalization_in_training(node)
    x = node.input(0)
    scale, bias, mean, variance = (node.input(position) for position in (1, 2, 3, 4))
    return (_normalised(node, x, scale, bias, mean, variance),)


def _normalised(
    node: OnnxNode, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
) -> Value:
    if x.type.rank < 2 or node.integer("spatial", 1) == 0:
        raise node.unsupported("x of shape (n, c, …), normalized per channel", x.type)
    for vector in (scale, bias, mean, variance):
        if vector.type.shape != (x.type.shape[1],):
            raise node.error(f"vectors of {x.type.shape[1]} channels", vector.type)
    wide = mean.type.dtype
    deviation = apply("sqrt", with_scalar("add", variance, node.number("epsilon", 1e-5)))
    factor = apply("div", cast(scale, wide), deviation)
    offset = apply("sub", cast(bias, wide), apply("mul", mean, factor))
    rank = x.type.rank
    scaled = apply("mul", cast(x, wide), per_channel(factor, rank))
    return cast(apply("add", scaled, per_channel(offset, rank)), x.type.dtype)


def _batch_normalization_in_training(node: OnnxNode) -> tuple[Value, ...]:
    """Normalizes by the batch's own mean and variance; also gives the running ones."""
    x, scale, bias, mean, variance = (node.input(position) for position in range(5))
    axes = (0, *range(2, x.type.rank))
    count = prod(x.type.shape[axis] for axis in axes)
    if x.type.rank < 2 or count == 0:
        raise node.error("x of shape (n, c, …) with elements", x.type)
    wide = cast(x, mean.type.dtype)
    batch_mean = _average(wide, axes, count)
    centred = apply("sub", wide, per_channel(batch_mean, x.type.rank))
    batch_variance = _average(apply("mul", centred, centred), axes, count)
    momentum = node.number("momentum", 0.9)
    running = (
        apply(
            "add",
            with_scalar("mul", old, momentum),
            with_scalar("mul", new, 1 - momentum),
        )
        for old, new in ((mean, batch_mean), (variance, batch_variance))
    )
    return (_normalised(node, x, scale, bias, batch_mean, batch_variance), *running)


def _average(x: Value, axes: Shape, count: int) -> Value:
    return with_scalar("div", OP["reduce_sum"](x, axes=axes, keepdims=False), count)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "BatchNormalization"): _batch_normalization,
    ("", "Conv"): _conv,
    ("", "ConvTranspose"): _conv_transpose,
    ("", "Einsum"): _einsum,
    ("", "Gemm"): _gemm,
    ("", "MatMul"): _matmul,
}
