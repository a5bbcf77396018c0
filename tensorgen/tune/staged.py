"""Evolution for most of the trials, descent for the rest: the search that tuning uses.

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

EVOLVED = 0.65
"""The part of the trials that evolution gets."""

STRATEGY_NAMES = ("random", "evolution", "descent", "random-descent", "staged")
"""The strategies by name; `random-descent` has random draws where `staged` has evolution."""


class Staged:
    """Evolution, then descent from the best point; what descent leaves goes back to evolution."""

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
        """`trials` are as many as the task is expected to get. Where it does not evolve, points are
        drawn at random instead."""
        self._explored = Explored(space)
        self._first: Strategy = (
            Evolution(space, scores, rng, explored=self._explored, seeds=seeds)
            if evolves
            else RandomStrategy(space, rng, explored=self._explored)
        )
        self._descent = Descent(space, scores, explored=self._explored)
        self._first_trials = round(trials * EVOLVED)

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """Remember what came of a candidate."""
        self._first.observe(candidate, outcome)

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """The next points of the stage that has its turn."""
        early = min(max(self._first_trials - len(self._explored.proposed), 0), count)
        chosen = self._first.propose(early) if early else ()
        if len(chosen) < count:
            chosen += self._descent.propose(count - len(chosen))
        if len(chosen) < count:
            chosen += self._first.propose(count - len(chosen))
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
