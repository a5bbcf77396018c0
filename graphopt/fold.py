"""Constant folding: what depends on constants alone is computed once, at compile time.

What it does: replaces each node whose operands are all constants by the constant it computes, with
the operator's reference in the element type's own arithmetic. Growth is not folded: a result that
is larger than the constants it is made from stays a node (broadcasts, expansions), unless it is
small; so does what would take too long to compute.

What it does not: common subexpressions need no pass, since equal terms have equal digests and are
one value; dead code needs none either, since a graph is what its outputs reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from graphopt.graph import Constant, Graph, Node, Value, rebuild
from graphopt.ops.spec import expression_of
from tensorgen.expr import Reduce, walk
from tensorgen.types import type_of


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """What may be folded.

    A result of at most `small_bytes`, or of at most `growth` times the bytes of its operands, that
    takes at most `work` evaluations of scalar terms.
    """

    small_bytes: int = 2**16
    growth: float = 1.0
    work: int = 2**31


DEFAULT_LIMITS = FoldLimits()


def fold_constants(graph: Graph, limits: FoldLimits = DEFAULT_LIMITS) -> Graph:
    """The graph with its constant nodes computed; the same object if there are none to compute."""
    return rebuild(graph, lambda node: fold_node(node, limits))


def fold_node(node: Node, limits: FoldLimits = DEFAULT_LIMITS) -> Value:
    """The constant that a node computes; the node itself if it has other operands or is too big."""
    operands = [value for value in node.inputs if isinstance(value, Constant)]
    if len(operands) != len(node.inputs) or not _is_foldable(node, operands, limits):
        return node
    with np.errstate(all="ignore"):
        array = node.op.reference(*(value.array for value in operands), **node.keywords)
    result = np.ascontiguousarray(array).reshape(node.type.shape)
    assert type_of(result) == node.type, f"{node.op.name}: reference gives {type_of(result)}"
    return Constant(result)


def _is_foldable(node: Node, operands: list[Constant], limits: FoldLimits) -> bool:
    given = sum(value.type.bytes for value in set(operands))
    if node.type.bytes > max(limits.small_bytes, limits.growth * given):
        return False
    return _work(node) <= limits.work


def _work(node: Node) -> int:
    """Upper estimate of the scalar terms that the meaning of a node evaluates."""
    expression = expression_of(node)
    reductions = (
        prod(axis.extent for axis in term.axes)
        for term in walk(expression.body)
        if isinstance(term, Reduce)
    )
    return node.type.size * prod(max(extent, 1) for extent in reductions)
