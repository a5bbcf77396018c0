"""Whole models raced."""

from __future__ import annotations

import pytest

from tasor.model_race import LEAST_ROUNDS, MOST_ROUNDS, RACE_SECONDS, ModelRace, rounds_for
from tasor.turns import LEAST_CALLS, Timings


@pytest.mark.parametrize(("seconds", "rounds"), [(1e-6, MOST_ROUNDS), (60.0, LEAST_ROUNDS)])
def test_long_runs_have_fewer_turns(seconds: float, rounds: int) -> None:
    assert rounds_for(seconds) == rounds


def test_turns_between_take_what_a_race_may() -> None:
    seconds = RACE_SECONDS / (2 * LEAST_CALLS * 7.5)
    assert rounds_for(seconds) == 7
    assert 2 * LEAST_CALLS * seconds * rounds_for(seconds) <= RACE_SECONDS


def test_a_race_is_decided_round_by_round() -> None:
    """The slow second round meets both."""
    usual = Timings((2.0, 9.0, 2.0))
    assert ModelRace(usual, Timings((1.0, 8.0, 1.0))).times_as_fast == 2.0
    assert ModelRace(usual, usual).is_won
    assert not ModelRace(usual, Timings((2.1, 9.1, 1.0))).is_won
