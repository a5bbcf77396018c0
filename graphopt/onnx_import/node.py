"""OnnxNode: one node of a model as an importer sees it, with values, attributes and errors.

An importer is a function from an `OnnxNode` to the node's output values. Shapes are static, so
whatever a shape computation feeds is a `Constant` by the time an importer reads it. The accessors
raise one-line `ModelError`s; an importer raises `node.error(...)` for what it checks itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from graphopt.graph import Constant, Input, Value, topological_order
from graphopt.onnx_import.errors import (
    ModelError,
    NeedsConstant,
    UnsupportedOperator,
    printable,
    quoted,
)
from graphopt.onnx_import.narrow import Encoded
from tensorgen.types import Array, DType, Shape


@dataclass(frozen=True, slots=True)
class TensorSequence:
    """What ONNX calls a sequence: tensors in a row, as many as are known when they are read."""

    items: tuple[Value, ...]


Operand = Value | Encoded | TensorSequence
"""What a name of an ONNX graph may stand for."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph attribute: `build` imports its body on given inputs, inside the names around it.

    `proto` is the graph as the model has it, for whoever hands the node back to the library.
    """

    proto: onnx.GraphProto
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    build: Callable[[Sequence[Operand]], tuple[Operand, ...]]


Attribute = (
    int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array | Subgraph
)
"""A decoded attribute. Element types (Cast's `to`) stay the integers that ONNX numbers them by."""

Importer = Callable[["OnnxNode"], tuple[Operand, ...]]


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """One operator application: operands as values, attributes decoded, schema defaults filled in.

    `version` is the opset version of `domain` in force. `inputs` has None for an omitted optional
    operand; trailing omitted operands may be missing altogether. `outputs` are the output names,
    "" where the model omits one. `graph_inputs[i]` names the graph input of position i.
    `call_node` imports another node in place (see `call`).
    """

    op_type: str
    domain: str
    version: int
    name: str
    inputs: tuple[Operand | None, ...]
    attributes: Mapping[str, Attribute]
    outputs: tuple[str, ...]
    graph_inputs: tuple[str, ...]
    call_node: Callable[[OnnxNode], tuple[Value, ...]]

    @property
    def place(self) -> str:
        """How error messages begin: the node's name (or its first output) and operator."""
        label = self.name if self.name else (self.outputs[0] if self.outputs else "")
        return f"node {quoted(label)} ({printable(self.op_type)})"

    # Errors

    def error(self, expected: str, got: object, advice: str = "") -> ModelError:
        """A bad node: `place: expected …, got …; advice`."""
        return ModelError(self._message(expected, got, advice))

    def unsupported(self, expected: str, got: object, advice: str = "") -> UnsupportedOperator:
        """A legal node that Tasor does not import."""
        return UnsupportedOperator(self._message(expected, got, advice))

    def _message(self, expected: str, got: object, advice: str) -> str:
        tail = f"; {advice}" if advice else ""
        return f"{self.place}: expected {expected}, got {printable(got)}{tail}"

    # Operands

    def optional(self, position: int) -> Value | None:
        """The tensor at that position; None if the model omits it."""
        value = self.any_optional(position)
        return None if value is None else self.tensor_of(value)

    def input(self, position: int) -> Value:
        """The operand at that position; ModelError if the model omits it."""
        value = self.optional(position)
        if value is None:
            raise self.error(f"operand {position}", "none")
        return value

    @property
    def operands(self) -> tuple[Value, ...]:
        """All operands of a variadic operator; ModelError if one is omitted."""
        return tuple(self.input(position) for position in range(len(self.inputs)))

    def sequence(self, position: int) -> TensorSequence:
        """The sequence at that position."""
        value = self.any_operand(position)
        if not isinstance(value, TensorSequence):
            raise self.error(f"a sequence as operand {position}", "a tensor")
        return value

    def any_optional(self, position: int) -> Operand | None:
        """Whatever is at that position; None if the model omits it."""
        return self.inputs[position] if position < len(self.inputs) else None

    def any_operand(self, position: int) -> Operand:
        """Whatever is at that position; ModelError if the model omits it."""
        value = self.any_optional(position)
        if value is None:
            raise self.error(f"operand {position}", "none")
        return value

    def tensor_of(self, value: Operand) -> Value:
        """The value itself if it is a tensor to compute with; ModelError for anything else."""
        if isinstance(value, Encoded):
            raise self.unsupported("an element type to compute with", value.type.name)
        if isinstance(value, TensorSequence):
            raise self.error("a tensor", f"a sequence of {len(value.items)}")
        return value

    def wants(self, position: int) -> bool:
        """Whether the model uses the output at that position."""
        return position < len(self.outputs) and self.outputs[position] != ""

    def constant(self, position: int, purpose: str) -> Array:
        """The operand's value at compile time. `purpose` says what it is, for the message."""
        return self.known(self.input(position), purpose)

    def known(self, value: Value, purpose: str) -> Array:
        """A value's content at compile time; NeedsConstant, naming its graph inputs, if none."""
        if isinstance(value, Constant):
            return value.array
        reached = topological_order((value,))
        positions = sorted({term.position for term in reached if isinstance(term, Input)})
        names = tuple(self.graph_inputs[position] for position in positions)
        if not names:
            raise self.error(
                f"{purpose} known at compile time", "a value too large to compute beforehand"
            )
        listed = ", ".join(quoted(name) for name in names)
        raise NeedsConstant(
            f"{self.place}: expected {purpose} known at compile time, got a value computed from "
            f"graph input {listed}; fix those inputs to constants",
            names,
        )

    def integers_of(self, position: int, purpose: str) -> tuple[int, ...]:
        """A constant operand of at most one axis as Python integers."""
        array = self.constant(position, purpose)
        if not np.issubdtype(array.dtype, np.integer) or array.ndim > 1:
            raise self.error(f"{purpose} as a list of integers", f"{array.dtype} {array.shape}")
        return tuple(int(item) for item in array.reshape(-1))

    def integer_of(self, position: int, purpose: str) -> int:
        """A constant operand of one element as a Python integer."""
        items = self.integers_of(position, purpose)
        if len(items) != 1:
            raise self.error(f"{purpose} as one integer", f"{len(items)} values")
        return items[0]

    # Attributes

    def has(self, name: str) -> bool:
        """Whether the attribute is given or has a default."""
        return name in self.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self._attribute_error(name, "an integer")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise self._attribute_error(name, "a number")
        return float(value)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise self._attribute_error(name, "text")
        return value

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        value = self.attributes.get(name, None if default is None else tuple(default))
        items = value if isinstance(value, tuple) else None
        if items is None or not all(isinstance(item, int) for item in items):
            raise self._attribute_error(name, "a list of integers")
        return tuple(int(item) for item in items)

    def numbers(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        value = self.attributes.get(name, None if default is None else tuple(default))
        items = value if isinstance(value, tuple) else None
        if items is None or not all(isinstance(item, int | float) for item in items):
            raise self._attribute_error(name, "a list of numbers")
        return tuple(float(item) for item in items)

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        value = self.attributes.get(name, None if default is None else tuple(default))
        items = value if isinstance(value, tuple) else None
        if items is None or not all(isinstance(item, str) for item in items):
            raise self._attribute_error(name, "a list of texts")
        return tuple(str(item) for item in items)

    def tensor(self, name: str) -> Array:
        value = self.attributes.get(name)
        if not isinstance(value, np.ndarray):
            raise self._attribute_error(name, "a tensor")
        return value

    def subgraph(self, name: str) -> Subgraph:
        value = self.attributes.get(name)
        if not isinstance(value, Subgraph):
            raise self._attribute_error(name, "a graph")
        return value

    def _attribute_error(self, name: str, expected: str) -> ModelError:
        value = self.attributes.get(name)
        got = "none" if value is None else type(value).__name__
        return self.error(f"attribute {quoted(name)} to be {expected}", got)

    # Axes

    def axis(self, value: int, rank: int, purpose: str = "axis") -> int:
        """An axis counted from the end if negative, as one of 0 … rank-1."""
        if not -rank <= value < rank:
            raise self.error(f"{purpose} within -{rank} … {rank - 1}", value)
        return value % rank if rank else 0

    def axes(self, values: Sequence[int], rank: int, purpose: str = "axes") -> tuple[int, ...]:
        """Distinct axes, sorted."""
        result = sorted({self.axis(value, rank, purpose) for value in values})
        if len(result) != len(values):
            raise self.error(f"{purpose} without repetition", tuple(values))
        return tuple(result)

    # Other operators

    def call(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        *,
        version: int | None = None,
        outputs: int = 1,
        **attributes: Attribute,
    ) -> tuple[Value, ...]:
        """Import another operator of the same domain in this node's place.

        For operators that are best said through others. `version` is the opset version to read it
        by; the node's own if None.
        """
        return self.call_node(
            replace(
                self,
                op_type=op_type,
                version=self.version if version is None else version,
                inputs=tuple(inputs),
                attributes=attributes,
                outputs=tuple(f"output {position}" for position in range(outputs)),
            )
        )


def same_type(node: OnnxNode, first: Value, *others: Value) -> DType:
    """The element type that all operands share; ModelError if they differ."""
    for value in others:
        if value.type.dtype != first.type.dtype:
            got = f"{first.type.dtype.name} and {value.type.dtype.name}"
            raise node.error("operands of one element type", got)
    return first.type.dtype


def spatial_shape(node: OnnxNode, x: Value, least: int = 1) -> Shape:
    """The sizes after batch and channels; ModelError if there are fewer than `least`."""
    if x.type.rank < 2 + least:
        raise node.error(f"an operand of at least {2 + least} axes", f"{x.type.rank}")
    return x.type.shape[2:]
