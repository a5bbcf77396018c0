"""Importers that convert between element types, narrow ones included: Cast, CastLike and BitCast;
and the way in which operators that only move elements move those of narrow types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphopt.graph import Value
from graphopt.onnx_import.narrow import BY_NUMBER, Encoded, NarrowType, decoded, encoded
from graphopt.onnx_import.node import Importer, OnnxNode, Operand
from graphopt.onnx_import.protobuf import element_type
from graphopt.terms import bitcast, cast
from tensorgen.types import DType, boolean, float32

_MOVES = frozenset(
    (
        "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile",
        "Transpose", "Unsqueeze",
    )
)  # fmt: skip
"""Operators of one tensor whose result holds its elements and no others."""


def on_codes(importer: Importer, node: OnnxNode) -> tuple[Operand, ...]:
    """What the importer makes of the node. Operators that only move elements move codes."""
    moved = node.any_optional(0)
    if node.op_type not in _MOVES or node.domain or not isinstance(moved, Encoded):
        return importer(node)
    results = importer(replace(node, inputs=(moved.codes, *node.inputs[1:])))
    return tuple(Encoded(node.tensor_of(value), moved.type) for value in results)


def _cast(node: OnnxNode) -> tuple[Operand, ...]:
    number = node.integer("to")
    narrow = BY_NUMBER.get(number)
    return (_converted(node, element_type(number, node.place) if narrow is None else narrow),)


def _cast_like(node: OnnxNode) -> tuple[Operand, ...]:
    like = node.any_operand(1)
    target = like.type if isinstance(like, Encoded) else node.tensor_of(like).type.dtype
    return (_converted(node, target),)


def _converted(node: OnnxNode, target: DType | NarrowType) -> Operand:
    x = node.any_operand(0)
    if isinstance(target, DType):
        return decoded(x, target) if isinstance(x, Encoded) else cast(node.tensor_of(x), target)
    if isinstance(x, Encoded) and x.type == target:
        return x
    # float32 holds every value of every narrow type.
    values = decoded(x, float32) if isinstance(x, Encoded) else node.tensor_of(x)
    rounding = node.text("round_mode", "up")
    if rounding not in ("up", "down", "nearest"):
        raise node.error("round_mode up, down or nearest", rounding)
    return encoded(values, target, saturate=node.integer("saturate", 1) != 0, rounding=rounding)


def _bit_cast(node: OnnxNode) -> tuple[Value, ...]:
    """A bool is a byte of 0 or 1, so conversion keeps its bits."""
    x, target = node.input(0), element_type(node.integer("to"), node.place)
    if boolean in (target, x.type.dtype) and target.bits == x.type.dtype.bits:
        return (cast(x, target),)
    return (bitcast(x, target),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "BitCast"): _bit_cast,
    ("", "Cast"): _cast,
    ("", "CastLike"): _cast_like,
}
