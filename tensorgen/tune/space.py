"""The space of a task's schedules: sketches with knobs, and points in it.

A sketch fixes the structure (an algorithm, which factor lies along the lanes), its knobs the rest.
Two points never stand for the same schedule: where knobs do not matter, only one of their settings
is a point, the one that the schedule is read back as. (Sketches and their annotation are those of
Ansor, Zheng et al., OSDI 2020, sections 4 and 5; ordered knobs as in AutoTVM.)

What it does not: know any kind of schedule (`space_tiles` and its kin), or measure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log, prod
from random import Random

from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task

Setting = bool | int | float | str
"""A value of a knob."""

Settings = Mapping[str, Setting]
"""A value for each knob, by name."""

Choices = tuple[int, ...]
"""A position in the values of each knob."""

DRAWS = 200
"""Attempts to draw a point before the points are listed instead."""

OTHER_SKETCH = 0.05
"""Mutations that lead to another sketch."""

SECOND_KNOB = 0.25
"""Mutations that change one more knob."""

STEPS = (1, 1, 1, 2, 3)
"""How far a mutation moves along a knob; it may also go anywhere."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A decision: its `values` in an order in which neighbours are alike."""

    name: str
    values: tuple[Setting, ...]

    def __post_init__(self) -> None:
        assert self.values, f"knob {self.name} has no values"
        assert len(set(self.values)) == len(self.values), f"knob {self.name} repeats values"

    def position(self, setting: Setting) -> int | None:
        """Where a value is; None if it is not one of them."""
        return self.values.index(setting) if setting in self.values else None

    def nearest(self, setting: Setting) -> int:
        """Where the value is that is most like another one, numbers by their ratio."""
        exact = self.position(setting)
        return (
            exact
            if exact is not None
            else min(range(len(self.values)), key=lambda n: _distance(self.values[n], setting))
        )


def _distance(one: Setting, other: Setting) -> float:
    """How unlike two values are: 0 for equal ones."""
    if isinstance(one, bool | str) or isinstance(other, bool | str):
        return float(one != other)
    if one <= 0 or other <= 0:
        return float("inf") if one != other else 0.0
    return abs(log(one / other))


@dataclass(frozen=True, slots=True)
class Sketch:
    """Schedules of one structure: `build` makes one of a value for each knob (None: there is none),
    `read` finds the values by which one is made (None: it is of another sketch), `seconds` is the
    analytical estimate.

    `family` names the algorithm. `facts` are numbers about the task under this sketch, the same for
    all its points: with the values of knobs they are what models learn from.
    """

    name: str
    family: str
    knobs: tuple[Knob, ...]
    build: Callable[[Settings], Schedule | None]
    read: Callable[[Schedule], Settings | None]
    seconds: Callable[[Schedule], float]
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Settings of all knobs; there are fewer points."""
        return prod(len(knob.values) for knob in self.knobs)

    def settings(self, choices: Choices) -> dict[str, Setting]:
        """The value of each knob at these positions."""
        return {
            knob.name: knob.values[choice] for knob, choice in zip(self.knobs, choices, strict=True)
        }

    def schedule(self, choices: Choices) -> Schedule | None:
        """The schedule at these positions; None if there is none."""
        return self.build(self.settings(choices))

    def locate(self, schedule: Schedule, likely: Choices | None = None) -> Choices | None:
        """The positions of a schedule; None if it is not of this sketch. It is known to be made of
        the `likely` ones."""
        settings = self.read(schedule)
        if settings is None:
            return None
        found = [knob.position(settings[knob.name]) for knob in self.knobs]
        choices = tuple(position for position in found if position is not None)
        if choices == likely:
            return choices
        if len(choices) < len(self.knobs) or self.schedule(choices) != schedule:
            return None
        return choices

    def nearest(self, settings: Settings, otherwise: Choices) -> Choices:
        """The positions most like these values; as `otherwise` where a knob is not among them."""
        return tuple(
            knob.nearest(settings[knob.name]) if knob.name in settings else other
            for knob, other in zip(self.knobs, otherwise, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point: the number of a sketch, and the positions in its knobs."""

    sketch: int
    choices: Choices


@dataclass(frozen=True)
class Space:
    """The schedules of a task for a target and so many threads, estimated by the constants of
    `machine`.

    `zero_trial` is the schedule that no measurement chose. Every candidate that a method gives
    stands for a schedule, and `locate` finds it there; candidates that are made elsewhere need not.
    """

    task: Task
    target: Target
    threads: int
    machine: Machine
    sketches: tuple[Sketch, ...]
    zero_trial: Schedule
    _estimates: dict[Candidate, float] = field(default_factory=dict, compare=False, repr=False)
    _points: dict[tuple[int, Choices], Candidate | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def start(self) -> Candidate:
        """The schedule with zero trials as a point."""
        found = self.locate(self.zero_trial)
        assert found is not None, f"the space lacks {self.zero_trial}"
        return found

    def schedule(self, candidate: Candidate) -> Schedule | None:
        """The schedule of a candidate; None if there is none."""
        return self.sketches[candidate.sketch].schedule(candidate.choices)

    def settings(self, candidate: Candidate) -> Settings:
        """The value of each knob of a candidate."""
        return self.sketches[candidate.sketch].settings(candidate.choices)

    def estimate(self, candidate: Candidate) -> float:
        """Analytical seconds of one call; `inf` for what is no schedule."""
        known = self._estimates.get(candidate)
        if known is None:
            schedule = self.schedule(candidate)
            sketch = self.sketches[candidate.sketch]
            known = inf if schedule is None else sketch.seconds(schedule)
            self._estimates[candidate] = known
        return known

    def locate(self, schedule: Schedule) -> Candidate | None:
        """The point that stands for a schedule; None if the space lacks it."""
        for number, sketch in enumerate(self.sketches):
            choices = sketch.locate(schedule)
            if choices is not None:
                return Candidate(number, choices)
        return None

    def adapted(self, schedule: Schedule) -> Candidate | None:
        """The point most like a schedule of another task; None if no sketch is of its structure.

        What was found for one shape starts the search for another (Gibson and Cano, Transfer-
        Tuning, PACT 2022).
        """
        for number, sketch in enumerate(self.sketches):
            settings = sketch.read(schedule)
            if settings is None:
                continue
            found = self._settled(number, sketch.nearest(settings, (0,) * len(sketch.knobs)))
            if found is not None:
                return found
        return None

    def _settled(self, sketch: int, choices: Choices) -> Candidate | None:
        """The one point that stands for the schedule at these positions; None without a one."""
        key = sketch, choices
        if key not in self._points:
            self._points[key] = self._settling(sketch, choices)
        return self._points[key]

    def _settling(self, sketch: int, choices: Choices) -> Candidate | None:
        schedule = self.sketches[sketch].schedule(choices)
        if schedule is None:
            return None
        settled = self.sketches[sketch].locate(schedule, choices)
        assert settled is not None, f"{self.sketches[sketch].name} does not find {schedule}"
        return Candidate(sketch, settled)

    def points(self) -> Iterator[Candidate]:
        """All points, each once, in order."""
        for number in range(len(self.sketches)):
            yield from self.points_of(number)

    def points_of(self, sketch: int) -> Iterator[Candidate]:
        """All points of a sketch, each once, in order."""
        for choices in itertools.product(*(range(len(k.values)) for k in self._knobs(sketch))):
            if self._settled(sketch, choices) == Candidate(sketch, choices):
                yield Candidate(sketch, choices)

    def _knobs(self, sketch: int) -> tuple[Knob, ...]:
        return self.sketches[sketch].knobs

    def random(self, rng: Random, sketch: int | None = None) -> Candidate:
        """A point at random, of a sketch at random unless it is given."""
        number = rng.randrange(len(self.sketches)) if sketch is None else sketch
        for _ in range(DRAWS):
            choices = tuple(
                rng.randrange(len(knob.values)) if len(knob.values) > 1 else 0
                for knob in self._knobs(number)
            )
            found = self._settled(number, choices)
            if found is not None:
                return found
        found = next(self.points_of(number), None)
        return self.start if found is None else found

    def along(self, candidate: Candidate, knob: int, direction: int) -> Iterator[Candidate]:
        """The points that differ from a candidate in one knob, away from it in one direction (1 or
        -1), nearest first."""
        choices, count = candidate.choices, len(self._knobs(candidate.sketch)[knob].values)
        seen = {candidate}
        position = choices[knob] + direction
        while 0 <= position < count:
            moved = (*choices[:knob], position, *choices[knob + 1 :])
            found = self._settled(candidate.sketch, moved)
            if found is not None and found not in seen:
                seen.add(found)
                yield found
            position += direction

    def neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """The nearest points in both directions of each knob."""
        for knob in range(len(candidate.choices)):
            for direction in (1, -1):
                yield from itertools.islice(self.along(candidate, knob, direction), 1)

    def mutate(self, candidate: Candidate, rng: Random) -> Candidate:
        """A point that differs in a knob or two, or rarely in the sketch; another at random where
        there is none near."""
        for _ in range(DRAWS):
            if len(self.sketches) > 1 and rng.random() < OTHER_SKETCH:
                found = self._carried(candidate, rng)
            else:
                choices = self._moved(candidate.sketch, candidate.choices, rng)
                found = self._settled(candidate.sketch, choices)
            if found is not None and found != candidate:
                return found
        return self.random(rng)

    def _moved(self, sketch: int, choices: Choices, rng: Random) -> Choices:
        """The choices with a knob or two moved, legal or not."""
        free = [n for n, knob in enumerate(self._knobs(sketch)) if len(knob.values) > 1]
        if not free:
            return choices
        moved = list(choices)
        chosen = rng.sample(free, min(len(free), 2 if rng.random() < SECOND_KNOB else 1))
        for knob in chosen:
            count = len(self._knobs(sketch)[knob].values)
            position = moved[knob] + rng.choice((1, -1)) * rng.choice(STEPS)
            moved[knob] = position if 0 <= position < count else rng.randrange(count)
        return tuple(moved)

    def _carried(self, candidate: Candidate, rng: Random) -> Candidate | None:
        """The point of another sketch whose knobs of the same names have the most similar
        values."""
        others = [n for n in range(len(self.sketches)) if n != candidate.sketch]
        number = rng.choice(others)
        whatever = self.random(rng, number)
        if whatever.sketch != number:
            return None
        sketch = self.sketches[number]
        return self._settled(number, sketch.nearest(self.settings(candidate), whatever.choices))

    def cross(self, first: Candidate, second: Candidate, rng: Random) -> Candidate:
        """A point of the first one's sketch, each knob as one of both has it; a mutation of the
        first where no such point is new."""
        sketch = self.sketches[first.sketch]
        other = sketch.nearest(self.settings(second), first.choices)
        differing = [n for n, (a, b) in enumerate(zip(first.choices, other, strict=True)) if a != b]
        # Where one knob differs, every such point is one of both.
        for _ in range(DRAWS // 10 if len(differing) > 1 else 0):
            choices = list(first.choices)
            for knob in differing:
                if rng.random() < 0.5:
                    choices[knob] = other[knob]
            found = self._settled(first.sketch, tuple(choices))
            if found is not None and found not in (first, second):
                return found
        return self.mutate(first, rng)
