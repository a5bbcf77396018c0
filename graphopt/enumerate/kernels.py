"""Batched evaluation of operators on residues and shadows.

What it does: for one operator on operands of given shapes, computes the results of a whole batch of
operand tuples. Where elements move and which of them meet is not written down here: it is read off
`OpSpec.reference`, run on the numbers of the elements.

What it does not: decide which operators there are (`vocabulary`), combine anything (`levels`), or
fingerprint results (`projections`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from graphopt.enumerate.fields import (
    Floats,
    Values,
    Worlds,
    exponentials,
    inverse,
    product,
    random_function,
    reduced,
)
from graphopt.graph import Param
from graphopt.ops.spec import OpSpec
from graphopt.ops.windows import Windows
from tensorgen.types import Shape

Indices = NDArray[np.intp]


# Kernels of one operand


@dataclass(frozen=True, slots=True)
class Move:
    """Element o of the result is element `source[o]` of the operand, or 0 where that is -1."""

    source: Indices
    shape: Shape


@dataclass(frozen=True, slots=True)
class Fold:
    """Element o is the sum, or the largest, of the elements `sources[o]`; -1 is left out."""

    sources: Indices
    shape: Shape
    largest: bool


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A function of each element: neg, relu, exp, sigmoid or tanh."""

    name: str


# Kernels of two operands


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Element o is element `source[o]` of both operands, flattened one after the other.

    `cut` is the number of elements of the left operand.
    """

    source: Indices
    cut: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Elementwise:
    """add, sub, mul or div of elements `left[o]` and `right[o]` of the operands."""

    name: str
    left: Indices
    right: Indices
    shape: Shape


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """Matrices in the last two axes; the left operand may be a stack, the right one too."""

    left: Shape
    right: Shape
    shape: Shape


@dataclass(frozen=True, slots=True)
class Convolution:
    """`windows[n, c, output, kernel]` is the element of the left operand there, -1 in padding.

    The spatial axes of outputs and kernel are flattened; `groups` as in `graphopt.ops.conv`.
    """

    windows: Indices
    elements: int
    weights: Shape
    groups: int
    shape: Shape


UnaryKernel = Move | Fold | Pointwise
BinaryKernel = Concatenation | Elementwise | MatrixProduct | Convolution
Kernel = UnaryKernel | BinaryKernel


def kernel_of(op: OpSpec, params: Mapping[str, Param], shapes: tuple[Shape, ...]) -> Kernel:
    """The kernel of an operator on operands of given shapes.

    Literal operands are left out of `shapes`: max has the literal 0, pad the fill value 0.
    """
    numbers = [np.arange(np.prod(shape, dtype=int)).reshape(shape) for shape in shapes]
    match op.name:
        case "max":
            return Pointwise("relu")
        case "neg" | "exp" | "sigmoid" | "tanh":
            return Pointwise(op.name)
        case "transpose" | "slice" | "reshape":
            moved = np.asarray(op.reference(numbers[0], **params))
            return Move(moved.reshape(-1), moved.shape)
        case "pad":
            moved = np.asarray(op.reference(numbers[0], np.asarray(-1), **params))
            return Move(moved.reshape(-1), moved.shape)
        case "sum_pool" | "max_pool":
            view = _windows(op, numbers[0], params, params["kernel"])
            places = view.reshape(*view.shape[: len(shapes[0])], -1)
            return _fold(places, op.name == "max_pool")
        case "reduce_sum" | "reduce_max":
            axes = params["axes"]
            assert isinstance(axes, tuple)
            kept = [axis for axis in range(len(shapes[0])) if axis not in axes]
            view = np.transpose(numbers[0], (*kept, *(int(str(axis)) for axis in axes)))
            shape = [1 if axis in axes else size for axis, size in enumerate(shapes[0])]
            if not params["keepdims"]:
                shape = [shapes[0][axis] for axis in kept]
            return _fold(view.reshape(*shape, -1), op.name == "reduce_max")
        case "concat":
            second = numbers[1] + numbers[0].size
            joined = np.asarray(op.reference(numbers[0], second, **params))
            return Concatenation(joined.reshape(-1), numbers[0].size, joined.shape)
        case "add" | "sub" | "mul" | "div":
            left, right = np.broadcast_arrays(*numbers)
            return Elementwise(op.name, left.reshape(-1), right.reshape(-1), left.shape)
        case "matmul":
            batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
            return MatrixProduct(shapes[0], shapes[1], (*batch, shapes[0][-2], shapes[1][-1]))
        case "conv":
            return _convolution(op, params, numbers[0], shapes[1])
        case _:
            raise AssertionError(f"{op.name}: no batched kernel")


def _windows(op: OpSpec, numbers: Indices, params: Mapping[str, Param], kernel: Param) -> Indices:
    strides, pads, dilations = (params[name] for name in ("strides", "pads", "dilations"))
    windows = Windows.of(op.name, numbers.shape[2:], kernel, strides, pads, dilations)  # type: ignore[arg-type]
    return np.asarray(windows.view(numbers, -1))


def _fold(places: Indices, largest: bool) -> Fold:
    shape = places.shape[:-1]
    return Fold(places.reshape(-1, places.shape[-1]), shape, largest)


def _convolution(
    op: OpSpec, params: Mapping[str, Param], numbers: Indices, weights: Shape
) -> Convolution:
    view = _windows(op, numbers, params, weights[2:])
    n, c, *rest = view.shape
    outputs = tuple(rest[: len(rest) // 2])
    flat = view.reshape(n, c, int(np.prod(outputs)), -1)
    groups = params["groups"]
    assert isinstance(groups, int)
    return Convolution(flat, numbers.size, weights, groups, (n, weights[0], *outputs))


# Results of a batch


def compute(kernel: Kernel, worlds: Worlds, *operands: Values) -> Values:
    """The results of the operator on each tuple of operands; all batches have one length."""
    match kernel:
        case Move():
            residues, shadows = operands[0].flat()
            return _shaped(_taken(residues, kernel.source), _taken(shadows, kernel.source), kernel)
        case Fold():
            return _folded(kernel, worlds, operands[0])
        case Pointwise():
            return _pointwise(kernel.name, worlds, operands[0])
        case Concatenation():
            joined = zip(operands[0].flat(), operands[1].flat(), strict=True)
            residues, shadows = (np.concatenate(parts, axis=2) for parts in joined)
            return _shaped(residues[..., kernel.source], shadows[..., kernel.source], kernel)
        case Elementwise():
            return _elementwise(kernel, worlds, *operands)
        case MatrixProduct():
            a, b = operands
            left = _stacked(a.residues, kernel.shape), _stacked(a.shadows, kernel.shape)
            right = _stacked(b.residues, kernel.shape), _stacked(b.shadows, kernel.shape)
            return Values(product(left[0], right[0], worlds.moduli), np.matmul(left[1], right[1]))
        case Convolution():
            return _convolved(kernel, worlds, *operands)
        case _:
            assert_never(kernel)


def _shaped(
    residues: Floats, shadows: Floats, kernel: Move | Fold | Concatenation | Elementwise
) -> Values:
    """Flat results as tensors."""
    return Values(
        residues.reshape(*residues.shape[:2], *kernel.shape),
        shadows.reshape(*shadows.shape[:2], *kernel.shape),
    )


def _taken(flat: Floats, source: Indices, filler: float = 0.0) -> Floats:
    """Elements by number; `filler` where that is -1."""
    result = flat[..., source]
    if (source < 0).any():
        result[..., source < 0] = filler
    return result


def _folded(kernel: Fold, worlds: Worlds, operand: Values) -> Values:
    residues, shadows = operand.flat()
    if not kernel.largest:
        total = reduced(_taken(residues, kernel.sources).sum(-1), worlds.moduli)
        return _shaped(total, _taken(shadows, kernel.sources).sum(-1), kernel)
    # The place in each window one after the other: less to move than all windows at once.
    repeats = len(worlds.moduli) // worlds.count
    places = kernel.sources.T
    chosen = _taken(residues, places[0])
    largest = _taken(shadows, places[0], -np.inf)
    for place in places[1:]:
        other = _taken(shadows, place, -np.inf)
        larger = other > largest
        np.copyto(largest, other, where=larger)
        larger = np.concatenate([larger] * repeats)
        np.copyto(chosen, _taken(residues, place), where=larger)
    return _shaped(chosen, largest, kernel)


def _pointwise(name: str, worlds: Worlds, operand: Values) -> Values:
    residues, real = operand.residues, operand.shadows
    with np.errstate(all="ignore"):
        match name:
            case "neg":
                return Values(reduced(-residues, worlds.moduli), -real)
            case "relu":
                positive = real > 0
                repeats = len(worlds.moduli) // worlds.count
                kept = np.concatenate([positive] * repeats)
                return Values(np.where(kept, residues, 0.0), np.where(positive, real, 0.0))
            case "exp":
                return Values(exponentials(residues, worlds), np.exp(real))
            case "sigmoid":
                return Values(random_function(residues, worlds, 2), 1 / (1 + np.exp(-real)))
            case "tanh":
                return Values(random_function(residues, worlds, 3), np.tanh(real))
            case _:
                raise AssertionError(name)


def _elementwise(kernel: Elementwise, worlds: Worlds, *operands: Values) -> Values:
    (a, real_a), (b, real_b) = (operand.flat() for operand in operands)
    if kernel.name == "div":
        b = inverse(b, worlds.moduli)
    a, real_a = a[..., kernel.left], real_a[..., kernel.left]
    b, real_b = b[..., kernel.right], real_b[..., kernel.right]
    with np.errstate(all="ignore"):
        match kernel.name:
            case "add":
                residues, shadows = a + b, real_a + real_b
            case "sub":
                residues, shadows = a - b, real_a - real_b
            case "mul":
                residues, shadows = a * b, real_a * real_b
            case _:
                residues, shadows = a * b, real_a / real_b
    return _shaped(reduced(residues, worlds.moduli), shadows, kernel)


def _stacked(array: Floats, result: Shape) -> Floats:
    """(channels, n, *batch, i, k) with as many batch axes as the result has."""
    missing = len(result) - (array.ndim - 2)
    return array.reshape(*array.shape[:2], *(1,) * missing, *array.shape[2:])


def _convolved(kernel: Convolution, worlds: Worlds, *operands: Values) -> Values:
    n, c, outputs, terms = kernel.windows.shape
    groups, filters = kernel.groups, kernel.weights[0]
    # Windows as (n, group, output, channel within the group and kernel).
    places = kernel.windows.reshape(n, groups, c // groups, outputs, terms).swapaxes(2, 3)
    places = places.reshape(n, groups, outputs, -1)

    def contracted(x: Floats, w: Floats) -> tuple[Floats, Floats]:
        weights = w.reshape(*w.shape[:2], 1, groups, filters // groups, -1).swapaxes(-1, -2)
        return _taken(x, places), weights

    def arranged(array: Floats) -> Floats:
        channels, count = array.shape[:2]
        return array.swapaxes(-1, -2).reshape(channels, count, *kernel.shape)

    (x, real_x), (w, real_w) = (operand.flat() for operand in operands)
    residues = product(*contracted(x, w), worlds.moduli)
    return Values(arranged(residues), arranged(np.matmul(*contracted(real_x, real_w))))
