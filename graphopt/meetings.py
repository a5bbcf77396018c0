"""Where the uses of a value come together again: both factors of `x * sigmoid(x)` use `x`.

A value with several uses can be computed inside the kernel of the node in which all of them meet,
as one with a single use can be inside that of its reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from graphopt.graph import Graph, Node, Value, consumers

MOST_BETWEEN = 32
"""Uses that do not meet within so many nodes are taken to be apart."""

_ABSORBED = frozenset({"elementwise", "layout"})
"""Families of operators of which kernels take on chains."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """All uses of `value` go through the nodes `between` and end in one and the same node."""

    value: Node
    between: frozenset[Node]


def meetings(graph: Graph) -> Mapping[Node, tuple[Meeting, ...]]:
    """The values whose uses meet, by the node in which they do; those computed last come first."""
    order: dict[Value, int] = {node: position for position, node in enumerate(graph.nodes)}
    readers = consumers(graph.values)
    kept = set(graph.outputs)
    found: dict[Node, tuple[Meeting, ...]] = {}
    for node in reversed(graph.nodes):
        if len(readers[node]) < 2 or node in kept:
            continue
        met = _meeting(node, readers, order, kept)
        if met is not None:
            place, meeting = met
            found[place] = (*found.get(place, ()), meeting)
    return found


def _meeting(
    value: Node,
    readers: Mapping[Value, tuple[Node, ...]],
    order: Mapping[Value, int],
    kept: Set[Value],
) -> tuple[Node, Meeting] | None:
    ahead = set(readers[value])
    between: set[Node] = set()
    while len(ahead) > 1:
        # The first in order is read by none of the others: once it is the only one, they have met.
        first = min(ahead, key=order.__getitem__)
        if first in kept or first.op.family not in _ABSORBED or len(between) == MOST_BETWEEN:
            return None
        ahead.remove(first)
        ahead.update(readers[first])
        between.add(first)
    [place] = ahead
    return place, Meeting(value, frozenset(between))
