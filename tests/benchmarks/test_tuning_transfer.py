"""Records for other networks: shares, sums, libraries by their schedules, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import onnx
import pytest

from benchmarks import transfer_runs, tuning_transfer
from benchmarks.transfer_runs import (
    Asked,
    Timing,
    Transfer,
    compiled,
    covered,
    predicted_seconds,
    transfers,
    tuned_seconds,
    usual_seconds,
)
from benchmarks.tuning_transfer import cells, markdown
from tasor import measuring_place, model_tuning
from tasor.model_race import ModelRace
from tasor.peer_cases import write_case
from tasor.pipeline import Settings, settings_of
from tasor.suites.sources import Source
from tasor.turns import Timings
from tensorgen.build import ToolMissing, find_compiler
from tensorgen.target import host_target
from tensorgen.tune.records import TrialRecords
from tensorgen.typical_machine import typical_machine
from tests.measured_at_once import AtOnce
from tests.tasor.small_models import small_model
from tests.tasor.tuned_results import sample_result

ASKED = Asked(trials=16, seed=0, turns=3, turn_seconds=1e-4)


def source(name: str, rows: int = 4, model: Callable[[], onnx.ModelProto] = small_model) -> Source:
    return Source(
        name,
        lambda path: write_case(path, model(), name=name, group="g", shapes={"x": (rows, 6)}),
    )


def test_what_is_on_file_is_told_by_its_part_of_the_time() -> None:
    counts, seconds = {"a": 3, "b": 1, "c": 5}, {"a": 2.0, "b": 6.0, "c": inf}
    assert covered(counts, seconds, ["a"]) == 0.5
    assert covered(counts, seconds, ["a", "b", "c"]) == 1.0
    assert covered(counts, seconds, []) == 0.0
    assert covered({"c": 1}, seconds, ["c"]) == 0.0


def test_predictions_are_those_of_the_last_race_or_of_trials_where_there_was_none() -> None:
    tasks = dict(sample_result().tasks)
    first, unmeasured = tasks["first"], tasks["unmeasured"]
    assert (usual_seconds(first), tuned_seconds(first)) == (4.4e-3, 2.2e-3)
    tried = replace(unmeasured, state=replace(unmeasured.state, best=(5e-3, 4e-3)))
    assert (usual_seconds(tried), tuned_seconds(tried)) == (5e-3, 5e-3)
    assert usual_seconds(unmeasured) == inf


def test_a_network_takes_what_its_kernels_take() -> None:
    assert predicted_seconds({"a": 2, "b": 1}, {"a": 1.5, "b": 1.0}) == 4.0
    assert predicted_seconds({"a": 2, "b": 1}, {"a": 1.5, "b": inf}) is None
    assert Timing(2.0, 1.0, 1.5).predicted_share == 0.75
    assert Timing(2.0, 1.0).kernels_share == 0.5
    assert Timing(2.0, 1.0).predicted_share is None


@pytest.fixture
def settings() -> Settings:
    try:
        find_compiler(host_target())
    except ToolMissing as missing:
        pytest.skip(str(missing))
    return settings_of("host", 1)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """No kernel is measured, and no library timed: they take 4, 3 and 2 seconds, and a tuned model
    wins its race."""
    machine = typical_machine(settings.target)
    monkeypatch.setattr(measuring_place, "LocalMeasurer", AtOnce)
    monkeypatch.setattr(transfer_runs, "LocalMeasurer", AtOnce)
    monkeypatch.setattr(measuring_place, "calibrated", lambda *_: machine)
    monkeypatch.setattr(transfer_runs, "turns_of", lambda *_: [(4.0, 3.0, 2.0)] * 3)
    won = ModelRace(Timings((4.0,)), Timings((2.0,)))
    monkeypatch.setattr(model_tuning, "raced", lambda *_: won)


@pytest.mark.usefixtures("at_once")
def test_an_equal_kernel_takes_its_schedule_from_the_file(
    settings: Settings, tmp_path: Path
) -> None:
    told: list[str] = []
    file = tmp_path / "trials.sqlite"
    (same, other) = transfers(
        source("a"), [source("b"), source("c", rows=40)], settings, ASKED, file, told.append
    )
    assert (same.source, same.network, same.kernels) == ("a", "b", 1)
    assert (same.on_file, same.covered, same.taken) == (1, 1.0, 1)
    assert same.gains == pytest.approx((4 / 3, 2.0))
    assert same.share == pytest.approx(2 / 3)
    assert [timing.seconds for timing in same.timings] == [4.0, 3.0, 2.0]
    usual, with_records, own = (timing.predicted for timing in same.timings)
    assert usual is not None
    assert with_records is None
    assert own is not None
    assert own < usual
    assert same.timings[0].kernels == usual
    assert same.timings[2].kernels == own
    assert same.trials == 16
    assert (other.network, other.on_file, other.covered, other.taken) == ("c", 0, 0.0, 0)
    # What the others tried is no part of the file.
    assert TrialRecords(file).count() == 16
    assert len(told) == 1
    assert told[0].startswith("a: tuned")


def test_a_model_that_cannot_be_compiled_is_named(settings: Settings, tmp_path: Path) -> None:
    case = source("m").write(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"^m: "):
        compiled(case, settings)


def transfer(network: str, seed: int, share: float, predicted: float | None = 0.5) -> Transfer:
    timings = (Timing(1.0, 0.7, predicted), Timing(0.9, 0.7), Timing(0.8, 0.6, predicted))
    return Transfer(
        "resnet50", network, seed, 20, 5, 0.25, 4, timings, (1.1, 1.25), share, 1280, 100.0
    )


def found() -> list[Transfer]:
    shares = (0.8, 0.9, 0.95)
    return [transfer(name, n, s) for n, s in enumerate(shares) for name in ("a", "b")]


def test_rows_are_medians_over_seeds() -> None:
    row = dict(zip(tuning_transfer.TITLES, cells(found(), "a"), strict=True))
    assert row["records / tuned"] == "0.900"
    assert row["of the time"] == "25%"
    assert row["with records"] == "900.000 ms"
    assert (row["predicted without trials"], row["predicted tuned"]) == ("0.500", "0.625")
    assert (row["kernels without trials"], row["kernels tuned"]) == ("0.700", "0.750")
    none = [transfer("a", 0, 0.8, None)]
    assert cells(none, "a")[-3] == "none"


def test_the_page_has_every_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[tuple[str, list[str], int, Path]] = []

    def stand_in(
        source: Source, networks: tuple[Source, ...], settings: Settings, asked: Asked,
        records: Path, tell: Callable[[str], None],
    ) -> Iterator[Transfer]:  # fmt: skip
        seen.append((source.name, [network.name for network in networks], asked.seed, records))
        yield from (transfer(network.name, asked.seed, 0.9) for network in networks)

    monkeypatch.setattr(tuning_transfer, "transfers", stand_in)
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    words = ["--to", "bert,open-nsfw", "--seeds", "2", "--records", str(tmp_path)]
    assert tuning_transfer.main([*words, "--markdown", str(page), "--json", str(data)]) == 0
    assert [(name, networks, seed) for name, networks, seed, _ in seen] == [
        ("resnet50", ["bert", "open-nsfw"], seed) for seed in range(2)
    ]
    assert len({path for *_, path in seen}) == 2
    assert all(path.parent == tmp_path for *_, path in seen)
    text = page.read_text()
    assert "--from resnet50 --to bert,open-nsfw --trials 64 --threads 1 --seeds 2" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 2
    assert len({line.count("|") for line in lines}) == 1
    assert len(json.loads(data.read_text())["transfers"]) == 4


def test_the_page_is_of_what_was_found() -> None:
    arguments = tuning_transfer._parser().parse_args(["--from", "bert", "--to", "magika"])
    page = markdown(found(), arguments)
    assert page.startswith("# Records of bert for other networks\n")
    assert "| a | 20 | 5 | 25% | 4 |" in page


@pytest.mark.parametrize(
    "words",
    [["--from", "alexnet"], ["--to", "bert,alexnet"], ["--trials", "0"], ["--turn-seconds", "0"]],
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        tuning_transfer.main(words)
    assert stopped.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1
