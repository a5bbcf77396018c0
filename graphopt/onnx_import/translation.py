"""From a checked ONNX graph to a `Graph`: node by node, in the model's order, folding as it goes.

A node becomes values by the first that applies: the model's own function of that name, an importer
from the table, the body that ONNX gives the operator. Operators on constants are computed at once,
so shape arithmetic is gone by the time an importer asks for its result.

It checks what the checker may have missed (unknown names, repeated names, recursion) and bounds
the work: a small model may not stand for an unlimited number of nodes.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx

from graphopt.graph import Constant, Graph, Value
from graphopt.onnx_import.conversion import on_codes
from graphopt.onnx_import.errors import ModelError, UnsupportedOperator, printable, quoted
from graphopt.onnx_import.functions import Body, body_of, plain_attribute, schema_defaults
from graphopt.onnx_import.loading import LoadedModel, canonical_domain, opset_versions
from graphopt.onnx_import.narrow import Encoded, constant_of
from graphopt.onnx_import.node import Attribute, OnnxNode, Operand, Subgraph, TensorSequence
from graphopt.onnx_import.protobuf import TensorReader, element_type, item_type
from graphopt.onnx_import.signature import Signature, item_names
from graphopt.onnx_import.table import importer_for
from graphopt.reference import ConstantFolder
from tensorgen.types import ShapeError

MAX_NODES = 100_000
"""Nodes imported from one model, counting each time a function or loop body is read."""

MAX_DEPTH = 32
"""Functions and subgraphs inside one another."""

Names = ChainMap[str, Operand | None]
FunctionKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Scope:
    """What surrounds a node: names in reach (innermost first), opsets, attributes, nesting."""

    names: Names
    opsets: Mapping[str, int]
    attributes: Mapping[str, Attribute]
    path: str
    depth: int

    def inner(self) -> _Scope:
        return replace(self, names=self.names.new_child(), depth=self.depth + 1)


def translate(model: LoadedModel, signature: Signature) -> Graph:
    """The model as a graph over the signature's free inputs."""
    translation = _Translation(model, signature)
    scope = _Scope(
        ChainMap(dict(signature.values)), opset_versions(model.proto.opset_import), {}, "", 0
    )
    proto = model.proto.graph
    outputs = translation.graph(proto, scope, ())
    names: list[str] = []
    tensors: list[Value] = []
    for declared, value in zip(proto.output, outputs, strict=True):
        if isinstance(value, TensorSequence):
            names += item_names(declared.name, len(value.items))
            tensors += [_checked_output(declared, item) for item in value.items]
        else:
            names.append(declared.name)
            tensors.append(_checked_output(declared, value))
    return Graph(signature.inputs, tuple(tensors), signature.names, tuple(names))


def _checked_output(declared: onnx.ValueInfoProto, value: Value | Encoded) -> Value:
    """The output, which must have the declared element type."""
    place = f"output {quoted(declared.name)}"
    tensor = item_type(declared.type)
    number = onnx.TensorProto.UNDEFINED if tensor is None else tensor.elem_type
    if isinstance(value, Encoded):
        if number not in (onnx.TensorProto.UNDEFINED, value.type.number):
            raise ModelError(f"{place}: expected its declared element type, got {value.type.name}")
        return value.codes
    if number == onnx.TensorProto.UNDEFINED:
        return value
    expected = element_type(number, place)
    if expected != value.type.dtype:
        raise ModelError(
            f"{place}: expected {expected.name} as declared, got {value.type.dtype.name}"
        )
    return value


class _Translation:
    """One import in progress: its functions, what was folded, and how many nodes were read."""

    def __init__(self, model: LoadedModel, signature: Signature) -> None:
        self._reader: TensorReader = model.reader
        self._graph_inputs = signature.names
        self._fold = ConstantFolder()
        self._nodes = 0
        self._functions: dict[FunctionKey, onnx.FunctionProto] = {
            (canonical_domain(item.domain), item.name, item.overload): item
            for item in model.proto.functions
        }
        self._defaults: dict[tuple[str, int, str], Mapping[str, Attribute]] = {}

    def graph(
        self, proto: onnx.GraphProto, scope: _Scope, arguments: Sequence[Operand]
    ) -> tuple[Operand, ...]:
        """The values of a graph's outputs, with `arguments` for its inputs."""
        for declared, argument in zip(proto.input, arguments, strict=False):
            scope.names[declared.name] = argument
        own = scope.names.maps[0]
        for tensor in proto.initializer:
            if tensor.name not in own:
                scope.names[tensor.name] = constant_of(self._reader.read(tensor))
        for sparse in proto.sparse_initializer:
            if sparse.values.name not in own:
                scope.names[sparse.values.name] = Constant(self._reader.read_sparse(sparse))
        for node in proto.node:
            self._node(node, scope)
        return tuple(self._output(value.name, scope) for value in proto.output)

    def _output(self, name: str, scope: _Scope) -> Operand:
        value = scope.names.get(name)
        if value is None:
            raise ModelError(f"output {quoted(name)}: expected a node that computes it, got none")
        return value

    def _node(self, proto: onnx.NodeProto, scope: _Scope) -> None:
        """Import one node and bind its outputs."""
        self._nodes += 1
        node = self._decoded(proto, scope)
        if self._nodes > MAX_NODES:
            raise ModelError(f"model: expected at most {MAX_NODES} nodes, got more")
        values = self._values(node, scope, proto.overload)
        for position, name in enumerate(node.outputs):
            if name == "":
                continue
            value = values[position] if position < len(values) else None
            if value is None:
                raise node.error(f"no output {position}", quoted(name))
            if name in scope.names.maps[0]:
                raise node.error("outputs with new names", quoted(name))
            scope.names[name] = value

    def _decoded(self, proto: onnx.NodeProto, scope: _Scope) -> OnnxNode:
        domain = canonical_domain(proto.domain)
        version = scope.opsets.get(domain, 1)
        label = proto.name if proto.name else next((name for name in proto.output if name), "")
        attributes = dict(self._default_attributes(proto.op_type, version, domain))
        for attribute in proto.attribute:
            value = self._attribute(attribute, scope)
            if value is not None:
                attributes[attribute.name] = value
        node = OnnxNode(
            op_type=proto.op_type,
            domain=domain,
            version=version,
            name=scope.path + label,
            inputs=(),
            attributes=attributes,
            outputs=tuple(proto.output),
            graph_inputs=self._graph_inputs,
            call_node=lambda called: self._called(called, scope),
        )
        operands = tuple(self._operand(name, node, scope) for name in proto.input)
        return replace(node, inputs=operands)

    def _operand(self, name: str, node: OnnxNode, scope: _Scope) -> Operand | None:
        if name == "":
            return None
        if name not in scope.names:
            raise node.error(
                "operands computed before it",
                quoted(name),
                "the graph has a cycle, is not sorted, or misses a node",
            )
        return scope.names[name]

    def _default_attributes(
        self, op_type: str, version: int, domain: str
    ) -> Mapping[str, Attribute]:
        key = (op_type, version, domain)
        if key not in self._defaults:
            self._defaults[key] = schema_defaults(op_type, version, domain, self._reader)
        return self._defaults[key]

    def _attribute(self, proto: onnx.AttributeProto, scope: _Scope) -> Attribute | None:
        if proto.ref_attr_name:
            return scope.attributes.get(proto.ref_attr_name)
        if proto.type == onnx.AttributeProto.GRAPH:
            return self._subgraph(proto.g, scope)
        return plain_attribute(proto, self._reader)

    def _subgraph(self, proto: onnx.GraphProto, scope: _Scope) -> Subgraph:
        def build(arguments: Sequence[Operand]) -> tuple[Operand, ...]:
            return self.graph(proto, _deeper(scope.inner()), arguments)

        return Subgraph(
            proto,
            tuple(value.name for value in proto.input),
            tuple(value.name for value in proto.output),
            build,
        )

    def _called(self, node: OnnxNode, scope: _Scope) -> tuple[Value, ...]:
        """Import a node that an importer builds in place of its own."""
        defaults = self._default_attributes(node.op_type, node.version, node.domain)
        called = replace(node, attributes={**defaults, **node.attributes})
        values = self._values(called, scope, "")
        return tuple(node.tensor_of(value) for value in values if value is not None)

    def _values(self, node: OnnxNode, scope: _Scope, overload: str) -> tuple[Operand | None, ...]:
        """The node's output values, folded; None may stand for an output that is not used."""
        function = self._functions.get((node.domain, node.op_type, overload))
        if function is not None:
            return self._function(Body(function, node.inputs, node.attributes), node, scope)
        importer = importer_for(node.domain, node.op_type, node.version)
        if importer is None:
            body = body_of(node)
            if body is None:
                domain = f"{printable(node.domain)}." if node.domain else ""
                raise UnsupportedOperator(
                    f"{node.place}: expected an operator that Tasor imports, got "
                    f"{domain}{printable(node.op_type)} of opset {node.version}"
                )
            return self._function(body, node, scope)
        try:
            return tuple(map(self._folded, on_codes(importer, node)))
        except ShapeError as error:
            raise ModelError(f"{node.place}: {error}") from None
        except MemoryError:
            raise node.error("sizes that fit into memory", "larger ones") from None

    def _folded(self, value: Operand) -> Operand:
        match value:
            case TensorSequence(items):
                return TensorSequence(tuple(map(self._fold, items)))
            case Encoded(codes, type):
                return Encoded(self._fold(codes), type)
            case _:
                return self._fold(value)

    def _function(self, body: Body, node: OnnxNode, scope: _Scope) -> tuple[Operand | None, ...]:
        """Import a function's body in the node's place."""
        proto = body.proto
        attributes = dict(body.attributes)
        for default in proto.attribute_proto:
            value = plain_attribute(default, self._reader)
            if default.name not in attributes and value is not None:
                attributes[default.name] = value
        names: Names = ChainMap(dict.fromkeys(proto.input))
        names.update(zip(proto.input, body.inputs, strict=False))
        inner = _deeper(
            _Scope(
                names,
                {**scope.opsets, **opset_versions(proto.opset_import)},
                attributes,
                f"{node.name}/",
                scope.depth + 1,
            )
        )
        for statement in proto.node:
            self._node(statement, inner)
        return tuple(
            self._output(name, inner) if bound else None
            for name, bound in zip(proto.output, node.outputs, strict=False)
        )


def _deeper(scope: _Scope) -> _Scope:
    if scope.depth > MAX_DEPTH:
        raise ModelError(
            f"model: expected functions and subgraphs nested at most {MAX_DEPTH} deep, got more "
            f"(a function that calls itself?)"
        )
    return scope
