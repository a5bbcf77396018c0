"""Terms to ONNX nodes and initializers: gives names, writes equal terms once.

Names of inputs and outputs are taken as they are; generated names avoid them. What it does not:
know what an operator means, or files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

import onnx
from onnx import helper

from graphopt.graph import Constant
from graphopt.onnx_export.term import BASE_OPSET, Attribute, Call, Known, Term
from tensorgen.types import Array

_LEAST_OUTPUTS: Mapping[str, int] = {"TopK": 2}
"""Outputs that must be named whether or not somebody reads them; 1 if not listed."""

_Key = tuple[str, tuple[str, ...], tuple[tuple[str, Attribute], ...]]


@dataclass(slots=True)
class _Written:
    """A node as far as it is known: outputs are named when somebody asks for them."""

    op_type: str
    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...]
    name: str
    outputs: list[str | None]


class Writer:
    """A model under construction. `taken` are the names that generated ones must avoid."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.opset = BASE_OPSET
        self._taken = set(taken)
        self._next: dict[str, int] = {}
        self._nodes: list[_Written] = []
        self._known: dict[_Key, _Written] = {}
        self._constants: dict[bytes, tuple[str, Constant]] = {}

    def fresh(self, wish: str) -> str:
        """The wished name, or that with a number if it is taken."""
        name = wish
        while name in self._taken:
            number = self._next.get(wish, 1)
            self._next[wish] = number + 1
            name = f"{wish}_{number}"
        self._taken.add(name)
        return name

    def write(self, term: Term, label: str, output_name: str | None = None) -> str:
        """The name of a term's value, once it is in the model.

        Nodes are named after `label`. A call that is written now gets `output_name` for its value,
        if given, which must not be in use.
        """
        match term:
            case Known():
                return term.name
            case Constant():
                return self._constant(term)
            case Call():
                return self._call(term, label, label, output_name)
            case _:
                assert_never(term)

    def copy(self, source: str, name: str) -> None:
        """Gives a value one more name, which must not be in use."""
        node = _Written("Identity", (source,), (), self.fresh("identity"), [name])
        self._nodes.append(node)

    def _operand(self, term: Term | None, label: str) -> str:
        match term:
            case None:
                return ""
            case Call():
                return self._call(term, label, f"{label}/{term.op_type}", None)
            case _:
                return self.write(term, label)

    def _call(self, term: Call, label: str, name: str, output_name: str | None) -> str:
        inputs = tuple(self._operand(operand, label) for operand in term.inputs)
        key = (term.op_type, inputs, term.attributes)
        node = self._known.get(key)
        if node is None:
            least = _LEAST_OUTPUTS.get(term.op_type, 1)
            node = _Written(*key, self.fresh(name), [None] * least)
            self._known[key] = node
            self._nodes.append(node)
            self.opset = max(self.opset, term.opset)
        node.outputs += [None] * (term.output + 1 - len(node.outputs))
        found = node.outputs[term.output]
        if found is None:
            found = self._output_name(node, term.output) if output_name is None else output_name
            node.outputs[term.output] = found
        return found

    def _output_name(self, node: _Written, number: int) -> str:
        return node.name if number == 0 else self.fresh(f"{node.name}/{number}")

    def _constant(self, constant: Constant) -> str:
        known = self._constants.get(constant.digest)
        if known is None:
            known = (self.fresh(f"constant_{len(self._constants)}"), constant)
            self._constants[constant.digest] = known
        return known[0]

    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes, producers first."""
        protos = []
        for node in self._nodes:
            outputs = [
                self._output_name(node, number) if output is None else output
                for number, output in enumerate(node.outputs)
            ]
            proto = helper.make_node(node.op_type, node.inputs, outputs, node.name)
            for name, value in node.attributes:
                proto.attribute.append(helper.make_attribute(name, value))
            protos.append(proto)
        return protos

    @property
    def constants(self) -> tuple[tuple[str, Array], ...]:
        """The initializers by name, in order of first use."""
        return tuple((name, constant.array) for name, constant in self._constants.values())
