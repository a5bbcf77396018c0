"""Our tuning of one case, with the schedules that it would have stopped with at each time.

What it does: tunes a case from nothing, and keeps what was best after each batch in which something
became faster, and what the last race chose. What it does not: time whole models.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.time_to_reach import Point
from benchmarks.tuning_runs import prepared
from tasor.pipeline import Settings
from tasor.suites.sources import Source
from tensorgen.calibration import calibrated
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.records import TrialRecords
from tensorgen.tune.task_search import TuneSettings
from tensorgen.tune.trial import setting_of
from tensorgen.tune.tuning import Tuning
from tensorgen.version import tasor_version


@dataclass(frozen=True, slots=True)
class State:
    """After so many trials and seconds of tuning, the schedules that differ from those without
    trials."""

    trials: int
    seconds: float
    schedules: Mapping[Task, Schedule]


@dataclass(frozen=True, slots=True)
class StatedTuning:
    """One tuning: the best so far in the figures of trials, and the states that it went through,
    from the one without trials to what the last race chose."""

    curve: tuple[Point, ...]
    states: tuple[State, ...]

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return self.states[-1].seconds


def tuned_in_states(source: Source, settings: Settings, trials: int, seed: int) -> StatedTuning:
    """Tune a case by so many trials for each kernel. This machine's constants are measured before,
    unless they are on file. Raises MeasureError, ValueError as `prepared`."""
    target, threads = settings.target, settings.threads
    wanted = TuneSettings(target, threads, calibrated(target, threads), trials, seed=seed)
    started = time.monotonic()
    (case,) = prepared([source], settings)
    with tempfile.TemporaryDirectory(prefix="tasor-tuning-") as folder:
        tuning = Tuning(
            case.tasks,
            [case.network],
            wanted,
            TrialRecords(Path(folder, "trials.sqlite")),
            setting_of(target, threads, tasor_version()),
        )
        states = [State(0, 0.0, {})]
        with LocalMeasurer(target, threads, prints_apart=True) as measurer:
            before = time.monotonic() - started
            for step in tuning.run(measurer):
                best = _tuned(tuning, {name: s.best for name, s in tuning.searches.items()})
                if best != states[-1].schedules:
                    states.append(State(step.trials, time.monotonic() - started, best))
        with LocalMeasurer(target, threads, drafts=False) as racer:
            choices = tuning.choices(racer)
    chosen = _tuned(tuning, {name: choice.schedule for name, choice in choices.items()})
    made = sum(search.state.trials for search in tuning.searches.values())
    states.append(State(made, time.monotonic() - started, chosen))
    curve = tuple(
        Point(point.trials, before + point.seconds, point.latency)
        for point in tuning.history.curve(case.network)
    )
    return StatedTuning(curve, tuple(states))


def _tuned(tuning: Tuning, chosen: Mapping[str, Schedule]) -> dict[Task, Schedule]:
    """Those of the schedules that are not the ones without trials, by task."""
    searches = tuning.searches
    return {
        searches[name].task: schedule
        for name, schedule in chosen.items()
        if schedule != searches[name].zero_trial
    }
