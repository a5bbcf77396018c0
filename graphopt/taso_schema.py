"""TASO's substitution files: protocol buffers to plain, checked values.

What it does: decodes a `graph_subst.pb` (proto2, package GraphSubst) and checks its structure,
since a file is untrusted: every number that points at something points at something that exists,
and comes after it. What it does not: know what operators mean (see `taso_rules`).

Operators, parameters and modes are numbered by the enumerations `OpType`, `PMParameter`,
`PaddingMode` and `ActiMode` of TASO (Jia et al., SOSP 2019), include/taso/ops.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message,
    message_factory,
)
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from graphopt.pattern import RuleError

MAX_BYTES = 1 << 22
"""A larger file is refused unread."""

MAX_OPERATORS = 64
"""Operators on one side of a substitution; TASO itself searches graphs of 4."""


class OpType(IntEnum):
    """TASO's operators as far as its generator writes them."""

    CONV2D = 3
    POOL2D_MAX = 6
    POOL2D_AVG = 7
    RELU = 8
    SIGMOID = 9
    TANH = 10
    CONCAT = 12
    SPLIT = 13
    TRANSPOSE = 15
    EW_ADD = 16
    EW_MUL = 17
    MATMUL = 18
    MUL = 19
    ENLARGE = 20
    CONSTANT_IMM = 22
    CONSTANT_ICONV = 23
    CONSTANT_ONE = 24
    CONSTANT_POOL = 25


class Parameter(IntEnum):
    """TASO's operator parameters."""

    OP_TYPE = 0
    NUM_INPUTS = 1
    NUM_OUTPUTS = 2
    GROUP = 3
    KERNEL_H = 4
    KERNEL_W = 5
    STRIDE_H = 6
    STRIDE_W = 7
    PAD = 8
    ACTI = 9
    NUMDIM = 10
    AXIS = 11
    PERM = 12
    OUTSHUFFLE = 13


class Padding(IntEnum):
    """How windows meet the border."""

    SAME = 0
    VALID = 1


class Activation(IntEnum):
    """What an operator applies to its result."""

    NONE = 0
    SIGMOID = 1
    RELU = 2
    TANH = 3


@dataclass(frozen=True, slots=True)
class Port:
    """One tensor: output `output` of operator `operator`, or pattern variable `operator` < 0."""

    operator: int
    output: int


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its number in `OpType` (or an unknown one), operands, parameters by number."""

    type: int
    inputs: tuple[Port, ...]
    params: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """The name of its type."""
        return OpType(self.type).name if self.type in list(OpType) else f"type {self.type}"

    def param(self, key: Parameter) -> int | None:
        """The value of a parameter; None if it has none."""
        return dict(self.params).get(key)


@dataclass(frozen=True, slots=True)
class Substitution:
    """Operators of both sides, producers first, and which outputs of one side replace which."""

    sources: tuple[Operator, ...]
    targets: tuple[Operator, ...]
    outputs: tuple[tuple[Port, Port], ...]


_MESSAGES: tuple[tuple[str, tuple[tuple[str, int, str, str], ...]], ...] = (
    ("Parameter", (("key", 1, "required", "int32"), ("value", 2, "required", "int32"))),
    ("Tensor", (("opId", 1, "required", "int32"), ("tsId", 2, "required", "int32"))),
    (
        "Operator",
        (
            ("type", 1, "required", "int32"),
            ("input", 2, "repeated", "Tensor"),
            ("para", 3, "repeated", "Parameter"),
        ),
    ),
    (
        "MapOutput",
        (
            ("srcOpId", 1, "required", "int32"),
            ("dstOpId", 2, "required", "int32"),
            ("srcTsId", 3, "required", "int32"),
            ("dstTsId", 4, "required", "int32"),
        ),
    ),
    (
        "Rule",
        (
            ("srcOp", 1, "repeated", "Operator"),
            ("dstOp", 2, "repeated", "Operator"),
            ("mappedOutput", 3, "repeated", "MapOutput"),
        ),
    ),
    ("RuleCollection", (("rule", 1, "repeated", "Rule"),)),
)
"""Messages: (field, number, label, type)."""


@cache
def collection_class() -> Any:
    """The message class RuleCollection, in a descriptor pool of its own."""
    field = descriptor_pb2.FieldDescriptorProto
    labels = {"required": field.LABEL_REQUIRED, "repeated": field.LABEL_REPEATED}
    file = descriptor_pb2.FileDescriptorProto(
        name="rules.proto", package="GraphSubst", syntax="proto2"
    )
    for name, fields in _MESSAGES:
        described = file.message_type.add(name=name)
        for field_name, number, label, type_name in fields:
            added = described.field.add(name=field_name, number=number, label=labels[label])
            if type_name == "int32":
                added.type = field.TYPE_INT32
            else:
                added.type = field.TYPE_MESSAGE
                added.type_name = f".GraphSubst.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("GraphSubst.RuleCollection"))


def load_substitutions(path: Path | str) -> tuple[Substitution, ...]:
    """The substitutions of a file, in order. Raises RuleError, one line that names the file."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RuleError(f"{path}: expected a readable rule file, got {error.strerror}") from None
    return decode_substitutions(data, str(path))


def decode_substitutions(data: bytes, file: str = "rules") -> tuple[Substitution, ...]:
    """The substitutions that bytes say; `file` names them in errors. Raises RuleError."""
    if len(data) > MAX_BYTES:
        raise RuleError(f"{file}: expected at most {MAX_BYTES} bytes; split the file")
    collection = collection_class()()
    try:
        collection.ParseFromString(data)
    except (message.DecodeError, RecursionError):
        raise RuleError(
            f"{file}: expected TASO's RuleCollection, got a truncated or another file"
        ) from None
    if not collection.rule:
        raise RuleError(f"{file}: expected at least one substitution, got none")
    _require_known(collection, file)
    return tuple(
        _substitution(rule, f"{file}: substitution {index}")
        for index, rule in enumerate(collection.rule)
    )


def _require_known(value: Any, place: str) -> None:
    """Refuse fields that the schema has not: another kind of message may parse as this one."""
    if len(UnknownFieldSet(value)):
        raise RuleError(f"{place}: expected TASO's RuleCollection, got fields that it has not")
    for field, content in value.ListFields():
        if field.message_type is not None:
            for item in content:
                _require_known(item, place)


def _substitution(rule: Any, place: str) -> Substitution:
    variables: set[int] = set()
    sources = _operators(rule.srcOp, variables, False, f"{place}, source")
    targets = _operators(rule.dstOp, variables, True, f"{place}, target")
    if not rule.mappedOutput:
        raise RuleError(f"{place}: expected an output, got none")
    outputs = []
    for mapped in rule.mappedOutput:
        _require_index(mapped.srcOpId, len(sources), "an operator of the source", place)
        _require_index(mapped.dstOpId, len(targets), "an operator of the target", place)
        source = Port(mapped.srcOpId, mapped.srcTsId)
        target = Port(mapped.dstOpId, mapped.dstTsId)
        _require_output(source, sources, place)
        _require_output(target, targets, place)
        outputs.append((source, target))
    if len({source for source, _ in outputs}) < len(outputs):
        raise RuleError(f"{place}: expected each output replaced once, got one twice")
    return Substitution(sources, targets, tuple(outputs))


def _operators(
    messages: Any, variables: set[int], closed: bool, place: str
) -> tuple[Operator, ...]:
    """The operators of one side; variables are collected, or (closed) must be known."""
    if not 1 <= len(messages) <= MAX_OPERATORS:
        raise RuleError(f"{place}: expected 1 to {MAX_OPERATORS} operators, got {len(messages)}")
    operators: list[Operator] = []
    for index, described in enumerate(messages):
        where = f"{place} operator {index}"
        inputs = tuple(Port(tensor.opId, tensor.tsId) for tensor in described.input)
        for port in inputs:
            if port.operator >= 0:
                _require_index(port.operator, index, "an earlier operator", where)
                _require_output(port, operators, where)
            elif port.output != 0:
                raise RuleError(f"{where}: expected output 0 of a variable, got {port.output}")
            elif not closed:
                variables.add(port.operator)
            elif port.operator not in variables:
                raise RuleError(f"{where}: expected a variable of the source, got {port.operator}")
        params = tuple((entry.key, entry.value) for entry in described.para)
        if len(dict(params)) < len(params):
            raise RuleError(f"{where}: expected each parameter once, got one twice")
        operators.append(Operator(described.type, inputs, params))
    return tuple(operators)


def _require_index(index: int, count: int, what: str, place: str) -> None:
    if not 0 <= index < count:
        raise RuleError(f"{place}: expected the number of {what}, below {count}, got {index}")


def _require_output(port: Port, operators: Sequence[Operator], place: str) -> None:
    producer = operators[port.operator]
    count = producer.param(Parameter.NUM_OUTPUTS) if producer.type == OpType.SPLIT else 1
    _require_index(port.output, 1 if count is None else count, "an output", place)
