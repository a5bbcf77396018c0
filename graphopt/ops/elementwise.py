"""Elementwise operators: every scalar operator lifted to tensors with numpy broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphopt.ops.spec import OpSpec, Sample, sample
from tensorgen.expr import Axis, Cast, Expr, Tensor, TensorExpr, apply, compute, const, select
from tensorgen.expr import cast as cast_term
from tensorgen.scalar_ops import BOOLS, FLOATS, SCALAR_OPS, ScalarOp
from tensorgen.types import (
    Array,
    DType,
    Kind,
    Shape,
    ShapeError,
    TensorType,
    boolean,
    dtype_named,
    float32,
    int32,
    int64,
)


def broadcast_shapes(place: str, *shapes: Shape) -> Shape:
    """The numpy broadcast of shapes; ShapeError naming `place` if they do not fit."""
    result: list[int] = []
    for position in range(-max(map(len, shapes), default=0), 0):
        present = [shape[position] for shape in shapes if len(shape) >= -position]
        size = present[0]
        for own in present[1:]:
            if own == size:
                continue
            if size == 1:
                size = own
            elif own != 1:
                text = " and ".join(str(list(shape)) for shape in shapes)
                raise ShapeError(f"{place}: expected shapes that broadcast, got {text}")
        result.append(size)
    return tuple(result)


def element(tensor: Tensor, axes: Sequence[Axis]) -> Expr:
    """The element of a broadcast operand at output axes: sizes that differ are one, read at 0."""
    own = axes[len(axes) - len(tensor.shape) :]
    zero = const(0, int64)
    return tensor[
        tuple(
            axis if size == axis.extent else zero
            for size, axis in zip(tensor.shape, own, strict=True)
        )
    ]


def _elementwise_type(op: ScalarOp) -> Callable[..., TensorType]:
    def infer(*types: TensorType) -> TensorType:
        first = types[0].dtype
        for type in types:
            if type.dtype != first:
                names = ", ".join(t.dtype.name for t in types)
                raise ShapeError(f"{op.name}: expected operands of one type, got {names}")
        if first.kind not in op.kinds:
            kinds = ", ".join(sorted(kind.value for kind in op.kinds))
            raise ShapeError(f"{op.name}: expected {kinds} operands, got {first.name}")
        return TensorType(
            op.result(first), broadcast_shapes(op.name, *(type.shape for type in types))
        )

    return infer


def _elementwise_compute(op: ScalarOp) -> Callable[..., TensorExpr]:
    def meaning(*tensors: Tensor) -> TensorExpr:
        shape = broadcast_shapes(op.name, *(tensor.shape for tensor in tensors))
        return compute(
            shape, lambda *axes: apply(op.name, *(element(tensor, axes) for tensor in tensors))
        )

    return meaning


def _elementwise_reference(op: ScalarOp) -> Callable[..., Array]:
    def reference(*arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            result: Array = np.asarray(op.numpy(*arrays))
        return result if op.predicate else result.astype(arrays[0].dtype)

    return reference


def _sample_dtype(op: ScalarOp) -> DType:
    if op.kinds & FLOATS:
        return float32
    return boolean if op.kinds == BOOLS else int32


def _lifted(op: ScalarOp) -> OpSpec:
    dtype = _sample_dtype(op)
    shapes: tuple[tuple[Shape, ...], ...] = (
        (((3, 4),), ((),)) if op.arity == 1 else (((3, 4), (3, 4)), ((2, 1, 4), (3, 1)), ((), (2,)))
    )
    samples = [sample(*operands, dtype=dtype) for operands in shapes]
    if dtype == float32 and Kind.SIGNED in op.kinds:
        samples.append(sample(*shapes[0], dtype=int64))
    return OpSpec(
        name=op.name,
        arity=op.arity,
        params=(),
        infer=_elementwise_type(op),
        compute=_elementwise_compute(op),
        reference=_elementwise_reference(op),
        samples=tuple(samples),
        family="elementwise",
        doc=f"`{op.name}` of each element, with numpy broadcasting.",
    )


def _where_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if condition.dtype != boolean:
        raise ShapeError(f"where: expected a bool condition, got {condition.dtype.name}")
    if x.dtype != y.dtype:
        raise ShapeError(
            f"where: expected branches of one type, got {x.dtype.name}, {y.dtype.name}"
        )
    return TensorType(x.dtype, broadcast_shapes("where", condition.shape, x.shape, y.shape))


def _where_compute(condition: Tensor, x: Tensor, y: Tensor) -> TensorExpr:
    shape = broadcast_shapes("where", condition.shape, x.shape, y.shape)
    return compute(
        shape,
        lambda *axes: select(element(condition, axes), element(x, axes), element(y, axes)),
    )


def _where_reference(condition: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(condition, x, y))


where = OpSpec(
    name="where",
    arity=3,
    params=(),
    infer=_where_type,
    compute=_where_compute,
    reference=_where_reference,
    samples=(
        Sample(
            (TensorType(boolean, (3, 1)), TensorType(float32, (3, 4)), TensorType(float32, (4,)))
        ),
    ),
    family="elementwise",
    doc="`condition ? x : y` of each element, with numpy broadcasting.",
)


def _target_type(op: str, to: str) -> DType:
    try:
        return dtype_named(to)
    except KeyError:
        raise ShapeError(f"{op}: expected the name of an element type, got {to!r}") from None


def _cast_type(x: TensorType, *, to: str) -> TensorType:
    return TensorType(_target_type("cast", to), x.shape)


def _cast_compute(x: Tensor, *, to: str) -> TensorExpr:
    return compute(x.shape, lambda *axes: cast_term(x[axes], dtype_named(to)))


def _cast_reference(x: Array, *, to: str) -> Array:
    dtype = dtype_named(to)
    if np.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_ or not dtype.is_integer:
        with np.errstate(all="ignore"):
            return x.astype(dtype.numpy)
    limits = np.iinfo(dtype.name)
    wide = x.astype(np.float64)
    low, high = wide <= float(limits.min), wide >= float(limits.max)
    result = np.asarray(np.where(low | high | np.isnan(wide), 0.0, wide).astype(dtype.numpy))
    result[low] = limits.min
    result[high] = limits.max
    return result


cast = OpSpec(
    name="cast",
    arity=1,
    params=("to",),
    infer=_cast_type,
    compute=_cast_compute,
    reference=_cast_reference,
    samples=(sample((3, 4), to="int32"), sample((3, 4), dtype=int64, to="float32")),
    family="elementwise",
    doc="Conversion to another element type; float to integer truncates and saturates.",
)


def _bitcast_type(x: TensorType, *, to: str) -> TensorType:
    dtype = _target_type("bitcast", to)
    if dtype.bits != x.dtype.bits:
        raise ShapeError(f"bitcast: expected a type of {x.dtype.bits} bits, got {dtype.name}")
    return TensorType(dtype, x.shape)


def _bitcast_compute(x: Tensor, *, to: str) -> TensorExpr:
    return compute(x.shape, lambda *axes: Cast(x[axes], dtype_named(to), bits=True))


bitcast = OpSpec(
    name="bitcast",
    arity=1,
    params=("to",),
    infer=_bitcast_type,
    compute=_bitcast_compute,
    reference=lambda x, *, to: x.view(dtype_named(to).numpy),
    samples=(sample((3, 4), to="int32"),),
    family="elementwise",
    doc="The same bits read as another element type of equal width.",
)

LIFTED = {op.name: _lifted(op) for op in SCALAR_OPS}

ELEMENTWISE: tuple[OpSpec, ...] = (*LIFTED.values(), where, cast, bitcast)
