"""Outcomes: figures, failures, and their parts in a file."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.tune.fields import FieldError
from tensorgen.tune.outcome import (
    STATUSES,
    Crashed,
    NotBuilt,
    Outcome,
    Refused,
    Slower,
    Tally,
    Timed,
    TookTooLong,
    Wrong,
    outcome_of,
    parts_of,
    seconds_of,
    tallied,
)

SECONDS = st.floats(1e-9, 1e3)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Timed, SECONDS),
    st.builds(Slower, SECONDS),
    st.builds(Wrong, st.text(max_size=20)),
    st.builds(NotBuilt, st.text(max_size=20)),
    st.builds(Refused, st.text(max_size=20)),
    st.builds(Crashed, st.text(max_size=20)),
    st.builds(TookTooLong, SECONDS),
)


@settings(deadline=None)
@given(OUTCOMES)
def test_an_outcome_is_its_parts(outcome: Outcome) -> None:
    status, seconds, note = parts_of(outcome)
    assert status in STATUSES
    assert outcome_of(status, seconds, note) == outcome


def test_only_figures_have_seconds() -> None:
    assert seconds_of(Timed(0.5)) == seconds_of(Slower(0.5)) == 0.5
    for failure in (Wrong("x"), NotBuilt("x"), Refused("x"), Crashed("x"), TookTooLong(1.0)):
        assert seconds_of(failure) == inf


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("timed", None, ""), "seconds: expected a positive number of seconds, got None"),
        (("timed", -1.0, ""), "seconds: expected a positive number of seconds, got -1.0"),
        (("timed", float("nan"), ""), "got nan"),
        (("timed", inf, ""), "got inf"),
        (("timed", True, ""), "got True"),
        (("timed", 10**400, ""), "expected a positive number of seconds"),
        (("slower", "1", ""), "got '1'"),
        (("wrong", 1.0, "x"), "seconds: expected none of what was wrong, got 1.0"),
        (("refused", 1.0, "x"), "seconds: expected none of what was refused, got 1.0"),
        (("lucky", 1.0, ""), "status: expected one of timed, slower, wrong"),
        ((["timed"], 1.0, ""), "status: expected one of"),
        (("crashed", None, 3), "note: expected text, got 3"),
    ],
)
def test_parts_that_are_none_are_refused(parts: tuple[object, ...], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        outcome_of(*parts)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_outcomes_are_counted_by_status_with_an_example_of_what_was_said() -> None:
    found: list[Outcome] = [
        Crashed(""), Timed(1.0), NotBuilt("too wide"), Crashed("signal 11"), NotBuilt("no"),
        Timed(2.0), TookTooLong(5.0),
    ]  # fmt: skip
    assert tallied(found) == (
        Tally("timed", 2, ""),
        Tally("not built", 2, "too wide"),
        Tally("crashed", 2, "signal 11"),
        Tally("took too long", 1, ""),
    )
    assert tallied([]) == ()


@given(st.lists(OUTCOMES))
def test_every_outcome_is_counted_once(outcomes: list[Outcome]) -> None:
    found = tallied(outcomes)
    assert sum(tally.count for tally in found) == len(outcomes)
    order = [STATUSES.index(tally.status) for tally in found]
    assert order == sorted(set(order))
