"""Schedules for a comparison: from trials, from a file, and none for a model that is none."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tasor.peer_cases import Case, write_case
from tasor.peer_engines import open_model
from tasor.peer_tuning import faster_schedules
from tasor.pipeline import (
    Observer,
    Question,
    Settings,
    run_stages,
    settings_of,
)
from tasor.tune_request import TuneRequest
from tensorgen.calibration import CalibrationError
from tensorgen.schedule import Lanes, Loops, Schedule
from tensorgen.task import Task
from tensorgen.tune.outcome import Timed
from tensorgen.tune.records import TrialRecords
from tensorgen.tune.task_space import space_of
from tensorgen.tune.trial import setting_of, trial_in
from tensorgen.tune.weights_place import WeightsPlace
from tensorgen.version import tasor_version
from tests.tasor.small_models import small_model

Command = Callable[..., tuple[int, str, str]]


class Remarks(Observer):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def remarks(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return write_case(tmp_path / "m.onnx", small_model(), name="m", group="g", shapes={"x": (4, 6)})


@pytest.fixture
def settings() -> Settings:
    return settings_of("host", 1)


def recorded(
    case: Case, settings: Settings, file: Path, schedule: Schedule | None = None
) -> dict[Task, Schedule]:
    """Put a trial on file that says that a schedule of the case's task is fast, some other one than
    that without trials unless it is given."""
    stages = run_stages(Question(str(case.model), "m", case.shapes), settings)
    (task,), (usual,) = stages.compilation.tasks, stages.compilation.schedules
    if schedule is None:
        space = space_of(task, settings.target, 1)
        points = (space.schedule(point) for point in space.points())
        schedule = next(s for s in points if s is not None and s != usual)
    setting = setting_of(settings.target, 1, tasor_version())
    found = trial_in(setting, task.digest.hex(), schedule, Timed(1e-9), weights=WeightsPlace.NEAR)
    TrialRecords(file).add([found])
    return {task: schedule}


def test_schedules_on_file_are_taken_and_compute_the_same(
    case: Case, settings: Settings, tmp_path: Path
) -> None:
    on_file = recorded(case, settings, tmp_path / "t.sqlite")
    found = faster_schedules(case, settings, TuneRequest(0, tmp_path / "t.sqlite"))
    assert found == on_file
    # They go to the engine's process.
    assert pickle.loads(pickle.dumps(found)) == found
    opened = [
        open_model(engine, case, 1, options)
        for engine, options in (("tasor", {}), ("tasor tuned", {"schedules": found}))
    ]
    for engine in opened:
        engine.run()
    usual, tuned = (engine.outputs() for engine in opened)
    np.testing.assert_allclose(usual[0], tuned[0], rtol=1e-6, atol=1e-6)


def test_a_schedule_on_file_that_fits_no_such_task_is_told(
    case: Case, settings: Settings, tmp_path: Path
) -> None:
    remarks = Remarks()
    recorded(case, settings, tmp_path / "t.sqlite", Loops(Lanes.NONE, 0, 1, 1))
    found = faster_schedules(case, settings, TuneRequest(0, tmp_path / "t.sqlite"), remarks)
    assert found == {}
    (line,) = remarks.lines
    assert "the fastest schedule on file is none that these settings allow" in line


def test_a_file_without_trials_of_the_case_is_told(
    case: Case, settings: Settings, tmp_path: Path
) -> None:
    remarks = Remarks()
    found = faster_schedules(case, settings, TuneRequest(0, tmp_path / "t.sqlite"), remarks)
    assert found == {}
    assert [line.partition(":")[0] for line in remarks.lines] == ["t.sqlite"]


def test_trials_are_made_and_kept(case: Case, settings: Settings, tmp_path: Path) -> None:
    request = TuneRequest(4, tmp_path / "t.sqlite")
    schedules: dict[Task, Schedule] = faster_schedules(case, settings, request)
    assert TrialRecords(tmp_path / "t.sqlite").count() == 4
    assert len(schedules) <= 1


def test_a_model_that_is_none_has_no_schedules(
    case: Case, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    broken = replace(case, model=tmp_path / "broken.onnx")
    assert faster_schedules(broken, settings, TuneRequest(4, tmp_path / "t.sqlite")) == {}


@pytest.mark.slow
def test_bench_has_a_tuned_column(
    tasor_command: Command, case: Case, settings: Settings, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pytest.importorskip("onnxruntime")

    def refuse(*_: object, **__: object) -> None:
        raise CalibrationError("none here")

    monkeypatch.setattr("tasor.command_bench.calibrate", refuse)
    recorded(case, settings, tmp_path / "t.sqlite")
    model = tmp_path / "small.onnx"
    onnx.save(small_model(), model)
    code, out, err = tasor_command(
        "bench", model, "--shape", "x=4,6", "--against", "onnxruntime", "--seconds", "0.2",
        "--rounds", "2", "--records", tmp_path / "t.sqlite", "--json", tmp_path / "f.json",
    )  # fmt: skip
    assert code == 0, out + err
    assert "tuned ratio" in out
    document = json.loads((tmp_path / "f.json").read_text())
    (row,) = document["rows"]
    assert list(row["engines"]) == ["tasor", "tasor tuned", "onnxruntime"]
    assert row["gain"] == pytest.approx(
        row["engines"]["tasor"]["median_ms"] / row["engines"]["tasor tuned"]["median_ms"]
    )
    assert document["settings"]["trials"] == 0
