"""Descent, evolution, and descent again: the search that tuning uses.

The schedule with zero trials is a good one, and what is still better is often beside it: descent
finds that first. Evolution looks farther, and descent goes on from the best that it has found.

The other strategies by name are its parts, each alone, and what they are held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tensorgen.tune.descent import Descent
from tensorgen.tune.evolution import Evolution
from tensorgen.tune.outcome import Outcome
from tensorgen.tune.space import Candidate, Space
from tensorgen.tune.strategy import Explored, RandomStrategy, Scores, Strategy

NEAREST = 8
"""Trials around the schedule with zero trials, at first."""

EVOLVED = 0.65
"""The part of the trials that descent leaves to evolution before it has its second turn."""

STRATEGY_NAMES = ("random", "evolution", "descent", "random-descent", "staged")
"""The strategies by name; `random-descent` has random draws where `staged` has evolution."""


class Staged:
    """Descent from the schedule with zero trials, evolution, then descent from the best point; what
    descent leaves goes to evolution."""

    def __init__(
        self,
        space: Space,
        scores: Scores,
        rng: Random,
        trials: int,
        *,
        seeds: Sequence[Candidate] = (),
        evolves: bool = True,
    ) -> None:
        """`trials` are as many as the task is expected to get. With `seeds` these come first, in
        place of the first descent. Where it does not evolve, points are drawn at random instead."""
        self._explored = Explored(space)
        self._farther: Strategy = (
            Evolution(space, scores, rng, explored=self._explored, seeds=seeds)
            if evolves
            else RandomStrategy(space, rng, explored=self._explored)
        )
        self._descent = Descent(space, scores, explored=self._explored)
        self._nearest = 0 if seeds else min(NEAREST, trials)
        self._early = self._nearest + round((trials - self._nearest) * EVOLVED)

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """Remember what came of a candidate."""
        self._farther.observe(candidate, outcome)

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """The next points of the stage that has its turn."""
        made = len(self._explored.proposed)
        nearest = min(max(self._nearest - made, 0), count)
        early = min(max(self._early - made, nearest), count)
        chosen = self._descent.propose(nearest)
        for stage, until in (
            (self._farther, early), (self._descent, count), (self._farther, count),
        ):  # fmt: skip
            if len(chosen) < until:
                chosen += stage.propose(until - len(chosen))
        return chosen


def strategy_of(
    name: str,
    space: Space,
    scores: Scores,
    seed: int,
    trials: int,
    seeds: Sequence[Candidate] = (),
) -> Strategy:
    """The strategy of a name in STRATEGY_NAMES, for about so many trials."""
    rng = Random(seed)
    match name:
        case "random":
            return RandomStrategy(space, rng)
        case "evolution":
            return Evolution(space, scores, rng, seeds=seeds)
        case "descent":
            return Descent(space, scores)
        case "random-descent":
            return Staged(space, scores, rng, trials, seeds=seeds, evolves=False)
        case "staged":
            return Staged(space, scores, rng, trials, seeds=seeds)
        case _:
            raise ValueError(
                f"strategy: expected one of {', '.join(STRATEGY_NAMES)}, got {name[:40]!r}"
            )
