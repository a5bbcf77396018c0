"""Strategies: which points of a space to measure next. Behind one interface they are alike.

What it does: the interface, what every strategy remembers (`Explored`), and the baseline that draws
at random. The others are `Evolution`, `Descent` and `Staged`, rooms of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tensorgen.tune.outcome import Outcome, seconds_of
from tensorgen.tune.space import Candidate, Space

DRAWS = 32
"""Draws of a point that turn out to be known before those of its sketch are gone through."""

MOST_LISTED = 20_000
"""Points of a sketch that are gone through, at most, to find those that are new."""


class Strategy(Protocol):
    """Proposes candidates, and learns from what came of measuring them."""

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """At most so many points to measure, none of them twice; none when it knows no more."""
        ...

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """What came of a candidate, whoever proposed it. Of one that was observed before it is
        what is known of it now."""
        ...


class Scores(Protocol):
    """Predicts what measuring would say, and may learn from what it said."""

    def observe(self, space: Space, candidate: Candidate, seconds: float) -> None:
        """A candidate took so many seconds."""
        ...

    def seconds(
        self, space: Space, candidates: Sequence[Candidate]
    ) -> Sequence[float] | NDArray[np.float64]:
        """Expected seconds of one call, for each candidate."""
        ...


class AnalyticalScores:
    """The estimates of the sketches, whatever was measured."""

    def observe(self, space: Space, candidate: Candidate, seconds: float) -> None:
        """Nothing is learned."""

    def seconds(self, space: Space, candidates: Sequence[Candidate]) -> Sequence[float]:
        """The analytical seconds."""
        return [space.estimate(candidate) for candidate in candidates]


class Explored:
    """The points of a space that were proposed, and the seconds of those that were measured."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.proposed: set[Candidate] = set()
        self.seconds: dict[Candidate, float] = {}
        self._open = list(range(len(space.sketches)))
        self._listed: dict[int, Iterator[Candidate]] = {}

    def propose(self, candidate: Candidate) -> bool:
        """Whether a candidate is new; from now on it is not."""
        new = candidate not in self.proposed
        self.proposed.add(candidate)
        return new

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """Remember what came of a candidate; what is known now if it was measured before."""
        self.proposed.add(candidate)
        self.seconds[candidate] = seconds_of(outcome)

    def best(self, count: int = 1) -> list[Candidate]:
        """The fastest candidates that were measured, at most so many, the fastest first."""
        timed = [candidate for candidate, seconds in self.seconds.items() if seconds < inf]
        return sorted(timed, key=lambda candidate: self.seconds[candidate])[:count]

    def unseen(self, rng: Random, sketch: int | None = None) -> Candidate | None:
        """A point at random that was not proposed, of one sketch or of any; None if there seems to
        be none left. It counts as proposed."""
        while sketches := [n for n in self._open if sketch in (None, n)]:
            number = rng.choice(sketches)
            for _ in range(DRAWS):
                candidate = self.space.random(rng, number)
                if candidate.sketch == number and self.propose(candidate):
                    return candidate
            found = next(filter(self.propose, self._listing(number)), None)
            if found is not None:
                return found
            self._open.remove(number)
        return None

    def _listing(self, sketch: int) -> Iterator[Candidate]:
        """The points of a sketch that were not gone through yet."""
        if sketch not in self._listed:
            self._listed[sketch] = islice(self.space.points_of(sketch), MOST_LISTED)
        return self._listed[sketch]


class RandomStrategy:
    """Points drawn at random: the baseline that every other strategy has to beat."""

    def __init__(self, space: Space, rng: Random, *, explored: Explored | None = None) -> None:
        self._explored = Explored(space) if explored is None else explored
        self._rng = rng

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """So many points that were not proposed before; fewer when the space is exhausted."""
        return tuple(islice(self._draws(), count))

    def _draws(self) -> Iterator[Candidate]:
        while (found := self._explored.unseen(self._rng)) is not None:
            yield found

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """Remember that a candidate needs no trial any more."""
        self._explored.observe(candidate, outcome)
