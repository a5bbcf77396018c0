"""A model's time while it is tuned, as SVG: milliseconds over trials, or over seconds.

What it does: draws steps, because a model is as fast as its best schedules until there are better
ones, a dot for each gain, and a line where the model was to arrive. Both axes are linear; that of
time starts near the shortest one, and says so by its numbers. Colours come from `PLOT_STYLE`, text
from outside is escaped. What it does not: calculate times (`tensorgen.tune.learning_curve`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from markupsafe import Markup

_WIDTH, _HEIGHT = 420, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 408, 12, 208
_MOST_TICKS = 6
_ROOM = 0.08
"""Part of the span of times that is left free above and below."""

_LEAST_SPAN = 1e-300
"""Values nearer to each other than this have no numbers for lines between them."""

PLOT_STYLE = """\
svg.latency { display: block; width: 100%; height: auto; }
svg.latency text { font: 11px system-ui, sans-serif; fill: var(--faint); }
svg.latency text.target { fill: var(--yes); }
svg.latency .grid { stroke: var(--line); stroke-width: .6; }
svg.latency .frame { fill: none; stroke: var(--line); }
svg.latency .steps { fill: none; stroke: var(--own); stroke-width: 2; stroke-linejoin: round; }
svg.latency .gain { fill: var(--own); stroke: var(--ground); stroke-width: .8; }
svg.latency line.target { stroke: var(--yes); stroke-width: 1.4; stroke-dasharray: 5 3; }
"""


@dataclass(frozen=True, slots=True)
class Step:
    """From `place` on, in trials or seconds, a run takes so many milliseconds."""

    place: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class _Axis:
    """A linear axis between two values, as pixels, with the values that get a line."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Multiples of 1, 2 or 5 times a power of ten, as many as there is room for."""
        span = self.high - self.low
        power = 10.0 ** floor(log10(span / _MOST_TICKS))
        step = next(f * power for f in (1, 2, 5, 10, 20) if span / (f * power) <= _MOST_TICKS)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return tuple(number * step for number in range(first, last + 1))


def latency_svg(
    steps: Sequence[Step], along: str, title: str, target: float | None = None
) -> Markup:
    """The plot of at least one step; `along` names the axis of their places, and `target` are the
    milliseconds that were to be reached."""
    times = [step.milliseconds for step in steps]
    x = _axis(0.0, max(step.place for step in steps), _LEFT, _RIGHT, room=0.0)
    y = _axis(
        min(times if target is None else [*times, target]),
        max(times if target is None else [*times, target]),
        _BOTTOM, _TOP, room=_ROOM,
    )  # fmt: skip
    said = f"{title}: from {times[0]:.4g} to {times[-1]:.4g} ms over {along}"
    parts = [
        f'<svg class="latency" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(said)}">',
        *_frame(x, y, along),
        *_target(y, target),
        *_steps(x, y, steps, along),
        "</svg>",
    ]
    return Markup("\n".join(parts))


def _axis(low: float, high: float, start: float, end: float, *, room: float) -> _Axis:
    """An axis that holds both values, also where they are one or no numbers lie between them."""
    if high - low <= max(1e-9 * abs(high), _LEAST_SPAN):
        high = low + (1.0 if abs(low) < 100 * _LEAST_SPAN else abs(low) * 0.1)
    span = high - low
    return _Axis(low - room * span, high + room * span, start, end)


def _frame(x: _Axis, y: _Axis, along: str) -> Iterator[str]:
    for value in x.ticks:
        place = x.at(value)
        yield f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>'
        yield f'<text x="{place:.1f}" y="{_BOTTOM + 15}" text-anchor="middle">{value:g}</text>'
    for value in y.ticks:
        place = y.at(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{value:.6g}</text>'
    width, height = _RIGHT - _LEFT, _BOTTOM - _TOP
    yield f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}"/>'
    middle = (_LEFT + _RIGHT) / 2
    yield (f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(along)}</text>')
    middle = (_TOP + _BOTTOM) / 2
    yield (
        f'<text transform="translate(12 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        "ms of one run</text>"
    )


def _target(y: _Axis, target: float | None) -> Iterator[str]:
    if target is not None:
        place = y.at(target)
        yield (
            f'<line class="target" x1="{_LEFT}" x2="{_RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>'
        )
        yield (
            f'<text class="target" x="{_RIGHT - 4}" y="{place - 4:.1f}" text-anchor="end">'
            f"target {target:.4g} ms</text>"
        )


def _steps(x: _Axis, y: _Axis, steps: Sequence[Step], along: str) -> Iterator[str]:
    first, *others = steps
    path = [f"M{x.at(first.place):.1f} {y.at(first.milliseconds):.1f}"]
    path += [f"H{x.at(step.place):.1f}V{y.at(step.milliseconds):.1f}" for step in others]
    yield f'<path class="steps" d="{"".join(path)}"/>'
    for before, step in zip(steps, others, strict=False):
        if step.milliseconds < before.milliseconds:
            text = f"{step.milliseconds:.4g} ms after {step.place:.4g} {along}"
            yield (
                f'<circle class="gain" cx="{x.at(step.place):.1f}" '
                f'cy="{y.at(step.milliseconds):.1f}" r="2.5"><title>{escape(text)}</title></circle>'
            )
    if not others:
        yield (
            f'<circle class="gain" cx="{x.at(first.place):.1f}" '
            f'cy="{y.at(first.milliseconds):.1f}" r="2.5"/>'
        )
