"""Regions: a large graph cut into parts that are searched one by one, equal parts once.

What it does: cuts the graph's nodes, in their order, where few values cross: at best a single one
(an articulation value), and only where every crossing value is stored anyway, so that no kernel
would reach over the border. Values that cross are outputs of the region before and inputs of the
one behind: rewriting a region leaves them as they are. A region is given as a graph of its own in
which inputs and weights are numbered: regions that are equal up to these are equal graphs, and the
result of one can be put in place of each. Rows taken from a stored value lie where they are and
belong to no region, else the steps of a sequence would be regions that differ in a number.

Source: the partition of MetaFlow (Jia et al., SysML 2019, section 4.3), with the border costs of
kernels in place of its node weights.

What it does not: search, or weigh a region's result against its neighbours (`search`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from graphopt.graph import Constant, Graph, Input, Node, Value, topological_order
from graphopt.search.promised import Promise, WeightOnly, is_promisable

SMALL_REGION = 6
"""A region of fewer nodes is joined with the one behind it."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a graph.

    `graph` is the part with numbered inputs and promised weights; `outputs` are the values of the
    whole graph that its outputs stand for; `leaves` gives, for each input and promise of `graph`,
    the value of the whole graph.
    """

    graph: Graph
    outputs: tuple[Value, ...]
    leaves: Mapping[Value, Value] = field(repr=False)

    def transplanted(self, result: Graph, current: Mapping[Value, Value]) -> dict[Value, Value]:
        """For each of `outputs` what it becomes if `result` takes the place of `graph`.

        `current` says what values of the whole graph, outputs of earlier regions, became.
        """
        made: dict[Value, Value] = {}
        for value in topological_order(result.outputs):
            if isinstance(value, Node):
                operands = tuple(made[operand] for operand in value.inputs)
                made[value] = Node(value.op, operands, value.params, value.type)
            else:
                made[value] = became(self.leaves.get(value, value), current)
        return {old: made[new] for old, new in zip(self.outputs, result.outputs, strict=True)}


def became(value: Value, current: Mapping[Value, Value]) -> Value:
    """What a value of the whole graph is now, where `current` says what outputs of regions became.

    Rows of a value are rows of what it became.
    """
    if value in current:
        return current[value]
    if isinstance(value, Node) and _takes_rows(value):
        return value.op(became(value.inputs[0], current), **value.keywords)
    return value


def _takes_rows(node: Node) -> bool:
    """True for neighbours along the first axis: they are contiguous."""
    if node.op.name != "slice" or not node.type.shape:
        return False
    starts, steps = node.param("starts"), node.param("steps")
    assert isinstance(starts, tuple)
    assert isinstance(steps, tuple)
    return (
        steps == (1,) * len(steps)
        and not any(starts[1:])
        and node.type.shape[1:] == node.inputs[0].type.shape[1:]
    )


def regions(
    graph: Graph,
    stored: Callable[[Value], bool],
    most_nodes: int = 256,
    is_weight: WeightOnly | None = None,
) -> tuple[Region, ...]:
    """The regions of a graph, producers first, of at most `most_nodes` nodes where cuts allow it.

    `stored` tells whether a value is kept in memory by the kernels of the graph.
    """
    weight = WeightOnly() if is_weight is None else is_weight
    rows = {
        node.digest: node.inputs[0]
        for node in graph.nodes
        if _takes_rows(node) and stored(node.inputs[0])
    }

    def source(value: Value) -> Value:
        """What a value consists of rows of."""
        while value.digest in rows:
            value = rows[value.digest]
        return value

    rows_of: dict[bytes, set[bytes]] = {}
    for digest, value in rows.items():
        rows_of.setdefault(source(value).digest, set()).add(digest)
    nodes = [node for node in graph.nodes if not weight(node) and node.digest not in rows]
    if not nodes:
        return ()
    crossing = _crossings(graph, nodes, stored, source)
    cuts = _cuts(crossing, most_nodes)
    bounds = [0, *cuts, len(nodes)]
    needed = {source(output).digest for output in graph.outputs}
    result: list[Region] = []
    for low, high in reversed(list(pairwise(bounds))):
        part = nodes[low:high]
        inside = {node.digest for node in part}
        for node in part:
            inside |= rows_of.get(node.digest, set())
        outputs = tuple(node for node in part if node.digest in needed)
        result.append(_region(outputs, inside, weight))
        needed.update(
            source(operand).digest
            for node in part
            for operand in node.inputs
            if operand.digest not in inside
        )
    return tuple(reversed(result))


def _crossings(
    graph: Graph,
    nodes: Sequence[Node],
    stored: Callable[[Value], bool],
    source: Callable[[Value], Value],
) -> list[int | None]:
    """For each cut before node n, how many values cross it; None if one of them is not stored."""
    last: dict[bytes, int] = {}
    for position, node in enumerate(nodes):
        for operand in node.inputs:
            last[source(operand).digest] = position
    for output in graph.outputs:
        last[source(output).digest] = len(nodes)
    result: list[int | None] = [0]
    alive: dict[bytes, bool] = {}
    ends: dict[int, list[bytes]] = {}
    for position, node in enumerate(nodes):
        for digest in ends.pop(position, ()):
            alive.pop(digest, None)
        end = last.get(node.digest, position)
        if end > position:
            alive[node.digest] = stored(node)
            ends.setdefault(end, []).append(node.digest)
        still = {digest: kept for digest, kept in alive.items() if last[digest] > position}
        result.append(len(still) if all(still.values()) else None)
    return result[: len(nodes)]


def _cuts(crossing: Sequence[int | None], most_nodes: int) -> list[int]:
    """Where to cut: at articulation values; in what is still too large, where the fewest cross."""
    articulations = [
        n for n, count in enumerate(crossing) if n and count is not None and count <= 1
    ]
    bounds = [0]
    for cut in [*articulations, len(crossing)]:
        if cut - bounds[-1] >= SMALL_REGION or cut == len(crossing):
            bounds.append(cut)
    result: list[int] = []
    for low, high in pairwise(bounds):
        result += [*_divided(crossing, low, high, most_nodes), high]
    return result[:-1]


def _divided(crossing: Sequence[int | None], low: int, high: int, most_nodes: int) -> list[int]:
    """Cuts that divide nodes low … high into parts of at most `most_nodes`, where possible."""
    cuts: list[int] = []
    pending = [(low, high)]
    while pending:
        low, high = pending.pop()
        cut = _cut_between(crossing, low, high) if high - low > most_nodes else None
        if cut is not None:
            cuts.append(cut)
            pending += [(low, cut), (cut, high)]
    return sorted(cuts)


def _cut_between(crossing: Sequence[int | None], low: int, high: int) -> int | None:
    """Where the fewest values cross, as near to the middle as can be; None if nowhere."""
    middle = (low + high) / 2
    margin = max(1, min(SMALL_REGION, (high - low) // 4))
    allowed = [
        (count, abs(position - middle), position)
        for position in range(low + margin, high - margin + 1)
        if (count := crossing[position]) is not None
    ]
    return min(allowed)[2] if allowed else None


def _region(outputs: tuple[Node, ...], inside: set[bytes], weight: WeightOnly) -> Region:
    """The graph of some outputs, with leaves numbered in the order in which they are met."""
    made: dict[Value, Value] = {}
    leaves: dict[Value, Value] = {}
    inputs: list[Input] = []
    for value in _order(outputs, inside):
        if value.digest in inside:
            assert isinstance(value, Node)
            operands = tuple(made[operand] for operand in value.inputs)
            made[value] = value.op(*operands, **value.keywords)
            continue
        leaf = _leaf(value, len(leaves), len(inputs), weight)
        made[value] = leaf
        if isinstance(leaf, Input):
            inputs.append(leaf)
        leaves[leaf] = value
    graph = Graph(
        tuple(inputs),
        tuple(made[output] for output in outputs),
        tuple(f"x{n}" for n in range(len(inputs))),
        tuple(f"y{n}" for n in range(len(outputs))),
    )
    return Region(graph, outputs, leaves)


def _leaf(value: Value, number: int, position: int, weight: WeightOnly) -> Value:
    if not weight(value):
        return Input(position, value.type)
    if isinstance(value, Constant) and not is_promisable(value):
        return value
    if not isinstance(value, Constant) and value.type.size < 2:
        return value
    digest = hashlib.blake2b(f"weight {number} {value.type}".encode(), digest_size=16).digest()
    return Promise(value.type, digest)


def _order(outputs: Sequence[Node], inside: set[bytes]) -> list[Value]:
    """The values of a region and its leaves, operands first, left to right."""
    done: dict[bytes, Value] = {}
    stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(outputs)]
    while stack:
        value, expanded = stack.pop()
        if value.digest in done:
            continue
        if expanded or value.digest not in inside:
            done[value.digest] = value
        else:
            assert isinstance(value, Node)
            stack.append((value, True))
            stack.extend((operand, False) for operand in reversed(value.inputs))
    return list(done.values())
