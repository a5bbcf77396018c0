"""How far estimates are from measurements: the analytical model held against the kernels it chose.

What it does: takes the kernels that a compilation would call, schedules them with zero trials under
given constants, estimates them, times them, and says by how much the one misses the other. What it
does not: choose the cases, or print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log

from graphopt.search.cost import AnalyticCost
from graphopt.search.measure import BATCH, kernel_seconds
from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.sketch import default_schedule, is_shared
from tensorgen.target import Target
from tensorgen.task import Task


@dataclass(frozen=True, slots=True)
class Kernels:
    """A case by name: the tasks that one run of it calls, each with how often."""

    name: str
    calls: tuple[tuple[Task, int], ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of one run of a case: all its kernels, estimated and measured."""

    name: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        """Above 1 where the estimate is too long."""
        return self.predicted / self.measured


@dataclass(frozen=True, slots=True)
class ModelError:
    """How a model errs over some cases, none of which takes no time.

    `bias` is the geometric mean of the ratios; `error` that of how many times too long or too
    short an estimate is, `scatter` the same once the bias is taken out, `worst` is the prediction
    with the largest. `rank` is Spearman's correlation, 1 where the order of all cases is right.
    """

    bias: float
    error: float
    scatter: float
    worst: Prediction
    rank: float

    @staticmethod
    def of(predictions: Sequence[Prediction]) -> ModelError:
        """The error over at least one prediction."""
        logarithms = [log(prediction.ratio) for prediction in predictions]
        bias = fsum(logarithms) / len(logarithms)
        return ModelError(
            exp(bias),
            exp(fsum(map(abs, logarithms)) / len(logarithms)),
            exp(fsum(abs(value - bias) for value in logarithms) / len(logarithms)),
            max(predictions, key=lambda prediction: abs(log(prediction.ratio))),
            _rank_correlation(
                [prediction.predicted for prediction in predictions],
                [prediction.measured for prediction in predictions],
            ),
        )


def predictions(
    cases: Sequence[Kernels],
    target: Target,
    threads: int,
    machines: Mapping[str, Machine | None],
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, tuple[Prediction, ...]]:
    """For each machine by name, None for the typical one, each case under the schedules that its
    constants choose. `advance` is told how many of how many kernels are timed.

    Raises ToolMissing without a C compiler, and BuildError for a target that cannot run here.
    """
    tasks = list(dict.fromkeys(task for case in cases for task, _ in case.calls))
    chosen = {
        (name, task): default_schedule(task, target, threads, machine=machine)
        for name, machine in machines.items()
        for task in tasks
    }
    measured = _measured(
        [(task, schedule) for (_, task), schedule in chosen.items()], target, threads, advance
    )
    models = {name: AnalyticCost(target, threads, machine) for name, machine in machines.items()}

    def predicted(model: AnalyticCost, task: Task) -> float:
        """Seconds of a kernel that calls its own team, as those that are timed do."""
        team = model.constants.region_seconds if is_shared(task, threads) else 0.0
        return model.cost(task) + team

    return {
        name: tuple(
            Prediction(
                case.name,
                fsum(predicted(model, task) * calls for task, calls in case.calls),
                fsum(measured[task, chosen[name, task]] * calls for task, calls in case.calls),
            )
            for case in cases
        )
        for name, model in models.items()
    }


def _measured(
    chosen: Sequence[tuple[Task, Schedule]],
    target: Target,
    threads: int,
    advance: Callable[[int, int], None],
) -> dict[tuple[Task, Schedule], float]:
    """Seconds of each kernel, equal ones measured once."""
    distinct = list(dict.fromkeys(chosen))
    found: dict[tuple[Task, Schedule], float] = {}
    for start in range(0, len(distinct), BATCH):
        batch = distinct[start : start + BATCH]
        found |= dict(zip(batch, kernel_seconds(batch, target, threads), strict=True))
        advance(len(found), len(distinct))
    return found


def _rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks; 1 where nothing can be in a wrong order."""
    a, b = _ranks(first), _ranks(second)
    middle = (len(a) + 1) / 2
    both = fsum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    own = fsum((x - middle) ** 2 for x in a) * fsum((y - middle) ** 2 for y in b)
    return float(both / own**0.5) if own else 1.0


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in their order, from 1; equal ones share the middle of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]
