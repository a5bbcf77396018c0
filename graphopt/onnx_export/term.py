"""Terms over ONNX operators: what exporters build and the writer writes down.

A term is a tensor that has a name already, a constant, or one output of an ONNX operator applied
to terms. Terms carry their tensor type, so that compositions can be built without a model at hand.
They know neither names nor protobuf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphopt.graph import Constant
from graphopt.onnx_import.protobuf import element_number
from graphopt.terms import integers
from tensorgen.types import DType, Shape, TensorType

BASE_OPSET = 21
"""The opset that models are written in unless an operator needs a newer one."""

MAX_CONVERTED = 64
"""Constants of up to this many elements are cast here and now, larger ones when the model runs."""

Attribute = int | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A tensor that has a name in the model already."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Output number `output` of an ONNX operator. None among `inputs` leaves an optional one out.

    `opset` is the first version of the standard operators in which it means this.
    """

    op_type: str
    inputs: tuple[Term | None, ...]
    attributes: tuple[tuple[str, Attribute], ...]
    type: TensorType
    output: int = 0
    opset: int = BASE_OPSET


Term = Known | Constant | Call
Exporter = Callable[..., Term]
"""(Node, Terms of its operands…) -> Term of its result."""


def call(
    op_type: str,
    *inputs: Term | None,
    type: TensorType,
    output: int = 0,
    opset: int = BASE_OPSET,
    **attributes: Attribute,
) -> Call:
    """An operator applied to terms, giving a tensor of that type."""
    return Call(op_type, inputs, tuple(sorted(attributes.items())), type, output, opset)


def elementwise(
    op_type: str, *inputs: Term, dtype: DType | None = None, **attributes: Attribute
) -> Call:
    """An operator that broadcasts its operands; the result is of `dtype`, or of the first's."""
    shape = tuple(int(n) for n in np.broadcast_shapes(*(term.type.shape for term in inputs)))
    result = TensorType(inputs[0].type.dtype if dtype is None else dtype, shape)
    return Call(op_type, inputs, tuple(sorted(attributes.items())), result)


def cast(x: Term, dtype: DType) -> Term:
    """Conversion to a wider element type or back; x itself if it has that type."""
    if x.type.dtype == dtype:
        return x
    if isinstance(x, Constant) and x.type.size <= MAX_CONVERTED:
        return Constant(x.array.astype(dtype.numpy))
    return elementwise("Cast", x, dtype=dtype, to=element_number(dtype))


def identity(x: Term) -> Call:
    """x itself, as an operator's result."""
    return call("Identity", x, type=x.type)


def reshape(x: Term, shape: Shape) -> Call:
    """The same elements in row-major order under another shape; sizes of zero mean zero."""
    return call("Reshape", x, integers(shape), type=TensorType(x.type.dtype, shape), allowzero=1)


def transpose(x: Term, perm: Shape) -> Call:
    """Axis n of the result is axis perm[n] of x."""
    shape = tuple(x.type.shape[axis] for axis in perm)
    return call("Transpose", x, type=TensorType(x.type.dtype, shape), perm=perm)


def expand(x: Term, shape: Shape) -> Call:
    """x repeated along new leading axes and along axes of size one."""
    return call("Expand", x, integers(shape), type=TensorType(x.type.dtype, shape))


def take(x: Term, indices: Term, axis: int) -> Call:
    """The slices of x along an axis at the given positions."""
    shape = (*x.type.shape[:axis], *indices.type.shape, *x.type.shape[axis + 1 :])
    return call("Gather", x, indices, type=TensorType(x.type.dtype, shape), axis=axis)


def padded(x: Term, before: Shape, after: Shape, fill: Term) -> Call:
    """x with that many copies of a value around it."""
    parts = zip(before, x.type.shape, after, strict=True)
    shape = tuple(low + size + high for low, size, high in parts)
    pads = integers((*before, *after))
    return call("Pad", x, pads, fill, type=TensorType(x.type.dtype, shape), mode="constant")


def reduced(op_type: str, x: Term, axes: Shape, keepdims: bool) -> Call:
    """A fold over sorted axes, of which there is at least one."""
    sizes = enumerate(x.type.shape)
    if keepdims:
        shape = tuple(1 if axis in axes else size for axis, size in sizes)
    else:
        shape = tuple(size for axis, size in sizes if axis not in axes)
    result = TensorType(x.type.dtype, shape)
    return call(op_type, x, integers(axes), type=result, keepdims=int(keepdims))
