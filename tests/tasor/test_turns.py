"""Calls timed in turns."""

from __future__ import annotations

from collections.abc import Callable

from tasor.turns import Timings, timed


def slow(ticks: float, clock: list[float], order: list[float]) -> Callable[[], None]:
    """A call that takes so many ticks of a clock."""

    def call() -> None:
        clock[0] += ticks
        order.append(ticks)

    return call


def test_turns_alternate_and_medians_are_taken() -> None:
    clock: list[float] = [0.0]
    order: list[float] = []
    calls = [slow(ticks, clock, order) for ticks in (1.0, 4.0)]
    first, second = timed(calls, seconds=0.0, rounds=3, clock=lambda: clock[0])
    assert (first.milliseconds, second.milliseconds) == (1e3, 4e3)
    assert first.times_as_fast_as(second) == 4.0
    assert order == [1, 4, 1, 1, 4, 4, 4, 4, 1, 1, 1, 1, 4, 4]


def test_ratios_are_taken_round_by_round() -> None:
    """A disturbance that slows a whole round does not show."""
    assert Timings((1.0, 10.0, 1.0)).times_as_fast_as(Timings((2.0, 20.0, 2.0))) == 2.0
