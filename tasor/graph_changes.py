"""Where two graphs differ: the parts that changed, equal changes once, ready to be drawn.

What it does: walks both graphs from their outputs down, side by side; where operators, parameters
and types agree, values correspond, and below a difference again where that is the case a few levels
down. What does not correspond is a change; changes that touch are one, with what they read and what
reads them around it as context. Changes alike up to constants
are given once, with their number. What it does not: lay out or draw (`graph_drawing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphopt.graph import Constant, Graph, Input, Node, Value, consumers, inputs_of
from graphopt.onnx_import.errors import printable
from tasor.graph_drawing import Edge, Kind
from tasor.graph_drawing import Node as Box

MOST_BOXES = 60
"""A drawing has at most so many boxes."""


_LEVELS = 8
"""How many levels below a difference it is looked for where graphs agree again."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What `graph_svg` takes; `left_out` counts operators beyond the limit."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change before and after, and how many there are like it."""

    before: Picture
    after: Picture
    count: int
    operators_before: int
    operators_after: int


def changes(before: Graph, after: Graph) -> tuple[Change, ...]:
    """The changes from one graph to another with the same outputs, most frequent first."""
    kinds: dict[tuple[str, ...], list[_Part]] = {}
    for part in _parts(before, after):
        kinds.setdefault(_signature(part), []).append(part)
    readers = (consumers(before.values), consumers(after.values))
    ordered = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Change(
            _picture(before, parts[0].before, readers[0], marked=True),
            _picture(after, parts[0].after, readers[1], marked=True),
            len(parts),
            len(parts[0].before),
            len(parts[0].after),
        )
        for _, parts in ordered
    )


def whole(graph: Graph) -> Picture:
    """A graph in full, as far as the limit goes."""
    return _picture(graph, graph.nodes, {}, marked=False)


@dataclass(frozen=True, slots=True)
class _Part:
    before: tuple[Node, ...]
    after: tuple[Node, ...]


_Key = tuple[int, bytes]
"""A node of the graph before (0) or after (1)."""


def _parts(before: Graph, after: Graph) -> list[_Part]:
    """Changed nodes that touch, in the order of the graphs."""
    same, differing = _compared(before, after)
    groups = _Groups()
    nodes: dict[_Key, Node] = {}
    for side, graph in enumerate((before, after)):
        for node in graph.nodes:
            if (side, node.digest) not in same:
                nodes[side, node.digest] = node
    for (side, _), node in nodes.items():
        for operand in node.inputs:
            if (side, operand.digest) in nodes:
                groups.join((side, node.digest), (side, operand.digest))
    for old, new in differing:
        known = [key for key in ((0, old.digest), (1, new.digest)) if key in nodes]
        if len(known) == 2:
            groups.join(*known)
    found: dict[_Key, tuple[list[Node], list[Node]]] = {}
    for key, node in nodes.items():
        found.setdefault(groups.root(key), ([], []))[key[0]].append(node)
    return [_Part(tuple(old), tuple(new)) for old, new in found.values()]


def _compared(before: Graph, after: Graph) -> tuple[set[_Key], list[tuple[Value, Value]]]:
    """The nodes of both graphs that correspond, and pairs that stand in each other's place."""
    same: set[_Key] = set()
    differing: list[tuple[Value, Value]] = []
    seen: set[tuple[bytes, bytes]] = set()
    pending = list(zip(before.outputs, after.outputs, strict=True))
    while pending:
        old, new = pending.pop()
        if (old.digest, new.digest) in seen:
            continue
        seen.add((old.digest, new.digest))
        if old == new:
            for value in Graph((), (old,), (), ("",)).nodes:
                same.update(((0, value.digest), (1, value.digest)))
        elif isinstance(old, Node) and isinstance(new, Node) and _alike(old, new):
            same.update(((0, old.digest), (1, new.digest)))
            pending.extend(zip(old.inputs, new.inputs, strict=True))
        else:
            differing.append((old, new))
            pending.extend(_met_again(old, new))
    return same, differing


def _met_again(old: Value, new: Value) -> list[tuple[Node, Node]]:
    """Pairs of nodes alike below two values that are not: where both graphs agree again.

    Equal values first, then those at the same depth; nothing below a pair is in another.
    """
    below = [_below(value) for value in (old, new)]
    candidates = sorted(
        (
            (a != b, abs(m - n), m, position, a, b)
            for position, (a, m) in enumerate(below[0].items())
            for b, n in below[1].items()
            if _alike(a, b)
        ),
        key=lambda item: item[:4],
    )
    pairs: list[tuple[Node, Node]] = []
    taken: set[_Key] = set()
    for *_, a, b in candidates:
        if (0, a.digest) not in taken and (1, b.digest) not in taken:
            pairs.append((a, b))
            for side, node in ((0, a), (1, b)):
                taken.update((side, inner.digest) for inner in (node, *_below(node)))
    return pairs


def _below(value: Value) -> dict[Node, int]:
    """The nodes in the levels below a value, with their depth."""
    found: dict[Node, int] = {}
    level: list[Value] = [value]
    for depth in range(1, _LEVELS + 1):
        operands = dict.fromkeys(operand for above in level for operand in inputs_of(above))
        level = [node for node in operands if node not in found]
        for node in level:
            if isinstance(node, Node) and len(found) < MOST_BOXES:
                found[node] = depth
    return found


def _alike(old: Node, new: Node) -> bool:
    return (
        old.op is new.op
        and old.params == new.params
        and old.type == new.type
        and [value.type for value in old.inputs] == [value.type for value in new.inputs]
    )


class _Groups:
    """Disjoint sets of nodes."""

    def __init__(self) -> None:
        self._parent: dict[_Key, _Key] = {}

    def root(self, key: _Key) -> _Key:
        while (parent := self._parent.get(key, key)) != key:
            key = parent
        return key

    def join(self, a: _Key, b: _Key) -> None:
        self._parent[self.root(a)] = self.root(b)


def _signature(part: _Part) -> tuple[str, ...]:
    """What a change is, up to which constants and which places."""
    texts = Counter(
        f"{mark} {node.op.name} {node.params} {node.type}"
        for mark, nodes in (("-", part.before), ("+", part.after))
        for node in nodes
    )
    return tuple(f"{count} {text}" for text, count in sorted(texts.items()))


# Pictures


def _picture(
    graph: Graph,
    chosen: Sequence[Node],
    readers: Mapping[Value, tuple[Node, ...]],
    *,
    marked: bool,
) -> Picture:
    """The chosen nodes with what they read and what reads them."""
    shown = chosen[:MOST_BOXES]
    names: dict[Value, str] = {}
    names.update(zip(graph.inputs, graph.input_names, strict=True))
    boxes: dict[bytes, Box] = {}
    for node in shown:
        boxes[node.digest] = Box(node.digest.hex(), _label(node), "operator", marked)
    behind: dict[bytes, Node] = {}
    for node in shown:
        for reader in readers.get(node, ()):
            if reader.digest not in boxes:
                behind.setdefault(reader.digest, reader)
    operands = {v.digest: v for node in shown for v in node.inputs if v.digest not in boxes}
    for value in operands.values():
        if value.digest not in behind:
            boxes[value.digest] = Box(value.digest.hex(), _label(value, names), _kind(value))
    for reader in list(behind.values())[: MOST_BOXES // 4]:
        boxes[reader.digest] = Box(reader.digest.hex(), _label(reader), "operator")
    edges = [
        *_edges(shown, boxes),
        *_edges([r for r in behind.values() if r.digest in boxes], boxes),
    ]
    drawn = {node.digest for node in shown}
    for position, (value, name) in enumerate(zip(graph.outputs, graph.output_names, strict=True)):
        if value.digest in drawn:
            result = f"result {position}"
            boxes[result.encode()] = Box(result, printable(name), "result")
            edges.append(Edge(value.digest.hex(), result))
    return Picture(tuple(boxes.values()), tuple(edges), len(chosen) - len(shown))


def _edges(nodes: Iterable[Node], boxes: Mapping[bytes, Box]) -> list[Edge]:
    return [
        Edge(operand.digest.hex(), node.digest.hex())
        for node in nodes
        for operand in inputs_of(node)
        if operand.digest in boxes
    ]


def _kind(value: Value) -> Kind:
    match value:
        case Node():
            return "operator"
        case Constant():
            return "constant"
        case Input():
            return "input"


def _label(value: Value, names: Mapping[Value, str] | None = None) -> str:
    match value:
        case Node():
            params = ", ".join(f"{name}={param}".replace(" ", "") for name, param in value.params)
            return "\n".join(filter(None, (value.op.name, printable(params), str(value.type))))
        case Constant():
            if value.type.size == 1:
                return f"{value.array.reshape(-1)[0]}\n{value.type}"
            return f"constant\n{value.type}"
        case Input():
            name = "" if names is None else names.get(value, "")
            return f"{printable(name)}\n{value.type}"
