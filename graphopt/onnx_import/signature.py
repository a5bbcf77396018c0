"""The graph's inputs with every size fixed: what the model declares, completed by the caller.

Sizes come from the declaration, from `shapes`, and from other inputs that use the same dimension
name. What remains open is refused, all of it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from graphopt.graph import Constant, Input, Value
from graphopt.onnx_import.errors import ModelError, UnpinnedDimension, printable, quoted
from graphopt.onnx_import.narrow import BY_NUMBER, Encoded, NarrowType, stored
from graphopt.onnx_import.node import Operand
from graphopt.onnx_import.protobuf import element_type
from tensorgen.types import Array, DType, Shape, ShapeError, TensorType, uint8

Dimension = int | str | None
"""A declared size: fixed, named, or open."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The graph's free inputs in order, and the value of every declared input by name."""

    inputs: tuple[Input, ...]
    names: tuple[str, ...]
    values: Mapping[str, Operand]


@dataclass(frozen=True, slots=True)
class _Declared:
    name: str
    element: DType | NarrowType
    dimensions: tuple[Dimension, ...] | None

    @property
    def dtype(self) -> DType:
        """The type that elements are stored in: narrow ones as bytes."""
        return uint8 if isinstance(self.element, NarrowType) else self.element

    def __str__(self) -> str:
        if self.dimensions is None:
            return "?"
        return ",".join("?" if size is None else printable(size) for size in self.dimensions)


def pin(
    graph: onnx.GraphProto, shapes: Mapping[str, Shape], bindings: Mapping[str, Array]
) -> Signature:
    """Fix every input's type. Inputs in `bindings` become constants.

    UnpinnedDimension if sizes remain open; ModelError if `shapes` or `bindings` contradict the
    declaration or name no input.
    """
    initialised = {tensor.name for tensor in graph.initializer}
    initialised |= {tensor.values.name for tensor in graph.sparse_initializer}
    declared = tuple(
        _declaration(value)
        for value in graph.input
        if value.name not in initialised or value.name in bindings
    )
    names = {item.name for item in declared}
    for given in (*shapes, *bindings):
        if given not in names:
            listed = ", ".join(quoted(name) for name in sorted(names))
            raise ModelError(f"model: expected a name among its inputs {listed}, got '{given}'")
    given_shapes = {**shapes, **{name: array.shape for name, array in bindings.items()}}
    resolved = _resolve(declared, given_shapes)
    values: dict[str, Operand] = {}
    inputs: list[Input] = []
    for item, shape in zip(declared, resolved, strict=True):
        try:
            type = TensorType(item.dtype, shape)
        except ShapeError as error:
            raise ModelError(f"input {quoted(item.name)}: {error}") from None
        if item.name in bindings:
            values[item.name] = _bound(item, bindings[item.name])
        else:
            free_input = Input(len(inputs), type)
            inputs.append(free_input)
            values[item.name] = _operand(free_input, item)
    free = tuple(item.name for item in declared if item.name not in bindings)
    return Signature(tuple(inputs), free, values)


def _bound(item: _Declared, array: Array) -> Operand:
    if array.dtype not in (item.element.numpy, item.dtype.numpy):
        raise ModelError(
            f"input {quoted(item.name)}: expected a fixed value of type {item.element.name}, "
            f"got {array.dtype}"
        )
    return _operand(Constant(stored(array)), item)


def _operand(value: Value, item: _Declared) -> Operand:
    return Encoded(value, item.element) if isinstance(item.element, NarrowType) else value


def _declaration(value: onnx.ValueInfoProto) -> _Declared:
    place = f"input {quoted(value.name)}"
    # An optional input is one that is given: who leaves it out compiles another model.
    is_optional = value.type.HasField("optional_type")
    declared = value.type.optional_type.elem_type if is_optional else value.type
    kind = declared.WhichOneof("value")
    if kind != "tensor_type":
        got = "no type" if kind is None else f"a {kind.removesuffix('_type')}"
        raise ModelError(f"{place}: expected a tensor, got {got}")
    tensor = declared.tensor_type
    narrow = BY_NUMBER.get(tensor.elem_type)
    element = element_type(tensor.elem_type, place) if narrow is None else narrow
    if not tensor.HasField("shape"):
        return _Declared(value.name, element, None)
    sizes = tuple(_dimension(size) for size in tensor.shape.dim)
    return _Declared(value.name, element, sizes)


def _dimension(size: onnx.TensorShapeProto.Dimension) -> Dimension:
    if size.HasField("dim_value"):
        # Exporters write -1, and the like, for a size that they leave open.
        return int(size.dim_value) if size.dim_value >= 0 else None
    # Some exporters write '?' for every open size; such sizes need not be equal.
    return size.dim_param if size.dim_param not in ("", "?") else None


def _resolve(declared: tuple[_Declared, ...], shapes: Mapping[str, Shape]) -> list[Shape]:
    named: dict[str, int] = {}
    for item in declared:
        if item.name in shapes:
            _match(item, shapes[item.name], named)
    result: list[Shape] = []
    open_inputs: list[str] = []
    for item in declared:
        if item.name in shapes:
            result.append(tuple(shapes[item.name]))
            continue
        sizes = [
            named.get(size) if isinstance(size, str) else size for size in item.dimensions or ()
        ]
        fixed = tuple(size for size in sizes if size is not None)
        if item.dimensions is None or len(fixed) != len(sizes):
            open_inputs.append(
                f"input {quoted(item.name)} has shape [{item}] "
                f"(--shape {printable(item.name)}={_suggestion(item, named)})"
            )
        result.append(fixed)
    if open_inputs:
        raise UnpinnedDimension(
            f"model: expected every size fixed, got open sizes: {'; '.join(open_inputs)}"
        )
    return result


def _suggestion(item: _Declared, named: Mapping[str, int]) -> str:
    if item.dimensions is None:
        return "SIZE,…"
    sizes = (named.get(size, "N") if isinstance(size, str) else size for size in item.dimensions)
    return ",".join("N" if size is None else str(size) for size in sizes)


def _match(item: _Declared, shape: Shape, named: dict[str, int]) -> None:
    """Check a given shape against the declaration and note the names it fixes."""
    place = f"input {quoted(item.name)}"
    if any(size < 0 for size in shape):
        raise ModelError(f"{place}: expected sizes of at least 0, got {list(shape)}")
    if item.dimensions is None:
        return
    fits = len(shape) == len(item.dimensions) and all(
        named.setdefault(size, given) == given if isinstance(size, str) else size in (None, given)
        for size, given in zip(item.dimensions, shape, strict=True)
    )
    if not fits:
        raise ModelError(f"{place}: expected a shape that fits [{item}], got {list(shape)}")
