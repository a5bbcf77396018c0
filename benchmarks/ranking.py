"""How well predicted figures rank measured ones: the best of a top, and rank correlation.

What it does: plain arithmetic on seconds; what gave no figure counts as infinitely long. What it
does not: predict or measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, inf, isfinite, log
from statistics import fmean

import numpy as np
from scipy.stats import rankdata


def leading(seconds: Sequence[float], count: int) -> tuple[int, ...]:
    """The places of the least seconds, at most so many, the least first; equals in their order."""
    return tuple(sorted(range(len(seconds)), key=lambda place: seconds[place])[:count])


def share_of_best(chosen: Iterable[float], everything: Iterable[float]) -> float:
    """The speed of the fastest that was chosen, as a share of that of the fastest of all; 1 where
    nothing gave a figure, since there was nothing to find."""
    least, found = min(everything, default=inf), min(chosen, default=inf)
    if least == inf:
        return 1.0
    return least / found


def rank_correlation(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Spearman's rank correlation of what has finite figures in both: 1 for the same order, -1 for
    the reverse; equal figures share the mean of their ranks. 0 where one of both has no order."""
    pairs = [
        pair for pair in zip(predicted, measured, strict=True) if all(map(isfinite, pair))
    ]  # fmt: skip
    if len(pairs) < 2:
        return 0.0
    one, other = (rankdata(column) for column in zip(*pairs, strict=True))
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size > 0 else 0.0


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; 0 if one of them is 0."""
    assert values, "a mean of nothing"
    return 0.0 if min(values) <= 0 else exp(fmean(log(value) for value in values))
