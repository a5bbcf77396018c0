"""Importers of signal processing: DFT, STFT and MelWeightMatrix.

A discrete Fourier transform is a product with a constant matrix of cosines and sines. A long one
is split in two shorter ones with a rotation between them (Cooley and Tukey, 1965), which takes
about n * sqrt(n) instead of n * n multiplications. Complex numbers lie along a last axis of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Value
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.onnx_import.protobuf import element_type
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    concat,
    integers,
    pad,
    reshape,
    scalar,
    slice_axis,
    tensor,
    transpose,
)

Matrix = NDArray[np.float64]
Positions = NDArray[np.int64]

SPLIT_LENGTH = 512
"""Transforms at least so long are split, if their length has a divisor above a small one."""

SMALLEST_FACTOR = 4

MAX_MATRIX = 2**25
"""Transforms whose matrix would have more elements are refused."""


def _circle(length: int, rows: Positions, columns: Positions, sign: int) -> tuple[Matrix, Matrix]:
    """cos and sin of sign * 2 pi row * column / length; products are reduced exactly first."""
    angle = sign * 2 * np.pi / length * (np.outer(rows, columns) % length)
    return np.cos(angle), np.sin(angle)


def _complex_matrix(cosine: Matrix, sine: Matrix, parts: int) -> Matrix:
    """The matrix of a complex rotation and sum: (rows * parts, columns * 2).

    Rows are real numbers if `parts` is 1, and pairs of real and imaginary part if it is 2.
    """
    rows, columns = cosine.shape
    result = np.empty((rows, 2, columns, 2))
    result[:, 0, :, 0], result[:, 0, :, 1] = cosine, sine
    result[:, 1, :, 0], result[:, 1, :, 1] = -sine, cosine
    return result[:, :parts].reshape(rows * parts, columns * 2)


def _factor(length: int) -> int:
    """The largest divisor up to the square root."""
    return next(n for n in range(isqrt(length), 0, -1) if length % n == 0)


def _transform(node: OnnxNode, x: Value, length: int, bins: int, sign: int) -> Value:
    """The sums over t of x[t] * e^(sign * 2 pi i k t / length), k = 0 … bins-1.

    x is (outer, steps, 1 or 2) with at most `length` steps; the result is (outer, bins, 2).
    """
    outer, steps, parts = x.type.shape
    factor = _factor(length)
    if length >= SPLIT_LENGTH and factor >= SMALLEST_FACTOR:
        padded = pad(x, (0, 0, 0), (0, length - steps, 0))
        return slice_axis(_split_transform(node, padded, factor, sign), 1, 0, bins)
    if steps * parts * bins * 2 > MAX_MATRIX:
        raise node.unsupported("a transform of moderate or highly composite length", length)
    cosine, sine = _circle(length, np.arange(steps), np.arange(bins), sign)
    matrix = tensor(_complex_matrix(cosine, sine, parts), x.type.dtype)
    result = OP["matmul"](reshape(x, (outer, steps * parts)), matrix)
    return reshape(result, (outer, bins, 2))


def _split_transform(node: OnnxNode, x: Value, factor: int, sign: int) -> Value:
    """A transform of length first * second, with t = second * a + b and k = c + first * d."""
    outer, length, parts = x.type.shape
    first, second = factor, length // factor
    apart = transpose(reshape(x, (outer, first, second, parts)), (0, 2, 1, 3))
    inner = _transform(node, reshape(apart, (outer * second, first, parts)), first, first, sign)
    cosine, sine = _circle(length, np.arange(second), np.arange(first), sign)
    rotated = _rotated(reshape(inner, (outer, second, first, 2)), cosine, sine)
    columns = reshape(transpose(rotated, (0, 2, 1, 3)), (outer * first, second, 2))
    result = _transform(node, columns, second, second, sign)
    ordered = transpose(reshape(result, (outer, first, second, 2)), (0, 2, 1, 3))
    return reshape(ordered, (outer, length, 2))


def _rotated(x: Value, cosine: Matrix, sine: Matrix) -> Value:
    """Complex numbers (…, 2) times constant ones."""
    swapped = slice_axis(x, x.type.rank - 1, 1, 2, -1)
    straight = tensor(np.stack([cosine, cosine], axis=-1), x.type.dtype)
    crossed = tensor(np.stack([-sine, sine], axis=-1), x.type.dtype)
    return apply("add", apply("mul", x, straight), apply("mul", swapped, crossed))


def _real_inverse(node: OnnxNode, x: Value, length: int) -> Value:
    """The real signal of that length from the first half of its spectrum: (outer, length, 1)."""
    half = min(x.type.shape[1], length // 2 + 1)
    if half * 2 * length > MAX_MATRIX:
        raise node.unsupported("a real inverse transform of moderate length", length)
    cosine, sine = _circle(length, np.arange(half), np.arange(length), 1)
    # Every bin but the first, and the middle one of an even length, stands for its mirror too.
    counts = np.full((half, 1), 2.0)
    counts[0] = 1
    if length % 2 == 0 and half == length // 2 + 1:
        counts[-1] = 1
    matrix = np.stack([cosine * counts, -sine * counts], axis=1) / length
    outer = x.type.shape[0]
    spectrum = reshape(slice_axis(x, 1, 0, half), (outer, half * 2))
    result = OP["matmul"](spectrum, tensor(matrix.reshape(half * 2, length), x.type.dtype))
    return reshape(result, (outer, length, 1))


def _dft(node: OnnxNode) -> tuple[Value, ...]:
    """The axis is an attribute up to opset 19 and an operand after."""
    x = node.input(0)
    rank = x.type.rank
    if rank < 2 or x.type.shape[-1] not in (1, 2):
        raise node.error("a signal of shape (…, 1 or 2)", x.type)
    if node.version < 20:
        axis = node.integer("axis", 1)
    else:
        axis = -2 if node.optional(2) is None else node.integer_of(2, "the axis")
    axis = node.axis(axis, rank)
    if axis == rank - 1:
        raise node.error("an axis of the signal", axis)
    inverse, onesided = node.integer("inverse", 0) != 0, node.integer("onesided", 0) != 0
    size = x.type.shape[axis]
    length = 2 * (size - 1) if inverse and onesided else size
    if node.optional(1) is not None:
        length = node.integer_of(1, "the length of the transform")
    if not 1 <= length <= MAX_MATRIX or size < 1:
        raise node.error(f"a transform of length 1 to {MAX_MATRIX}", length)
    perm = (*(n for n in range(rank - 1) if n != axis), axis, rank - 1)
    moved = transpose(x, perm)
    leading = moved.type.shape[:-2]
    flat = reshape(moved, (prod(leading), size, x.type.shape[-1]))
    result = _transformed(node, slice_axis(flat, 1, 0, min(size, length)), length,
                          inverse=inverse, onesided=onesided)  # fmt: skip
    shaped = reshape(result, (*leading, *result.type.shape[1:]))
    return (transpose(shaped, tuple(int(n) for n in np.argsort(perm))),)


def _transformed(node: OnnxNode, x: Value, length: int, *, inverse: bool, onesided: bool) -> Value:
    if not inverse:
        bins = length // 2 + 1 if onesided else length
        return _transform(node, x, length, bins, -1)
    if not onesided:
        return apply("mul", _transform(node, x, length, length, 1),
                     scalar(1 / length, x.type.dtype))  # fmt: skip
    if x.type.shape[2] == 1:
        x = concat([x, apply("mul", x, scalar(0, x.type.dtype))], 2)
    return _real_inverse(node, x, length)


def _stft(node: OnnxNode) -> tuple[Value, ...]:
    x, window = node.input(0), node.optional(2)
    if x.type.rank == 2:
        x = reshape(x, (*x.type.shape, 1))
    if x.type.rank != 3 or x.type.shape[2] not in (1, 2):
        raise node.error("a signal of shape (batch, length, 1 or 2)", x.type)
    batch, size, parts = x.type.shape
    step = node.integer_of(1, "the frame step")
    length = size
    if node.optional(3) is not None:
        length = node.integer_of(3, "the frame length")
    elif window is not None:
        length = window.type.size
    if step < 1 or not 1 <= length <= size:
        raise node.error(f"frames of 1 to {size} samples at a step of at least 1", (length, step))
    if window is not None and window.type.shape != (length,):
        raise node.error(f"a window of {length} numbers", window.type)
    frames = (size - length) // step + 1
    starts = [frame * step + n for frame in range(frames) for n in range(length)]
    framed = reshape(OP["gather"](x, integers(starts), axis=1), (batch * frames, length, parts))
    if window is not None:
        framed = apply("mul", framed, reshape(window, (length, 1)))
    bins = length // 2 + 1 if node.integer("onesided", 1) else length
    result = _transform(node, framed, length, bins, -1)
    return (reshape(result, (batch, frames, bins, 2)),)


def _mel_weight_matrix(node: OnnxNode) -> tuple[Value, ...]:
    """Triangles with peaks equally far apart on the mel scale: (spectrogram bins, mel bins)."""
    count, length, rate = (
        node.integer_of(position, purpose)
        for position, purpose in enumerate(("the number of bins", "the DFT length", "the rate"))
    )
    low, high = (
        float(node.constant(position, "an edge frequency").reshape(-1)[0]) for position in (3, 4)
    )
    if count < 1 or length < 1 or rate < 1 or (length // 2 + 1) * count > MAX_MATRIX:
        raise node.error("a mel matrix of moderate size", (length, count))
    low_mel, high_mel = (2595 * np.log10(1 + edge / 700) for edge in (low, high))
    mel = low_mel + np.arange(count + 2) * (high_mel - low_mel) / (count + 2)
    frequencies = 700 * (10 ** (mel / 2595) - 1)
    points = np.floor((length + 1) * frequencies / rate).astype(np.int64)
    left, centre, right = points[:-2], points[1:-1], points[2:]
    bins = np.arange(length // 2 + 1)[:, None]
    rising = (bins - left) / np.maximum(centre - left, 1)
    falling = (right - bins) / np.maximum(right - centre, 1)
    inside = np.where(bins <= centre, rising, falling)
    weights = np.where((bins < left) | (bins >= right), 0.0, inside)
    weights = np.where(bins == centre, 1.0, weights)
    dtype = element_type(node.integer("output_datatype", 1), node.place)
    return (Constant(weights.astype(dtype.numpy)),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "DFT"): _dft,
    ("", "MelWeightMatrix"): _mel_weight_matrix,
    ("", "STFT"): _stft,
}
