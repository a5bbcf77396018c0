"""What is asked of tuning: how much, what for, and by which search.

What it does: refuses what makes no sense, and makes of weights and latencies by models' names the
objective that trials are shared out by. What it does not: tune.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from graphopt.onnx_import.errors import printable
from tasor.errors import UsageError
from tasor.pipeline import Question
from tensorgen.tune.staged import STRATEGY_NAMES
from tensorgen.tune.task_scheduler import (
    EqualTrials,
    LatencyTargets,
    MeanSpeed,
    Objective,
    TotalLatency,
    WeightedLatency,
)


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """How much to tune and what to go by.

    `trials` are those for each distinct task on average, `records` is the file of trials (None: the
    one in the cache folder), and `seed` fixes all randomness but the clock's.

    What is to become small is the sum of the models' times, each times its weight in `weights`. A
    model that is as short as its number of milliseconds in `latencies` gets no more trials. Both go
    by a model's file, with or without folder and suffix, or by its library's name. With
    `mean_speed` it is the geometric mean of times instead. With `patience` a kernel gets no more
    trials after so many that made it no faster.

    `strategy` is one of STRATEGY_NAMES. For comparisons: without `learned` scores are estimates,
    without `gradient` all kernels get equally many trials.

    `cluster` is the address of a dask scheduler whose workers measure (None: this machine does).
    """

    trials: int
    records: Path | None = None
    seed: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    latencies: Mapping[str, float] = field(default_factory=dict)
    mean_speed: bool = False
    patience: int | None = None
    strategy: str = "staged"
    learned: bool = True
    gradient: bool = True
    cluster: str | None = None


def check_request(request: TuneRequest, questions: Sequence[Question]) -> None:
    """UsageError for a strategy, a patience or a goal that makes no sense for these models."""
    if request.strategy not in STRATEGY_NAMES:
        raise UsageError(
            f"strategy: expected one of {', '.join(STRATEGY_NAMES)}, got "
            f"{printable(request.strategy)!r}; choose one of these"
        )
    if request.patience is not None and (type(request.patience) is not int or request.patience < 1):
        raise UsageError(
            f"patience: expected a whole number of trials from 1, got "
            f"{printable(request.patience)}; choose 64, say"
        )
    objective_of(request, questions)


def objective_of(request: TuneRequest, questions: Sequence[Question]) -> Objective:
    """What trials are shared out by; networks are named by their places among the models.
    UsageError for names of no model, and for goals that exclude each other."""
    weights = _by_place("weight", request.weights, questions)
    latencies = _by_place("latency", request.latencies, questions)
    chosen = {
        "mean_speed": request.mean_speed,
        "weight or latency": bool(weights or latencies),
        "equal trials": not request.gradient,
    }
    several = [name for name, is_chosen in chosen.items() if is_chosen]
    if len(several) > 1:
        raise UsageError(
            f"tune: expected one goal, got {' and '.join(several)}; leave all but one out"
        )
    if not request.gradient:
        return EqualTrials()
    if request.mean_speed:
        return MeanSpeed()
    if latencies:
        targets = {place: milliseconds / 1e3 for place, milliseconds in latencies.items()}
        return LatencyTargets(targets, weights)
    return WeightedLatency(weights) if weights else TotalLatency()


def _by_place(
    what: str, given: Mapping[str, float], questions: Sequence[Question]
) -> dict[str, float]:
    """Numbers by the places of the models that they are given for. UsageError."""
    found: dict[str, float] = {}
    for name, value in given.items():
        places = [place for place, question in enumerate(questions) if name in _names(question)]
        if not places:
            known = ", ".join(repr(printable(question.name)) for question in questions)
            raise UsageError(
                f"{what}: expected a model among {known or 'none'}, got {printable(name)!r}; "
                "choose one of these"
            )
        if len(places) > 1:
            raise UsageError(
                f"{what}: expected the name of one model, got {printable(name)!r}, which "
                f"{len(places)} have; name its file"
            )
        (place,) = map(str, places)
        if place in found:
            raise UsageError(
                f"{what}: expected each model once, got {printable(name)!r} twice; leave one out"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
            raise UsageError(
                f"{what}: expected a number above 0 for {printable(name)!r}, got "
                f"{printable(value)}; choose 1, say"
            )
        found[place] = float(value)
    return found


def _names(question: Question) -> set[str]:
    """What a model may be called: its library's name, and its file's."""
    if not isinstance(question.model, str | Path):
        return {question.name}
    path = Path(question.model)
    return {question.name, str(question.model), path.name, path.stem}
