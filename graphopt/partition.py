"""Partition: the optimized graph cut into tasks, one kernel each.

Nodes absorb the fragments of their operands (`fragments`). What nobody absorbed is stored, and its
fragment becomes a task. In a second pass, consecutive tasks that walk the same rows become one task
of several stages (`row_groups`).

What it does not: choose schedules or place buffers.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.fragments import Fragment, absorb, read_by_one, step_of, view_of
from graphopt.graph import Graph, Node, Value
from graphopt.meetings import meetings
from graphopt.row_groups import fuse_rows
from graphopt.step import Step


def partition(graph: Graph) -> tuple[Step, ...]:
    """The steps that compute the graph's outputs, in an order that respects their data.

    Inputs, constants and values for which `view_of` holds are never stored by a step.
    """
    fragments = _fragments(graph)
    steps = tuple(
        step_of(value, fragments[value])
        for value in stored_values(graph, fragments)
        if view_of(fragments[value]) is None
    )
    return fuse_rows(steps, graph)


def stored_views(graph: Graph) -> Mapping[Value, tuple[Value, int]]:
    """Values that need no kernel: the value they are part of and the offset in elements."""
    fragments = _fragments(graph)
    result: dict[Value, tuple[Value, int]] = {}
    for value in stored_values(graph, fragments):
        view = view_of(fragments[value])
        if view is not None:
            result[value] = view
    return result


def _fragments(graph: Graph) -> dict[Value, Fragment]:
    single = read_by_one(graph)
    met = meetings(graph)
    fragments: dict[Value, Fragment] = {}
    for node in graph.nodes:
        fragments[node] = absorb(node, fragments, single, met.get(node, ()))
    return fragments


def stored_values(graph: Graph, fragments: Mapping[Value, Fragment]) -> tuple[Value, ...]:
    """The nodes whose values are needed in memory, producers first."""
    needed: set[Value] = set(graph.outputs)
    for value in reversed(graph.values):
        if value in needed and value in fragments:
            needed.update(fragments[value].operands)
    return tuple(value for value in graph.values if value in needed and isinstance(value, Node))
