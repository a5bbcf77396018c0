"""Learning curves: what they start with, what they follow, and what is left out of them."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.tune.learning_curve import CurvePoint, History, Round
from tensorgen.tune.task_scheduler import Network

BOTH = Network("both", {"a": 2, "b": 1}, besides=0.5)


def test_a_curve_follows_the_best_of_its_tasks() -> None:
    rounds = (
        Round("a", 8, 1.0, 3.0),
        Round("b", 16, 2.0, 1.0),
        Round("a", 24, 3.0, 2.5),
        # Looked at again, it was not so fast.
        Round("a", 28, 3.5, 2.75),
        Round("other", 32, 4.0, 0.1),
    )
    history = History({"a": 4.0, "b": 1.0, "other": 1.0}, 0, rounds)
    assert history.curve(BOTH) == (
        CurvePoint(0, 0.0, 9.5),
        CurvePoint(8, 1.0, 7.5),
        CurvePoint(16, 2.0, 7.5),
        CurvePoint(24, 3.0, 6.5),
        CurvePoint(28, 3.5, 7.0),
        # The end of all tuning is in every curve.
        CurvePoint(32, 4.0, 7.0),
    )
    assert history.curve(Network("alone", {"b": 3})) == (
        CurvePoint(0, 0.0, 3.0),
        CurvePoint(16, 2.0, 3.0),
        CurvePoint(32, 4.0, 3.0),
    )
    assert (history.seconds, history.trials_made) == (4.0, 32)


def test_trials_on_file_are_counted_and_not_made() -> None:
    history = History({"a": 4.0, "b": 1.0}, 40, (Round("a", 48, 1.0, 4.0),))
    assert [point.trials for point in history.curve(BOTH)] == [40, 48]
    assert history.trials_made == 8
    assert history.curve(BOTH)[-1].latency == history.curve(BOTH)[0].latency


def test_what_was_never_measured_is_left_out() -> None:
    history = History({"a": inf, "b": 1.0}, 0, ())
    assert history.curve(BOTH) == (CurvePoint(0, 0.0, 1.5),)
    assert history.curve(Network("a alone", {"a": 1})) == ()
    assert (history.seconds, history.trials_made) == (0.0, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.floats(1e-6, 1e3), st.just(inf))),
        max_size=30,
    )
)
def test_curves_end_with_what_is_best_in_the_end(steps: list[tuple[str, float]]) -> None:
    before = {"a": 100.0, "b": 10.0, "c": 1.0}
    rounds = tuple(
        Round(task, 8 * number, float(number), best) for number, (task, best) in enumerate(steps, 1)
    )
    curve = History(before, 0, rounds).curve(BOTH)
    assert curve[0] == CurvePoint(0, 0.0, 210.5)
    assert [point.trials for point in curve] == sorted({point.trials for point in curve})
    best = before | {task: seconds for task, seconds in steps if seconds < inf}
    assert curve[-1].latency == pytest.approx(2 * best["a"] + best["b"] + 0.5)
