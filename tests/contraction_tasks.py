"""Contractions to test on: matrix products, convolutions and epilogues as tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tensorgen.composition import renumber_operands
from tensorgen.expr import (
    Expr,
    Tensor,
    TensorExpr,
    all_of,
    cast,
    compute,
    const,
    maximum,
    reduce_sum,
    select,
)
from tensorgen.machine import Core
from tensorgen.simplify import simplify_tensor
from tensorgen.target import TARGET_NAMES, Target
from tensorgen.task import Task
from tensorgen.types import Array, DType, Shape, TensorType, bfloat16, float32, int64
from tensorgen.typical_machine import typical_machine


def typical_core(isa: str, dtype: DType = float32) -> Core:
    """A core of the first target with that instruction set."""
    targets = (Target.named(name) for name in TARGET_NAMES if name != "host")
    target = next(target for target in targets if target.isa == isa)
    core = Core.of(target.isa, dtype, typical_machine(target))
    assert core is not None
    return core


def costing(**costs: float) -> Core:
    """The typical core of AVX-512 with other costs of single things."""
    core = typical_core("avx512")
    return replace(core, costs=replace(core.costs, **costs))


def stage_of(inputs: Sequence[Shape], dtype: DType, body: Callable[..., TensorExpr]) -> TensorExpr:
    """A stage over operands of those shapes."""
    return body(*(Tensor(n, TensorType(dtype, shape)) for n, shape in enumerate(inputs)))


def task_of(
    inputs: Sequence[Shape],
    stage: TensorExpr,
    constant: Sequence[bool] = (),
    dtype: DType = float32,
) -> Task:
    """A task of one stage."""
    types = tuple(TensorType(dtype, shape) for shape in inputs)
    return Task(types, (stage,), (0,), tuple(constant) or (False,) * len(types))


def matmul(
    batch: Shape,
    rows: int,
    columns: int,
    depth: int,
    *,
    transposed: tuple[bool, bool] = (False, False),
    shared: bool = False,
    constant: tuple[bool, bool] = (False, False),
    dtype: DType = float32,
) -> Task:
    """`out[b,i,j] = sum(k) x[b,i,k] * y[b,k,j]`; each operand may lie transposed, y may lack the
    batch axes."""
    x_shape = (depth, rows) if transposed[0] else (rows, depth)
    y_shape = (columns, depth) if transposed[1] else (depth, columns)
    inputs = ((*batch, *x_shape), y_shape if shared else (*batch, *y_shape))

    def body(x: Tensor, y: Tensor) -> TensorExpr:
        def element(*axes: Expr) -> Expr:
            *b, i, j = axes

            def product(k: Expr) -> Expr:
                left = (k, i) if transposed[0] else (i, k)
                right = (j, k) if transposed[1] else (k, j)
                return x[(*b, *left)] * y[right if shared else (*b, *right)]

            return reduce_sum(depth, product)

        return compute((*batch, rows, columns), element)

    return task_of(inputs, stage_of(inputs, dtype, body), constant, dtype)


def convolution(
    outputs: Shape,
    kernel: Shape,
    *,
    channels: tuple[int, int],
    groups: int = 1,
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    batch: int = 1,
    constant: tuple[bool, bool] = (False, True),
    dtype: DType = float32,
) -> Task:
    """A convolution without padding; `channels` counts a group's inputs and outputs."""
    steps = tuple(strides) or (1,) * len(kernel)
    spread = tuple(dilations) or (1,) * len(kernel)
    sizes = tuple(
        (o - 1) * s + (k - 1) * d + 1
        for o, k, s, d in zip(outputs, kernel, steps, spread, strict=True)
    )
    inner, outer = channels
    inputs = ((batch, groups * inner, *sizes), (groups * outer, inner, *kernel))

    def body(x: Tensor, w: Tensor) -> TensorExpr:
        def element(*axes: Expr) -> Expr:
            n, oc, *position = axes

            def product(ic: Expr, *window: Expr) -> Expr:
                where = tuple(
                    p * s + k * d
                    for p, s, k, d in zip(position, steps, window, spread, strict=True)
                )
                channel = ic if groups == 1 else oc // outer * inner + ic
                return x[(n, channel, *where)] * w[(oc, ic, *window)]

            return reduce_sum((inner, *kernel), product)

        return compute((batch, groups * outer, *outputs), element)

    return task_of(inputs, stage_of(inputs, dtype, body), constant, dtype)


def phases(size: Shape, channels: tuple[int, int], kernel: int = 2) -> Task:
    """The sums of a transposed convolution of stride 2, in front of its padding: results of two
    phases along each axis read the same taps, the second one element further."""
    inner, outer = channels
    halves = (2,) * len(size)
    inputs = (
        (inner, *(extent + kernel for extent in size)),
        (outer, *halves, inner, *(kernel,) * len(size)),
    )

    def body(x: Tensor, w: Tensor) -> TensorExpr:
        def element(oc: Expr, *axes: Expr) -> Expr:
            half, place = axes[: len(size)], axes[len(size) :]

            def product(ic: Expr, *window: Expr) -> Expr:
                where = (p + h + k for p, h, k in zip(place, half, window, strict=True))
                return x[(ic, *where)] * w[(oc, *half, ic, *window)]

            return reduce_sum((inner, *(kernel,) * len(size)), product)

        return compute((outer, *halves, *size), element)

    return task_of(inputs, stage_of(inputs, float32, body), (False, True))


def padded(task: Task, before: Sequence[int], after: Sequence[int]) -> Task:
    """The task with the outside of its first input, along the last axes, made by a prologue: that
    many elements in front and behind are not read but zero."""
    whole = task.inputs[0]
    count, outer = len(task.inputs), len(whole.shape) - len(before)
    fronts = (*(0,) * outer, *before)
    behind = (*(0,) * outer, *after)
    shape = tuple(e - b - a for e, b, a in zip(whole.shape, fronts, behind, strict=True))
    assert min(shape) > 0, "padding leaves nothing"
    source = Tensor(0, TensorType(whole.dtype, shape))

    def element(*axes: Expr) -> Expr:
        places = [axis - front for axis, front in zip(axes, fronts, strict=True)]
        inside = [
            condition
            for place, extent in zip(places, shape, strict=True)
            for condition in (const(0, int64) <= place, place < extent)
        ]
        return select(all_of(inside), source[tuple(places)], const(0, whole.dtype))

    stage = simplify_tensor(compute(whole.shape, element))
    numbers = {0: count, **{n: n for n in range(1, count)}}
    numbers |= {count + n: count + n + 1 for n in range(len(task.stages))}
    stages = [renumber_operands(later, numbers) for later in task.stages]
    types = (source.type, *task.inputs[1:])
    return Task(types, (stage, *stages), (len(stages),), task.constant)


def with_epilogue(task: Task, kind: str) -> Task:
    """The task followed by an elementwise stage on its result."""
    total = task.stages[0].type
    count = len(task.inputs)
    extra: tuple[TensorType, ...] = ()

    def value(*axes: Expr) -> Expr:
        return stage[axes]

    match kind:
        case "bias":
            extra = (TensorType(total.dtype, total.shape[-1:]),)
        case "row bias":
            extra = (TensorType(total.dtype, (*total.shape[-2:-1], 1)),)
        case "residual" | "transposed residual":
            extra = (total,)
        case _:
            pass
    # The stage's operand number follows the inputs, the extra one included.
    stage = Tensor(count + len(extra), total)
    added = Tensor(count, extra[0]) if extra else None
    shape = total.shape
    match kind:
        case "bias":
            assert added is not None
            epilogue = compute(
                shape, lambda *a: maximum(value(*a) + added[a[-1]], const(0, total.dtype))
            )
        case "row bias":
            assert added is not None
            epilogue = compute(shape, lambda *a: value(*a) + added[a[-2], const(0, int64)])
        case "residual":
            assert added is not None
            epilogue = compute(shape, lambda *a: value(*a) * 0.5 + added[a])
        case "transpose" | "transposed residual":
            turned = (*shape[:-2], shape[-1], shape[-2])

            def swapped(*a: Expr) -> Expr:
                position = (*a[:-2], a[-1], a[-2])
                result = value(*position)
                return result + added[position] if added is not None else result

            epilogue = compute(turned, swapped)
        case "flatten":
            strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
            epilogue = compute(
                (prod(shape),),
                lambda a: value(*(a // s % e for s, e in zip(strides, shape, strict=True))),
            )
        case "interleave":
            # The first axis becomes the digits of the last: neighbours in a row lie apart.
            first, *between, last = shape

            def digits(*a: Expr) -> Expr:
                return value(a[-1] % first, *a[:-1], a[-1] // first)

            epilogue = compute((*between, last * first), digits)
        case "narrow":
            epilogue = compute(shape, lambda *a: cast(value(*a), bfloat16))
        case _:
            raise AssertionError(kind)
    constant = (*task.constant, *(False,) * len(extra))
    return Task((*task.inputs, *extra), (task.stages[0], epilogue), (1,), constant)


EPILOGUES = (
    "bias", "row bias", "residual", "transpose", "transposed residual", "flatten", "interleave",
    "narrow",
)  # fmt: skip


def whole_inputs(task: Task, seed: int = 0) -> list[Array]:
    """Small whole numbers, of which all sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, t.shape).astype(t.dtype.numpy) for t in task.inputs]
