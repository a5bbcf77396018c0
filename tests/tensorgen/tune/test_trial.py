"""Trials as lines of JSON."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.target import Target
from tensorgen.tune.fields import FieldError, document_in
from tensorgen.tune.outcome import Timed
from tensorgen.tune.trial import (
    Trial,
    now,
    setting_of,
    trial_in,
    trial_of,
    trial_text,
)
from tests.schedules import SCHEDULES
from tests.tensorgen.tune.test_outcome import OUTCOMES
from tests.tensorgen.tune.test_schedule_text import TILE

TASK = "0123456789abcdef" * 2
TRIAL = Trial(TASK, "x86-64-v4", 2, "cpu", "gcc", "0.1", TILE, Timed(0.5), now(), "sum", (1, 2))
WORDS = st.text(max_size=20)


@settings(deadline=None)
@given(
    st.builds(
        Trial, st.just(TASK), WORDS, st.integers(1, 64), WORDS, WORDS, WORDS, SCHEDULES, OUTCOMES,
        WORDS, WORDS, st.lists(st.integers(0, 9999), max_size=3).map(tuple),
    )
)  # fmt: skip
def test_every_trial_comes_back(trial: Trial) -> None:
    text = trial_text(trial)
    assert text.isascii()
    assert "\n" not in text
    again = trial_of(document_in(text))
    assert again == trial
    assert again.digest == trial.digest


def test_a_setting_tells_where_figures_are_from() -> None:
    target = Target.named("host")
    setting = setting_of(target, 2, "1.2")
    assert (setting.target, setting.threads, setting.version) == (target.name, 2, "1.2")
    assert setting.processor
    assert setting.compiler
    assert setting_of(target, 2, "1.2", strict=True) != setting
    trial = trial_in(setting, TASK, TILE, Timed(1.0))
    assert trial.setting == setting
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", trial.at)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "short"}, "task: expected the digest of a task, 32 hexadecimal digits"),
        ({"threads": 0}, "threads: expected a whole number from 1, got 0"),
        ({"schedule": {"version": 7}}, "version: expected 1, which this Tasor reads, got 7"),
        ({"schedule": "fast"}, "schedule: expected a JSON object, got 'fast'"),
        ({"status": "lucky"}, "status: expected one of timed"),
        ({"seconds": None}, "seconds: expected a positive number of seconds, got None"),
        ({"sizes": [1, "2"]}, "sizes[1]: expected a whole number from 0, got '2'"),
        ({"sizes": None}, "sizes: expected a list of whole numbers, got None"),
        ({"mood": "good"}, "trial: expected fields among at, compiler"),
        ({"processor": None}, "processor: expected text, got None"),
    ],
)
def test_what_is_no_trial_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        trial_of({**document_in(trial_text(TRIAL)), **change})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
