"""Spaces whose fastest point is known: valleys, one for each sketch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.schedule import Lanes, Loops, Schedule
from tensorgen.target import Target
from tensorgen.tune.space import Candidate, Knob, Settings, Sketch, Space
from tensorgen.typical_machine import typical_machine
from tests.tuned_tasks import scaled

TARGET = Target.named("x86-64-v4")

BEST = {"tile": 21, "unroll": 9, "parallel": 14}
"""Where the fastest point of the valley is."""


@dataclass(frozen=True)
class Valley:
    """A sketch whose schedules cost more the further they are from the bottom; `factor` times as
    much as the one with factor 1. The estimate knows the way, not the place."""

    lanes: Lanes
    factor: float
    extent: int

    def sketch(self) -> Sketch:
        knobs = tuple(Knob(name, tuple(range(self.extent))) for name in BEST)
        return Sketch(self.lanes.value, "loops", knobs, self.build, self.read, self.estimate)

    def build(self, settings: Settings) -> Loops | None:
        values = {name: int(value) for name, value in settings.items()}
        if sum(values.values()) % 7 == 3:
            return None
        return Loops(self.lanes, values["tile"], values["unroll"], values["parallel"])

    def read(self, schedule: Schedule) -> Settings | None:
        if not isinstance(schedule, Loops) or schedule.lanes is not self.lanes:
            return None
        return {name: getattr(schedule, name) for name in BEST}

    def seconds(self, schedule: Schedule) -> float:
        far = sum(abs(getattr(schedule, name) - best) / 8 for name, best in BEST.items())
        return float(self.factor * (1.0 + far))

    def estimate(self, schedule: Schedule) -> float:
        assert isinstance(schedule, Loops)
        return self.seconds(schedule) * (1.0 + 0.5 * ((7 * schedule.tile) % 5))


def valleys(extent: int = 32, factors: Sequence[float] = (1.0, 3.0)) -> Space:
    """A space of one valley for each factor."""
    made = [
        Valley(lanes, factor, extent)
        for lanes, factor in zip((Lanes.OUTPUT, Lanes.REDUCTION, Lanes.NONE), factors, strict=False)
    ]
    start = Loops(Lanes.OUTPUT, 0, 0, 1)
    machine = typical_machine(TARGET)
    return Space(scaled(64), TARGET, 1, machine, tuple(valley.sketch() for valley in made), start)


def truth(space: Space, candidate: Candidate, factors: Sequence[float] = (1.0, 3.0)) -> float:
    """The seconds of a point, which no strategy sees."""
    schedule = space.schedule(candidate)
    assert isinstance(schedule, Loops)
    lanes = (Lanes.OUTPUT, Lanes.REDUCTION, Lanes.NONE).index(schedule.lanes)
    return Valley(schedule.lanes, factors[lanes], 0).seconds(schedule)
