"""A graph in double precision: what its arithmetic says once rounding hardly matters.

What it does: gives every floating-point value 64 bits, inputs and constants included, so that two
graphs can be compared beyond the rounding of their own types.
What it does not: graphs that look at bits.
"""

from __future__ import annotations

from graphopt.graph import Constant, Graph, Input, Node, Value
from tensorgen.types import TensorType, dtype_named, float64


class NoDoubles(ValueError):
    """A graph that has no meaning in double precision. The message is one line."""


def in_float64(graph: Graph) -> Graph:
    """The graph with float64 for every floating-point type. Raises NoDoubles."""
    made: dict[bytes, Value] = {}
    for value in graph.values:
        made[value.digest] = _widened(value, made)
    inputs = tuple(_input(value) for value in graph.inputs)
    outputs = tuple(made[value.digest] for value in graph.outputs)
    return Graph(inputs, outputs, graph.input_names, graph.output_names)


def _widened(value: Value, made: dict[bytes, Value]) -> Value:
    match value:
        case Input():
            return _input(value)
        case Constant():
            wide = value.array.astype(float64.numpy) if value.type.dtype.is_float else value.array
            return Constant(wide)
        case Node():
            keywords = value.keywords
            if value.op.name == "bitcast":
                raise NoDoubles("expected arithmetic, got an operator that reads bits")
            if value.op.name == "cast" and dtype_named(str(keywords["to"])).is_float:
                keywords["to"] = float64.name
            return value.op(*(made[operand.digest] for operand in value.inputs), **keywords)


def _input(value: Input) -> Input:
    if not value.type.dtype.is_float:
        return value
    return Input(value.position, TensorType(float64, value.type.shape))
