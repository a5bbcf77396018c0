"""The task scheduler: what the next trials are worth, under each objective."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.tune.task_scheduler import (
    ENOUGH_TRIALS,
    PATIENCE,
    Done,
    EqualTrials,
    Finish,
    LatencyTargets,
    MeanSpeed,
    Network,
    Next,
    Objective,
    TaskState,
    TotalLatency,
    WeightedLatency,
    next_task,
    slopes,
)

ONE = Network("one", {"a": 1, "b": 1})


def state(name: str, *best: float, trials: int = 16, bound: float = 0.1) -> TaskState:
    return TaskState(name, bound, trials, best)


def chosen(
    *states: TaskState, networks: tuple[Network, ...] = (ONE,), objective: Objective | None = None
) -> str | None:
    found = next_task(states, networks, TotalLatency() if objective is None else objective)
    return found.task if isinstance(found, Next) else None


def test_every_task_is_tried_once_the_longest_first() -> None:
    short, long = TaskState("a", 0.1, 0, (1.0,)), TaskState("b", 0.1, 0, (2.0,))
    assert chosen(short, long) == "b"
    assert chosen(short, long.measured(16, 1.5)) == "a"
    unknown = TaskState("a", 5.0)
    assert unknown.seconds == inf
    assert chosen(unknown, long) == "a"


def test_the_task_with_the_larger_share_of_the_time_gets_more_trials() -> None:
    assert chosen(state("a", 10.0, 10.0), state("b", 1.0, 1.0)) == "a"
    often = Network("often", {"a": 1, "b": 20})
    assert chosen(state("a", 10.0, 10.0), state("b", 1.0, 1.0), networks=(often,)) == "b"


def test_what_lately_became_faster_gets_more_trials() -> None:
    assert chosen(state("a", 1.0, 1.0), state("b", 3.0, 1.0)) == "b"


def test_gains_end_at_the_bound() -> None:
    near = state("a", 10.0, 10.0, bound=9.4)
    assert near.finish() is None
    assert near.gain() <= 10.0 - 9.4
    assert chosen(near, state("b", 8.0, 8.0, trials=8)) == "b"
    assert state("a", 10.0, 10.0, bound=9.6).finish() is Finish.AT_BOUND


def test_tasks_that_settle_end_when_they_had_enough() -> None:
    still = (1.0,) * (PATIENCE + 1)
    assert state("a", *still, trials=ENOUGH_TRIALS).finish() is Finish.SETTLED
    assert state("a", *still, trials=ENOUGH_TRIALS - 1).finish() is None
    assert state("a", 1.1, *still, trials=ENOUGH_TRIALS).finish() is Finish.SETTLED
    assert state("a", 1.1, *still[1:], trials=ENOUGH_TRIALS).finish() is None


def test_budgets_and_exhaustion_end_tasks() -> None:
    assert TaskState("a", 0.1, 16, (1.0,), exhausted=True).finish() is Finish.EXHAUSTED
    assert TaskState("a", 0.1, 16, (1.0,), most_trials=16).finish() is Finish.BUDGET
    assert TaskState("a", 0.1, 0, (), most_trials=0).finish() is Finish.BUDGET


def test_when_all_are_finished_each_says_why() -> None:
    done = next_task(
        [state("a", 1.0, bound=1.0), TaskState("b", 0.1, 16, (1.0,), exhausted=True)],
        (ONE,),
        TotalLatency(),
    )
    assert done == Done({"a": Finish.AT_BOUND, "b": Finish.EXHAUSTED})


def test_targets_that_are_met_cost_no_trials() -> None:
    met, missed = Network("met", {"a": 1}), Network("missed", {"b": 1})
    states = (state("a", 9.0, 9.0), state("b", 1.0, 1.0))
    objective = LatencyTargets({"met": 10.0, "missed": 0.5})
    assert chosen(*states, networks=(met, missed), objective=objective) == "b"
    both = LatencyTargets({"met": 10.0, "missed": 2.0})
    found = next_task(states, (met, missed), both)
    assert found == Done({"a": None, "b": None})


def test_weights_and_mean_speed() -> None:
    large, small = Network("large", {"a": 1}), Network("small", {"b": 1})
    states = (state("a", 9.0, 9.0), state("b", 3.0, 3.0))
    known = {s.name: s for s in states}
    assert slopes(WeightedLatency({"small": 4.0}), (large, small), known) == {"a": 1.0, "b": 4.0}
    found = slopes(MeanSpeed(), (large, small), known)
    assert found["a"] * 9.0 == pytest.approx(found["b"] * 3.0)
    weights = WeightedLatency({"small": 4.0})
    assert chosen(*states, networks=(large, small), objective=weights) == "b"


def test_networks_share_tasks() -> None:
    first, second = Network("first", {"a": 2, "b": 1}), Network("second", {"a": 3})
    known = {name: state(name, 1.0) for name in ("a", "b")}
    assert slopes(TotalLatency(), (first, second), known) == {"a": 5.0, "b": 1.0}
    assert first.latency(known) == 3.0


@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8),
    st.integers(1, 500),
    st.floats(1e-9, 1e-6),
)
def test_no_gain_reaches_below_the_bound(best: list[float], trials: int, bound: float) -> None:
    task = TaskState("a", bound, 0, (best[0],))
    for seconds in best:
        task = task.measured(trials, seconds)
    assert task.seconds == best[-1]
    assert task.trials == trials * len(best)
    assert 0 <= task.gain() <= task.seconds - bound


def test_patience_is_the_tasks_own() -> None:
    hasty = TaskState("a", 0.1, 16, (1.0,) * 3, patience=2, enough_trials=16)
    assert hasty.finish() is Finish.SETTLED
    assert TaskState("a", 0.1, 15, (1.0,) * 3, patience=2, enough_trials=16).finish() is None
    assert TaskState("a", 0.1, 16, (1.0,) * 2, patience=2, enough_trials=16).finish() is None
    assert hasty.measured(16, 0.5).finish() is None


def test_targets_are_reached_by_those_that_have_one() -> None:
    known = {name: state(name, 1.0) for name in ("a", "b")}
    objective = LatencyTargets({"one": 2.0}, {"one": 3.0, "two": 5.0})
    assert objective.are_reached_by(ONE, known)
    assert not objective.are_reached_by(Network("one", {"a": 3}), known)
    assert not objective.are_reached_by(Network("two", {"a": 1}), known)
    two = Network("two", {"a": 1})
    assert slopes(objective, (ONE, two), known) == {"a": 5.0, "b": 0.0}
    longer = Network("one", {"a": 3})
    assert slopes(objective, (longer, two), known) == {"a": 14.0, "b": 0.0}


def test_equal_trials_go_to_who_had_the_fewest() -> None:
    states = (state("a", 9.0, 1.0, trials=24), state("b", 1.0, bound=1.0, trials=16))
    assert states[1].finish() is Finish.AT_BOUND
    assert chosen(*states, objective=EqualTrials()) == "b"
    exhausted = TaskState("b", 1.0, 16, (1.0,), exhausted=True)
    assert chosen(states[0], exhausted, objective=EqualTrials()) == "a"
    ended = TaskState("a", 0.1, 24, (9.0, 1.0), exhausted=True)
    found = next_task((ended, exhausted), (ONE,), EqualTrials())
    assert found == Done({"a": Finish.EXHAUSTED, "b": Finish.EXHAUSTED})
