"""Learning curves: what they start with, that they only fall, and what is left out of them."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.tune.learning_curve import CurvePoint, History, Round
from tensorgen.tune.task_scheduler import Network

BOTH = Network("both", {"a": 2, "b": 1}, besides=0.5)


def test_a_curve_falls_where_a_task_became_faster() -> None:
    rounds = (
        Round("a", 8, 1.0, 3.0),
        Round("b", 16, 2.0, 1.0),
        Round("a", 24, 3.0, 2.5),
        Round("other", 32, 4.0, 0.1),
    )
    history = History({"a": 4.0, "b": 1.0, "other": 1.0}, 0, rounds)
    assert history.curve(BOTH) == (
        CurvePoint(0, 0.0, 9.5),
        CurvePoint(8, 1.0, 7.5),
        CurvePoint(16, 2.0, 7.5),
        CurvePoint(24, 3.0, 6.5),
        # The end of all tuning is in every curve.
        CurvePoint(32, 4.0, 6.5),
    )
    assert history.curve(Network("alone", {"b": 3})) == (
        CurvePoint(0, 0.0, 3.0),
        CurvePoint(16, 2.0, 3.0),
        CurvePoint(32, 4.0, 3.0),
    )
    assert (history.seconds, history.trials_made) == (4.0, 32)


def test_trials_on_file_are_counted_and_not_made() -> None:
    history = History({"a": 4.0, "b": 1.0}, 40, (Round("a", 48, 1.0, 4.5),))
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
def test_curves_never_rise_and_end_at_the_best(steps: list[tuple[str, float]]) -> None:
    before = {"a": 100.0, "b": 10.0, "c": 1.0}
    rounds = tuple(
        Round(task, 8 * number, float(number), best) for number, (task, best) in enumerate(steps, 1)
    )
    curve = History(before, 0, rounds).curve(BOTH)
    assert curve[0] == CurvePoint(0, 0.0, 210.5)
    latencies = [point.latency for point in curve]
    assert latencies == sorted(latencies, reverse=True)
    assert [point.trials for point in curve] == sorted({point.trials for point in curve})
    best = {
        name: min([seconds, *(b for task, b in steps if task == name)])
        for name, seconds in before.items()
    }
    assert latencies[-1] == pytest.approx(2 * best["a"] + best["b"] + 0.5)
