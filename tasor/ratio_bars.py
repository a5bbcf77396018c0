"""Ratios and times as small drawings in a table's cells: bars of one case, dots of one group.

What it does: pure functions to the text of an `svg` element. Places are shares of the cell's width,
so that drawings fit any screen and their text is never scaled. Colours come from the page's style
by class, text from outside is escaped. What it does not: choose what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log2

from markupsafe import Markup

LONGEST_BAR = 2.0
"""Times of the best peer at which a bar is cut off."""

_BAR, _GAP, _MARGIN = 8, 2, 3
"""Pixels: height of a bar, between bars, above the first and below the last."""

_LANE = 16
"""Pixels that the dots of one number of threads take."""

_MOST_LINES = 6

_INSET = 2.0
"""Percent of the width that is left free beside the outermost lines."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One engine's time: `share` of the best peer's, drawn in the colour of the class `kind`."""

    engine: str
    kind: str
    share: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Dot:
    """One case: its ratio, and what its tooltip says."""

    ratio: float
    label: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The cases of a group with one number of threads, and their geometric mean."""

    kind: str
    label: str
    dots: tuple[Dot, ...]
    mean: float


@dataclass(frozen=True, slots=True)
class RatioScale:
    """Ratios from 2**low to 2**high, on a logarithmic scale."""

    low: int
    high: int

    def place(self, ratio: float) -> float:
        """Percent of the width."""
        span = self.high - self.low
        return _INSET + (100 - 2 * _INSET) * (log2(ratio) - self.low) / span

    @property
    def powers(self) -> tuple[int, ...]:
        """The powers of two that get a line; 0, which is as fast as the best peer, among them."""
        step = max(1, ceil((self.high - self.low) / _MOST_LINES))
        return tuple(power for power in range(self.low, self.high + 1) if power % step == 0)


def ratio_scale(ratios: Sequence[float]) -> RatioScale:
    """The scale in whole powers of two that holds the ratios, and a half and two in any case."""
    low = min(-1, *(floor(log2(ratio)) for ratio in ratios), 0)
    high = max(1, *(ceil(log2(ratio)) for ratio in ratios), 0)
    return RatioScale(low, high)


def bars_svg(bars: Sequence[Bar]) -> Markup:
    """One bar below the other; the best peer's ends at the strong line."""
    height = 2 * _MARGIN + len(bars) * _BAR + max(0, len(bars) - 1) * _GAP
    said = ", ".join(f"{bar.engine} {bar.share:.2f}" for bar in bars)
    parts = [
        f'<svg class="bars" width="100%" height="{height}" role="img" '
        f'aria-label="{escape(said)} times the best peer\'s time">'
    ]
    parts += [_line(_bar_end(share), height, share == 1) for share in (0.5, 1.0, 1.5)]
    top = _MARGIN
    for bar in bars:
        title = f"{bar.engine}: {bar.milliseconds:.4g} ms, {bar.share:.2f} x the best peer's time"
        parts.append(
            f'<rect class="{bar.kind}" x="0" y="{top}" width="{_bar_end(bar.share):.2f}%" '
            f'height="{_BAR}"><title>{escape(title)}</title></rect>'
        )
        if bar.share > LONGEST_BAR:
            parts.append(
                f'<text x="99%" y="{top + _BAR - 1}" text-anchor="end">{bar.share:.1f} x</text>'
            )
        top += _BAR + _GAP
    return Markup("".join([*parts, "</svg>"]))


def bars_axis() -> Markup:
    """What the lines behind the bars stand for."""
    marks = (
        (0.0, "start", "0"),
        (0.5, "middle", "½"),
        (1.0, "middle", "1"),
        (1.5, "middle", "1½"),
        (LONGEST_BAR, "end", "2"),
    )
    texts = [
        f'<text x="{_bar_end(share):.2f}%" y="11" text-anchor="{anchor}">{label}</text>'
        for share, anchor, label in marks
    ]
    return Markup(
        f'<svg class="axis" width="100%" height="14" aria-hidden="true">{"".join(texts)}</svg>'
    )


def dots_svg(lanes: Sequence[Lane], scale: RatioScale) -> Markup:
    """A lane for each number of threads: its cases as dots, their mean as a stroke."""
    height = _LANE * len(lanes) + 2
    said = ", ".join(f"{lane.label}: {lane.mean:.2f}" for lane in lanes)
    parts = [
        f'<svg class="dots" width="100%" height="{height}" role="img" '
        f'aria-label="geometric means, {escape(said)}">'
    ]
    parts += [_line(scale.place(2.0**power), height, power == 0) for power in scale.powers]
    for number, lane in enumerate(lanes):
        middle = _LANE * number + _LANE // 2 + 1
        mean = f"{scale.place(lane.mean):.2f}%"
        for dot in lane.dots:
            place = f"{scale.place(dot.ratio):.2f}%"
            parts.append(
                f'<circle class="{lane.kind}" cx="{place}" cy="{middle}" r="3.5">'
                f"<title>{escape(dot.label)}</title></circle>"
            )
        parts.append(
            f'<line class="mean {lane.kind}" x1="{mean}" x2="{mean}" y1="{middle - 7}" '
            f'y2="{middle + 7}"><title>{escape(lane.label)}: {lane.mean:.2f}</title></line>'
        )
    return Markup("".join([*parts, "</svg>"]))


def dots_axis(scale: RatioScale) -> Markup:
    """What the lines behind the dots stand for."""
    texts = [
        f'<text x="{scale.place(2.0**power):.2f}%" y="11" text-anchor="{anchor}">{label}</text>'
        for power in scale.powers
        for anchor, label in [(_anchor(power, scale), _power_of_two(power))]
    ]
    return Markup(
        f'<svg class="axis" width="100%" height="14" aria-hidden="true">{"".join(texts)}</svg>'
    )


def _bar_end(share: float) -> float:
    return 100 * min(share, LONGEST_BAR) / LONGEST_BAR


def _line(place: float, height: int, strong: bool) -> str:
    kind = "one" if strong else "grid"
    return f'<line class="{kind}" x1="{place:.2f}%" x2="{place:.2f}%" y1="0" y2="{height}"/>'


def _anchor(power: int, scale: RatioScale) -> str:
    ends = {scale.low: "start", scale.high: "end"}
    return ends.get(power, "middle")


def _power_of_two(power: int) -> str:
    fractions = {-1: "½", -2: "¼", -3: "⅛"}
    return fractions.get(power, f"1/{2**-power}") if power < 0 else str(2**power)
