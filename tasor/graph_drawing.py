"""Graphs as SVG: boxes for operators, rounded ones for inputs and results, edges downward.

    svg = graph_svg((Node(0, "x", "input"), Node(1, "relu", "operator")), (Edge(0, 1),), "source")

What it does: pure functions from nodes and edges to the text of an `svg` element, which goes into
a page as it is; `GRAPH_STYLE` is the CSS that a page with such drawings needs once, with colours
for light and dark. Text from outside is escaped, cleaned of control characters, wrapped and cut;
the whole label is in the tooltip. What it does not: choose what is drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal
from unicodedata import east_asian_width

from tasor.graph_layout import Box, layered

Kind = Literal["input", "constant", "operator", "result"]

_CHARACTER, _SMALL, _LINE = 7.3, 6.1, 16.0
"""Pixels of a monospaced character of 12 pixels, of one of 10 pixels, and of a line."""

_COLUMNS, _LINES = 30, 10
"""Longer labels are wrapped, then cut."""

_MARGIN = 4.0

GRAPH_STYLE = """\
:root {
  --graph-ground: #ffffff; --graph-ink: #1f2328; --graph-edge: #59636e;
  --graph-operator: #eef4ff; --graph-operator-line: #4a78c2;
  --graph-input: #f3f4f6; --graph-input-line: #8b949e;
  --graph-result: #e6f6ec; --graph-result-line: #2f9e5b;
  --graph-marked: #fff3cf; --graph-marked-line: #b7791f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --graph-ground: #0d1117; --graph-ink: #e6edf3; --graph-edge: #9198a1;
    --graph-operator: #16233b; --graph-operator-line: #5b8def;
    --graph-input: #21262d; --graph-input-line: #6e7681;
    --graph-result: #12261e; --graph-result-line: #3fb950;
    --graph-marked: #3a2d0b; --graph-marked-line: #d29922;
  }
}
svg.graph { display: block; margin: 0 auto; max-width: none; }
svg.graph text {
  font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--graph-ink); text-anchor: middle;
}
svg.graph .operator text:first-of-type { font-weight: 600; }
svg.graph rect { stroke-width: 1.2; }
svg.graph .operator rect { fill: var(--graph-operator); stroke: var(--graph-operator-line); }
svg.graph .input rect, svg.graph .constant rect {
  fill: var(--graph-input); stroke: var(--graph-input-line);
}
svg.graph .constant rect { stroke-dasharray: 3 2; }
svg.graph .result rect { fill: var(--graph-result); stroke: var(--graph-result-line); }
svg.graph .marked rect { fill: var(--graph-marked); stroke: var(--graph-marked-line); }
svg.graph path { fill: none; stroke: var(--graph-edge); stroke-width: 1.2; }
svg.graph path.head { fill: var(--graph-edge); stroke: none; }
svg.graph text.edge {
  font-size: 10px; fill: var(--graph-edge); text-anchor: start; paint-order: stroke;
  stroke: var(--graph-ground); stroke-width: 3px; stroke-linejoin: round;
}
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A box. Lines of the label stand below each other; the first names the operator."""

    id: int | str
    label: str
    kind: Kind
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one node to another, by id; a node's operands are in the order of its edges."""

    source: int | str
    target: int | str
    label: str = ""


def graph_svg(nodes: Sequence[Node], edges: Sequence[Edge], title: str) -> str:
    """The drawing of an acyclic graph whose ids are all different; `title` is for screen readers.

    The element has its size in pixels: a page lets it scroll where it is too wide.
    """
    labels = {node.id: _lines(node.label) for node in nodes}
    sizes = {node.id: _size(labels[node.id]) for node in nodes}
    layout = layered(sizes, [(edge.source, edge.target) for edge in edges])
    named = [
        (route[-1][0] + 4, route[-1][1] - 9, _cut(edge.label))
        for edge, route in zip(edges, layout.routes, strict=True)
        if edge.label
    ]
    right = max([layout.width, *(x + _columns(text) * _SMALL for x, _, text in named)])
    width, height = right + 2 * _MARGIN, layout.height + 2 * _MARGIN
    parts = [
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{_escaped(title)}" width="{_number(width)}" height="{_number(height)}" '
        f'viewBox="{_number(-_MARGIN)} {_number(-_MARGIN)} {_number(width)} {_number(height)}">'
    ]
    parts += map(_drawn_edge, layout.routes)
    parts += (
        f'<text class="edge" x="{_number(x)}" y="{_number(y)}">{_escaped(text)}</text>'
        for x, y, text in named
    )
    for node in nodes:
        parts.append(_drawn_node(node, labels[node.id], layout.boxes[node.id]))
    parts.append("</svg>")
    return "".join(parts)


def _drawn_edge(route: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = route
    path = [f"M{_number(x)} {_number(y)}"]
    for number, (next_x, next_y) in enumerate(rest):
        if number % 2:
            path.append(f"V{_number(next_y)}")  # past the boxes of a layer
        else:
            middle = _number((y + next_y) / 2)
            path.append(
                f"C{_number(x)} {middle} {_number(next_x)} {middle} "
                f"{_number(next_x)} {_number(next_y)}"
            )
        x, y = next_x, next_y
    head = f"M{_number(x)} {_number(y)}l-3.5-7h7z"
    return f'<path d="{"".join(path)}"/><path class="head" d="{head}"/>'


def _drawn_node(node: Node, lines: Sequence[str], box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    radius = 4 if node.kind == "operator" else 12
    marked = " marked" if node.marked else ""
    first = box.y - (len(lines) - 1) * _LINE / 2 + 4
    texts = "".join(
        f'<text x="{_number(box.x)}" y="{_number(first + number * _LINE)}">{_escaped(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<g class="{node.kind}{marked}"><title>{_escaped(node.label)}</title>'
        f'<rect x="{_number(left)}" y="{_number(top)}" width="{_number(box.width)}" '
        f'height="{_number(box.height)}" rx="{radius}"/>{texts}</g>'
    )


def _lines(label: str) -> list[str]:
    wrapped = [
        part
        for line in label.split("\n")
        for part in textwrap.wrap(_clean(line), _COLUMNS, break_on_hyphens=False)
    ]
    if len(wrapped) > _LINES:
        wrapped = [*wrapped[: _LINES - 1], "…"]
    return wrapped or [" "]


def _size(lines: Sequence[str]) -> tuple[float, float]:
    columns = max(map(_columns, lines))
    return max(36.0, columns * _CHARACTER + 16), len(lines) * _LINE + 10


def _columns(line: str) -> int:
    """Widths of characters in a terminal, which those of a monospaced font follow."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line)


def _cut(text: str) -> str:
    return text if len(text) <= _COLUMNS else f"{text[: _COLUMNS - 1]}…"


def _clean(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _escaped(text: str) -> str:
    return escape(_clean(text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
