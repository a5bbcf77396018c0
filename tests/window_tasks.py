"""Windows to test on: depthwise convolutions and pools with any stride, padding and dilation."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tensorgen.expr import (
    Expr,
    Fold,
    Tensor,
    all_of,
    apply,
    compute,
    const,
    maximum,
    minimum,
    neutral_element,
    reduce,
    select,
)
from tensorgen.simplify import simplify_tensor
from tensorgen.task import Task
from tensorgen.types import Array, DType, TensorType, float32, int64


@dataclass(frozen=True, slots=True)
class Spatial:
    """One spatial axis: size, window, and how the window moves."""

    size: int
    kernel: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1

    @property
    def outputs(self) -> int:
        span = (self.kernel - 1) * self.dilation + 1
        return (self.before + self.size + self.after - span) // self.stride + 1


def window_task(
    spatial: tuple[Spatial, ...],
    *,
    planes: tuple[int, ...] = (1, 3),
    fold: Fold = Fold.SUM,
    weighted: bool = False,
    epilogue: str = "none",
    depth: int = 1,
    dtype: DType = float32,
) -> Task:
    """`fold(k…) x[planes…, …] * w[…]` over windows; what is outside is the neutral element.

    With a `depth`, so many planes are folded into one. Operands: x, then w if weighted, then what
    the epilogue reads: "bias" a number for each plane, "residual" and "scaled" a tensor like the
    result.
    """
    outputs = tuple(axis.outputs for axis in spatial)
    deep = (*planes[:-1], planes[-1] * depth)
    types = [TensorType(dtype, (*deep, *(axis.size for axis in spatial)))]
    if weighted:
        types.append(TensorType(dtype, (planes[-1], depth, *(axis.kernel for axis in spatial))))
    if epilogue == "bias":
        types.append(TensorType(dtype, (planes[-1], *(1 for _ in spatial))))
    elif epilogue in ("residual", "scaled"):
        types.append(TensorType(dtype, (*planes, *outputs)))
    x, *rest = (Tensor(n, type) for n, type in enumerate(types))

    def body(*axes: Expr) -> Expr:
        plane, positions = axes[: len(planes)], axes[len(planes) :]

        def tap(deeper: Expr, *kernel: Expr) -> Expr:
            places = [
                position * axis.stride + k * axis.dilation - axis.before
                for position, k, axis in zip(positions, kernel, spatial, strict=True)
            ]
            guards = [
                guard
                for place, axis in zip(places, spatial, strict=True)
                for guard in (place >= 0, place < axis.size)
            ]
            read = x[(*plane[:-1], plane[-1] * depth + deeper, *places)]
            element = select(all_of(guards), read, neutral_element(fold, dtype))
            return element * rest[0][(plane[-1], deeper, *kernel)] if weighted else element

        folded = reduce(fold, (depth, *(axis.kernel for axis in spatial)), tap)
        return _finished(folded, epilogue, rest, plane, positions, dtype)

    stage = simplify_tensor(compute((*planes, *outputs), body))
    return Task(tuple(types), (stage,), (0,), (False,) * len(types))


def _finished(
    value: Expr,
    epilogue: str,
    operands: list[Tensor],
    plane: tuple[Expr, ...],
    positions: tuple[Expr, ...],
    dtype: DType,
) -> Expr:
    match epilogue:
        case "bias":
            zeros = (const(0, int64),) * len(positions)
            biased = value + operands[-1][(plane[-1], *zeros)]
            return minimum(maximum(biased, const(0, dtype)), const(6, dtype))
        case "residual":
            return value + operands[-1][(*plane, *positions)]
        case "scaled":
            return maximum(operands[-1][(*plane, *positions)], value) - const(1, dtype)
        case "exp":
            return apply("abs", value) + value
        case _:
            return value


def whole_numbers(task: Task, seed: int) -> list[Array]:
    """Small whole numbers for each input: sums of them are exact in any order."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-4, 5, size=prod(type.shape)).reshape(type.shape).astype(type.dtype.numpy)
        for type in task.inputs
    ]
