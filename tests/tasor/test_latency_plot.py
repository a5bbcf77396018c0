"""The plot of a model's time: steps where they belong, axes that hold all of them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasor.latency_plot import Step, latency_svg

HOSTILE = "</title><script>\"'&"


def drawn(*steps: Step, target: float | None = None, name: str = "m") -> ElementTree.Element:
    return ElementTree.fromstring(latency_svg(steps, "trials", name, target))


def of_kind(tree: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [item for item in tree.iter() if item.attrib.get("class") == kind]


def places(path: ElementTree.Element) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", path.attrib["d"])]


def test_a_run_takes_as_long_as_before_until_it_is_faster() -> None:
    tree = drawn(Step(0, 4.0), Step(8, 3.0), Step(16, 3.0), Step(32, 2.0))
    (path,) = of_kind(tree, "steps")
    x0, y0, *rest = places(path)
    xs, ys = rest[::2], rest[1::2]
    assert re.fullmatch(r"M[\d. ]+(H[\d.]+V[\d.]+){3}", path.attrib["d"])
    assert [x - x0 for x in xs] == pytest.approx([354 / 4, 354 / 2, 354], abs=0.2)
    assert (ys[0] - y0) == pytest.approx(ys[2] - ys[0], abs=0.2)
    assert ys[0] == ys[1]
    titles = [next(iter(dot)).text for dot in of_kind(tree, "gain")]
    assert titles == ["3 ms after 8 trials", "2 ms after 32 trials"]


def test_a_target_is_drawn_and_on_the_axis() -> None:
    tree = drawn(Step(0, 4.0), Step(8, 3.0), target=1.0)
    line, text = of_kind(tree, "target")
    assert text.text == "target 1 ms"
    assert 12 <= float(line.attrib["y1"]) <= 208
    assert of_kind(drawn(Step(0, 4.0)), "target") == []


def test_one_step_alone_is_a_dot() -> None:
    tree = drawn(Step(0, 0.0))
    assert len(of_kind(tree, "gain")) == 1


def test_text_from_outside_is_text_only() -> None:
    assert "<script" not in latency_svg([Step(0, 1.0)], "trials", HOSTILE)
    tree = drawn(Step(0, 1.0), name=HOSTILE)
    assert tree.attrib["aria-label"] == f"{HOSTILE}: from 1 to 1 ms over trials"


@settings(deadline=None)
@example([(5e-324, 0.0)], None)
@example([(0.0, 1e-299), (0.0, 1.05e-299)], None)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5)), min_size=1, max_size=20),
    st.one_of(st.none(), st.floats(1e-6, 1e5)),
)
def test_everything_is_inside_the_frame(
    steps: list[tuple[float, float]], target: float | None
) -> None:
    ordered = sorted(place for place, _ in steps)
    times = sorted((time for _, time in steps), reverse=True)
    tree = drawn(*(Step(*pair) for pair in zip(ordered, times, strict=True)), target=target)
    (path,) = of_kind(tree, "steps")
    numbers = places(path)
    assert all(53.9 <= x <= 408.1 for x in numbers[::2])
    assert all(11.9 <= y <= 208.1 for y in numbers[1::2])
    assert 2 <= len(of_kind(tree, "grid")) <= 16
