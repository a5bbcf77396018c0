"""Every graph that rules reach: the oracle that searches are held against, for small graphs.

What it does: breadth first, all rules at all places of all graphs, whatever they cost, up to a
bound on nodes and on graphs.
What it does not: serve graphs of more than about a dozen operators; their number explodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from graphopt.graph import Graph
from graphopt.rule import Rule
from graphopt.search.cost import GraphCost
from graphopt.search.moves import Position
from graphopt.search.places import RuleIndex


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The cheapest graph of all that were reached; `complete` if none was left out for want of
    `most_graphs`."""

    graph: Graph
    cost: float
    graphs: int
    complete: bool


def cheapest_of_all(
    graph: Graph,
    rules: Sequence[Rule],
    cost: GraphCost,
    most_nodes: int,
    most_graphs: int = 10_000,
) -> Exhausted:
    """The cheapest graph that rules reach by way of graphs of at most `most_nodes` nodes, not
    counting what depends on weights alone."""
    index = RuleIndex(rules)
    seen = {graph.digest}
    best, least = graph, cost(graph)
    queue = deque([Position(graph, index)])
    while queue:
        position = queue.popleft()
        for step in position.successors():
            digest = step.graph.digest
            following = Position(step.graph, index, position, step)
            if digest in seen or following.size > most_nodes:
                continue
            if len(seen) >= most_graphs:
                return Exhausted(best, least, len(seen), False)
            seen.add(digest)
            seconds = cost(step.graph)
            if seconds < least:
                best, least = step.graph, seconds
            queue.append(following)
    return Exhausted(best, least, len(seen), True)
