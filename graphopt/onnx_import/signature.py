"""The graph's inputs with every size fixed: what the model declares, completed by the caller.

Sizes come from the declaration, from `shapes`, and from other inputs that use the same dimension
name. What remains open is refused, all of it at once.

A sequence x becomes one input for each item, x[0], x[1] and so on; its own shape is its length. An
optional input is one that is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from graphopt.graph import Constant, Input, Value
from graphopt.onnx_import.errors import ModelError, UnpinnedDimension, printable, quoted
from graphopt.onnx_import.narrow import BY_NUMBER, Encoded, NarrowType, stored
from graphopt.onnx_import.node import Operand, TensorSequence
from graphopt.onnx_import.protobuf import element_type, is_sequence, item_type
from tensorgen.types import Array, DType, Shape, ShapeError, TensorType, uint8

MAX_ITEMS = 4096
"""Longer sequences are refused."""

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
    given_shapes = {**shapes, **{name: array.shape for name, array in bindings.items()}}
    free_values = [
        value for value in graph.input if value.name not in initialised or value.name in bindings
    ]
    lengths = {
        value.name: _length(value.name, given_shapes)
        for value in free_values
        if is_sequence(value.type)
    }
    declared = tuple(
        _declaration(name, value.type)
        for value in free_values
        for name in _item_names(value.name, lengths)
    )
    names = {item.name for item in declared} | lengths.keys()
    if len(names) != len(declared) + len(lengths):
        raise ModelError(
            "model: expected inputs of different names, got one twice, perhaps that of a "
            "sequence's item"
        )
    for given in (*shapes, *bindings):
        if given not in names:
            listed = ", ".join(quoted(name) for name in sorted(names))
            raise ModelError(f"model: expected a name among its inputs {listed}, got '{given}'")
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
    for name, length in lengths.items():
        items = [values.pop(item) for item in item_names(name, length)]
        values[name] = TensorSequence(tuple(item for item in items if isinstance(item, Value)))
    return Signature(tuple(inputs), free, values)


def item_names(name: str, length: int) -> tuple[str, ...]:
    """What the items of a sequence are called."""
    return tuple(f"{name}[{position}]" for position in range(length))


def _item_names(name: str, lengths: Mapping[str, int]) -> tuple[str, ...]:
    return item_names(name, lengths[name]) if name in lengths else (name,)


def _length(name: str, shapes: Mapping[str, Shape]) -> int:
    """A sequence's length: its shape, else as many items as there are shapes for."""
    if name in shapes:
        if len(shapes[name]) != 1 or not 0 <= shapes[name][0] <= MAX_ITEMS:
            raise ModelError(
                f"input {quoted(name)}: expected a length of at most {MAX_ITEMS} as the shape of a "
                f"sequence, got {list(shapes[name])}"
            )
        return shapes[name][0]
    length = next(n for n in range(len(shapes) + 1) if f"{name}[{n}]" not in shapes)
    if length == 0:
        raise UnpinnedDimension(
            f"model: expected every size fixed, got the sequence {quoted(name)} of open length "
            f"(--shape {printable(name)}=LENGTH)"
        )
    return length


def _bound(item: _Declared, array: Array) -> Value | Encoded:
    if array.dtype not in (item.element.numpy, item.dtype.numpy):
        raise ModelError(
            f"input {quoted(item.name)}: expected a fixed value of type {item.element.name}, "
            f"got {array.dtype}"
        )
    return _operand(Constant(stored(array)), item)


def _operand(value: Value, item: _Declared) -> Value | Encoded:
    return Encoded(value, item.element) if isinstance(item.element, NarrowType) else value


def _declaration(name: str, declared: onnx.TypeProto) -> _Declared:
    place = f"input {quoted(name)}"
    kind = declared.WhichOneof("value")
    tensor = item_type(declared)
    if tensor is None:
        got = "no type" if kind is None else f"a {kind.removesuffix('_type')}"
        raise ModelError(f"{place}: expected a tensor, got {got}")
    narrow = None if is_sequence(declared) else BY_NUMBER.get(tensor.elem_type)
    element = element_type(tensor.elem_type, place) if narrow is None else narrow
    if not tensor.HasField("shape"):
        return _Declared(name, element, None)
    sizes = tuple(_dimension(size) for size in tensor.shape.dim)
    if is_sequence(declared):
        # The items of a sequence may differ in the sizes that have a name.
        sizes = tuple(size if isinstance(size, int) else None for size in sizes)
    return _Declared(name, element, sizes)


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
