"""The roofline plot: ceilings and points where they belong, names that cover nothing."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasor.roofline import Bandwidth, Ceiling
from tasor.roofline_plot import Point, Standing, roofline_svg

CEILING = Ceiling(1, 100e9, (Bandwidth("L1", 200e9), Bandwidth("memory", 20e9)))
HOSTILE = "</title><script>\"'&"
STANDINGS: tuple[Standing, ...] = ("faster", "even", "slower", "alone")


def point(intensity: float, rate: float, name: str = "x", standing: Standing = "faster") -> Point:
    return Point(name, intensity, rate, standing, f"about {name}")


def drawn(points: list[Point], ceiling: Ceiling = CEILING) -> ElementTree.Element:
    return ElementTree.fromstring(roofline_svg(points, ceiling, "1 thread"))


def of_kind(tree: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [item for item in tree.iter() if kind in item.attrib.get("class", "").split()]


def numbers(item: ElementTree.Element) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", item.attrib["d"])]


def test_the_roof_bends_at_the_intensity_of_the_ridge() -> None:
    tree = drawn([point(1.0, 10e9), point(5.0, 100e9)])
    slope, flat = of_kind(tree, "roof")
    x, y = numbers(slope)[2:4]
    # The second point lies at the ridge: 100 Gflop/s over 20 GB/s.
    ridge = of_kind(tree, "point")[0]
    assert numbers(ridge)[0] + 4.5 == pytest.approx(x, abs=0.2)
    assert numbers(ridge)[1] == pytest.approx(y, abs=0.2)
    assert numbers(flat)[:2] == pytest.approx([x, y], abs=0.2)
    assert len(of_kind(tree, "lower")) == 2


def test_ceilings_are_named_with_their_figures() -> None:
    texts = [item.text for item in of_kind(drawn([point(1.0, 1e9)]), "ceiling")]
    assert texts == ["L1 200 GB/s", "memory 20 GB/s", "peak 100 Gflop/s"]


def test_names_of_close_slopes_stand_on_either_side() -> None:
    levels = (Bandwidth("L1", 200e9), Bandwidth("L2", 100e9), Bandwidth("L3", 90e9))
    tree = drawn([point(1.0, 1e9)], Ceiling(1, 100e9, levels))
    sides = [
        float(item.attrib["transform"].split()[-1].rstrip(")"))
        for item in of_kind(tree, "ceiling")[:3]
    ]
    assert [side < 0 for side in sides] == [True, True, False]


def test_points_above_the_peak_are_open_and_shapes_tell_the_standing() -> None:
    points = [point(8.0, 50e9 * (n + 1), str(n), kind) for n, kind in enumerate(STANDINGS)]
    marks = of_kind(drawn(points), "point")
    kinds = [mark.attrib["class"].split()[1] for mark in marks]
    assert kinds == list(reversed(STANDINGS))
    assert ["open" in mark.attrib["class"] for mark in marks] == [True, True, False, False]
    assert len({re.sub(r"[\d. -]+", "", mark.attrib["d"]) for mark in marks}) == 3
    assert [title.text for mark in marks for title in mark] == [f"about {n}" for n in (3, 2, 1, 0)]


def test_a_ceiling_without_bandwidths_is_flat() -> None:
    tree = drawn([point(1.0, 1e9)], Ceiling(1, 5e9))
    assert len(of_kind(tree, "roof")) == 1
    assert of_kind(tree, "lower") == []


def test_text_is_escaped() -> None:
    named = point(1.0, 1e9, HOSTILE)
    text = str(roofline_svg([named], Ceiling(1, 5e9, (Bandwidth(HOSTILE, 1e9),)), HOSTILE))
    assert "<script" not in text
    assert HOSTILE in (ElementTree.fromstring(text).attrib["aria-label"])


@given(
    st.lists(
        st.builds(
            point,
            st.floats(1e-3, 1e5),
            st.floats(1e6, 1e13),
            st.text("abc-0", min_size=1, max_size=30),
            st.sampled_from(STANDINGS),
        ),
        max_size=60,
    ),
    st.floats(1e8, 1e13),
    st.lists(st.floats(1e8, 1e13), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_everything_lies_inside_and_names_apart(
    points: list[Point], peak: float, bandwidths: list[float]
) -> None:
    levels = tuple(Bandwidth(f"L{n}", rate) for n, rate in enumerate(bandwidths))
    tree = drawn(points, Ceiling(1, peak, levels))
    assert len(of_kind(tree, "point")) == len(points)
    for mark in of_kind(tree, "point"):
        x, y = numbers(mark)[:2]
        assert 50 <= x <= 635
        assert 5 <= y <= 430
    for kind in ("roof", "lower"):
        for line in of_kind(tree, kind):
            assert all(-1 <= number <= 641 for number in numbers(line))
    names = [
        (float(item.attrib["x"]), float(item.attrib["y"]), 5.6 * len(item.text or ""))
        for item in of_kind(tree, "name")
    ]
    for place, (x, y, width) in enumerate(names):
        for other_x, other_y, other_width in names[:place]:
            apart = x + width <= other_x + 0.2 or other_x + other_width <= x + 0.2
            assert apart or abs(y - other_y) >= 10.8
