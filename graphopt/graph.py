"""The graph: immutable values in a directed acyclic graph, identified by content digest.

A value is an input, a constant, or one operator applied to values. Every operator has exactly one
result; what ONNX gives several outputs is several nodes. Names belong to the graph, never to a
value, so equal terms are one term whatever a model calls them.

What it does not: know ONNX, rules, costs or code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

import numpy as np

from tensorgen.digest import Identified, content_digest
from tensorgen.types import Array, TensorType, type_of

if TYPE_CHECKING:
    from graphopt.ops.spec import OpSpec

Param = int | float | str | bool | tuple["Param", ...]
Params = tuple[tuple[str, Param], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Input(Identified):
    """A graph input, told apart by its position."""

    position: int
    type: TensorType
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", content_digest("input", self.position, str(self.type)))


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Identified):
    """A tensor known at compile time. The array is contiguous and never written."""

    array: Array
    type: TensorType = field(init=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        array = np.require(self.array, requirements=["C"]).view()
        array.flags.writeable = False
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "type", type_of(array))
        data = array.reshape(-1).view(np.uint8).data
        state = hashlib.blake2b(f"constant {self.type} ".encode(), digest_size=16)
        state.update(data)
        object.__setattr__(self, "digest", state.digest())


@dataclass(frozen=True, slots=True, eq=False)
class Node(Identified):
    """One operator application. Equal and hashed by digest, so equal terms are one term.

    `params` are sorted by name and validated by the operator; `type` is what its type rule gives.
    Build nodes with `OpSpec.__call__`.
    """

    op: OpSpec
    inputs: tuple[Value, ...] = field(repr=False)  # a shared graph, written as a tree, has no end
    params: Params
    type: TensorType
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "digest",
            content_digest(
                "node", self.op.name, repr(self.params), *(value.digest for value in self.inputs)
            ),
        )

    def param(self, name: str) -> Param:
        """The value of a parameter."""
        return dict(self.params)[name]

    @property
    def keywords(self) -> dict[str, Param]:
        """The parameters as keyword arguments."""
        return dict(self.params)


Value = Input | Constant | Node


@dataclass(frozen=True, slots=True)
class Graph:
    """Values of interest (`outputs`) over named inputs; everything else is reached from them.

    `input_names[i]` names `inputs[i]`, `output_names[i]` names `outputs[i]`. An input may be
    unused. Names are as the model has them: untrusted text.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Value, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    _values: list[tuple[Value, ...]] = field(
        init=False, repr=False, compare=False, default_factory=list
    )
    """Holds `values` once it was asked for."""

    def __post_init__(self) -> None:
        assert len(self.inputs) == len(self.input_names)
        assert len(self.outputs) == len(self.output_names)

    def with_outputs(self, outputs: Iterable[Value]) -> Graph:
        """The graph computing other values under the same output names; itself if unchanged."""
        values = tuple(outputs)
        if all(a is b for a, b in zip(values, self.outputs, strict=True)):
            return self
        return replace(self, outputs=values)

    @property
    def values(self) -> tuple[Value, ...]:
        """Every distinct value that the outputs need, producers first, in a fixed order."""
        if not self._values:
            self._values.append(topological_order(self.outputs))
        return self._values[0]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every distinct operator application, producers first."""
        return tuple(value for value in self.values if isinstance(value, Node))

    @property
    def digest(self) -> str:
        """Content digest in hexadecimal; independent of names."""
        parts = [value.digest for value in (*self.inputs, *self.outputs)]
        return content_digest("graph", len(self.inputs), *parts).hex()


def inputs_of(value: Value) -> tuple[Value, ...]:
    """The values that a value is computed from."""
    match value:
        case Node():
            return value.inputs
        case Input() | Constant():
            return ()
        case _:
            assert_never(value)


def topological_order(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """Every value reachable from `outputs`, each once, producers before consumers.

    The order depends only on the graph: depth first, inputs left to right.
    """
    order: dict[bytes, Value] = {}
    stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(outputs)]
    while stack:
        value, expanded = stack.pop()
        if value.digest in order:
            continue
        if expanded:
            order[value.digest] = value
        else:
            stack.append((value, True))
            stack.extend((operand, False) for operand in reversed(inputs_of(value)))
    return tuple(order.values())


def consumers(values: Iterable[Value]) -> Mapping[Value, tuple[Node, ...]]:
    """For each value, the distinct nodes among `values` that read it, in order."""
    result: dict[Value, list[Node]] = {}
    for value in values:
        result.setdefault(value, [])
        for operand in dict.fromkeys(inputs_of(value)):
            assert isinstance(value, Node)
            result.setdefault(operand, []).append(value)
    return {value: tuple(nodes) for value, nodes in result.items()}


def rebuild(graph: Graph, transform: Callable[[Node], Value]) -> Graph:
    """The graph with every node replaced by `transform(node)`, producers first.

    `transform` receives nodes whose inputs are already replaced. Equal results become one value.
    """
    replaced: dict[bytes, Value] = {}
    interned: dict[bytes, Value] = {}
    for value in graph.values:
        result: Value = value
        if isinstance(value, Node):
            operands = tuple(replaced[operand.digest] for operand in value.inputs)
            changed = any(a is not b for a, b in zip(operands, value.inputs, strict=True))
            result = transform(value.op(*operands, **value.keywords) if changed else value)
        replaced[value.digest] = interned.setdefault(result.digest, result)
    return graph.with_outputs(replaced[output.digest] for output in graph.outputs)


def walk_back(value: Value) -> Iterator[Value]:
    """Every value that `value` needs, itself last."""
    yield from topological_order((value,))
