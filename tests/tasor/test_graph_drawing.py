"""Drawings of graphs: complete, in layers, without overlap, and safe from what labels hold."""

from __future__ import annotations

import time
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasor.graph_drawing import GRAPH_STYLE, Edge, Node, graph_svg
from tasor.graph_layout import Box, layered

SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(
    draw: st.DrawFn,
) -> tuple[dict[int | str, tuple[float, float]], list[tuple[int | str, int | str]]]:
    """Sizes by node and edges, each from a lower to a higher number."""
    count = draw(st.integers(1, 14))
    side = st.floats(10, 200)
    sizes: dict[int | str, tuple[float, float]] = {
        node: (draw(side), draw(side)) for node in range(count)
    }
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = draw(st.lists(ends, max_size=24))
    return sizes, [(min(a, b), max(a, b)) for a, b in pairs if a != b]


def overlap(a: Box, b: Box) -> bool:
    return (
        abs(a.x - b.x) < (a.width + b.width) / 2 - 1e-6
        and abs(a.y - b.y) < (a.height + b.height) / 2 - 1e-6
    )


@given(graphs())
@settings(deadline=None)
def test_boxes_do_not_overlap_and_lie_inside(graph: tuple[dict, list]) -> None:  # type: ignore[type-arg]
    sizes, edges = graph
    layout = layered(sizes, edges)
    boxes = list(layout.boxes.values())
    assert set(layout.boxes) == set(sizes)
    for number, box in enumerate(boxes):
        assert box.x - box.width / 2 >= -1e-6
        assert box.x + box.width / 2 <= layout.width + 1e-6
        assert box.y - box.height / 2 >= -1e-6
        assert box.y + box.height / 2 <= layout.height + 1e-6
        assert not any(overlap(box, other) for other in boxes[:number])


@given(graphs())
@settings(deadline=None)
def test_edges_lead_downward_from_box_to_box(graph: tuple[dict, list]) -> None:  # type: ignore[type-arg]
    sizes, edges = graph
    layout = layered(sizes, edges)
    assert len(layout.routes) == len(edges)
    for (start, end), route in zip(edges, layout.routes, strict=True):
        first, last = layout.boxes[start], layout.boxes[end]
        assert route[0] == (first.x, first.y + first.height / 2)
        assert route[-1][1] == last.y - last.height / 2
        assert abs(route[-1][0] - last.x) <= last.width / 2
        heights = [y for _, y in route]
        assert heights == sorted(heights)


@given(graphs())
@settings(deadline=None)
def test_operands_enter_in_order(graph: tuple[dict, list]) -> None:  # type: ignore[type-arg]
    sizes, edges = graph
    layout = layered(sizes, edges)
    for node in sizes:
        entries = [
            route[-1][0]
            for (_, end), route in zip(edges, layout.routes, strict=True)
            if end == node
        ]
        assert entries == sorted(entries)
        assert len(set(entries)) == len(entries)


@given(graphs())
@settings(deadline=None)
def test_the_same_graph_has_the_same_layout(graph: tuple[dict, list]) -> None:  # type: ignore[type-arg]
    assert layered(*graph) == layered(*graph)


def test_a_tree_has_no_crossings() -> None:
    sizes: dict[int | str, tuple[float, float]] = dict.fromkeys("abcdxyr", (40.0, 20.0))
    edges = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("x", "r"), ("y", "r")]
    boxes = layered(sizes, edges).boxes
    assert [boxes[name].x for name in "abcd"] == sorted(boxes[name].x for name in "abcd")
    assert boxes["x"].x < boxes["y"].x


def test_inputs_stand_just_above_their_first_reader() -> None:
    sizes: dict[int | str, tuple[float, float]] = dict.fromkeys("xfgwh", (40.0, 20.0))
    edges = [("x", "f"), ("f", "g"), ("g", "h"), ("w", "h")]
    boxes = layered(sizes, edges).boxes
    assert boxes["w"].y == boxes["g"].y


def test_a_chain_is_straight() -> None:
    sizes: dict[int | str, tuple[float, float]] = {n: (30.0 + n, 20.0) for n in range(9)}
    boxes = layered(sizes, [(n, n + 1) for n in range(8)]).boxes
    assert max(box.x for box in boxes.values()) - min(box.x for box in boxes.values()) < 1e-6


def test_nothing_gives_an_empty_drawing() -> None:
    assert ElementTree.fromstring(graph_svg((), (), "nothing")).tag == f"{SVG}svg"


def test_a_cycle_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="a cycle"):
        layered({0: (1, 1), 1: (1, 1)}, [(0, 1), (1, 0)])


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_draws_every_node_and_edge_with_labels() -> None:
    nodes = [
        Node(0, "x", "input"),
        Node(1, "2.0", "constant"),
        Node("m", "mul\nrounding=none", "operator", marked=True),
        Node(3, "result", "result"),
    ]
    edges = [Edge(0, "m"), Edge(1, "m", "float32[2]"), Edge("m", 3)]
    svg = graph_svg(nodes, edges, "the source")
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == "the source"
    groups = [group.get("class") for group in root.iter(f"{SVG}g")]
    assert groups == ["input", "constant", "operator marked", "result"]
    assert len(list(root.iter(f"{SVG}path"))) == 2 * len(edges)
    assert texts(svg) == ["float32[2]", "x", "2.0", "mul", "rounding=none", "result"]


@pytest.mark.parametrize(
    "label",
    ["<script>alert(1)</script>", "a & b", "\"'", "\x00\x1b[31m", "\ud800", "", "名前" * 50],
)
def test_labels_are_text_and_nothing_else(label: str) -> None:
    svg = graph_svg([Node(0, label, "operator"), Node(1, "y", "result")],
                    [Edge(0, 1, label)], label)  # fmt: skip
    root = ElementTree.fromstring(svg.encode())
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "g", "title", "rect", "text", "path"}


def test_long_labels_are_wrapped_then_cut() -> None:
    label = " ".join(f"parameter{n}=value" for n in range(40))
    svg = graph_svg([Node(0, label, "operator")], (), "long")
    lines = texts(svg)
    assert len(lines) == 10
    assert lines[-1] == "…"
    assert all(len(line) <= 30 for line in lines)
    title = ElementTree.fromstring(svg).find(f".//{SVG}title")
    assert title is not None
    assert title.text == label


def test_wide_letters_get_wide_boxes() -> None:
    def width(label: str) -> float:
        return float(
            ElementTree.fromstring(graph_svg([Node(0, label, "input")], (), "")).get("width", "0")
        )

    assert width("名" * 10) > 1.5 * width("n" * 10)


def test_large_graphs_are_drawn_in_seconds() -> None:
    count = 3000
    nodes = [Node(n, f"op{n % 7}", "operator") for n in range(count)]
    edges = [Edge(n, n + 1) for n in range(count - 1)]
    edges += [Edge(n, n + 5) for n in range(0, count - 5, 5)]
    start = time.perf_counter()
    svg = graph_svg(nodes, edges, "large")
    assert time.perf_counter() - start < 10
    assert svg.count("<rect") == count


def test_the_style_has_colours_for_light_and_dark() -> None:
    light, dark = GRAPH_STYLE.split("@media (prefers-color-scheme: dark)")
    names = {word.strip(":;") for word in light.split() if word.startswith("--")}
    assert names == {
        word.strip(":;") for word in dark.split("svg.graph")[0].split() if word.startswith("--")
    }
