"""Curves of tuning: the best so far, and when it was good enough."""

from __future__ import annotations

from itertools import pairwise
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.time_to_reach import (
    Point,
    best_so_far,
    landmarks,
    seconds_until,
    seconds_until_best,
)

TRIALS = tuple(
    Point(number, 2.0 * number, best)
    for number, best in enumerate((inf, 9.0, 12.0, 5.0, 5.0, 4.95, 6.0), 1)
)


def test_only_what_is_faster_than_all_before_counts() -> None:
    assert [point.trials for point in best_so_far(TRIALS)] == [2, 4, 6]
    assert best_so_far((Point(1, 1.0, inf),)) == ()


def test_seconds_are_those_of_the_first_point_that_is_good_enough() -> None:
    assert seconds_until(TRIALS, 9.0) == 4.0
    assert seconds_until(TRIALS, 8.9) == 8.0
    assert seconds_until(TRIALS, 4.9) is None
    assert seconds_until_best(TRIALS) == 12.0
    assert seconds_until_best(TRIALS, 1.02) == 8.0
    assert seconds_until_best((Point(1, 1.0, inf),)) is None
    assert seconds_until_best(()) is None


def test_landmarks_are_a_step_apart_and_end_with_the_last() -> None:
    curve = best_so_far(TRIALS)
    assert list(landmarks(curve, 1.5)) == list(curve)
    close = (*curve, Point(9, 18.0, 4.94), Point(10, 20.0, 4.93))
    assert [point.trials for point in landmarks(close, 1.05)] == [2, 4, 10]
    assert list(landmarks((), 1.05)) == []


@given(st.lists(st.floats(0.1, 10.0) | st.just(inf), max_size=30), st.floats(1.0, 2.0))
def test_curves_fall_and_more_slack_takes_no_longer(times: list[float], slack: float) -> None:
    trials = [Point(number, float(number), best) for number, best in enumerate(times)]
    curve = best_so_far(trials)
    for before, after in pairwise(curve):
        assert before.best > after.best
        assert before.seconds < after.seconds
    best, near = seconds_until_best(trials), seconds_until_best(trials, slack)
    assert (best is None) == (near is None) == (min(times, default=inf) == inf)
    if best is not None and near is not None:
        assert near <= best == curve[-1].seconds
        assert seconds_until_best(curve, slack) == near
