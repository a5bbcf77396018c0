"""Searches side by side: what a run tells, medians and shares of it, and wrong usage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import tuning_ablation, tuning_curves, tuning_runs, tuning_tables
from benchmarks.tuning_runs import Prepared, Run, Variant, gain_of, milestones
from benchmarks.tuning_tables import markdown, mean_shares, median_gains
from tasor.pipeline import settings_of
from tensorgen.schedule import Lanes, Loops
from tensorgen.tune.library_race import Choice
from tensorgen.tune.staged import STRATEGY_NAMES
from tensorgen.tune.task_scheduler import Network
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul
from tests.measured_at_once import AtOnce

A, B = Variant("a"), Variant("b", strategy="random")


def test_milestones_double_up_to_the_trials() -> None:
    assert milestones(64) == (8, 16, 32, 64)
    assert milestones(20) == (8, 16, 20)
    assert milestones(8) == (8,)
    assert milestones(3) == (3,)


def test_the_gain_of_a_network_is_that_of_its_kernels_together() -> None:
    schedule = Loops(Lanes.NONE, 1, 1, 0)
    choices = {
        "often": Choice(schedule, 1.0, 2.0, True),
        "once": Choice(schedule, 6.0, 6.0, False),
        "nobody raced it": Choice(schedule, inf, inf, False),
    }
    network = Network("0", {"often": 3, "once": 1, "nobody raced it": 9})
    assert gain_of(network, choices) == 12.0 / 9.0
    assert gain_of(Network("0", {"nobody raced it": 1}), choices) == 1.0


def found() -> list[Run]:
    gains = {
        ("x", "a"): ((1.0, 2.0), (1.2, 2.0), (1.4, 4.0)),
        ("x", "b"): ((1.0, 1.0), (1.0, 1.0), (1.0, 9.0)),
        ("y", "a"): ((1.0, 1.0),) * 3,
        ("y", "b"): ((4.0, 4.0),) * 3,
    }
    return [
        Run(case, variant, seed, gain, (5.0, 10.0))
        for (case, variant), runs in gains.items()
        for seed, gain in enumerate(runs)
    ]


def test_seeds_count_by_their_median_and_cases_by_the_winner() -> None:
    assert median_gains(found(), "x", "a") == (1.2, 2.0)
    assert mean_shares(found(), "a") == pytest.approx((0.15**0.5, 0.5))
    assert mean_shares(found(), "b") == pytest.approx((0.5**0.5, 0.5**0.5))


def test_the_page_has_all_cases_and_each() -> None:
    arguments = tuning_tables.parser_of("p", "t", "operators", "x|y").parse_args(
        ["--trials", "16", "--seeds", "3"]
    )
    page = markdown(found(), (A, B), arguments, "benchmarks.tuning_curves")
    assert "--only 'x|y' --seeds 3 --trials 16 --threads 1 --markdown FILE" in page
    assert "12 tunings, 120 s of trials" in page
    assert "| search | 8 trials | 16 trials |" in page
    assert "| a | 1.200 | 2.000 |" in page
    assert "| b | 0.707 | 0.707 |" in page
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len(lines) == 3 * 4
    assert len({line.count("|") for line in lines}) == 1


def prepared(*_: object) -> Iterator[Prepared]:
    """Two products, as a case."""
    machine = typical_machine(settings_of("host", 1).target)
    tasks = {name: (matmul((), rows, 48, 32, constant=(False, True)), machine)
             for name, rows in (("small", 8), ("large", 96))}  # fmt: skip
    yield Prepared("products", tasks, Network("0", {"small": 1, "large": 2}))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is compiled or measured."""
    machine = typical_machine(settings_of("host", 1).target)
    monkeypatch.setattr(tuning_runs, "LocalMeasurer", AtOnce)
    monkeypatch.setattr(tuning_runs, "calibrated", lambda *_: machine)
    monkeypatch.setattr(tuning_tables, "prepared", prepared)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("module", "words", "names"),
    [
        (tuning_curves, ["--strategies", "staged,random"], ["staged", "random"]),
        (tuning_ablation, [], [variant.name for variant in tuning_ablation.VARIANTS]),
    ],
)
def test_every_search_is_run_with_every_seed(
    module: ModuleType, words: list[str], names: list[str], tmp_path: Path
) -> None:
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    asked = ["--seeds", "2", "--trials", "16", "--markdown", str(page), "--json", str(data)]
    assert module.main([*asked, *words]) == 0
    document = json.loads(data.read_text())
    assert [variant["name"] for variant in document["variants"]] == names
    assert [(run["variant"], run["seed"]) for run in document["runs"]] == [
        (name, seed) for seed in range(2) for name in names
    ]
    for run in document["runs"]:
        assert len(run["gains"]) == 2
        assert 1.0 <= run["gains"][0] <= run["gains"][1]
    text = page.read_text()
    assert all(f"| {name} |" in text for name in names)


def test_no_part_is_left_out_by_the_whole_search() -> None:
    whole, *others = tuning_ablation.VARIANTS
    assert whole == Variant(whole.name)
    assert len({(v.strategy, v.learned, v.gradient) for v in others}) == len(others)
    assert all(variant.strategy in STRATEGY_NAMES for variant in others)


@pytest.mark.parametrize("module", [tuning_curves, tuning_ablation])
@pytest.mark.parametrize(
    "words",
    [
        ["--seeds", "0"], ["--trials", "x"], ["--suite", "all"], ["--only", "("],
        ["--strategies", "hope"],
    ],
)  # fmt: skip
def test_wrong_usage(
    module: ModuleType, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        module.main(words)
    assert stopped.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1


def test_no_case_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuning_curves.main(["--only", "QQQ"]) == 64
    assert "expected a case of operators" in capsys.readouterr().err
