"""Whole models raced: as tuned against as scheduled without trials.

What it does: builds both libraries, and times whole runs of them in turns. Trials time kernels one
by one: what lies between two kernels, and how one leaves the caches to the next, only a run shows.
What it does not: choose kernels, or decide which library is kept (`model_tuning`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tasor.compiled_model import CompiledModel
from tasor.sample_inputs import sample_inputs
from tasor.turns import LEAST_CALLS, Timings, timed

RACE_SECONDS = 2.0
"""What a race takes, unless the fewest runs take longer."""

MOST_ROUNDS, LEAST_ROUNDS = 9, 5
"""Turns of each library: fewer, if runs are so long that all would take longer than a race."""


@dataclass(frozen=True, slots=True)
class ModelRace:
    """Whole runs of a model, in turns: as scheduled without trials and as tuned."""

    zero_trials: Timings
    tuned: Timings

    @property
    def times_as_fast(self) -> float:
        """How many times as fast as without trials the model is as tuned."""
        return self.tuned.times_as_fast_as(self.zero_trials)

    @property
    def is_won(self) -> bool:
        """Whether it is as fast as tuned as it is without trials, at least."""
        return self.times_as_fast >= 1.0


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
