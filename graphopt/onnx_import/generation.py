"""Importers of operators whose result depends on attributes, shapes and constants alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, isfinite, prod

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.onnx_import.narrow import constant_of
from graphopt.onnx_import.node import Importer, OnnxNode, Operand, same_type
from graphopt.onnx_import.protobuf import element_type
from graphopt.reference import MAX_FOLDED_BYTES
from graphopt.terms import broadcast_to, integers
from tensorgen.types import MAX_ELEMENTS, dtype_of


def _constant(node: OnnxNode) -> tuple[Operand, ...]:
    """One of eight attributes holds the value; those of text are refused."""
    for name in ("value", "sparse_value"):
        if node.has(name):
            return (constant_of(node.tensor(name)),)
    if node.has("value_float"):
        return (Constant(np.array(node.number("value_float"), np.float32)),)
    if node.has("value_floats"):
        return (Constant(np.array(node.numbers("value_floats"), np.float32)),)
    if node.has("value_int"):
        return (Constant(np.array(node.integer("value_int"), np.int64)),)
    if node.has("value_ints"):
        return (integers(node.integers("value_ints")),)
    raise node.unsupported("a constant of numbers", "text" if node.attributes else "no value")


def _constant_of_shape(node: OnnxNode) -> tuple[Value, ...]:
    shape = node.integers_of(0, "the shape")
    if any(size < 0 for size in shape) or prod(shape) > MAX_ELEMENTS:
        raise node.error("sizes of at least 0 and at most 2**40 elements", list(shape))
    content = node.tensor("value") if node.has("value") else np.zeros(1, np.float32)
    if content.size != 1:
        raise node.error("a value of one element", content.shape)
    return (broadcast_to(Constant(content.reshape(())), shape),)


def _eye_like(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    if x.type.rank != 2:
        raise node.error("a matrix", x.type)
    number = node.integer("dtype", 0)
    dtype = element_type(number, node.place) if number else x.type.dtype
    rows, columns = x.type.shape
    if rows * columns * dtype.bytes > MAX_FOLDED_BYTES:
        raise node.unsupported(f"a matrix of at most {MAX_FOLDED_BYTES} bytes", x.type)
    diagonal = max(-rows - 1, min(node.integer("k", 0), columns + 1))
    return (Constant(np.eye(rows, columns, diagonal).astype(dtype.numpy)),)


def _range(node: OnnxNode) -> tuple[Value, ...]:
    """start, start + delta, … below limit (above it for a negative delta)."""
    names = ("start", "limit", "delta")
    same_type(node, *(node.input(position) for position in range(3)))
    arrays = [node.constant(n, f"the {name} of the range") for n, name in enumerate(names)]
    if any(array.size != 1 for array in arrays):
        raise node.error("three scalars", [array.shape for array in arrays])
    dtype = dtype_of(arrays[0])
    exact = float if dtype.is_float else int
    start, limit, delta = (exact(array.reshape(-1)[0]) for array in arrays)
    if delta == 0 or not all(isfinite(value) for value in (start, limit, delta)):
        raise node.error("finite bounds and a delta other than 0", (start, limit, delta))
    span = limit - start
    count = max(ceil(span / delta) if dtype.is_float else -(-span // delta), 0)
    if count * dtype.bytes > MAX_FOLDED_BYTES:
        raise node.unsupported(f"a range of at most {MAX_FOLDED_BYTES} bytes", f"{count} elements")
    wide = dtype.computed.numpy
    steps = np.arange(count).astype(wide) * np.array(delta).astype(wide)
    return (Constant((np.array(start).astype(wide) + steps).astype(dtype.numpy)),)


def _shape(node: OnnxNode) -> tuple[Value, ...]:
    shape = node.input(0).type.shape
    end = node.integer("end", len(shape))
    return (integers(shape[slice(node.integer("start", 0), end)]),)


def _size(node: OnnxNode) -> tuple[Value, ...]:
    return (Constant(np.array(node.input(0).type.size, np.int64)),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "Constant"): _constant,
    ("", "ConstantOfShape"): _constant_of_shape,
    ("", "EyeLike"): _eye_like,
    ("", "Range"): _range,
    ("", "Shape"): _shape,
    ("", "Size"): _size,
}
