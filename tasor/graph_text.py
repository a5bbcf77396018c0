"""The text form of a graph: one value a line, producers first.

What it does: prints a graph so that a person can read it and `diff` can compare two of them; the
same graph gives the same text. What it does not: read it back.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from graphopt.graph import Constant, Graph, Input, Node, Param, Value
from graphopt.onnx_import.errors import printable

_SMALL = 8
"""Constants of at most this many elements are printed whole, others by their digest."""


def graph_text(graph: Graph) -> str:
    """One line for each value that the outputs need, then one for each output."""
    numbers: dict[Value, str] = {}
    lines = []
    for position, (name, given) in enumerate(zip(graph.input_names, graph.inputs, strict=True)):
        numbers[given] = f"%in{position}"
        lines.append(f"{numbers[given]} = input '{printable(name)}' : {given.type}")
    for value in graph.values:
        if value not in numbers:
            numbers[value] = f"%{len(lines) - len(graph.inputs)}"
            lines.append(f"{numbers[value]} = {_right_side(value, numbers)} : {value.type}")
    for name, result in zip(graph.output_names, graph.outputs, strict=True):
        lines.append(f"output '{printable(name)}' = {numbers[result]}")
    return "\n".join(lines) + "\n"


def _right_side(value: Value, numbers: dict[Value, str]) -> str:
    match value:
        case Node():
            operands = [numbers[operand] for operand in value.inputs]
            parameters = [f"{name}={_param_text(param)}" for name, param in value.params]
            return f"{value.op.name}({', '.join(operands + parameters)})"
        case Constant():
            return f"constant {_content(value)}"
        case Input():
            raise AssertionError("an input that the graph does not list")
        case _:
            assert_never(value)


def _param_text(param: Param) -> str:
    if isinstance(param, tuple):
        return "(" + ", ".join(_param_text(item) for item in param) + ")"
    return printable(repr(param)) if isinstance(param, str) else repr(param)


def _content(constant: Constant) -> str:
    if constant.array.size > _SMALL:
        return constant.digest.hex()[:12]
    return " ".join(str(constant.array.tolist()).split())


def operator_counts(graph: Graph) -> tuple[tuple[str, int], ...]:
    """How often each operator is applied, most frequent first, then by name."""
    counts = Counter(node.op.name for node in graph.nodes)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
