"""Which sketch the next trial goes to: a bandit whose arms are sketches.

An arm is worth the speed of the best schedule found in it, relative to the best of all, and more
the fewer trials it has had: an algorithm that cannot win stops costing trials, and one that was
unlucky is tried again later, unless it is far behind. Before its first trial an arm is worth what
the estimate says. (UCB1: Auer, Cesa-Bianchi and Fischer, 2002.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf, log, sqrt

EXPLORATION = 0.35
"""How much more an arm is worth for the trials that it has not had."""

LOST = 0.4
"""The speed, relative to the best, of an arm that is far behind."""

ENOUGH, OF_ALL = 4, 1 / 16
"""Trials that such an arm gets, or this part of all trials: the most promising points of its sketch
came first."""


class SketchBandit:
    """Arms with the estimated seconds of the best schedule of each."""

    def __init__(self, estimates: Sequence[float]) -> None:
        assert estimates, "a space has a sketch"
        self.estimates = tuple(estimates)
        self.trials = [0] * len(estimates)
        self.best = [inf] * len(estimates)

    def observe(self, arm: int, seconds: float) -> None:
        """A trial of an arm took so long; `inf` if it failed."""
        self.trials[arm] += 1
        self.best[arm] = min(self.best[arm], seconds)

    def correct(self, arm: int, best: float) -> None:
        """The best trial of an arm took another time than it had seemed."""
        self.best[arm] = best

    def choose(self, pending: Iterable[int] = (), closed: Iterable[int] = ()) -> int | None:
        """The arm that the next trial goes to, where trials of the arms in `pending` are under way;
        None if all are `closed` or lost."""
        waiting, shut = Counter(pending), set(closed)
        open_arms = [
            arm
            for arm in range(len(self.trials))
            if arm not in shut and not self.is_lost(arm, waiting[arm])
        ]
        total = sum(self.trials) + waiting.total()

        def worth(arm: int) -> float:
            had = self.trials[arm] + waiting[arm]
            return self._speed(arm) + EXPLORATION * sqrt(log(total + 1) / (had + 1))

        return max(open_arms, key=worth, default=None)

    def is_lost(self, arm: int, pending: int = 0) -> bool:
        """Whether an arm is too far behind for another trial, with those that are under way."""
        enough = max(ENOUGH, OF_ALL * sum(self.trials))
        is_known = self.best[arm] < inf or not self.trials[arm]
        return is_known and self._speed(arm) < LOST and self.trials[arm] + pending >= enough

    def _speed(self, arm: int) -> float:
        """The speed of an arm relative to the best: measured, or as the estimates say."""
        if self.trials[arm]:
            fastest = min(self.best)
            return fastest / self.best[arm] if self.best[arm] < inf else 0.0
        least = min(self.estimates)
        return least / self.estimates[arm] if 0 < self.estimates[arm] < inf else 0.0
