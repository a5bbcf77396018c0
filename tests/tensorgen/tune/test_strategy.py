"""Strategies: no point twice, exhaustion, and each beats drawing at random on a known optimum."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from statistics import median

import pytest

from tensorgen.tune.descent import Descent
from tensorgen.tune.evolution import Evolution
from tensorgen.tune.outcome import Crashed, NotBuilt, Outcome, Refused, Timed, TookTooLong, Wrong
from tensorgen.tune.space import Candidate, Space
from tensorgen.tune.staged import STRATEGY_NAMES, Staged, strategy_of
from tensorgen.tune.strategy import AnalyticalScores, RandomStrategy, Strategy
from tests.valley_space import truth, valleys


def trials_until(strategy: Strategy, space: Space, within: float, most: int) -> int:
    """Trials until a point within that factor of the bottom was measured."""
    for trial in range(0, most, 8):
        proposed = strategy.propose(8)
        if not proposed:
            break
        for number, candidate in enumerate(proposed):
            seconds = truth(space, candidate)
            strategy.observe(candidate, Timed(seconds))
            if seconds <= within:
                return trial + number + 1
    return most


def made(name: str, space: Space, seed: int) -> Strategy:
    return strategy_of(name, space, AnalyticalScores(), seed, 64)


@pytest.mark.parametrize("name", [name for name in STRATEGY_NAMES if name != "random"])
def test_each_strategy_beats_chance(name: str) -> None:
    space = valleys()
    most = 600
    spent = {
        which: median(trials_until(made(which, space, seed), space, 1.2, most) for seed in range(5))
        for which in (name, "random")
    }
    assert spent[name] * 2 < spent["random"]
    assert spent[name] < most


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_no_point_is_proposed_twice(name: str) -> None:
    factors = (1.0, 1.1)
    space = valleys(extent=4, factors=factors)
    points = set(space.points())
    strategy = made(name, space, 0)
    seen: list[Candidate] = []
    while proposed := strategy.propose(7):
        assert len(proposed) <= 7
        seen += proposed
        for number, candidate in enumerate(proposed):
            failed: list[Outcome] = [
                NotBuilt("no"), Refused("cc"), Wrong("1"), Crashed("11"), TookTooLong(1.0)
            ]  # fmt: skip
            timed = Timed(truth(space, candidate, factors))
            strategy.observe(candidate, failed[number] if number < len(failed) else timed)
    assert len(seen) == len(set(seen))
    assert set(seen) <= points
    if name != "descent":
        assert set(seen) == points


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_what_others_measured_is_not_proposed(name: str) -> None:
    space = valleys(extent=4)
    strategy = made(name, space, 0)
    known = [space.start, *list(space.points())[:10]]
    for candidate in known:
        strategy.observe(candidate, Timed(1.0))
    found: list[Candidate] = []
    while proposed := strategy.propose(16):
        found += proposed
    assert not set(found) & set(known)


@pytest.mark.parametrize("name", [name for name in STRATEGY_NAMES if "random" not in name])
def test_the_schedule_with_zero_trials_comes_first(name: str) -> None:
    space = valleys()
    assert made(name, space, 3).propose(4)[0] == space.start


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_equal_seeds_give_equal_searches(name: str) -> None:
    def search() -> list[Candidate]:
        space = valleys()
        strategy = made(name, space, 5)
        found: list[Candidate] = []
        for _ in range(4):
            proposed = strategy.propose(8)
            found += proposed
            for candidate in proposed:
                strategy.observe(candidate, Timed(truth(space, candidate)))
        return found

    assert search() == search()


def test_sketches_that_cannot_win_stop_costing_trials() -> None:
    space = valleys(factors=(1.0, 3.0, 30.0))
    strategy = Evolution(space, AnalyticalScores(), Random(0))
    spent = [0, 0, 0]
    for _ in range(16):
        for candidate in strategy.propose(8):
            spent[candidate.sketch] += 1
            strategy.observe(candidate, Timed(truth(space, candidate, (1.0, 3.0, 30.0))))
    assert spent[0] > 100
    assert spent[1] < 20
    assert spent[2] < 10


def test_a_search_ends_where_only_sketches_are_left_that_cannot_win() -> None:
    factors = (1.0, 30.0)
    space = valleys(extent=3, factors=factors)
    strategy = Evolution(space, AnalyticalScores(), Random(0))
    spent = [0, 0]
    while proposed := strategy.propose(4):
        for candidate in proposed:
            spent[candidate.sketch] += 1
            strategy.observe(candidate, Timed(truth(space, candidate, factors)))
    points = [point.sketch for point in space.points()]
    assert spent[0] == points.count(0)
    assert spent[1] < 7 < points.count(1)


def test_failures_of_a_whole_sketch_do_not_end_the_search() -> None:
    space = valleys()
    strategy = Evolution(space, AnalyticalScores(), Random(0))
    timed = 0
    for _ in range(10):
        for candidate in strategy.propose(8):
            failed = candidate.sketch == 0
            timed += not failed
            seconds = truth(space, candidate)
            strategy.observe(candidate, Crashed("signal 11") if failed else Timed(seconds))
    assert timed > 40


def test_descent_ends_at_a_local_optimum() -> None:
    space = valleys()
    strategy = Descent(space)
    best, spent = float("inf"), 0
    while proposed := strategy.propose(16):
        for candidate in proposed:
            spent += 1
            seconds = truth(space, candidate)
            best = min(best, seconds)
            strategy.observe(candidate, Timed(seconds))
    assert best < 1.3
    assert spent < 500


def test_seeds_are_tried_behind_the_start() -> None:
    space = valleys()
    rng = Random(1)
    seeds = [space.random(rng) for _ in range(3)]
    strategy = Staged(space, AnalyticalScores(), rng, 64, seeds=seeds)
    assert strategy.propose(4) == (space.start, *seeds)


def test_evolution_is_between_two_descents() -> None:
    """At first, and behind evolution's part of the trials, all proposals are near the best."""
    space = valleys()
    strategy = Staged(space, AnalyticalScores(), Random(2), 40)
    best: tuple[float, Candidate] = (float("inf"), space.start)
    for trial in range(5):
        proposed = strategy.propose(8)
        near = {n for knob in range(3) for d in (1, -1)
                for n in list(space.along(best[1], knob, d))[:3]}  # fmt: skip
        assert (set(proposed) <= {best[1], *near}) is (trial in (0, 4))
        for candidate in proposed:
            seconds = truth(space, candidate)
            best = min(best, (seconds, candidate), key=lambda found: found[0])
            strategy.observe(candidate, Timed(seconds))


def test_names_that_are_no_strategies_are_refused() -> None:
    space = valleys()
    with pytest.raises(ValueError, match=r"expected one of random, .*, got 'annealing'"):
        strategy_of("annealing", space, AnalyticalScores(), 0, 64)


def test_random_draws_are_all_over_the_space() -> None:
    space = valleys()
    drawn = RandomStrategy(space, Random(0)).propose(200)
    assert 60 < sum(candidate.sketch == 0 for candidate in drawn) < 140
    settings: Callable[[Candidate], int] = lambda c: int(space.settings(c)["tile"])  # noqa: E731
    assert len({settings(candidate) for candidate in drawn}) > 25
