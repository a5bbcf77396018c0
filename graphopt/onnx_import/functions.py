"""Bodies of the operators that ONNX itself defines through others.

The `onnx` library holds these definitions; nothing here retypes them. For some operators the body
depends on the node's attributes and on its operand types, both of which are known exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

import numpy as np
import onnx
from onnx import defs, helper

from graphopt.graph import Constant
from graphopt.onnx_import.errors import printable
from graphopt.onnx_import.narrow import Encoded
from graphopt.onnx_import.node import Attribute, OnnxNode, Operand, Subgraph, TensorSequence
from graphopt.onnx_import.protobuf import TensorReader, element_number

BODY_FROM_LATER: Mapping[str, int] = {
    # Operators whose meaning did not change when ONNX first gave them a body, at this opset: the
    # versions before differ in admitted types, or have as attribute what became an input.
    "DepthToSpace": 28,
    "LeakyRelu": 16,
    "ReduceL1": 18,
    "ReduceL2": 18,
    "ReduceLogSum": 18,
    "ReduceLogSumExp": 18,
    "ReduceSumSquare": 18,
    "SpaceToDepth": 28,
}


class _Schema(Protocol):
    """What the library's `OpSchema` offers beyond its own type declarations."""

    @property
    def attributes(self) -> Mapping[str, defs.OpSchema.Attribute]: ...
    @property
    def inputs(self) -> Sequence[defs.OpSchema.FormalParameter]: ...
    @property
    def function_opset_versions(self) -> Sequence[int]: ...
    @property
    def context_dependent_function_opset_versions(self) -> Sequence[int]: ...
    def get_function_with_opset_version(self, version: int, /) -> bytes: ...
    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes], /
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Body:
    """A function body with the operands and attributes to read it with."""

    proto: onnx.FunctionProto
    inputs: tuple[Operand | None, ...]
    attributes: Mapping[str, Attribute]


@cache
def schema_of(op_type: str, version: int, domain: str) -> _Schema | None:
    """The operator's definition in force at that opset version; None if there is none."""
    try:
        return cast(_Schema, defs.get_schema(op_type, version, domain))
    except defs.SchemaError:
        return None


def schema_defaults(
    op_type: str, version: int, domain: str, reader: TensorReader
) -> dict[str, Attribute]:
    """The attributes that the operator's definition gives a default, decoded."""
    schema = schema_of(op_type, version, domain)
    if schema is None:
        return {}
    decoded = {
        name: plain_attribute(attribute.default_value, reader)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
    }
    return {name: value for name, value in decoded.items() if value is not None}


def plain_attribute(proto: onnx.AttributeProto, reader: TensorReader) -> Attribute | None:
    """An attribute that is no graph, decoded; None for kinds that no importer reads."""
    kind = onnx.AttributeProto
    match proto.type:
        case kind.INT:
            return int(proto.i)
        case kind.FLOAT:
            return float(proto.f)
        case kind.STRING:
            return _text(proto.s)
        case kind.INTS:
            return tuple(int(item) for item in proto.ints)
        case kind.FLOATS:
            return tuple(float(item) for item in proto.floats)
        case kind.STRINGS:
            return tuple(_text(item) for item in proto.strings)
        case kind.TENSOR:
            return reader.read(proto.t)
        case kind.SPARSE_TENSOR:
            return reader.read_sparse(proto.sparse_tensor)
        case _:
            return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def body_of(node: OnnxNode) -> Body | None:
    """The body by which ONNX defines the node's operator; None if it has none."""
    schema = schema_of(node.op_type, node.version, node.domain)
    if schema is None:
        return None
    version = node.version
    attributes, operands = dict(node.attributes), list(node.inputs)
    if not _has_body(schema):
        later = BODY_FROM_LATER.get(node.op_type) if node.domain == "" else None
        schema = None if later is None else schema_of(node.op_type, later, "")
        if schema is None or later is None:
            return None
        version = later
        _move_attributes_to_inputs(schema, attributes, operands)
    proto = _fixed_body(schema, version)
    if proto is None:
        proto = _dependent_body(schema, version, node, attributes, operands)
    return None if proto is None else Body(proto, tuple(operands), attributes)


def _has_body(schema: _Schema) -> bool:
    return bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions)


def _in_force(versions: Sequence[int], version: int) -> int:
    """The latest body not newer than the model's opset, or else the earliest."""
    return max((item for item in versions if item <= version), default=min(versions))


def _fixed_body(schema: _Schema, version: int) -> onnx.FunctionProto | None:
    versions = schema.function_opset_versions
    if not versions:
        return None
    body = schema.get_function_with_opset_version(_in_force(versions, version))
    return _parsed(body)


def _dependent_body(
    schema: _Schema,
    version: int,
    node: OnnxNode,
    attributes: Mapping[str, Attribute],
    operands: Sequence[Operand | None],
) -> onnx.FunctionProto | None:
    versions = schema.context_dependent_function_opset_versions
    if not versions:
        return None
    proto = helper.make_node(
        node.op_type,
        ["" if value is None else f"operand_{n}" for n, value in enumerate(operands)],
        ["" if not name else f"result_{n}" for n, name in enumerate(node.outputs)],
        domain=node.domain,
    )
    for name, value in sorted(attributes.items()):
        proto.attribute.append(_encoded(name, value, schema))
    types = [_type_proto(value).SerializeToString() for value in operands]
    try:
        body = schema.get_context_dependent_function_with_opset_version(
            _in_force(versions, version), proto.SerializeToString(), types
        )
    except Exception as error:  # the library's exceptions have no common base
        raise node.error("operands and attributes that ONNX defines", printable(error)) from None
    return _parsed(body) if body else None


def _parsed(body: bytes) -> onnx.FunctionProto:
    proto: onnx.FunctionProto = onnx.FunctionProto.FromString(body)
    return proto


def _encoded(name: str, value: Attribute, schema: _Schema) -> onnx.AttributeProto:
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, onnx.numpy_helper.from_array(value))
    if isinstance(value, Subgraph):
        return helper.make_attribute(name, value.proto)
    declared = schema.attributes.get(name)
    if value == () and declared is not None:
        return helper.make_attribute(name, value, attr_type=_number(declared))
    return helper.make_attribute(name, value)


def _number(declared: defs.OpSchema.Attribute) -> int:
    """The attribute type as `AttributeProto` numbers it."""
    kind: int = getattr(onnx.AttributeProto, str(declared.type).rpartition(".")[2])
    return kind


def _type_proto(value: Operand | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, TensorSequence):
        item = _type_proto(value.items[0]) if value.items else onnx.TypeProto()
        return helper.make_sequence_type_proto(item)
    if isinstance(value, Encoded):
        return helper.make_tensor_type_proto(value.type.number, list(value.codes.type.shape))
    number = element_number(value.type.dtype)
    return helper.make_tensor_type_proto(number, list(value.type.shape))


def _move_attributes_to_inputs(
    schema: _Schema, attributes: dict[str, Attribute], operands: list[Operand | None]
) -> None:
    """Give as constant operands the attributes that the later definition has as inputs."""
    for position, formal in enumerate(schema.inputs):
        value = attributes.pop(formal.name, None)
        if value is not None:
            operands.extend([None] * (position + 1 - len(operands)))
            operands[position] = Constant(np.array(value, dtype=np.int64))
