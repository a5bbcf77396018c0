"""Where the nodes of a drawn graph stand: layers from top to bottom, few crossings, short edges.

What it does: the layered drawing of Sugiyama, Tagawa and Toda (IEEE SMC 1981): layers by longest
path, crossings reduced by barycentres, places within a layer by least squares in a fixed order.
All of it is deterministic. What it does not: know what a node is, or draw it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy.optimize import isotonic_regression

NodeId = int | str

_SWEEPS = 6
"""Passes over all layers, down and up in turns; more of them change little."""

_GAP, _RISE = 18.0, 34.0
"""Pixels between neighbours of a layer, and between layers."""

_BEND_WEIGHT = 4.0
"""How much more a straight long edge counts than a node beside the mean of its neighbours."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels: its centre and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The boxes by node, the points of each edge (as many as edges were given), the whole size."""

    boxes: Mapping[NodeId, Box]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Bend:
    """Where an edge, by number, passes a layer."""

    edge: int
    layer: int


_Place = NodeId | _Bend
_Order = list[list[_Place]]


def layered(
    sizes: Mapping[NodeId, tuple[float, float]], edges: Sequence[tuple[NodeId, NodeId]]
) -> Layout:
    """A layout of an acyclic graph; `sizes` are widths and heights by node.

    Operands stand in the order of the edges that lead to a node, as far as crossings allow. An
    edge leaves its first node at the bottom and enters its second one at the top; the entries of
    one node stand in the order of its edges.
    """
    if not sizes:
        return Layout({}, (), 0.0, 0.0)
    layers = _layers(tuple(sizes), edges)
    chains = [_chain(number, edge, layers) for number, edge in enumerate(edges)]
    before, after = _neighbours(chains)
    places = [*sizes, *(place for chain in chains for place in chain[1:-1])]
    order = _ordered(places, layers, before, after, edges)
    widths = {p: 2.0 if isinstance(p, _Bend) else sizes[p][0] for p in places}
    across = _across(order, widths, before, after)
    left = min(across[place] - widths[place] / 2 for place in places)
    right = max(across[place] + widths[place] / 2 for place in places)
    heights = [max(0.0 if isinstance(p, _Bend) else sizes[p][1] for p in row) for row in order]
    down, top = [], 0.0
    for height in heights:
        down.append(top + height / 2)
        top += height + _RISE
    boxes = {
        node: Box(across[node] - left, down[layers[node]], width, height)
        for node, (width, height) in sizes.items()
    }
    entries = _entries(edges, boxes)
    routes = []
    for number, (chain, (start, end)) in enumerate(zip(chains, edges, strict=True)):
        points = [(boxes[start].x, boxes[start].y + boxes[start].height / 2)]
        for bend in chain[1:-1]:
            assert isinstance(bend, _Bend)
            x, half = across[bend] - left, heights[bend.layer] / 2
            points += [(x, down[bend.layer] - half), (x, down[bend.layer] + half)]
        points.append((entries[number], boxes[end].y - boxes[end].height / 2))
        routes.append(tuple(points))
    return Layout(boxes, tuple(routes), right - left, top - _RISE)


def _layers(nodes: Sequence[NodeId], edges: Sequence[tuple[NodeId, NodeId]]) -> dict[NodeId, int]:
    """The longest path to each node; what nothing leads to stands just above its first reader."""
    readers: dict[NodeId, list[NodeId]] = {node: [] for node in nodes}
    missing = dict.fromkeys(nodes, 0)
    for start, end in edges:
        readers[start].append(end)
        missing[end] += 1
    sources = [node for node in nodes if not missing[node]]
    layers = dict.fromkeys(nodes, 0)
    ready = list(sources)
    done = 0
    while ready:
        node = ready.pop()
        done += 1
        for reader in readers[node]:
            layers[reader] = max(layers[reader], layers[node] + 1)
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    assert done == len(nodes), "a cycle"
    for node in sources:
        if readers[node]:
            layers[node] = min(layers[reader] for reader in readers[node]) - 1
    return layers


def _chain(number: int, edge: tuple[NodeId, NodeId], layers: Mapping[NodeId, int]) -> list[_Place]:
    start, end = edge
    bends = [_Bend(number, layer) for layer in range(layers[start] + 1, layers[end])]
    return [start, *bends, end]


def _neighbours(
    chains: Sequence[Sequence[_Place]],
) -> tuple[dict[_Place, list[_Place]], dict[_Place, list[_Place]]]:
    before: dict[_Place, list[_Place]] = {}
    after: dict[_Place, list[_Place]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            before.setdefault(lower, []).append(upper)
            after.setdefault(upper, []).append(lower)
    return before, after


def _ordered(
    places: Sequence[_Place],
    layers: Mapping[NodeId, int],
    before: Mapping[_Place, Sequence[_Place]],
    after: Mapping[_Place, Sequence[_Place]],
    edges: Sequence[tuple[NodeId, NodeId]],
) -> _Order:
    """The places of each layer, left to right: the best of a few sweeps of barycentres."""
    order: _Order = [[] for _ in range(1 + max(layers.values()))]
    for place in _reading_order(places, before, after):
        order[place.layer if isinstance(place, _Bend) else layers[place]].append(place)
    best, least = order, _crossings(order, after)
    for sweep in range(_SWEEPS):
        if not least:
            break
        downward = sweep % 2 == 0
        order = _swept(order, before if downward else after, downward)
        crossings = _crossings(order, after)
        if crossings < least:
            best, least = order, crossings
    return best


def _reading_order(
    places: Sequence[_Place],
    before: Mapping[_Place, Sequence[_Place]],
    after: Mapping[_Place, Sequence[_Place]],
) -> list[_Place]:
    """Depth first from the ends, operands in order: what a tree needs to be drawn uncrossed."""
    seen: set[_Place] = set()
    found: list[_Place] = []
    for end in places:
        pending = [] if end in after else [end]
        while pending:
            place = pending.pop()
            if place not in seen:
                seen.add(place)
                found.append(place)
                pending += reversed(before.get(place, ()))
    return found


def _swept(order: _Order, fixed: Mapping[_Place, Sequence[_Place]], downward: bool) -> _Order:
    """Each layer sorted by the mean position of its neighbours in the layer before it."""
    rows = list(order)
    numbers = range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1)
    for number in numbers:
        beside = rows[number - 1 if downward else number + 1]
        position = {place: index for index, place in enumerate(beside)}

        def wanted(item: tuple[int, _Place], position: Mapping[_Place, int] = position) -> float:
            index, place = item
            known = [position[other] for other in fixed.get(place, ())]
            return sum(known) / len(known) if known else float(index)

        rows[number] = [place for _, place in sorted(enumerate(rows[number]), key=wanted)]
    return rows


def _crossings(order: _Order, after: Mapping[_Place, Sequence[_Place]]) -> int:
    total = 0
    for upper, lower in pairwise(order):
        position = {place: index for index, place in enumerate(lower)}
        ends: list[int] = []
        for place in upper:
            mine = sorted(position[other] for other in after.get(place, ()))
            total += sum(len(ends) - bisect_right(ends, end) for end in mine)
            for end in mine:
                insort(ends, end)
    return total


def _across(
    order: _Order,
    widths: Mapping[_Place, float],
    before: Mapping[_Place, Sequence[_Place]],
    after: Mapping[_Place, Sequence[_Place]],
) -> dict[_Place, float]:
    """Horizontal centres: each place near the mean of its neighbours, in order, not touching."""
    offsets: list[list[float]] = []
    across: dict[_Place, float] = {}
    for row in order:
        mine = [0.0]
        for left, right in pairwise(row):
            mine.append(mine[-1] + (widths[left] + widths[right]) / 2 + _GAP)
        offsets.append(mine)
        across.update(
            (place, offset - mine[-1] / 2) for place, offset in zip(row, mine, strict=True)
        )
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 1
        for number in range(len(order)) if downward else reversed(range(len(order))):
            row = order[number]
            wanted, weights = [], []
            for place, offset in zip(row, offsets[number], strict=True):
                upper, lower = before.get(place, ()), after.get(place, ())
                # One side at a time straightens chains.
                beside = upper if downward else lower
                mean = sum(across[other] for other in beside) / len(beside) if beside else 0.0
                wanted.append((mean if beside else across[place]) - offset)
                weights.append(_BEND_WEIGHT if isinstance(place, _Bend) else 1.0)
            # In order and apart by the offsets means: what is left of the places only grows.
            fitted = isotonic_regression(wanted, weights=weights).x
            across.update(
                (place, float(value) + offset)
                for place, value, offset in zip(row, fitted, offsets[number], strict=True)
            )
    return across


def _entries(
    edges: Sequence[tuple[NodeId, NodeId]], boxes: Mapping[NodeId, Box]
) -> dict[int, float]:
    """Where each edge enters its second node: spread over the middle of its upper side."""
    arriving: dict[NodeId, list[int]] = {}
    for number, (_, end) in enumerate(edges):
        arriving.setdefault(end, []).append(number)
    entries = {}
    for end, numbers in arriving.items():
        box = boxes[end]
        for position, number in enumerate(numbers):
            share = (position + 1) / (len(numbers) + 1) - 0.5
            entries[number] = box.x + share * box.width * 0.8
    return entries
