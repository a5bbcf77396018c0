"""Descent: the best point so far and its neighbours, knob by knob, until none is faster.

Neighbours are one step away along one knob. A knob that helped is followed further before the
others, and what is left of a batch goes to wider steps. (Droplet search: Canesche et al., "The
Droplet Search Algorithm for Kernel Scheduling", ACM TACO 2024; its speculative steps fill batches.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tensorgen.tune.outcome import Outcome
from tensorgen.tune.space import Candidate, Space
from tensorgen.tune.strategy import Explored, Scores

WIDEST = 3
"""The widest step along a knob, in points."""

FOLLOWED = 2
"""Points along a knob that helped which are proposed at once."""


class Descent:
    """Walks from the best measured point, or the schedule with zero trials, to a local optimum.

    With `scores`, neighbours that are expected to be fast come first.
    """

    def __init__(
        self, space: Space, scores: Scores | None = None, *, explored: Explored | None = None
    ) -> None:
        self._space, self._scores = space, scores
        self._explored = Explored(space) if explored is None else explored
        self._centre: Candidate | None = None
        self._heading: tuple[int, int] | None = None

    def observe(self, candidate: Candidate, outcome: Outcome) -> None:
        """Remember what came of a candidate."""
        self._explored.observe(candidate, outcome)

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """Points near the best one; none where all near it have been proposed."""
        centre = next(iter(self._explored.best()), self._space.start)
        if centre != self._centre:
            self._heading = None if self._centre is None else _heading(self._centre, centre)
            self._centre = centre
        return tuple(islice(filter(self._explored.propose, self._near(centre)), count))

    def _near(self, centre: Candidate) -> Iterator[Candidate]:
        """The points to try around a centre, the most promising first."""
        yield centre
        if self._heading is not None:
            knob, direction = self._heading
            yield from islice(self._space.along(centre, knob, direction), FOLLOWED)
        lines = [
            list(islice(self._space.along(centre, knob, direction), WIDEST))
            for knob in range(len(centre.choices))
            for direction in (1, -1)
        ]
        for step in range(WIDEST):
            yield from self._sorted([line[step] for line in lines if len(line) > step])

    def _sorted(self, points: Sequence[Candidate]) -> list[Candidate]:
        """Those with the best scores first."""
        if self._scores is None or not points:
            return list(points)
        seconds = self._scores.seconds(self._space, points)
        return [point for _, _, point in sorted(
            (score, number, point)
            for number, (score, point) in enumerate(zip(seconds, points, strict=True))
        )]  # fmt: skip


def _heading(before: Candidate, after: Candidate) -> tuple[int, int] | None:
    """The knob by which one point alone differs from another, and the direction; None if several
    do."""
    if before.sketch != after.sketch:
        return None
    moved = [
        n for n, (a, b) in enumerate(zip(before.choices, after.choices, strict=True)) if a != b
    ]
    if len(moved) != 1:
        return None
    (knob,) = moved
    return knob, 1 if after.choices[knob] > before.choices[knob] else -1
