"""Which task the next trials go to: the gradient of what is to become small.

What another trial of a task is worth is how fast it lately became faster, or what its share of the
trials so far lets expect, at most down to its roofline; times how much the objective follows it. A
task without a trial comes first, a finished one never again. All of it is pure functions of
values.
(Ansor, Zheng et al., OSDI 2020, section 6; without the term for similar tasks, whose part the bound
plays.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import assert_never

BACKWARD = 0.2
"""Weight of how fast a task lately became faster, beside what may be expected of it."""

WINDOW = 3
"""Rounds of trials that count as lately."""

NEAR_BOUND = 0.95
"""A task that reaches this part of its bound's speed is finished."""

PATIENCE = 5
"""Rounds without a gain of LEAST_GAIN after which a task is finished, if its trials are enough."""

LEAST_GAIN = 0.003
"""A smaller part of its time is no gain of a task."""

ENOUGH_TRIALS = 64
"""Trials that every task may have before patience ends."""


class Finish(Enum):
    """Why a task gets no more trials."""

    AT_BOUND = "near its bound"
    EXHAUSTED = "its space is exhausted"
    SETTLED = "no longer gets faster"
    BUDGET = "its trials are used up"
    UNNEEDED = "what needs it is fast enough"
    NOBODY = "nobody is left to measure it"


@dataclass(frozen=True, slots=True)
class TaskState:
    """What the scheduler knows of a task: the least seconds `bound` that it can take, how many
    trials it had, and the best seconds after each round of trials, before the first one those of
    the schedule with zero trials (none if that is not known). They grow where what seemed best was
    not. After `patience` rounds without a gain it is finished, if it had `enough_trials`.
    """

    name: str
    bound: float
    trials: int = 0
    best: tuple[float, ...] = ()
    exhausted: bool = False
    most_trials: int | None = None
    patience: int = PATIENCE
    enough_trials: int = ENOUGH_TRIALS

    @property
    def seconds(self) -> float:
        """The best seconds so far; `inf` if nothing was measured."""
        return self.best[-1] if self.best else inf

    def measured(self, trials: int, seconds: float) -> TaskState:
        """The state after a round of so many trials whose best took `seconds`."""
        return replace(self, trials=self.trials + trials, best=(*self.best, seconds))

    def finish(self) -> Finish | None:
        """Why the task gets no more trials; None if it may get some."""
        if self.exhausted:
            return Finish.EXHAUSTED
        if self.most_trials is not None and self.trials >= self.most_trials:
            return Finish.BUDGET
        if not self.trials:
            return None
        if self.bound >= NEAR_BOUND * self.seconds:
            return Finish.AT_BOUND
        lately = self.best[-self.patience - 1 :]
        settled = len(lately) > self.patience and lately[-1] > lately[0] * (1 - LEAST_GAIN)
        return Finish.SETTLED if settled and self.trials >= self.enough_trials else None

    def gain(self) -> float:
        """By how many seconds another trial is expected to shorten one call, at most to the
        bound."""
        if not self.trials or self.seconds == inf:
            return inf
        per_round = self.trials / max(len(self.best) - 1, 1)
        rounds = min(WINDOW, len(self.best) - 1)
        lately = 0.0
        if rounds and self.best[-1 - rounds] < inf:
            lately = max(self.best[-1 - rounds] - self.seconds, 0.0) / (rounds * per_round)
        # With as many trials again a task might become twice as fast, were there no bound.
        room = max(self.seconds - self.bound, 0.0)
        expected = min(self.seconds / self.trials, room)
        return min(BACKWARD * lately + (1 - BACKWARD) * expected, room)


@dataclass(frozen=True, slots=True)
class Network:
    """A network: how often it runs each task, by name, and what it takes besides."""

    name: str
    counts: Mapping[str, int]
    besides: float = 0.0

    def latency(self, states: Mapping[str, TaskState]) -> float:
        """Seconds of one run; `inf` while a task was not measured."""
        return self.besides + sum(n * states[task].seconds for task, n in self.counts.items())


@dataclass(frozen=True, slots=True)
class TotalLatency:
    """The sum of the latencies of all networks."""


@dataclass(frozen=True, slots=True)
class WeightedLatency:
    """The sum of the latencies, each times the weight of its network."""

    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """Each network at most as long as its target, in seconds: shorter is worth nothing more. Until
    then, and for those without a target, it is the sum of the latencies times the weights."""

    targets: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)

    def are_reached_by(self, network: Network, states: Mapping[str, TaskState]) -> bool:
        """Whether a network has a target, and is as short."""
        target = self.targets.get(network.name)
        return target is not None and network.latency(states) <= target


@dataclass(frozen=True, slots=True)
class MeanSpeed:
    """The geometric mean of the networks' speeds: each counts in parts of its own latency."""


@dataclass(frozen=True, slots=True)
class EqualTrials:
    """None: tasks get equally many trials, whatever these are worth. What the gradient is held
    against."""


Objective = TotalLatency | WeightedLatency | LatencyTargets | MeanSpeed | EqualTrials


def slopes(
    objective: Objective, networks: Sequence[Network], states: Mapping[str, TaskState]
) -> dict[str, float]:
    """By how much the objective falls for each second that a task becomes faster."""
    found = dict.fromkeys(states, 0.0)
    for network in networks:
        weight = _weight(objective, network, states)
        for task, count in network.counts.items():
            found[task] += weight * count
    return found


def _weight(objective: Objective, network: Network, states: Mapping[str, TaskState]) -> float:
    """By how much the objective follows the latency of a network."""
    match objective:
        case TotalLatency() | EqualTrials():
            return 1.0
        case WeightedLatency(weights):
            return weights.get(network.name, 1.0)
        case LatencyTargets(_, weights):
            reached = objective.are_reached_by(network, states)
            return 0.0 if reached else weights.get(network.name, 1.0)
        case MeanSpeed():
            latency = network.latency(states)
            return 1.0 / latency if latency < inf else 1.0
        case _:
            assert_never(objective)


@dataclass(frozen=True, slots=True)
class Next:
    """The task that the next trials go to, and by how much each of them is expected to lower the
    objective."""

    task: str
    gain: float


@dataclass(frozen=True, slots=True)
class Done:
    """No task is worth another trial, and why, by name; None for one that nothing depends on any
    more."""

    reasons: Mapping[str, Finish | None]


def next_task(
    states: Iterable[TaskState], networks: Sequence[Network], objective: Objective
) -> Next | Done:
    """The task whose next trials are worth most: first each once, those that take longest first,
    then by the gradient."""
    known = {state.name: state for state in states}
    if isinstance(objective, EqualTrials):
        return _next_in_turn(known)
    slope = slopes(objective, networks, known)
    open_tasks = [s for s in known.values() if s.finish() is None and slope[s.name] > 0]
    if not open_tasks:
        return Done({name: state.finish() for name, state in known.items()})
    untried = [state for state in open_tasks if not state.trials]
    if untried:
        first = max(untried, key=lambda s: (slope[s.name] * _length(s), s.name))
        return Next(first.name, slope[first.name] * first.gain())
    best = max(open_tasks, key=lambda s: (slope[s.name] * s.gain(), s.name))
    return Next(best.name, slope[best.name] * best.gain())


def _next_in_turn(known: Mapping[str, TaskState]) -> Next | Done:
    """The task with the fewest trials, of those that have a point left to try."""
    left = [state for state in known.values() if not state.exhausted]
    if not left:
        return Done({name: state.finish() for name, state in known.items()})
    chosen = min(left, key=lambda state: (state.trials, state.name))
    return Next(chosen.name, chosen.gain())


def _length(state: TaskState) -> float:
    """The seconds of a task that was not tried: measured with zero trials, or its bound."""
    return state.seconds if state.seconds < inf else state.bound
