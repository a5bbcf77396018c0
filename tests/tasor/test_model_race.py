"""Whole models raced."""

from __future__ import annotations

import pytest

from tasor.model_race import (
    LEAST_ROUNDS,
    MOST_ROUNDS,
    RACE_SECONDS,
    ModelRace,
    libraries_digest,
    rounds_for,
)
from tasor.pipeline import Question, run_stages, settings_of
from tasor.turns import LEAST_CALLS, Timings
from tensorgen.tune.trial import Setting
from tests.tasor.small_models import small_model


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


def test_earlier_races_count_as_much() -> None:
    """Of libraries that are about as fast, one race alone would take now this and now that one."""
    usual, faster = Timings((2.0, 9.0, 2.0)), Timings((1.0, 8.0, 1.0))
    assert not ModelRace(usual, faster, (0.9, 0.95)).is_won
    assert ModelRace(usual, faster, (0.9, 0.95)).times_as_fast == 0.95
    assert ModelRace(usual, faster, (0.9, 1.1)).is_won
    assert ModelRace(usual, faster, (0.5,)).times_as_fast == 1.25


def test_a_race_goes_on_file_as_its_typical_round() -> None:
    race = ModelRace(Timings((2.0, 9.0, 2.0)), Timings((1.0, 8.0, 0.5)), (3.0,))
    setting = Setting("host", 1, "cpu", "gcc", "0.1")
    record = race.record("0" * 32, setting)
    assert (record.zero_trial_seconds, record.seconds) == (2e-3, 1e-3)
    assert (record.model, record.setting) == ("0" * 32, setting)


def test_libraries_differ_by_schedules_and_by_which_is_which() -> None:
    narrow, wide = (
        run_stages(Question(small_model(), "m", {"x": (2, 6)}), settings_of(target, 1)).compilation
        for target in ("x86-64-v2", "x86-64-v3")
    )
    assert narrow.schedules != wide.schedules
    digests = [libraries_digest(a, b) for a in (narrow, wide) for b in (narrow, wide)]
    assert len(set(digests)) == 4
    assert libraries_digest(narrow, wide) == digests[1]
