"""What the cost model makes of samples, fitted to what a tuning may know, and how good that is.

What it does: fits a new model to the trials of the kernel's own search, to those of the others, to
both or to some of the draws, has it rank the draws that it was not fitted to, and judges the order.
What it does not: measure.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median

from benchmarks.cost_model_samples import Observation, Sample
from benchmarks.ranking import (
    geometric_mean,
    leading,
    rank_correlation,
    share_of_best,
)
from tensorgen.tune.cost_model import LearnedModel
from tensorgen.tune.strategy import AnalyticalScores, Scores

NOTHING, SEARCH, OTHERS, BOTH, DRAWS, FIGURES = KNOWLEDGE = (
    "nothing", "its search", "other operators", "its search and others", "some draws",
    "the figures",
)  # fmt: skip
"""What a model is fitted to. `nothing` leaves the estimate, and `some draws` are as many as its
search made trials: what can be learned of a kernel from points like those that are ranked. `the
figures` is no model but the order of the first figures: what of the last race is chance."""


ENOUGH = 0.97
"""What the best of a top should have of the speed of the best of all."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The draws at `places`, with the seconds that are `predicted` for each of them. To learn from
    so many trials and to rank took `spent` seconds."""

    knowledge: str
    learned: int
    places: tuple[int, ...]
    predicted: tuple[float, ...]
    spent: float

    def top(self, count: int) -> tuple[int, ...]:
        """The places of the draws that are expected to be fastest."""
        return tuple(self.places[place] for place in leading(self.predicted, count))


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a ranking of a case's draws is.

    `first` is the speed of the best of its top as a share of that of the best of all it ranks, by
    the first figures; `again` the same by those of the race of the fastest. `correlation` is the
    rank correlation with the first figures, `fast` that among the finalists with those of their
    race. `spent` seconds went into learning and
    ranking. `search_share` is the part of the time of the kernel's search that its model took.
    `draws_gain` says how many times as fast as the schedule without trials the best draw is,
    `search_gain` the same of the best of the search, and `failed` how many draws gave no figure.
    """

    case: str
    seed: int
    knowledge: str
    learned: int
    ranked: int
    failed: int
    first: float
    again: float
    correlation: float
    fast: float
    spent: float
    search_share: float
    draws_gain: float
    search_gain: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Qualities of all cases with one knowledge: of the shares the geometric means and the least,
    of the others the means; each case by its median over seeds. `enough` says how many cases have
    ENOUGH by the last race, of how many."""

    knowledge: str
    first: float
    least_first: float
    again: float
    least_again: float
    enough: str
    correlation: float
    fast: float
    spent: float

    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        shares = (self.first, self.least_first, self.again, self.least_again)
        return (
            self.knowledge,
            *(f"{share:.3f}" for share in shares),
            self.enough,
            f"{self.correlation:.2f}",
            f"{self.fast:.2f}",
            f"{self.spent:.2f}",
        )


def rankings(samples: Sequence[Sample], number: int, seed: int) -> tuple[Ranking, ...]:
    """The draws of one sample as models rank them that know different things."""
    sample = samples[number]
    some = tuple(range(min(len(sample.trials), len(sample.draws) // 2)))
    told: Mapping[str, tuple[Observation, ...]] = {
        SEARCH: sample.trials,
        OTHERS: tuple(t for n, other in enumerate(samples) if n != number for t in other.trials),
        DRAWS: tuple(
            Observation(sample.space, sample.draws[n], sample.seconds[n])
            for n in some
            if sample.seconds[n] < inf
        ),
    }
    told = {NOTHING: (), **told, BOTH: (*told[OTHERS], *told[SEARCH])}
    figures = Ranking(FIGURES, 0, tuple(range(len(sample.draws))), sample.seconds, 0.0)
    return (
        *(
            _ranking(sample, name, told[name], len(some) if name == DRAWS else 0, seed)
            for name in KNOWLEDGE[:-1]
        ),
        figures,
    )


def _ranking(
    sample: Sample, knowledge: str, told: Sequence[Observation], passed: int, seed: int
) -> Ranking:
    """The draws behind the first ones, ranked by a model that was told of some trials."""
    places = tuple(range(passed, len(sample.draws)))
    started = time.perf_counter()
    scores: Scores = AnalyticalScores() if knowledge == NOTHING else LearnedModel(seed)
    for trial in told:
        scores.observe(trial.space, trial.candidate, trial.seconds)
    predicted = scores.seconds(sample.space, [sample.draws[place] for place in places])
    spent = time.perf_counter() - started
    return Ranking(knowledge, len(told), places, tuple(map(float, predicted)), spent)


def finalists(sample: Sample, found: Sequence[Ranking], top: int) -> tuple[int, ...]:
    """The draws that race once more: those at the top of each ranking, and those with the least
    seconds among the ones it ranks."""
    chosen: dict[int, None] = {}
    for ranking in found:
        fastest = leading([sample.seconds[place] for place in ranking.places], top)
        places = [ranking.places[place] for place in fastest]
        chosen |= dict.fromkeys((*places, *ranking.top(top)))
    return tuple(place for place in chosen if sample.seconds[place] < inf)


def quality(
    sample: Sample, ranking: Ranking, again: Mapping[int, float], top: int, seed: int
) -> Quality:
    """How good a ranking is; `again` has the seconds of the finalists' race."""
    own = ranking.top(top)
    measured = [sample.seconds[place] for place in ranking.places]
    predicted = dict(zip(ranking.places, ranking.predicted, strict=True))
    raced = [place for place in ranking.places if place in again]
    return Quality(
        case=sample.case,
        seed=seed,
        knowledge=ranking.knowledge,
        learned=ranking.learned,
        ranked=len(ranking.places),
        failed=sum(seconds == inf for seconds in measured),
        first=share_of_best([sample.seconds[place] for place in own], measured),
        again=share_of_best(
            [again.get(place, inf) for place in own],
            [again.get(place, inf) for place in ranking.places],
        ),
        correlation=rank_correlation(ranking.predicted, measured),
        fast=rank_correlation(
            [predicted[place] for place in raced], [again[place] for place in raced]
        ),
        spent=ranking.spent,
        search_share=sample.model_seconds / sample.search_seconds,
        draws_gain=sample.usual / min(sample.seconds, default=inf),
        search_gain=sample.usual / sample.best_seconds,
    )


def medians(found: Sequence[Quality], case: str, knowledge: str) -> dict[str, float]:
    """The medians over seeds of a case's figures."""
    own = [quality for quality in found if (quality.case, quality.knowledge) == (case, knowledge)]
    names = (
        "learned", "ranked", "failed", "first", "again", "correlation", "fast", "spent",
        "search_share", "draws_gain", "search_gain",
    )  # fmt: skip
    return {name: median(getattr(quality, name) for quality in own) for name in names}


def summary_of(found: Sequence[Quality], knowledge: str) -> Summary:
    """All cases with one knowledge."""
    cases = dict.fromkeys(quality.case for quality in found)
    rows = [medians(found, case, knowledge) for case in cases]
    column = {name: [row[name] for row in rows] for name in rows[0]}
    return Summary(
        knowledge,
        geometric_mean(column["first"]),
        min(column["first"]),
        geometric_mean(column["again"]),
        min(column["again"]),
        f"{sum(share >= ENOUGH for share in column['again'])} of {len(rows)}",
        fmean(column["correlation"]),
        fmean(column["fast"]),
        fmean(column["spent"]),
    )
