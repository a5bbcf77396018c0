"""A graph as the parts of an ONNX model: nodes in order, names settled, constants collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from graphopt.graph import Constant, Graph, Node, Value, rebuild
from graphopt.onnx_export.errors import ExportError
from graphopt.onnx_export.fusion import fusions
from graphopt.onnx_export.table import EXPORTERS
from graphopt.onnx_export.term import Known
from graphopt.onnx_export.writer import Writer
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.protobuf import element_number
from tensorgen.types import Array

PRODUCER = "tasor"
GRAPH_NAME = "graph"


@dataclass(frozen=True, slots=True)
class Draft:
    """A model but for where its constants are stored."""

    opset: int
    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[onnx.ValueInfoProto, ...]
    outputs: tuple[onnx.ValueInfoProto, ...]
    inner: tuple[onnx.ValueInfoProto, ...]
    constants: tuple[tuple[str, Array], ...]

    @property
    def constant_bytes(self) -> int:
        """The size of all constants."""
        return sum(array.nbytes for _, array in self.constants)

    def model(
        self, tensor: Callable[[str, Array], onnx.TensorProto], producer_version: str
    ) -> onnx.ModelProto:
        """The model, with each constant as `tensor(name, array)` has it."""
        opsets = [helper.make_opsetid("", self.opset)]
        graph = helper.make_graph(
            self.nodes,
            GRAPH_NAME,
            self.inputs,
            self.outputs,
            [tensor(name, array) for name, array in self.constants],
            value_info=self.inner,
        )
        return helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
            producer_name=PRODUCER,
            producer_version=producer_version,
        )


def draft(graph: Graph) -> Draft:
    """The parts of a graph's model. ExportError if its names are none for ONNX."""
    _check_names(graph)
    graph = rebuild(graph, _empty_as_constant)
    writer = Writer((*graph.input_names, *graph.output_names))
    names = _written(graph, writer)
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        source = writer.write(value, name) if isinstance(value, Constant) else names[value]
        if source != name:
            writer.copy(source, name)
    if writer.opset > onnx.defs.onnx_opset_version():
        raise ExportError(
            f"model: expected an onnx package that knows opset {writer.opset}, got one that knows "
            f"{onnx.defs.onnx_opset_version()}; update it"
        )
    inner = {name: value for value, name in names.items()}
    settled = {*graph.input_names, *graph.output_names, *(name for name, _ in writer.constants)}
    return Draft(
        writer.opset,
        tuple(writer.nodes()),
        _declarations(zip(graph.input_names, graph.inputs, strict=True)),
        _declarations(zip(graph.output_names, graph.outputs, strict=True)),
        _declarations((name, value) for name, value in inner.items() if name not in settled),
        writer.constants,
    )


def _empty_as_constant(node: Node) -> Value:
    """What has no elements needs no operator; runtimes stumble over some of these."""
    return node if node.type.size else Constant(np.empty(node.type.shape, node.type.dtype.numpy))


def _written(graph: Graph, writer: Writer) -> dict[Value, str]:
    """Writes every node, and gives the name of each value that is no constant."""
    names: dict[Value, str] = dict(zip(graph.inputs, graph.input_names, strict=True))
    wanted: dict[Value, str] = {}
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        wanted.setdefault(value, name)
    fused, absorbed = fusions(graph)
    for index, node in enumerate(node for node in graph.nodes if node not in absorbed):
        group = fused.get(node)
        operands = tuple(
            value if isinstance(value, Constant) else Known(names[value], value.type)
            for value in (node.inputs if group is None else group.operands)
        )
        if group is None:
            label, term = node.op.name, EXPORTERS[node.op.name](node, *operands)
        else:
            label, term = group.name, group.build(*operands)
        assert term.type == node.type, f"{label}: {term.type} for {node.type}"
        names[node] = writer.write(term, f"{label}_{index}", wanted.get(node))
    return names


def _declarations(named: Iterable[tuple[str, Value]]) -> tuple[onnx.ValueInfoProto, ...]:
    return tuple(
        helper.make_tensor_value_info(name, element_number(value.type.dtype), value.type.shape)
        for name, value in named
    )


def _check_names(graph: Graph) -> None:
    """Names are not empty, and none stands for two values."""
    known: dict[str, Value] = {}
    inputs = zip(graph.input_names, graph.inputs, strict=True)
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    for purpose, name, value in (
        *(("input", *pair) for pair in inputs),
        *(("output", *pair) for pair in outputs),
    ):
        place = f"{purpose} {quoted(name)}"
        if name == "":
            raise ExportError(f"{place}: expected a name, got none; rename it")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ExportError(
                f"{place}: expected Unicode text, got surrogates; rename it"
            ) from None
        if known.setdefault(name, value) != value:
            raise ExportError(f"{place}: expected one value of that name, got two; rename one")
