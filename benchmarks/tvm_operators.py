"""Operators of the suites as TVM is given them: as tensor expressions, in a layout that suits it.

What it does: takes matrix products and 2-D convolutions of the list, says how their operands lie in
TVM's layout, and writes each as a tensor expression whose weights may be laid out anew. What it
does not: tune, or import TVM, which is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np

from tasor.suites.builder import window_shape
from tasor.suites.operators import Workload
from tensorgen.types import Array, Shape

Layout = Literal["nhwc", "nchw"]
LAYOUTS: tuple[Layout, ...] = ("nhwc", "nchw")
"""Of a convolution's activations; weights lie as (kh, kw, in, out) with the first one, and as
(out, in, kh, kw) with the second."""

FROM_NCHW = (0, 2, 3, 1)
FROM_NHWC = (0, 3, 1, 2)
FROM_OIHW = (2, 3, 1, 0)
"""The orders of axes that make one layout of another one."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix (`rows`, `depth`) times a constant one (`depth`, `columns`)."""

    rows: int
    columns: int
    depth: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """A 2-D convolution with square windows of `kernel` taps and constant weights. `x` is the input
    as (batch, channels, height, width)."""

    x: tuple[int, int, int, int]
    out_channels: int
    kernel: int
    stride: int
    pad: int
    layout: Layout


Operator = Product | Convolution


def operator_of(workload: Workload, layout: Layout) -> Operator:
    """The operator of a workload. Raises ValueError for one that is not written here."""
    match workload.operator:
        case "GMM" if workload.batch == 1:
            return Product(workload["m"], workload["n"], workload["k"])
        case "C2D":
            return Convolution(
                (workload.batch, workload["in_channels"], workload["height"], workload["width"]),
                workload["out_channels"], workload["kernel"], workload["stride"], workload["pad"],
                layout,
            )  # fmt: skip
        case _:
            raise ValueError(
                f"{workload.id}: expected a matrix product of batch 1 or a 2-D convolution, got "
                f"{workload.operator} of batch {workload.batch}; choose others by --only"
            )


def output_shape(operator: Operator) -> Shape:
    """The shape of the output in TVM's layout."""
    match operator:
        case Product(rows, columns):
            return rows, columns
        case Convolution((batch, _, *sizes), channels, kernel, stride, pad, layout):
            taps, steps, pads = (kernel,) * 2, (stride,) * 2, (pad,) * 2
            spatial = window_shape(tuple(sizes), taps, steps, pads, (1, 1))
            whole = (batch, channels, *spatial)
            return tuple(whole[axis] for axis in FROM_NCHW) if layout == "nhwc" else whole
        case _:
            assert_never(operator)


def weight_shape(operator: Operator) -> Shape:
    """The shape of the weights in TVM's layout, before it lays them out anew."""
    match operator:
        case Product(_, columns, depth):
            return depth, columns
        case Convolution((_, channels, _, _), outputs, kernel, layout=layout):
            whole = (outputs, channels, kernel, kernel)
            return tuple(whole[axis] for axis in FROM_OIHW) if layout == "nhwc" else whole
        case _:
            assert_never(operator)


def packed_input(operator: Operator, x: Array) -> Array:
    """The model's input in TVM's layout."""
    match operator:
        case Product(rows, _, depth):
            return np.ascontiguousarray(x.reshape(rows, depth))
        case Convolution(layout=layout):
            return np.ascontiguousarray(x.transpose(FROM_NCHW) if layout == "nhwc" else x)
        case _:
            assert_never(operator)


def packed_weight(operator: Operator, weight: Array) -> Array:
    """The model's weights in TVM's layout, before it lays them out anew."""
    match operator:
        case Product():
            return np.ascontiguousarray(weight.reshape(weight_shape(operator)))
        case Convolution(layout=layout):
            return np.ascontiguousarray(weight.transpose(FROM_OIHW) if layout == "nhwc" else weight)
        case _:
            assert_never(operator)


def unpacked_output(operator: Operator, y: Array) -> Array:
    """What TVM computed, as the model gives it."""
    match operator:
        case Product(rows, columns):
            return y.reshape(1, rows, columns)
        case Convolution(layout=layout):
            return np.ascontiguousarray(y.transpose(FROM_NHWC) if layout == "nhwc" else y)
        case _:
            assert_never(operator)


def primitive_function(tvm: Any, operator: Operator) -> Any:
    """The function of input, weights and output that TVM tunes."""
    match operator:
        case Product(rows, _, depth):
            x = tvm.te.placeholder((rows, depth), name="x", dtype="float32")
            weight = tvm.te.placeholder(weight_shape(operator), name="weight", dtype="float32")
            along = tvm.te.reduce_axis((0, depth), name="k")

            def product(i: Any, j: Any) -> Any:
                return tvm.te.sum(x[i, along] * weight[along, j], axis=along)

            body = product
        case Convolution(layout=layout):
            x, weight, body = _convolved(tvm, operator, nhwc=layout == "nhwc")
        case _:
            assert_never(operator)
    y = tvm.te.compute(
        output_shape(operator), body, name="y", attrs={"layout_free_placeholders": [weight]}
    )
    return tvm.te.create_prim_func([x, weight, y])


def _convolved(tvm: Any, operator: Convolution, *, nhwc: bool) -> tuple[Any, Any, Any]:
    """The input, the weights, and the function of an output's place that gives its value."""
    te, (batch, channels, height, width) = tvm.te, operator.x
    kernel, stride, pad = operator.kernel, operator.stride, operator.pad
    shape = (batch, height, width, channels) if nhwc else operator.x
    x = te.placeholder(shape, name="x", dtype="float32")
    weight = te.placeholder(weight_shape(operator), name="weight", dtype="float32")
    around = [0, pad, pad, 0] if nhwc else [0, 0, pad, pad]
    padded = tvm.topi.nn.pad(x, around, name="padded") if pad else x
    rh, rw = (te.reduce_axis((0, kernel), name=name) for name in ("kh", "kw"))
    rc = te.reduce_axis((0, channels), name="c")

    def value_nhwc(n: Any, h: Any, w: Any, c: Any) -> Any:
        taken = padded[n, h * stride + rh, w * stride + rw, rc]
        return te.sum(taken * weight[rh, rw, rc, c], axis=[rh, rw, rc])

    def value_nchw(n: Any, c: Any, h: Any, w: Any) -> Any:
        taken = padded[n, rc, h * stride + rh, w * stride + rw]
        return te.sum(taken * weight[c, rc, rh, rw], axis=[rc, rh, rw])

    return x, weight, value_nhwc if nhwc else value_nchw
