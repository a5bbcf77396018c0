"""Racing, with a clock that is made up: who is out when, and how often everyone runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.tune.race import EVERY_RUN, RaceRules, Runner, middle, race

RULES = RaceRules(lost=1.5, near=1.1, rounds=2, more_rounds=3, run_seconds=1e-3)


class Machine:
    """Calls take as long as it is told, times what it is slower by at the moment."""

    def __init__(self, seconds: list[float], drift: Callable[[int], float] = lambda n: 1.0) -> None:
        self.seconds, self.drift = seconds, drift
        self.runs: Counter[int] = Counter()
        self.order: list[int] = []

    def run(self, number: int, calls: int) -> float | None:
        self.runs[number] += 1
        self.order.append(number)
        taken = self.seconds[number] * calls * self.drift(len(self.order))
        return None if taken == inf else taken


def raced(machine: Machine, rules: RaceRules = RULES, *, incumbent: bool = True) -> list[Runner]:
    runners = [Runner(number) for number in range(len(machine.seconds))]
    first = runners[0] if incumbent else None
    race(runners[1:] if incumbent else runners, first, rules, machine.run)
    return runners


def test_the_best_has_all_its_runs_and_who_lost_has_one() -> None:
    machine = Machine([2e-3, 1e-3, 1.05e-3, 1.3e-3, 9e-3])
    found = raced(machine)
    assert [len(runner.runs) for runner in found] == [5, 5, 5, 2, 1]
    assert [runner.lost for runner in found] == [False, False, False, False, True]
    for runner, seconds in zip(found, machine.seconds, strict=True):
        assert runner.seconds == pytest.approx(seconds)


def test_who_ran_before_the_best_was_known_is_out_afterwards() -> None:
    found = raced(Machine([9e-3, 8e-3, 1e-3]))
    assert [runner.lost for runner in found] == [False, True, False]
    assert [len(runner.runs) for runner in found] == [5, 1, 5]


def test_the_first_run_is_half_as_long() -> None:
    """It only tells who is out."""
    machine = Machine([1e-5, 1e-5])
    calls: list[int] = []

    def run(number: int, count: int) -> float | None:
        calls.append(count)
        return machine.run(number, count)

    race([Runner(1)], Runner(0), RULES, run)
    tried, first, *others = (count for n, count in zip(machine.order, calls, strict=True) if n == 1)
    assert tried == 1
    assert first == pytest.approx(50, abs=1)
    assert others == pytest.approx([100] * 4, abs=2)


def test_short_kernels_are_called_often_in_a_run() -> None:
    machine = Machine([1e-6, 1e-6])
    found = raced(machine)
    assert all(500 <= runner.calls <= 4000 for runner in found)
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
