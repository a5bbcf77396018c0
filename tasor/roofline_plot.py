"""The roofline plot of one number of threads as SVG: rates over intensities, both logarithmic.

What it does: draws the measured ceilings, a point for each case, and names as many points as there
is room for. Shapes tell a case that is faster than the best peer, about as fast, or slower; an open
point is one above the peak. Colours come from `PLOT_STYLE`, text from outside is escaped.
What it does not: calculate rates (`roofline`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import atan2, ceil, degrees, floor, log2, log10
from typing import Literal

from markupsafe import Markup

from tasor.roofline import Ceiling

Standing = Literal["faster", "even", "slower", "alone"]
"""Beside the best peer; `alone` without one."""

_WIDTH, _HEIGHT = 640, 470
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 626, 14, 420
_CHARACTER, _LINE = 5.6, 11.0
"""Pixels of a character of a name, at most on average, and of its line."""

_RADIUS = 4.5

_CLOSE = 26.0
"""Pixels between two slopes that leave room for a name."""

PLOT_STYLE = """\
svg.roofline { display: block; width: 100%; min-width: 32rem; height: auto; }
svg.roofline text { font: 11px system-ui, sans-serif; fill: var(--faint); }
svg.roofline text.name {
  font-size: 10px; fill: var(--ink); paint-order: stroke; stroke: var(--ground);
  stroke-width: 3px; stroke-linejoin: round;
}
svg.roofline text.ceiling {
  fill: var(--ink); paint-order: stroke; stroke: var(--ground); stroke-width: 4px;
}
svg.roofline .grid { stroke: var(--line); stroke-width: .6; }
svg.roofline .frame { fill: none; stroke: var(--line); }
svg.roofline .roof { fill: none; stroke: var(--ink); stroke-width: 1.8; }
svg.roofline .lower { fill: none; stroke: var(--faint); stroke-width: 1; stroke-dasharray: 5 3; }
svg.roofline .point { stroke: var(--ground); stroke-width: .8; }
svg.roofline .faster { fill: var(--own); }
svg.roofline .even { fill: var(--faint); }
svg.roofline .slower { fill: var(--no); }
svg.roofline .alone { fill: var(--ink); }
svg.roofline .open { fill: var(--ground); stroke-width: 1.8; }
svg.roofline .open.faster { stroke: var(--own); }
svg.roofline .open.even { stroke: var(--faint); }
svg.roofline .open.slower { stroke: var(--no); }
svg.roofline .open.alone { stroke: var(--ink); }
"""


@dataclass(frozen=True, slots=True)
class Point:
    """A case: flop for each byte, flop/s, and what is said of it."""

    name: str
    intensity: float
    rate: float
    standing: Standing
    tooltip: str


@dataclass(frozen=True, slots=True)
class _Scale:
    """A logarithmic axis between two values, as pixels."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        span = log10(self.high) - log10(self.low)
        return self.start + (self.end - self.start) * (log10(value) - log10(self.low)) / span


@dataclass(frozen=True, slots=True)
class _Axes:
    x: _Scale
    y: _Scale

    def at(self, intensity: float, rate: float) -> tuple[float, float]:
        return self.x.place(intensity), self.y.place(rate)


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)

    @property
    def inside(self) -> bool:
        return (
            self.left >= _LEFT
            and self.right <= _RIGHT
            and self.top >= _TOP
            and self.bottom <= _BOTTOM
        )


def roofline_svg(points: Sequence[Point], ceiling: Ceiling, title: str) -> Markup:
    """The plot. `points` are named in their order, as far as there is room."""
    axes = _axes(points, ceiling)
    said = f"Roofline, {title}; cases: {len(points)}; peak: {ceiling.peak / 1e9:.4g} Gflop/s"
    parts = [
        f'<svg class="roofline" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(said)}">',
        *_grid(axes),
        *_ceilings(axes, ceiling),
        *_points(axes, points, ceiling.peak),
        *_names(axes, points, ceiling),
        "</svg>",
    ]
    return Markup("\n".join(parts))


def _axes(points: Sequence[Point], ceiling: Ceiling) -> _Axes:
    """Room for all points, for the slopes and for a part of the flat roof."""
    ridges = [ceiling.peak / level.bytes_per_second for level in ceiling.bandwidths]
    xs = [*(point.intensity for point in points), *ridges, 1.0]
    ys = [*(point.rate for point in points), ceiling.peak, ceiling.peak / 30]
    return _Axes(
        _Scale(2.0 ** floor(log2(min(xs) / 1.5)), 2.0 ** ceil(log2(max(xs) * 2)), _LEFT, _RIGHT),
        _Scale(min(ys) / 1.6, max(ys) * 1.6, _BOTTOM, _TOP),
    )


def _grid(axes: _Axes) -> Iterator[str]:
    for power in range(round(log2(axes.x.low)), round(log2(axes.x.high)) + 1):
        x = axes.x.place(2.0**power)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>'
        if power % 2 == 0:
            label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
            yield f'<text x="{x:.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{label}</text>'
    for value in _decimal_steps(axes.y.low, axes.y.high):
        y = axes.y.place(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value / 1e9:g}</text>'
    width, height = _RIGHT - _LEFT, _BOTTOM - _TOP
    yield f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}"/>'
    middle = (_LEFT + _RIGHT) / 2
    yield (
        f'<text x="{middle:.0f}" y="{_HEIGHT - 12}" text-anchor="middle">'
        "intensity: flop for each byte that must be moved</text>"
    )
    middle = (_TOP + _BOTTOM) / 2
    yield (
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        "Gflop/s, by definition of the operators</text>"
    )


def _decimal_steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def _ceilings(axes: _Axes, ceiling: Ceiling) -> Iterator[str]:
    """The flat roof, and a slope for each bandwidth; that of main memory is the roof itself."""
    peak = ceiling.peak
    slowest = min((level.bytes_per_second for level in ceiling.bandwidths), default=None)
    previous = float("-inf")
    for level in sorted(ceiling.bandwidths, key=lambda item: -item.bytes_per_second):
        ridge = peak / level.bytes_per_second
        start = max(axes.x.low, axes.y.low / level.bytes_per_second)
        x1, y1 = axes.at(start, start * level.bytes_per_second)
        x2, y2 = axes.at(ridge, peak)
        kind = "roof" if level.bytes_per_second == slowest else "lower"
        yield f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
        angle = degrees(atan2(y2 - y1, x2 - x1))
        text = f"{level.level} {level.bytes_per_second / 1e9:.3g} GB/s"
        # Between two slopes that are close there is no room for a name.
        above = x2 - previous >= _CLOSE
        previous = x2 if above else float("-inf")
        yield (
            f'<text class="ceiling" transform="translate({x1:.1f} {y1:.1f}) rotate({angle:.1f}) '
            f'translate(16 {-4 if above else 12})">{escape(text)}</text>'
        )
    start = axes.x.low if slowest is None else peak / slowest
    fastest = max((level.bytes_per_second for level in ceiling.bandwidths), default=None)
    x1, y = axes.at(start, peak)
    yield f'<path class="roof" d="M{x1:.1f} {y:.1f}H{_RIGHT}"/>'
    if fastest is not None:
        x0 = axes.x.place(peak / fastest)
        yield f'<path class="lower" d="M{x0:.1f} {y:.1f}H{x1:.1f}"/>'
    yield (
        f'<text class="ceiling" x="{_RIGHT - 6}" y="{y - 5:.1f}" text-anchor="end">'
        f"peak {peak / 1e9:.4g} Gflop/s</text>"
    )


def _points(axes: _Axes, points: Sequence[Point], peak: float) -> Iterator[str]:
    # The first are drawn last, on top.
    for point in reversed(points):
        x, y = axes.at(point.intensity, point.rate)
        kind = f"point {point.standing}{' open' if point.rate > peak else ''}"
        title = f"<title>{escape(point.tooltip)}</title>"
        yield f'<path class="{kind}" d="{_shape(point.standing, x, y)}">{title}</path>'


def _shape(standing: Standing, x: float, y: float) -> str:
    r = _RADIUS
    match standing:
        case "slower":
            return f"M{x:.1f} {y + r:.1f}L{x - r:.1f} {y - r * 0.7:.1f}H{x + r:.1f}Z"
        case "even":
            s = r * 0.8
            return f"M{x - s:.1f} {y - s:.1f}h{2 * s:.1f}v{2 * s:.1f}h{-2 * s:.1f}Z"
        case "faster" | "alone":
            arc = f"a{r} {r} 0 1 0"
            return f"M{x - r:.1f} {y:.1f}{arc} {2 * r} 0{arc} {-2 * r} 0Z"


def _names(axes: _Axes, points: Sequence[Point], ceiling: Ceiling) -> Iterator[str]:
    """Each name beside its point, where it covers no point, no other name and not the peak's."""
    places = [axes.at(point.intensity, point.rate) for point in points]
    r = _RADIUS
    taken = [_Box(x - r, y - r, x + r, y + r) for x, y in places]
    peak = axes.y.place(ceiling.peak)
    taken.append(_Box(_RIGHT - 130, peak - 18, _RIGHT, peak))
    for point, (x, y) in zip(points, places, strict=True):
        width = _CHARACTER * len(point.name)
        for left, top in (
            (x + r + 2, y - _LINE / 2),
            (x - r - 2 - width, y - _LINE / 2),
            (x - width / 2, y - r - 2 - _LINE),
            (x - width / 2, y + r + 2),
        ):
            box = _Box(left, top, left + width, top + _LINE)
            if box.inside and not any(box.meets(other) for other in taken):
                taken.append(box)
                yield (
                    f'<text class="name" x="{left:.1f}" y="{top + _LINE - 2.5:.1f}">'
                    f"{escape(point.name)}</text>"
                )
                break
