"""Bars and dots: well-formed, to scale, within their cells, their text escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasor.ratio_bars import (
    LONGEST_BAR,
    Bar,
    Dot,
    Lane,
    bars_axis,
    bars_svg,
    dots_axis,
    dots_svg,
    ratio_scale,
)

positive = st.floats(1e-6, 1e6)
HOSTILE = "</title><script>\"'&"


def widths(svg: str) -> list[float]:
    tree = ElementTree.fromstring(svg)
    return [float(bar.attrib["width"].rstrip("%")) for bar in tree.iter("rect")]


@given(st.lists(positive, min_size=1, max_size=5))
def test_bars_are_to_scale_until_they_are_cut(shares: list[float]) -> None:
    svg = bars_svg([Bar("engine", "peer-0", share, 1.0) for share in shares])
    for width, share in zip(widths(svg), shares, strict=True):
        assert width == pytest.approx(100 * min(share, LONGEST_BAR) / LONGEST_BAR, abs=0.01)
    cut = ElementTree.fromstring(svg).findall("text")
    assert [text.text for text in cut] == [f"{s:.1f} x" for s in shares if s > LONGEST_BAR]


@given(st.lists(positive, min_size=1))
def test_the_scale_holds_every_ratio_in_order(ratios: list[float]) -> None:
    scale = ratio_scale(ratios)
    places = [scale.place(ratio) for ratio in sorted(ratios)]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= 100
    assert 0 in scale.powers
    assert 2 <= len(scale.powers) <= 8
    assert scale.place(0.5) < scale.place(1) < scale.place(2)


def test_the_scale_of_nothing_is_from_a_half_to_two() -> None:
    assert ratio_scale([]).powers == (-1, 0, 1)


def test_dots_stand_where_their_ratios_are() -> None:
    scale = ratio_scale([0.5, 4.0])
    lane = Lane("lane-0", "1 thread", (Dot(0.5, "half"), Dot(1.0, "even"), Dot(4.0, "much")), 1.26)
    tree = ElementTree.fromstring(dots_svg([lane, lane], scale))
    found = [float(dot.attrib["cx"].rstrip("%")) for dot in tree.iter("circle")]
    assert found == pytest.approx([scale.place(0.5), scale.place(1), scale.place(4)] * 2, abs=0.01)
    assert [title.text for title in tree.iter("title")][:3] == ["half", "even", "much"]
    assert tree.attrib["aria-label"] == "geometric means, 1 thread: 1.26, 1 thread: 1.26"


def test_axes_name_their_lines() -> None:
    marks = [text.text for text in ElementTree.fromstring(dots_axis(ratio_scale([0.3, 5])))]
    assert marks == ["¼", "½", "1", "2", "4", "8"]
    assert [text.text for text in ElementTree.fromstring(bars_axis())] == ["0", "½", "1", "1½", "2"]


def test_text_is_escaped() -> None:
    scale = ratio_scale([])
    drawings = (
        bars_svg([Bar(HOSTILE, "own", 1.0, 1.0)]),
        dots_svg([Lane("lane-0", HOSTILE, (Dot(1.0, HOSTILE),), 1.0)], scale),
    )
    for drawing in drawings:
        assert "<script" not in drawing
        tree = ElementTree.fromstring(drawing)
        assert any(HOSTILE in (title.text or "") for title in tree.iter("title"))
