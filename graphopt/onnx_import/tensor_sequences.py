"""Importers of ONNX's sequences of tensors and of its optional values.

A sequence is gone once the model is imported: its length, and every position in it, must be known
by then. An optional value that is there is the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.graph import Value
from graphopt.onnx_import.node import Importer, OnnxNode, Operand, TensorSequence
from graphopt.terms import concat, reshape, scalar, slice_axis
from tensorgen.types import Shape, boolean, int64

MAX_ITEMS = 4096
"""A tensor is not split into more parts."""


def _empty(node: OnnxNode) -> tuple[Operand, ...]:
    return (TensorSequence(()),)


def _construct(node: OnnxNode) -> tuple[Operand, ...]:
    return (TensorSequence(node.operands),)


def _insert(node: OnnxNode) -> tuple[Operand, ...]:
    """Before the item at the position; at the end without one."""
    items, tensor = node.sequence(0).items, node.input(1)
    at = len(items) if node.optional(2) is None else _position(node, 2, len(items) + 1)
    return (TensorSequence((*items[:at], tensor, *items[at:])),)


def _erase(node: OnnxNode) -> tuple[Operand, ...]:
    items = node.sequence(0).items
    at = len(items) - 1 if node.optional(1) is None else _position(node, 1, len(items))
    if not items:
        raise node.error("a sequence with an item to erase", "an empty one")
    return (TensorSequence((*items[:at], *items[at + 1 :])),)


def _at(node: OnnxNode) -> tuple[Operand, ...]:
    items = node.sequence(0).items
    return (items[_position(node, 1, len(items))],)


def _position(node: OnnxNode, operand: int, count: int) -> int:
    """A position among `count`, counted from the last item's if negative."""
    value = node.integer_of(operand, "the position in the sequence")
    # An insertion has one position more than there are items, but counts back from the items' end.
    items = count - 1 if node.op_type == "SequenceInsert" else count
    position = value + items if value < 0 else value
    if not 0 <= position < count:
        raise node.error(f"a position within -{items} … {count - 1}", value)
    return position


def _length(node: OnnxNode) -> tuple[Operand, ...]:
    return (scalar(len(node.sequence(0).items), int64),)


def _concat(node: OnnxNode) -> tuple[Operand, ...]:
    """All items joined along an axis, or along a new one."""
    items = node.sequence(0).items
    if not items:
        raise node.error("a sequence with items to join", "an empty one")
    rank, is_new = items[0].type.rank, node.integer("new_axis", 0) == 1
    axis = node.axis(node.integer("axis"), rank + is_new)
    if is_new:
        items = tuple(_with_axis(item, axis) for item in items)
    return (concat(items, axis),)


def _with_axis(x: Value, axis: int) -> Value:
    return reshape(x, (*x.type.shape[:axis], 1, *x.type.shape[axis:]))


def _split(node: OnnxNode) -> tuple[Operand, ...]:
    """Parts of given sizes; of one given size, the last one smaller; or of size one."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0), x.type.rank)
    total = x.type.shape[axis]
    sizes = _part_sizes(node, total)
    drop = node.optional(1) is None and node.integer("keepdims", 1) == 0
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    parts = (slice_axis(x, axis, start, size) for start, size in zip(starts, sizes, strict=True))
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    return (TensorSequence(tuple(reshape(part, shape) if drop else part for part in parts)),)


def _part_sizes(node: OnnxNode, total: int) -> Shape:
    given = None if node.optional(1) is None else node.integers_of(1, "the sizes of the parts")
    if given is not None and node.input(1).type.rank == 1:
        if sum(given) != total or min(given, default=0) < 0:
            raise node.error(f"sizes that add up to {total}", list(given))
        return given
    size = 1 if given is None else given[0]
    if size < 1:
        raise node.error("parts of at least one element", size)
    count = -(-total // size)
    if count > MAX_ITEMS:
        raise node.unsupported(f"at most {MAX_ITEMS} parts", count)
    return tuple(min(size, total - start) for start in range(0, total, size))


def _itself(node: OnnxNode) -> tuple[Operand, ...]:
    if not node.inputs:
        raise node.unsupported("an optional value that is there", "none")
    return (node.any_operand(0),)


def _has_element(node: OnnxNode) -> tuple[Operand, ...]:
    return (scalar(bool(node.inputs) and node.inputs[0] is not None, boolean),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "ConcatFromSequence"): _concat,
    ("", "Identity"): _itself,
    ("", "Optional"): _itself,
    ("", "OptionalGetElement"): _itself,
    ("", "OptionalHasElement"): _has_element,
    ("", "SequenceAt"): _at,
    ("", "SequenceConstruct"): _construct,
    ("", "SequenceEmpty"): _empty,
    ("", "SequenceErase"): _erase,
    ("", "SequenceInsert"): _insert,
    ("", "SequenceLength"): _length,
    ("", "SplitToSequence"): _split,
}
