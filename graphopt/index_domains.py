"""Which integers a graph's inputs hold, where the graph tells: those that it uses as indices.

What it does: follows an input through operators that only move or convert its elements, to the
places where they choose one of n entries: a gather, a one-hot, a comparison with 0, 1, …, n-1.
What it does not: bound anything that is computed from the input; a domain serves to draw plausible
values, no kernel relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphopt.graph import Constant, Graph, Node, Value

_CARRIERS: Mapping[str, tuple[int, ...]] = {
    "broadcast_to": (0,),
    "cast": (0,),
    "concat": (0, 1),
    "gather": (0,),
    "gather_elements": (0,),
    "insert_axis": (0,),
    "reshape": (0,),
    "slice": (0,),
    "transpose": (0,),
    "where": (1, 2),
}
"""The operands whose elements an operator passes on."""


def index_domains(graph: Graph) -> tuple[int | None, ...]:
    """For each input the n such that its elements choose one of n entries, None if none is seen.

    The smallest, where an input chooses in several places.
    """
    sources: dict[Value, frozenset[int]] = {
        value: frozenset({value.position})
        for value in graph.inputs
        if not value.type.dtype.is_float
    }
    domains: dict[int, int] = {}
    for node in graph.nodes:
        carried = _CARRIERS.get(node.op.name, ())
        passed = frozenset[int]().union(
            *(sources.get(node.inputs[n], ()) for n in carried if n < len(node.inputs))
        )
        if passed:
            sources[node] = passed
        for chooser, entries in _choices(node):
            for position in sources.get(chooser, ()):
                domains[position] = min(domains.get(position, entries), entries)
    return tuple(domains.get(value.position) for value in graph.inputs)


def _choices(node: Node) -> list[tuple[Value, int]]:
    """The operands of a node that choose among entries, with the number of entries."""
    match node.op.name:
        case "gather" | "gather_elements":
            axis = node.param("axis")
            assert isinstance(axis, int)
            return [(node.inputs[1], node.inputs[0].type.shape[axis])]
        case "gather_nd":
            batch = node.param("batch_dims")
            assert isinstance(batch, int)
            x, indices = node.inputs
            shape = x.type.shape[batch : batch + indices.type.shape[-1]]
            return [(indices, min(shape, default=0))] if shape else []
        case "one_hot":
            depth = node.param("depth")
            assert isinstance(depth, int)
            return [(node.inputs[0], depth)]
        case "eq":
            left, right = node.inputs
            return [
                (value, _counted(constant.array))
                for value, constant in ((left, right), (right, left))
                if isinstance(constant, Constant) and _counted(constant.array) > 1
            ]
        case _:
            return []


def _counted(array: np.ndarray) -> int:
    """The n if the distinct elements are 0, 1, …, n-1; else 0."""
    distinct = np.unique(array)
    counted = bool(distinct.size) and np.array_equal(distinct, np.arange(distinct.size))
    return int(distinct.size) if counted else 0
