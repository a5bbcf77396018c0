"""`tasor tune` and compilations with trials, on real kernels: few trials of small models."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tasor
from tasor.command_bench import BenchOptions, sources_of
from tasor.compiled_model import CompiledModel
from tasor.model_race import MOST_ROUNDS, ModelRace
from tasor.model_tuning import FailedModel, TunedModel, compiled_or_failed, tuned_models
from tasor.peer_cases import CaseError
from tasor.pipeline import Observer, Question, settings_of
from tasor.tune_request import TuneRequest
from tasor.turns import Timings
from tensorgen.build import BuildError
from tensorgen.schedule import Schedule
from tensorgen.tune.library_race import Rivals
from tensorgen.tune.outcome import seconds_of
from tensorgen.tune.race_record import RaceRecord
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.trial import Trial, now
from tests.tasor.small_models import small_model

Command = Callable[..., tuple[int, str, str]]

RNG = np.random.default_rng(7)


def dense_model(features: int = 24) -> onnx.ModelProto:
    """A product with constant weights, so that there are tiles to choose from."""
    weights = RNG.standard_normal((32, features)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, features])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Remarks(Observer):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def remarks(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path / "cache"))


def test_a_model_with_trials_computes_the_same(tmp_path: Path) -> None:
    model, file = dense_model(), tmp_path / "trials.sqlite"
    x = RNG.standard_normal((16, 32)).astype(np.float32)
    plain = tasor.compile(model, threads=1)
    tuned = tasor.compile(model, threads=1, trials=6, records=file)
    np.testing.assert_allclose(tuned(x), plain(x), rtol=1e-5, atol=1e-5)
    made = TrialRecords(file).count()
    assert made == 6
    # What is on file is not measured again, and is good for a compilation without trials.
    tasor.compile(model, threads=1, trials=6, records=file)
    assert TrialRecords(file).count() == made
    observer = Remarks()
    recorded = tasor.compile(model, threads=1, records=file, observer=observer)
    np.testing.assert_allclose(recorded(x), plain(x), rtol=1e-5, atol=1e-5)
    assert observer.lines == []


@pytest.fixture
def any_schedule_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take the fastest of other schedules, faster or not."""
    monkeypatch.setattr("tensorgen.tune.library_race.WORTH", 1e3)


@pytest.mark.usefixtures("any_schedule_wins")
def test_a_model_races_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that loses keeps the schedules without trials; no compiler is no reason to lose them."""
    model = dense_model()
    plain = tasor.compile(model, threads=1)
    raced: list[tuple[CompiledModel, CompiledModel]] = []

    def race(zero_trials: CompiledModel, tuned: CompiledModel) -> ModelRace:
        raced.append((zero_trials, tuned))
        if len(raced) == 4:
            raise BuildError("gcc: no space left", "")
        return ModelRace(Timings((5.0,)), Timings(((4.0, 8.0, 9.0)[len(raced) - 1],)))

    monkeypatch.setattr("tasor.model_tuning.raced", race)
    observer, file = Remarks(), tmp_path / "trials.sqlite"
    # What is on file is compiled as the races so far say, the last of which was lost.
    found = [
        tasor.compile(model, threads=1, trials=trials, records=file, observer=observer).stages
        for trials in (6, 0, 6, 0, 6, 0, 6)
    ]
    usual = plain.stages.compilation.schedules
    assert [stages.compilation.schedules == usual for stages in found] == [
        False, False, True, True, True, True, False,
    ]  # fmt: skip
    for before, after in raced:
        assert before.stages.compilation.schedules == usual
        assert after.stages.compilation.schedules != usual
    assert observer.lines == [
        "dense: as a whole 0.938 times as fast as without trials: kept as without trials",
        "trials.sqlite: dense is scheduled without trials: as a whole 0.938 times as fast as "
        "without trials by the schedules on file",
        "dense: as a whole 0.625 times as fast as without trials: kept as without trials",
        "trials.sqlite: dense is scheduled without trials: as a whole 0.625 times as fast as "
        "without trials by the schedules on file",
        "dense: not raced as a whole: gcc: no space left",
    ]


@pytest.mark.usefixtures("any_schedule_wins")
def test_a_race_that_cannot_be_kept_counts_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> int:
        raise RecordsError("trials.sqlite: expected room, got none")

    lost = ModelRace(Timings((5.0,)), Timings((8.0,)))
    monkeypatch.setattr("tasor.model_tuning.raced", lambda *_: lost)
    monkeypatch.setattr(TrialRecords, "add_model_races", full)
    observer, model = Remarks(), dense_model()
    file = tmp_path / "trials.sqlite"
    found = tasor.compile(model, threads=1, trials=6, records=file, observer=observer)
    usual = tasor.compile(model, threads=1).stages.compilation.schedules
    assert found.stages.compilation.schedules == usual
    assert observer.lines == [
        "dense: its race is not kept: trials.sqlite: expected room, got none",
        "dense: as a whole 0.625 times as fast as without trials: kept as without trials",
    ]


@pytest.mark.usefixtures("any_schedule_wins")
def test_the_race_is_between_the_two_libraries(tmp_path: Path) -> None:
    model = dense_model()
    question, usual = compiled_or_failed(Question(model, "dense", {}), settings_of("host", 1))
    assert not isinstance(usual, FailedModel)
    request = TuneRequest(6, tmp_path / "trials.sqlite")
    (tuned,) = tuned_models([(question, usual)], settings_of("host", 1), request).models
    assert isinstance(tuned, TunedModel)
    assert tuned.race is not None
    assert len(tuned.race.tuned.turns) == len(tuned.race.zero_trials.turns) == MOST_ROUNDS
    assert min(*tuned.race.tuned.turns, *tuned.race.zero_trials.turns) > 0
    assert (tuned.stages is usual) == (not tuned.race.is_won)


def test_races_on_file_decide_what_records_give(tmp_path: Path) -> None:
    """Not trials, of which the luckiest comes first."""
    file = tmp_path / "trials.sqlite"
    plain = tasor.compile(dense_model(), threads=1)
    tasor.compile(dense_model(), threads=1, trials=6, records=file)
    records = TrialRecords(file)
    (usual,) = plain.stages.compilation.schedules
    timed = [t for t in records.all() if t.schedule != usual and seconds_of(t.outcome) < inf]
    fast, *_, slow = sorted(timed, key=lambda trial: seconds_of(trial.outcome))

    def taken(*shares: tuple[Trial, float]) -> Schedule:
        """What is taken if these schedules need such parts of the time of the one with zero
        trials."""
        other = TrialRecords(tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite")
        other.add(records.all())
        other.add_races(
            RaceRecord(t.task, t.setting, t.weights, Rivals(t.schedule, share, usual, 1.0), now())
            for t, share in shares
        )
        model = tasor.compile(dense_model(), threads=1, records=other.path)
        (schedule,) = model.stages.compilation.schedules
        return schedule

    assert taken((fast, 0.9), (slow, 0.8)) == slow.schedule
    assert taken((fast, 1.0), (slow, 1.1)) == usual


def test_a_lookup_that_misses_says_why(tmp_path: Path) -> None:
    observer = Remarks()
    file = tmp_path / "trials.sqlite"
    plain = tasor.compile(dense_model(), threads=1)
    model = tasor.compile(dense_model(), threads=1, records=file, observer=observer)
    assert model.stages.compilation.schedules == plain.stages.compilation.schedules
    assert observer.lines == [
        "trials.sqlite: 1 of 1 kernels are scheduled without trials: no record of this task; tune "
        "the model to have them"
    ]


def test_a_file_that_holds_no_trials_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trials.sqlite"
    file.write_bytes(b"no database" * 100)
    with pytest.raises(tasor.RecordsError, match="expected"):
        tasor.compile(dense_model(), threads=1, records=file)


def test_kernels_that_no_race_timed_have_no_figures(tasor_command: Command, tmp_path: Path) -> None:
    onnx.save(dense_model(), tmp_path / "dense.onnx")
    code, out, err = tasor_command(
        "tune", tmp_path / "dense.onnx", "--trials", "0", "--threads", "1",
        "--records", tmp_path / "trials.sqlite", "--json", tmp_path / "tuned.json",
    )  # fmt: skip
    assert (code, err) == (0, "") or err.startswith("note: calibration")
    document = json.loads((tmp_path / "tuned.json").read_text())
    (model,), (task,) = document["models"], document["tasks"].values()
    for figures in (model, task):
        assert (figures["zero_trial_ms"], figures["tuned_ms"]) == (None, None)
    assert out.count("not raced") == 4


def test_models_are_tuned_together_and_one_that_fails_stops_none(
    tasor_command: Command, tmp_path: Path
) -> None:
    onnx.save(dense_model(), tmp_path / "first.onnx")
    onnx.save(dense_model(), tmp_path / "second.onnx")
    onnx.save(dense_model(40), tmp_path / "third.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    names = ["first", "broken", "second", "third"]
    code, out, err = tasor_command(
        "tune", *(f"{tmp_path / name}.onnx" for name in names), "--trials", "4", "--threads", "1",
        "--records", tmp_path / "trials.sqlite", "--json", tmp_path / "tuned.json",
        "-o", tmp_path / "libraries", "--report", tmp_path / "tuned.html",
        "--weight", "first=2", "--latency", "third.onnx=1000",
    )  # fmt: skip
    assert (code, err) == (0, "") or err.startswith("note: calibration")
    document = json.loads((tmp_path / "tuned.json").read_text())
    assert [model["name"] for model in document["models"]] == names
    first, broken, second, third = document["models"]
    assert "expected" in broken["failed"]
    assert first["tasks"] == second["tasks"] != third["tasks"]
    assert set(document["tasks"]) == {*first["tasks"], *third["tasks"]}
    for task in document["tasks"].values():
        assert task["trials"] >= 4
        assert task["tuned_ms"] <= task["zero_trial_ms"]
    for model in (first, second, third):
        assert 0 < model["tuned_ms"] <= model["zero_trial_ms"]
        assert sorted(Path(model["folder"]).glob("*.h"))
        assert model["curve"][0]["ms"] >= model["curve"][-1]["ms"] > 0
    assert (third["ended"], third["target_ms"]) == ("its latency target is reached", 1000)
    page = (tmp_path / "tuned.html").read_text(encoding="utf-8")
    assert "<title>4 models, tuned</title>" in page
    assert page.count('class="latency"') == 6
    assert "broken" in out
    assert "times as fast" in out


def test_inputs_that_a_model_needs_to_know_are_bound(
    tasor_command: Command, tmp_path: Path
) -> None:
    """Of a shape that is an input nothing is known otherwise."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Exp", ["r"], ["y"])],
        "reshaped",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save_model(model, tmp_path / "m.onnx")
    np.save(tmp_path / "s.npy", np.array([3, 8]))
    words = ("tune", str(tmp_path / "m.onnx"), "--trials", "0", "--threads", "1", "-q")
    code, _, err = tasor_command(*words)
    assert code != 0
    assert "'s'" in err
    result = tmp_path / "result.json"
    bound = ("--bind", f"s={tmp_path / 's.npy'}", "--json", str(result))
    assert tasor_command(*words, *bound)[0] == 0
    assert len(json.loads(result.read_text())["models"]) == 1
    path = str(tmp_path / "m.onnx")
    options = BenchOptions(
        (path,), (1,), (1,), "", ("tasor",), {"s": (2,)}, "host", True, 0.1, 1,
        bindings={"s": np.array([3, 8])},
    )  # fmt: skip
    (source,) = sources_of(options)
    assert source.write(tmp_path / "case.onnx").shapes == {"x": (4, 6)}
    # Of several models each takes what it has; a name that the only one lacks is a mistake.
    strange = replace(options, bindings={**options.bindings, "z": np.zeros(1)})
    (source,) = sources_of(strange)
    with pytest.raises(CaseError, match="bindings: expected names among 'x', 's', got 'z'"):
        source.write(tmp_path / "case.onnx")
    for source in sources_of(replace(strange, suites=(path, path))):
        assert source.write(tmp_path / "case.onnx").shapes == {"x": (4, 6)}


def test_of_several_models_each_takes_the_inputs_that_it_has(
    tasor_command: Command, tmp_path: Path
) -> None:
    for name in ("x", "z"):
        onnx.save_model(small_model(name), tmp_path / f"{name}.onnx")
    models = [str(tmp_path / f"{name}.onnx") for name in ("x", "z")]
    result = tmp_path / "result.json"
    words = ("--trials", "0", "--threads", "1", "-q", "--json", str(result))
    shapes = ("--shape", "x=2,6", "--shape", "z=3,6")
    assert tasor_command("tune", *models, *words, *shapes)[0] == 0
    assert ["failed" in model for model in json.loads(result.read_text())["models"]] == [False] * 2
    code, _, err = tasor_command("tune", *models, *words, *shapes, "--shape", "w=3")
    assert code == 64
    assert err == (
        "tasor: --shape or --bind: expected the name of an input of a model, got 'w', which none "
        "has; correct it\n"
    )
    # A file that cannot be read is told of as such.
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"nothing")
    assert tasor_command("tune", *models, str(broken), *words, *shapes)[0] == 0
    assert "failed" in json.loads(result.read_text())["models"][-1]
    # What a single model lacks is told with the names that it has.
    code, _, err = tasor_command("tune", models[0], *words, *shapes)
    assert code != 0
    assert "expected a name among its inputs 'x', got 'z'" in err


def test_nothing_to_tune_is_an_error(tasor_command: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    code, out, err = tasor_command(
        "tune", tmp_path / "broken.onnx", "--records", tmp_path / "trials.sqlite", "-q"
    )
    assert code != 0
    assert out == ""
    assert err.startswith("tasor: ")
    assert err.count("\n") == 1


def test_no_trials_change_nothing(tasor_command: Command, tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "small.onnx")
    code, out, _ = tasor_command(
        "tune", tmp_path / "small.onnx", "--trials", "0", "--shape", "x=4,6",
        "--records", tmp_path / "trials.sqlite",
    )  # fmt: skip
    assert code == 0
    assert "as without trials" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--weight", "x.onnx"), "--weight: expected NAME=2.5"),
        (("--weight", "x=fast"), "--weight: expected a number for 'x'"),
        (("--weight", "x=-1"), "weight: expected a number above 0 for 'x', got -1.0"),
        (("--weight", "y=1"), "weight: expected a model among 'x', got 'y'"),
        (("--latency", "x=0"), "latency: expected a number above 0 for 'x', got 0.0"),
        (("--latency", "x=nan"), "latency: expected a number above 0"),
        (("--latency", "x=5", "--mean-speed"), "expected one goal"),
        (("--equal-trials", "--mean-speed"), "expected one goal"),
        (("--patience", "0"), "patience: expected a whole number of trials from 1, got 0"),
        (("--strategy", "hope"), "strategy: expected one of random, evolution, descent"),
        (("--report", "."), "expected the name of a file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    tasor_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, out, err = tasor_command("tune", "x.onnx", *words)
    assert (code, out) == (64, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
