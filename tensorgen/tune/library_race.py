"""Races of schedules that are built as a library builds them, and what they settle.

What it does: says which schedule is taken by the races so far, and which have to race before that
is settled. What it does not: build, measure, or keep anything on file (`race_record`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median_low

from tensorgen.schedule import Schedule

WORTH = 0.99
"""A schedule is taken if it needs at most this part of the time of the one with zero trials."""

RACES = 3
"""Races of a schedule that is taken, which counts by their median: what disturbs a machine may last
longer than one race."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """A schedule and the one with zero trials, timed in turns: seconds of a call of each, `inf` for
    one that gave no right result."""

    schedule: Schedule
    seconds: float
    zero_trial: Schedule
    zero_trial_seconds: float

    @property
    def share(self) -> float:
        """The part of the time of the one with zero trials that the other needs."""
        return self.seconds / self.zero_trial_seconds if self.seconds < inf else inf


@dataclass(frozen=True, slots=True)
class Choice:
    """What tuning settled on: a schedule, its seconds and those of the one with zero trials, raced
    side by side. They are the same schedule where no other one was faster; `inf` without a race."""

    schedule: Schedule
    seconds: float
    zero_trial_seconds: float
    is_tuned: bool


def counting(
    races: Iterable[Rivals], zero_trial: Schedule, allows: Callable[[Schedule], bool]
) -> list[Rivals]:
    """The races with that schedule in the place of the one with zero trials, of those that are
    allowed."""
    return [r for r in races if r.zero_trial == zero_trial and allows(r.schedule)]


def choice(zero_trial: Schedule, races: Sequence[Rivals]) -> Choice:
    """The fastest schedule by the median of its races, in any order, if it is worth it."""
    by_schedule: dict[Schedule, list[Rivals]] = {}
    for rivals in races:
        by_schedule.setdefault(rivals.schedule, []).append(rivals)
    middle = {
        schedule: median_low(rivals.share for rivals in own)
        for schedule, own in by_schedule.items()
    }
    winner = min(middle, key=lambda one: middle[one], default=zero_trial)
    if middle.get(winner, inf) > WORTH:
        before = median_low(rivals.zero_trial_seconds for rivals in races) if races else inf
        return Choice(zero_trial, before, before, False)
    typical = min(
        (rivals for rivals in by_schedule[winner] if rivals.share == middle[winner]),
        key=lambda rivals: rivals.seconds,
    )
    return Choice(winner, typical.seconds, typical.zero_trial_seconds, True)


def unsettled(
    zero_trial: Schedule, finalists: Sequence[Schedule], races: Sequence[Rivals]
) -> tuple[Schedule, ...]:
    """The schedules that have to race next: finalists that never did, then the one that is the
    fastest so far, until it was `RACES` times."""
    raced = [rivals.schedule for rivals in races]
    new = tuple(schedule for schedule in finalists if schedule not in raced)
    if new:
        return new
    leader = choice(zero_trial, races)
    return (leader.schedule,) if leader.is_tuned and raced.count(leader.schedule) < RACES else ()
