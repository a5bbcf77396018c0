"""A tuning with the schedules that it would have stopped with at each time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from benchmarks import tuning_states
from benchmarks.tuning_runs import Prepared
from benchmarks.tuning_states import tuned_in_states
from tasor.pipeline import Settings, settings_of
from tasor.suites.sources import Source, sources
from tensorgen.tune.task_scheduler import Network
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul
from tests.measured_at_once import AtOnce, truth

TASK = matmul((), 96, 48, 32, constant=(False, True))
SETTINGS: Settings = settings_of("host", 1)


def prepared(*_: object) -> Iterator[Prepared]:
    """A product that is run twice."""
    yield Prepared(
        "product", {"p": (TASK, typical_machine(SETTINGS.target))}, Network("0", {"p": 2})
    )


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    """Any case: it is the product that is tuned, and nothing is compiled or measured."""
    machine = typical_machine(SETTINGS.target)
    monkeypatch.setattr(tuning_states, "LocalMeasurer", AtOnce)
    monkeypatch.setattr(tuning_states, "calibrated", lambda *_: machine)
    monkeypatch.setattr(tuning_states, "prepared", prepared)
    return sources("operators", (1,), re.compile("^GMM1-b1$"))[0]


def test_states_lead_from_none_without_trials_to_the_fastest(source: Source) -> None:
    tuning = tuned_in_states(source, SETTINGS, 48, seed=1)
    first, *between, last = tuning.states
    assert (first.trials, first.seconds, first.schedules) == (0, 0.0, {})
    assert len(between) > 0
    assert last.trials == 48
    assert tuning.seconds == last.seconds
    times = [truth(TASK, state.schedules[TASK]) for state in between]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == len(times)
    assert truth(TASK, last.schedules[TASK]) == times[-1]
    seconds = [state.seconds for state in tuning.states]
    assert seconds == sorted(seconds)


def test_the_curve_is_that_of_the_network(source: Source) -> None:
    tuning = tuned_in_states(source, SETTINGS, 48, seed=1)
    assert [point.trials for point in tuning.curve] == [0, 16, 32, 48]
    assert tuning.curve[-1].best == pytest.approx(
        2 * truth(TASK, tuning.states[-1].schedules[TASK])
    )
    seconds = [point.seconds for point in tuning.curve]
    assert seconds == sorted(seconds)
