"""Whole models raced: as tuned against as scheduled without trials.

What it does: builds both libraries, times whole runs of them in turns, and says which one is kept
by that race and those on file. Trials time kernels one by one: what lies between two kernels, and
how one leaves the caches to the next, only a run shows.
What it does not: choose kernels, or keep races on file (`tensorgen.tune.records`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from graphopt.compiler import Compilation
from tasor.compiled_model import CompiledModel
from tasor.sample_inputs import sample_inputs
from tasor.turns import LEAST_CALLS, Timings, timed
from tensorgen.digest import content_digest
from tensorgen.tune.model_race_record import ModelRaceRecord
from tensorgen.tune.schedule_text import schedule_text
from tensorgen.tune.trial import Setting, now

RACE_SECONDS = 2.0
"""What a race takes, unless the fewest runs take longer."""

MOST_ROUNDS, LEAST_ROUNDS = 9, 5
"""Turns of each library: fewer, if runs are so long that all would take longer than a race."""


@dataclass(frozen=True, slots=True)
class ModelRace:
    """Whole runs of a model, in turns: as scheduled without trials and as tuned. `earlier` is what
    came of such races before, as `times_as_fast` of each."""

    zero_trials: Timings
    tuned: Timings
    earlier: tuple[float, ...] = ()

    @property
    def times_as_fast(self) -> float:
        """How many times as fast as without trials the model is as tuned, by all races: of two
        libraries that are about as fast, one alone would take now this and now that one."""
        before, after = self.typical_round
        return taken_together((*self.earlier, before / after))

    @property
    def typical_round(self) -> tuple[float, float]:
        """The milliseconds of both in the round whose ratio is the median."""
        rounds = zip(self.zero_trials.turns, self.tuned.turns, strict=True)
        ordered = sorted(rounds, key=lambda turns: turns[0] / turns[1])
        return ordered[(len(ordered) - 1) // 2]

    @property
    def is_won(self) -> bool:
        """Whether it is as fast as tuned as it is without trials, at least."""
        return is_taken(self.times_as_fast)

    def record(self, model: str, setting: Setting) -> ModelRaceRecord:
        """This race as it is put on file, for the libraries with that digest."""
        before, after = (milliseconds * 1e-3 for milliseconds in self.typical_round)
        return ModelRaceRecord(model, setting, before, after, now())


def taken_together(races: Sequence[float]) -> float:
    """What several races of the same libraries say together."""
    return median(races)


def is_taken(times: float) -> bool:
    """Whether a model that is so many times as fast as without trials is taken as tuned."""
    return times >= 1.0


def libraries_digest(zero_trials: Compilation, tuned: Compilation) -> str:
    """The digest, in hexadecimal, of what both libraries of a model are made of: which kernels, how
    often each is run, and how it is scheduled."""
    parts = (
        part
        for compilation in (zero_trials, tuned)
        for task, runs, schedule in zip(
            compilation.tasks, compilation.runs, compilation.schedules, strict=True
        )
        for part in (task.digest, str(runs), schedule_text(schedule))
    )
    return content_digest(*parts).hex()


def raced(zero_trials: CompiledModel, tuned: CompiledModel) -> ModelRace:
    """Race two libraries of one model on the same random inputs. Raises errors as
    `CompiledModel.library` and `CompiledModel.bind`."""
    inputs = sample_inputs(zero_trials.inputs, 0)
    arrays = [inputs[port.name] for port in zero_trials.inputs]
    calls = [model.bind(arrays, model.empty_outputs()) for model in (zero_trials, tuned)]
    started = time.perf_counter()
    calls[0]()
    before, after = timed(calls, RACE_SECONDS, rounds_for(time.perf_counter() - started))
    return ModelRace(before, after)


def rounds_for(seconds: float) -> int:
    """The turns of each library whose run takes so long."""
    fit = RACE_SECONDS / (2 * LEAST_CALLS * seconds)
    return int(min(max(fit, LEAST_ROUNDS), MOST_ROUNDS))
