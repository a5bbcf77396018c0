"""Races of whole models as lines of JSON."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.tune.fields import FieldError, document_in
from tensorgen.tune.model_race_record import (
    ModelRaceRecord,
    is_model_race,
    model_race_of,
    model_race_text,
)
from tensorgen.tune.race_record import is_race, race_text
from tensorgen.tune.trial import Setting, trial_text
from tests.tensorgen.tune.test_race_record import HERE, RACE, SECONDS
from tests.tensorgen.tune.test_trial import TASK, TRIAL, WORDS

MODEL_RACE = ModelRaceRecord(TASK, HERE, 1.0, 0.5, "2026-01-01")


@settings(deadline=None)
@given(
    st.builds(
        ModelRaceRecord,
        st.just(TASK),
        st.builds(Setting, WORDS, st.integers(1, 64), WORDS, WORDS, WORDS),
        SECONDS,
        SECONDS,
        WORDS,
    )
)
def test_every_race_comes_back(race: ModelRaceRecord) -> None:
    text = model_race_text(race)
    assert text.isascii()
    assert "\n" not in text
    document = document_in(text)
    assert is_model_race(document)
    assert not is_race(document)
    assert model_race_of(document) == race
    assert model_race_of(document).digest == race.digest


def test_how_many_times_as_fast() -> None:
    assert MODEL_RACE.times_as_fast == 2.0


def test_trials_and_races_of_kernels_are_none_of_models() -> None:
    assert not is_model_race(document_in(trial_text(TRIAL)))
    assert not is_model_race(document_in(race_text(RACE)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "short"}, "model: expected the digest of a model's libraries, 32 hexadecimal"),
        ({"model": None}, "model: expected text, got None"),
        ({"threads": 0}, "threads: expected a whole number from 1, got 0"),
        ({"seconds": None}, "seconds: expected a positive number of seconds, got None"),
        ({"zero_trial_seconds": 0.0}, "zero_trial_seconds: expected a positive number"),
        ({"mood": "good"}, "race of a model: expected fields among at, compiler"),
        ({"at": None}, "at: expected text, got None"),
    ],
)
def test_what_is_no_race_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        model_race_of({**document_in(model_race_text(MODEL_RACE)), **change})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
