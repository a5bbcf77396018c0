"""Races as lines of JSON."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.tune.fields import LARGEST, FieldError, document_in
from tensorgen.tune.library_race import Rivals
from tensorgen.tune.race_record import RaceRecord, is_race, race_of, race_text
from tensorgen.tune.trial import Setting, trial_text
from tensorgen.tune.weights_place import WeightsPlace
from tests.schedules import SCHEDULES
from tests.tensorgen.tune.test_schedule_text import LOOPS, TILE
from tests.tensorgen.tune.test_trial import TASK, TRIAL, WORDS

HERE = Setting("x86-64-v4", 2, "cpu", "gcc", "0.1")
RACE = RaceRecord(TASK, HERE, WeightsPlace.NEAR, Rivals(TILE, 0.5, LOOPS, 1.0), "2026-01-01")
SECONDS = st.floats(0, LARGEST, exclude_min=True)


@settings(deadline=None)
@given(
    st.builds(
        RaceRecord,
        st.just(TASK),
        st.builds(Setting, WORDS, st.integers(1, 64), WORDS, WORDS, WORDS),
        st.sampled_from(WeightsPlace),
        st.builds(Rivals, SCHEDULES, SECONDS, SCHEDULES, SECONDS),
        WORDS,
    )
)
def test_every_race_comes_back(race: RaceRecord) -> None:
    text = race_text(race)
    assert text.isascii()
    assert "\n" not in text
    document = document_in(text)
    assert is_race(document)
    assert race_of(document) == race
    assert race_of(document).digest == race.digest


def test_a_trial_is_no_race() -> None:
    assert not is_race(document_in(trial_text(TRIAL)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "short"}, "task: expected the digest of a task, 32 hexadecimal digits"),
        ({"threads": 0}, "threads: expected a whole number from 1, got 0"),
        ({"zero_trial": "fast"}, "zero_trial: expected a JSON object, got 'fast'"),
        ({"schedule": {"version": 7}}, "version: expected 1, which this Tasor reads, got 7"),
        ({"seconds": None}, "seconds: expected a positive number of seconds, got None"),
        ({"zero_trial_seconds": 0.0}, "zero_trial_seconds: expected a positive number"),
        ({"weights": "gone"}, "weights: expected one of near"),
        ({"mood": "good"}, "race: expected fields among at, compiler"),
        ({"at": None}, "at: expected text, got None"),
    ],
)
def test_what_is_no_race_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        race_of({**document_in(race_text(RACE)), **change})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
