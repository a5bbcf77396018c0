"""Evolution: a population drawn around what is known and at random, scored by a model.

Each round mutates and crosses the points with good scores for some generations, and proposes those
with the best scores of all that it came by, a few at random, shared out among the sketches by a
bandit. (Ansor, Zheng et al., OSDI 2020, section 5.1, with the crossover that its paper describes;
to draft by a cheap model and measure few is Pruner's scheme, Qiao et al., ASPLOS 2025.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random

from tensorgen.tune.outcome import Outcome, seconds_of
from tensorgen.tune.sketch_bandit import SketchBandit
from tensorgen.tune.space import Candidate, Space
from tensorgen.tune.strategy import Explored, Scores

POPULATION, GENERATIONS = 32, 2
"""Points of a generation, and how many follow the first."""

ELITE = 12
"""Measured points that each first generation is drawn around."""

AT_RANDOM = 0.25
"""The part of each first generation that is drawn at random."""

GREEDLESS = 0.08
"""Proposals that are drawn at random."""

HOPELESS = 16.0
"""What is estimated to take so many times as long as the schedule with zero trials is not drawn:
estimates are wrong, but not by that."""

CROSSED = 0.15
"""Children that have two parents; the others are mutations."""

SHARPNESS = 3.0
"""A point with half the score, in seconds, is 2 ** SHARPNESS times as likely to be a parent."""

DOUBT = 0.04
"""Scores are off by about so much: points that differ by less take turns."""

SAMPLES = 16
"""Points of each sketch by whose best estimate the bandit starts."""

KEPT = 512
"""Points with the best scores that are kept for the next round."""


class Evolution:
    """Proposes what a model expects to be fast, among points near those that are."""

    def __init__(
        self,
        space: Space,
        scores: Scores,
        rng: Random,
        *,
        explored: Explored | None = None,
        seeds: Sequence[Candidate] = (),
    ) -> None:
        """`seeds` are points to begin with, behind the schedule with zero trials."""
        self._space, self._scores, self._rng = space, scores, rng
        self._explored = Explored(space) if explored is None else explored
        self._waiting = [space.start, *seeds]
        self._pool: set[Candidate] = set(self._waiting)
        self._bandit = SketchBandit([self._best_estimate(n) for n in range(len(space.sketches))])
        self._pending: dict[Candidate, int] = {}
        self._evolved: dict[Candidate, float] | None = None

    def _best_estimate(self, sketch: int) -> float:
        points = {self._space.random(self._rng, sketch) for _ in range(SAMPLES)}
        if self._space.start.sketch == sketch:
            points.add(self._space.start)
        own = {point for point in points if point.sketch == sketch}
        self._pool |= own
        return min((self._space.estimate(point) for point in own), default=inf)

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """Remember what came of a candidate."""
        self._evolved = None
        again = candidate in self._explored.seconds and candidate not in self._pending
        self._pending.pop(candidate, None)
        self._explored.observe(candidate, outcome)
        if again:
            seconds = self._explored.seconds.items()
            arm = [found for point, found in seconds if point.sketch == candidate.sketch]
            self._bandit.correct(candidate.sketch, min(arm))
        else:
            self._bandit.observe(candidate.sketch, seconds_of(outcome))

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """The points that begin, then those with the best scores of a new generation."""
        chosen = [point for point in self._waiting[:count] if self._explored.propose(point)]
        self._waiting = self._waiting[count:]
        if len(chosen) < count:
            chosen += self._selected(count - len(chosen))
        self._pending |= {candidate: candidate.sketch for candidate in chosen}
        return tuple(chosen)

    def _selected(self, count: int) -> list[Candidate]:
        """So many points of a new generation, by sketch and score, a few of them at random."""
        if self._evolved is None:
            self._evolved = self._generations()
        ranked = self._ranked(self._evolved)
        chosen: list[Candidate] = []
        closed: set[int] = set()
        while len(chosen) < count:
            if self._rng.random() < GREEDLESS:
                found = self._explored.unseen(self._rng)
                if found is not None and self._is_hopeless(found):
                    continue
            else:
                pending = [*self._pending.values(), *(c.sketch for c in chosen)]
                sketch = self._bandit.choose(pending, closed)
                if sketch is None:
                    break
                found = next(filter(self._explored.propose, ranked.get(sketch, ())), None)
                if found is None:
                    found = self._explored.unseen(self._rng, sketch)
                if found is None:
                    closed.add(sketch)
                    continue
            if found is None:
                break
            chosen.append(found)
        return chosen

    def _is_hopeless(self, point: Candidate) -> bool:
        """Whether a trial would only tell how slow it is."""
        usual = self._space.estimate(self._space.start)
        is_slow = self._space.estimate(point) > HOPELESS * usual
        return is_slow or self._bandit.is_lost(point.sketch)

    def _ranked(self, scored: dict[Candidate, float]) -> dict[int, list[Candidate]]:
        """The points that were not proposed, by sketch, those with the best scores first."""
        doubted = {
            point: seconds * self._rng.lognormvariate(0.0, DOUBT)
            for point, seconds in scored.items()
            if point not in self._explored.proposed
        }
        ranked: dict[int, list[Candidate]] = {}
        for point in sorted(doubted, key=lambda point: doubted[point]):
            ranked.setdefault(point.sketch, []).append(point)
        return ranked

    def _generations(self) -> dict[Candidate, float]:
        """The scores of the points that some generations come by, the best of which are kept. They
        serve until something is observed."""
        scored = self._scored(sorted(self._pool, key=_order), {})
        generation = self._first_generation()
        for _ in range(GENERATIONS):
            scored = self._scored(generation, scored)
            generation = self._children(generation, scored)
        scored = self._scored(generation, scored)
        fresh = [point for point in scored if point not in self._explored.proposed]
        self._pool = set(sorted(fresh, key=lambda point: (scored[point], _order(point)))[:KEPT])
        return scored

    def _scored(
        self, points: Sequence[Candidate], known: dict[Candidate, float]
    ) -> dict[Candidate, float]:
        fresh = [point for point in dict.fromkeys(points) if point not in known]
        if not fresh:
            return known
        return {**known, **dict(zip(fresh, self._scores.seconds(self._space, fresh), strict=True))}

    def _first_generation(self) -> list[Candidate]:
        """Points around the best that were measured, and points at random."""
        space, rng = self._space, self._rng
        centres = self._explored.best(ELITE) or [space.start]
        generation = list(centres)
        while len(generation) < POPULATION:
            if rng.random() < AT_RANDOM:
                generation.append(space.random(rng))
            else:
                generation.append(space.mutate(rng.choice(centres), rng))
        return generation

    def _children(
        self, parents: Sequence[Candidate], scored: dict[Candidate, float]
    ) -> list[Candidate]:
        """The next generation, of parents that are chosen by their scores."""
        space, rng = self._space, self._rng
        least = min(scored[parent] for parent in parents)
        weights = [(least / scored[parent]) ** SHARPNESS for parent in parents]
        children = []
        for _ in range(POPULATION):
            if rng.random() < CROSSED:
                first, second = rng.choices(parents, weights, k=2)
                children.append(space.cross(first, second, rng))
            else:
                (parent,) = rng.choices(parents, weights)
                children.append(space.mutate(parent, rng))
        return children


def _order(point: Candidate) -> tuple[int, tuple[int, ...]]:
    """An order of points that is the same in every process."""
    return point.sketch, point.choices
