"""Racing, with a clock that is made up: who is out when, and how often everyone runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.tune.race import (
    EVERY_RUN,
    RaceRules,
    Runner,
    Timing,
    Turn,
    middle,
    race,
    timed,
)

RULES = RaceRules(lost=1.5, laps=((1.25, 1), (1.1, 1), (1.05, 2)), run_seconds=1e-3)


class Machine:
    """Calls take as long as it is told, times what it is slower by at the moment."""

    def __init__(self, seconds: list[float], drift: Callable[[int], float] = lambda n: 1.0) -> None:
        self.seconds, self.drift = seconds, drift
        self.best = inf
        self.runs: Counter[int] = Counter()
        """How often each was called, a run at a time."""
        self.order: list[int] = []
        """Whose turns there were."""

    def run(self, turns: Sequence[Turn]) -> list[Timing | None]:
        return [self._turn(turn) for turn in turns]

    def _turn(self, turn: Turn) -> Timing | None:
        self.order.append(turn.number)
        timing = timed(partial(self.call, turn.number), turn, RULES, self.best)
        self.best = min(self.best, timing.seconds)
        return None if timing.seconds == inf else timing

    def call(self, number: int, calls: int) -> float:
        self.runs[number] += 1
        return self.seconds[number] * calls * self.drift(len(self.order))


def raced(machine: Machine, rules: RaceRules = RULES, *, incumbent: bool = True) -> list[Runner]:
    runners = [Runner(number) for number in range(len(machine.seconds))]
    first = runners[0] if incumbent else None
    race(runners[1:] if incumbent else runners, first, rules, machine.run)
    return runners


def test_the_best_has_all_its_runs_and_who_lost_has_one() -> None:
    machine = Machine([2e-3, 1e-3, 1.04e-3, 1.07e-3, 1.2e-3, 1.3e-3, 9e-3])
    found = raced(machine)
    assert [len(runner.runs) for runner in found] == [5, 5, 5, 3, 2, 1, 1]
    assert [runner.lost for runner in found] == [False, False, False, False, False, False, True]
    for runner, seconds in zip(found, machine.seconds, strict=True):
        assert runner.seconds == pytest.approx(seconds)


def test_who_ran_before_the_best_was_known_is_out_afterwards() -> None:
    found = raced(Machine([9e-3, 8e-3, 1e-3]))
    assert [runner.lost for runner in found] == [False, True, False]
    assert [len(runner.runs) for runner in found] == [5, 1, 5]


def test_the_first_run_is_half_as_long() -> None:
    """It only tells who is out."""
    calls: list[int] = []

    def call(count: int) -> float:
        calls.append(count)
        return 1e-5 * count

    timing = timed(call, Turn(0), RULES, inf)
    assert calls == [1, 50]
    assert timing.seconds == pytest.approx(1e-5)
    assert timing.calls == 100
    assert timed(call, Turn(0, timing.calls), RULES, inf) == timing
    assert calls == [1, 50, 100]


def test_short_kernels_are_called_often_in_a_run() -> None:
    machine = Machine([1e-6, 1e-6])
    found = raced(machine)
    assert all(runner.calls is not None and 500 <= runner.calls <= 4000 for runner in found)
    assert all(len(runner.runs) == 5 for runner in found)


def test_a_hopeless_one_is_not_called_again_to_be_sure() -> None:
    machine = Machine([1e-6, 1e-5])
    assert raced(machine)[1].lost
    assert machine.runs[1] == 1


def test_who_fails_is_not_run_again() -> None:
    machine = Machine([inf, 1e-3, inf])
    found = raced(machine)
    assert [runner.failed for runner in found] == [True, False, True]
    assert machine.runs[0] == machine.runs[2] == 1
    assert found[0].seconds == inf
    assert len(found[1].runs) == 5


def test_rivals_take_turns_with_the_incumbent() -> None:
    machine = Machine([1e-3, 1e-3])
    raced(machine)
    assert machine.order == [0, 1] * 5


def test_who_fails_in_a_later_turn_has_no_figure() -> None:
    machine = Machine([1e-3] * 3)

    def run(turns: Sequence[Turn]) -> list[Timing | None]:
        found = zip(turns, machine.run(turns), strict=True)
        return [None if turn == Turn(1, 1) else timing for turn, timing in found]

    first, second, third = map(Runner, range(3))
    race([second, third], first, RULES, run)
    assert second.failed
    assert second.seconds == inf
    assert len(first.runs) == len(third.runs) == 5


@settings(deadline=None)
@given(st.floats(1.0, 3.0), st.floats(0.5, 2.0))
def test_a_machine_that_slows_down_does_so_for_both(slope: float, ratio: float) -> None:
    """The ratio to the incumbent is right although the machine is up to three times as slow at the
    end, if neither is out before."""
    machine = Machine([1e-3, ratio * 1e-3], lambda n: 1 + (slope - 1) * n / 10)
    first, second = raced(machine, EVERY_RUN)
    assert second.seconds / first.seconds == pytest.approx(ratio, rel=0.12)


def test_nobody_is_out_where_there_are_no_rivals() -> None:
    found = raced(Machine([1e-3, 1e-1, 1e-2]), EVERY_RUN, incumbent=False)
    assert [len(runner.runs) for runner in found] == [5, 5, 5]
    assert not any(runner.lost for runner in found)


def test_the_incumbent_alone_has_its_figure() -> None:
    (runner,) = raced(Machine([1e-3]))
    assert runner.seconds == pytest.approx(1e-3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_middle(values: list[float]) -> None:
    found = middle(values)
    assert sum(v < found for v in values) <= len(values) / 2
    assert sum(v > found for v in values) <= len(values) / 2
