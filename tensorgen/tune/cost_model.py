"""A learned cost model: gradient-boosted trees on what the analytical estimate gets wrong.

It predicts the logarithm of measured over estimated seconds for each family of schedules, from
features that all tasks share: what was measured of one task helps with the next, and before enough
was measured the model is the analytical one. How far off that is for a task of its own is told by
its trials: in a family as far as there are some, else in all (means that shrink toward what is more
common: a single trial of a family says little about the rest of it). Fitting is cheap: few bins,
small trees, and only when there is a quarter more to learn from. (Ansor, Zheng et al., OSDI 2020,
section 5.2, fits trees to throughput from scratch; a learned factor on a hand-written model is
Adams et al.'s, SIGGRAPH 2019.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorgen.tune.features import features
from tensorgen.tune.space import Candidate, Space

LEAST_TRIALS = 16
"""Trials of a family before anything is fitted to them."""

GROWTH = 1.25
"""By how much the trials of a family grow before the next fit."""

MOST_TRIALS = 3000
"""Trials of a family that a fit takes; the latest."""

MOST_RESIDUAL = 4.0
"""Beyond this logarithm, in the model's unit, how wrong the estimate is no longer matters."""

DOUBTED_TRIALS = 8
"""So many trials weigh as much as what is more common says: of a family beside all families, of a
task beside all tasks, of a task in a family beside the task in all of them."""

TREES, LEAVES, BINS, RATE = 25, 8, 32, 0.12
"""Size of the model."""

LEAST_OF_A_LEAF = 8
"""Trials of a leaf, at least: single ones may have been disturbed."""

OUTLYING, LEAST_OUTLYING = 3.0, 0.2
"""A trial that is further off than so many times the median distance from the median is taken to be
so far off, and no less than the second figure: it was disturbed, or the estimate is of no use
there."""


class ModelMissing(ImportError):
    """The library of the learned model is not installed. The message is one line."""


@dataclass(frozen=True, slots=True)
class _Deviation:
    """So many trials are off by a sum."""

    total: float = 0.0
    count: int = 0

    def beside(self, usual: float) -> float:
        """Their mean, drawn toward what is usual."""
        return (self.total + DOUBTED_TRIALS * usual) / (self.count + DOUBTED_TRIALS)


@dataclass
class _Family:
    """The trials of one family: features, logarithms of measured over estimated seconds in the
    model's unit, weights, and the tasks they are of. `fitted` is the number of trials that `trees`
    were fitted to. By how much a task is off is remembered in `deviations`, with the trials fitted
    and seen then."""

    rows: list[NDArray[np.float64]] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)
    tasks: list[bytes] = field(default_factory=list)
    fitted: int = 0
    trees: Any = None
    deviations: dict[bytes, tuple[tuple[int, int], _Deviation]] = field(default_factory=dict)

    def is_due(self) -> bool:
        """Whether a fit is worth its time."""
        return len(self.rows) >= max(LEAST_TRIALS, self.fitted * GROWTH)


class LearnedModel:
    """Scores by the estimate, corrected by what was measured. One for any number of tasks.

    Raises ModelMissing if scikit-learn is not installed.
    """

    def __init__(self, seed: int = 0) -> None:
        self._regressor, self._pools = _library()
        self._seed = seed
        self._families: dict[str, _Family] = {}
        self._best: dict[bytes, float] = {}
        # The first ratio of all: beside it, those of a slower machine are the same to the last bit.
        self._unit = 1.0

    def observe(self, space: Space, candidate: Candidate, seconds: float) -> None:
        """A candidate took so many seconds; what is not finite teaches nothing."""
        estimate = space.estimate(candidate)
        if not 0 < seconds < inf or not 0 < estimate < inf:
            return
        [(name, (_, rows))] = features(space, [candidate]).items()
        ratio = seconds / estimate
        if not self._families:
            self._unit = ratio
        residual = log(ratio / self._unit)
        family = self._families.setdefault(name, _Family())
        family.rows.append(rows[0])
        family.residuals.append(max(min(residual, MOST_RESIDUAL), -MOST_RESIDUAL))
        family.speeds.append(1.0 / seconds)
        digest = space.task.digest
        family.tasks.append(digest)
        self._best[digest] = min(seconds, self._best.get(digest, inf))

    def seconds(self, space: Space, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Expected seconds of one call, for each candidate."""
        found = np.array([space.estimate(candidate) for candidate in candidates])
        legal = [place for place, seconds in enumerate(found) if seconds < inf]
        groups = features(space, [candidates[place] for place in legal])
        for family in self._families.values():
            if family.is_due():
                self._fit(family)
        usual = self._usual()
        deviations = {
            name: self._deviation(family, space.task.digest, usual)
            for name, family in self._families.items()
        }
        everywhere = _Deviation(
            sum(deviation.total for deviation in deviations.values()),
            sum(deviation.count for deviation in deviations.values()),
        ).beside(0.0)
        for name, (places, rows) in groups.items():
            expected = self._expected(self._families.get(name, _Family()), rows, usual)
            offset = deviations.get(name, _Deviation()).beside(everywhere)
            found[[legal[place] for place in places]] *= np.exp(expected + offset) * self._unit
        return found

    def _usual(self) -> float:
        """What the logarithm is over all families."""
        everything = [r for family in self._families.values() for r in family.residuals]
        return median(everything) if everything else 0.0

    def _expected(
        self, family: _Family, rows: NDArray[np.float64], usual: float
    ) -> NDArray[np.float64]:
        """What the logarithms are for tasks in general."""
        if family.trees is not None:
            return self._predicted(family, rows)
        common = _Deviation(sum(family.residuals), len(family.residuals))
        return np.full(len(rows), common.beside(usual))

    def _deviation(self, family: _Family, task: bytes, usual: float) -> _Deviation:
        """By how much trials of a task are off from what is expected in general."""
        seen = family.fitted, len(family.rows)
        known = family.deviations.get(task)
        # Without trees, what is expected follows what is usual: other families change that, too.
        if known is not None and known[0] == seen and family.trees is not None:
            return known[1]
        own = [n for n, digest in enumerate(family.tasks) if digest == task]
        deviation = _Deviation()
        if own:
            expected = self._expected(family, np.stack([family.rows[n] for n in own]), usual)
            residuals = np.array([family.residuals[n] for n in own])
            deviation = _Deviation(float((residuals - expected).sum()), len(own))
        family.deviations[task] = seen, deviation
        return deviation

    def _fit(self, family: _Family) -> None:
        """Fit the trees of a family to its latest trials, fast ones before slow ones."""
        latest = slice(-MOST_TRIALS, None)
        weights = [
            max(speed * self._best[task], 0.05)
            for speed, task in zip(family.speeds[latest], family.tasks[latest], strict=True)
        ]
        trees = self._regressor(
            max_iter=TREES, max_leaf_nodes=LEAVES, max_bins=BINS, learning_rate=RATE,
            min_samples_leaf=LEAST_OF_A_LEAF, l2_regularization=1.0, early_stopping=False,
            random_state=self._seed,
        )  # fmt: skip
        with self._one_thread():
            trees.fit(np.stack(family.rows[latest]), _tamed(family.residuals[latest]), weights)
        family.trees, family.fitted = trees, len(family.rows)

    def _predicted(self, family: _Family, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        with self._one_thread():
            predicted: NDArray[np.float64] = family.trees.predict(rows)
        return predicted

    def _one_thread(self) -> Any:
        """While it is entered, the library starts no threads: small fits are slower with them, and
        processes that fork later must not have any."""
        return self._pools.limit(limits=1, user_api="openmp")


def _tamed(residuals: Sequence[float]) -> NDArray[np.float64]:
    """The same without outliers."""
    values = np.array(residuals)
    middle = np.median(values)
    most = max(OUTLYING * float(np.median(np.abs(values - middle))), LEAST_OUTLYING)
    tamed: NDArray[np.float64] = np.clip(values, middle - most, middle + most)
    return tamed


def _library() -> tuple[Any, Any]:
    """The class of the model, and what controls the threads of its library."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import ThreadpoolController
    except ImportError:
        raise ModelMissing(
            "cost model: expected scikit-learn, which is not installed; install it, or tune by the "
            "analytical model"
        ) from None
    return HistGradientBoostingRegressor, ThreadpoolController()
