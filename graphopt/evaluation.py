"""The arrays that values on constants stand for, by the operators' meanings or their references.

What it does: evaluates each distinct value once. What it does not: graphs with inputs (see
`reference.evaluate_graph`), single elements exactly (see `verify.exact`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphopt.graph import Constant, Input, Node, Value, topological_order
from graphopt.ops.spec import expression_of
from tensorgen.evaluate import evaluate as evaluate_expression
from tensorgen.types import Array

NodeValue = Callable[[Node, Sequence[Array]], Array]
"""The value of a node for given operands."""


def by_meaning(node: Node, operands: Sequence[Array]) -> Array:
    """The value of a node by its tensor expression."""
    return evaluate_expression(expression_of(node), operands)


def by_reference(node: Node, operands: Sequence[Array]) -> Array:
    """The value of a node by its numpy reference, which is many times faster."""
    return node.op.reference(*operands, **node.keywords)


def evaluated(values: Sequence[Value], value_of: NodeValue = by_reference) -> dict[bytes, Array]:
    """The array of every value that some values need, by digest; no inputs may be among them."""
    known: dict[bytes, Array] = {}
    with np.errstate(all="ignore"):
        for value in topological_order(values):
            match value:
                case Constant():
                    known[value.digest] = value.array
                case Node():
                    operands = [known[operand.digest] for operand in value.inputs]
                    known[value.digest] = np.asarray(value_of(value, operands))
                case Input():
                    raise AssertionError("an input has no value")
    return known


def evaluate(values: Sequence[Value], value_of: NodeValue = by_reference) -> tuple[Array, ...]:
    """The arrays of values that depend on constants only."""
    known = evaluated(values, value_of)
    return tuple(known[value.digest] for value in values)
