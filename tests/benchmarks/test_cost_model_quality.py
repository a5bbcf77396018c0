"""The quality of the cost model: samples, what models know of them, and how rankings are judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path

import pytest

from benchmarks import cost_model_quality
from benchmarks.cost_model_ranking import (
    BOTH,
    DRAWS,
    FIGURES,
    KNOWLEDGE,
    NOTHING,
    OTHERS,
    SEARCH,
    Quality,
    Ranking,
    finalists,
    medians,
    quality,
    rankings,
    summary_of,
)
from benchmarks.cost_model_samples import (
    Asked,
    Observation,
    Sample,
    Watched,
    drawn,
    figures,
    longest,
    raced_again,
    sampled,
)
from benchmarks.tuning_runs import Prepared
from tasor.pipeline import settings_of
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.space import Space
from tensorgen.tune.strategy import AnalyticalScores
from tensorgen.tune.task_scheduler import Network
from tensorgen.tune.task_space import space_of
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul
from tests.measured_at_once import AtOnce, StandIn, truth

SETTINGS = settings_of("x86-64-v3", 1)
MACHINE = typical_machine(SETTINGS.target)
SMALL = matmul((), 8, 48, 32, constant=(False, True))
LARGE = matmul((), 96, 48, 32, constant=(False, True))


def case(name: str, *tasks: Task) -> Prepared:
    named = {f"{name}{n}": (task, MACHINE) for n, task in enumerate(tasks)}
    return Prepared(name, named, Network("0", dict.fromkeys(named, 1)))


@cache
def space(task: Task = LARGE) -> Space:
    return space_of(task, SETTINGS.target, 1, MACHINE)


def as_estimated(task: Task, schedule: Schedule) -> float:
    """The truth of a machine of which the estimate is right."""
    own = space(task)
    point = own.locate(schedule)
    assert point is not None
    return own.estimate(point)


def sample(draws: int = 40, trials: int = 24, task: Task = LARGE, drift: float = 1.0) -> Sample:
    measurer = StandIn(drift)
    asked = Asked(trials, draws, seed=3)
    return sampled(case("x", task), asked, SETTINGS, MACHINE, measurer, measurer)


def test_the_longest_kernel_is_sampled() -> None:
    name, task, _ = longest(case("x", SMALL, LARGE), SETTINGS)
    assert (name, task) == ("x1", LARGE)
    often = replace(case("x", SMALL, LARGE), network=Network("0", {"x0": 1000, "x1": 1}))
    assert longest(often, SETTINGS)[1] == SMALL


def test_draws_are_distinct_points_that_are_not_known() -> None:
    own = space()
    known = drawn(own, [], Asked(0, 30, 1))
    found = drawn(own, known, Asked(0, 60, 1))
    assert len({*known, *found}) == 90
    assert all(own.schedule(point) is not None for point in found)
    assert drawn(own, known, Asked(0, 60, 1)) == found


def test_a_sample_is_a_search_and_draws_beside_it() -> None:
    found = sample()
    tried = {trial.candidate for trial in found.trials}
    assert len(found.trials) == 24
    assert len(found.draws) == len(found.seconds) == 40
    assert not tried & set(found.draws)
    assert found.best_seconds == min(trial.seconds for trial in found.trials)
    assert found.usual == truth(LARGE, found.space.zero_trial)
    assert 0 < found.model_seconds < found.search_seconds


def test_figures_do_not_follow_a_machine_that_becomes_slower() -> None:
    steady, drifting = sample(), sample(drift=1.3)
    # Its first batch was as much slower.
    assert drifting.usual == pytest.approx(1.3 * steady.usual)
    assert drifting.seconds == pytest.approx([1.3 * seconds for seconds in steady.seconds])
    assert drifting.best_seconds == pytest.approx(1.3 * steady.best_seconds)


def test_what_gives_no_figure_is_infinitely_long() -> None:
    own = space()
    points = drawn(own, [], Asked(0, 5, 1))
    broken = own.schedule(points[2])
    measurer = StandIn(seconds=lambda task, schedule: inf if schedule == broken else 2.0)
    assert figures(own, points, own.zero_trial, 3.0, measurer, 2) == (3.0, 3.0, inf, 3.0, 3.0)
    nothing = StandIn(seconds=lambda task, schedule: inf if schedule == own.zero_trial else 2.0)
    assert figures(own, points[:1], own.zero_trial, 3.0, nothing) == (2.0,)


def test_a_watched_model_says_what_it_was_told() -> None:
    own = space()
    watched = Watched(AnalyticalScores())
    watched.observe(own, own.start, 2.0)
    assert watched.told == [Observation(own, own.start, 2.0)]
    assert watched.seconds(own, [own.start]) == [own.estimate(own.start)]
    assert watched.spent > 0


def test_finalists_race_once_together() -> None:
    found = sample()
    measurer = StandIn()
    again = raced_again(found, (3, 1, 20), measurer)
    assert again == pytest.approx({place: found.seconds[place] for place in (3, 1, 20)})
    assert measurer.batches == [(LARGE, 3)]


def test_models_know_what_they_may() -> None:
    samples = [sample(), sample(task=SMALL), sample(trials=8)]
    found = {ranking.knowledge: ranking for ranking in rankings(samples, 0, 0)}
    assert tuple(found) == KNOWLEDGE
    learned = {name: ranking.learned for name, ranking in found.items()}
    assert learned == {NOTHING: 0, SEARCH: 24, OTHERS: 32, BOTH: 56, DRAWS: 20, FIGURES: 0}
    assert found[FIGURES].predicted == samples[0].seconds
    for name, ranking in found.items():
        assert ranking.places == tuple(range(20 if name == DRAWS else 0, 40))
        assert len(ranking.predicted) == len(ranking.places)


def test_an_estimate_that_is_right_finds_the_best() -> None:
    measurer = StandIn(seconds=as_estimated)
    asked = Asked(24, 40, 0)
    found = sampled(case("x", LARGE), asked, SETTINGS, MACHINE, measurer, measurer)
    ranked = rankings([found], 0, 0)
    chosen = finalists(found, ranked, 4)
    again = raced_again(found, chosen, measurer)
    judged = quality(found, ranked[0], again, 4, 0)
    assert judged.knowledge == NOTHING
    assert (judged.first, judged.again) == (1.0, 1.0)
    assert judged.correlation == pytest.approx(1.0)
    assert judged.draws_gain == pytest.approx(found.usual / min(found.seconds))
    assert judged.search_gain >= 1.0


@cache
def fixed() -> tuple[Sample, Ranking]:
    """Six draws, of which the ranking takes the fourth for the fastest and sees five."""
    whole = sample(draws=6, trials=4)
    known = replace(whole, seconds=(1.0, 4.0, 2.0, 3.0, inf, 2.5), usual=2.0, best_seconds=1.0)
    return known, Ranking("x", 9, (1, 2, 3, 4, 5), (5.0, 2.0, 1.0, 1.5, 4.0), 0.5)


def test_tops_and_those_that_are_fast_race_once_more() -> None:
    known, ranking = fixed()
    assert ranking.top(2) == (3, 4)
    # The two fastest that it ranks, then its top, of which one gave no figure.
    assert finalists(known, [ranking], 2) == (2, 5, 3)


def test_a_ranking_is_judged_by_what_it_ranks() -> None:
    known, ranking = fixed()
    # The first draw is the fastest of all, and none that is ranked.
    judged = quality(known, ranking, {0: 0.1, 2: 3.5, 3: 3.0, 5: 2.7}, 2, 7)
    assert (judged.ranked, judged.failed, judged.learned, judged.seed) == (5, 1, 9, 7)
    assert judged.first == pytest.approx(2.0 / 3.0)
    assert judged.again == pytest.approx(2.7 / 3.0)
    assert judged.draws_gain == 2.0
    assert judged.search_gain == 2.0
    assert judged.correlation == pytest.approx(0.4)
    # 2, 1 and 4 are predicted for those that raced and are ranked, which took 3.5, 3 and 2.7.
    assert judged.fast == pytest.approx(-0.5)


def judged(name: str, seed: int, again: float) -> Quality:
    known, ranking = fixed()
    return replace(quality(known, ranking, {}, 2, seed), case=name, again=again, correlation=again)


def test_seeds_count_by_their_median_and_cases_by_their_mean() -> None:
    found = [judged("x", n, again) for n, again in enumerate((0.2, 0.25, 0.9))]
    found += [judged("y", n, again) for n, again in enumerate((1.0, 0.98, 1.0))]
    assert medians(found, "x", "x")["again"] == 0.25
    summary = summary_of(found, "x")
    assert summary.again == pytest.approx(0.5)
    assert summary.least_again == 0.25
    assert summary.correlation == pytest.approx(0.625)
    assert summary.enough == "1 of 2"
    assert len(summary.cells()) == len(cost_model_quality.TITLES)


def prepared(*_: object) -> Iterator[Prepared]:
    yield case("small", SMALL)
    yield case("large", LARGE)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled or measured."""
    monkeypatch.setattr(cost_model_quality, "LocalMeasurer", AtOnce)
    monkeypatch.setattr(cost_model_quality, "calibrated", lambda *_: MACHINE)
    monkeypatch.setattr(cost_model_quality, "prepared", prepared)


@pytest.mark.usefixtures("at_once")
def test_the_page_has_every_operator_and_what_each_model_knew(tmp_path: Path) -> None:
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    asked = ["--seeds", "2", "--trials", "16", "--draws", "24", "--top", "4"]
    assert cost_model_quality.main([*asked, "--markdown", str(page), "--json", str(data)]) == 0
    results = json.loads(data.read_text())["results"]
    assert [(r["seed"], r["case"], r["knowledge"]) for r in results] == [
        (seed, name, knowledge)
        for seed in range(2)
        for name in ("small", "large")
        for knowledge in KNOWLEDGE
    ]
    assert all(0 < r["again"] <= 1 and -1 <= r["correlation"] <= 1 for r in results)
    text = page.read_text()
    assert "Learning and scoring took at most" in text
    assert "--draws 24 --top 4 --seeds 2 --trials 16 --threads 1 --markdown FILE" in text
    assert text.index("### small") < text.index("### large")
    assert all(text.count(f"| {name} |") == 3 for name in KNOWLEDGE)


@pytest.mark.usefixtures("at_once")
def test_a_kernel_that_leaves_too_few_draws_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    asked = ["--seeds", "1", "--trials", "8", "--draws", "11", "--top", "3"]
    assert cost_model_quality.main([*asked, "--markdown", str(page)]) == 0
    told = capsys.readouterr().err
    assert told.count("passed over") == 2
    assert "small, seed 0: passed over" in told
    assert "\n12 points are passed over." in page.read_text()


@pytest.mark.parametrize("words", [["--draws", "0"], ["--top", "x"], ["--only", "("]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cost_model_quality.main(words)
    assert stopped.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1


def test_no_case_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cost_model_quality.main(["--only", "QQQ"]) == 64
    assert "expected a case of operators" in capsys.readouterr().err
