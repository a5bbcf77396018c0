"""`tasor calibrate`, the error of estimates, and compilations that are told of a machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import tasor
import tasor.model_error as model_error_module
import tensorgen.calibration as calibration_module
from graphopt.search import AnalyticCost
from tasor.errors import InputFileError
from tasor.machine_choice import chosen_machine
from tasor.model_error import Kernels, ModelError, Prediction, predictions
from tasor.pipeline import Observer
from tensorgen.machine import Machine, Rate, machine_document
from tensorgen.target import Target, host_target
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul
from tests.tasor.small_models import small_model

Command = Callable[..., tuple[int, str, str]]

HOST = host_target()
SHAPES = {"x": (4, 6)}
FOUND = replace(typical_machine(HOST), flops=Rate(1.1e11, 2.2e11))
"""What the stand-in for a measurement finds."""


class Ran(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


def ran(command: Command, *words: object) -> Ran:
    return Ran(*command(*words))


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that is measured at once, with a cache of its own."""
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path / "cache"))

    def measured(target: Target, threads: int, cache: Path | None) -> tuple[Machine, bool]:
        return replace(FOUND, threads=threads), True

    monkeypatch.setattr(calibration_module, "_measured", measured)


def test_prints_what_was_found_and_where_it_is_kept(tasor_command: Command) -> None:
    first = ran(tasor_command, "calibrate", "--threads", "1")
    assert first.code == 0
    for text in ("peak, float32", "110", "Gflop/s", "read memory", "measured in"):
        assert text in first.out
    assert "parallel region" not in first.out
    again = ran(tasor_command, "calibrate", "--threads", "1")
    assert "--again measures anew" in again.out
    assert "measured in" in ran(tasor_command, "calibrate", "--threads", "1", "--again").out
    assert ran(tasor_command, "calibrate", "--threads", "1", "-q").out == ""


def test_measures_on_all_cores_if_not_told(tasor_command: Command) -> None:
    for words in ((), ("--target", HOST.name)):
        done = ran(tasor_command, "calibrate", *words)
        assert done.code == 0, done.err
        assert f"{HOST.cores} thread" in done.out


def test_writes_a_file_that_compile_reads(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "machine.json"
    assert ran(tasor_command, "calibrate", "--threads", "1", "--json", file).code == 0
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["target"] == HOST.name
    assert content["machine"] == machine_document(FOUND)
    for machine in (str(file), "calibrated"):
        folder = tmp_path / f"out-{Path(machine).name}"
        done = ran(
            tasor_command,
            "compile",
            model,
            "-o",
            folder,
            "--shape",
            "x=4,6",
            "--threads",
            "1",
            "--machine",
            machine,
        )
        assert done.code == 0, done.err
        description = json.loads((folder / "small.json").read_text(encoding="utf-8"))
        assert description["machine"] == machine_document(FOUND)


def test_without_a_machine_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*ignored: object) -> tuple[Machine, bool]:
        raise AssertionError("a compilation measured the machine without being told to")

    monkeypatch.setattr(calibration_module, "_measured", refuse)
    plain = tasor.compile(small_model(), shapes=SHAPES, threads=1)
    typical = tasor.compile(small_model(), shapes=SHAPES, threads=1, machine=typical_machine(HOST))
    assert "machine" not in plain.module.metadata
    assert plain.stages.compilation.schedules == typical.stages.compilation.schedules


def test_a_damaged_file_is_a_remark(tmp_path: Path) -> None:
    made = chosen_machine("calibrated", HOST, 1, lambda remark: None)
    assert made == FOUND
    [file] = (tmp_path / "cache" / "machines").iterdir()
    file.write_text("{", encoding="utf-8")

    class Listening(Observer):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def remarks(self, line: str) -> None:
            self.heard.append(line)

    observer = Listening()
    tasor.compile(small_model(), shapes=SHAPES, threads=1, machine="calibrated", observer=observer)
    assert len(observer.heard) == 1
    assert str(file) in observer.heard[0]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "expected a readable file or the word calibrated"),
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[]", f"expected a calibration for {HOST.name}"),
        ('{"target": "c99"}', f"expected a calibration for {HOST.name}, got one for c99"),
        (json.dumps({"target": HOST.name}), "machine: expected an object"),
        (json.dumps({"target": HOST.name, "machine": {"threads": 0}}), "threads: expected"),
    ],
)
def test_what_is_no_calibration_is_refused_in_one_line(
    content: str | None, expected: str, tmp_path: Path, tasor_command: Command, model: Path
) -> None:
    file = tmp_path / "machine.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(InputFileError) as caught:
        chosen_machine(file, HOST, 1, lambda remark: None)
    assert expected in str(caught.value)
    done = ran(tasor_command, "compile", model, "-o", tmp_path / "out", "--machine", file)
    assert done.code == 65
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--threads", "1000"), 69, "expected 1 to"),
        (("--threads", "0"), 64, "expected a whole number"),
        (("--target", "cortex-m4", "--threads", "1"), 69, "expected one that this machine can run"),
        (("--target", "none"), 64, "target: expected one of"),
        (("--threads", "1", "--json", "/"), 64, "expected"),
        (("--threads", "1", "--error", "no such.onnx"), 65, "expected a readable file"),
    ],
)
def test_mistakes_are_one_line(
    tasor_command: Command, words: tuple[str, ...], code: int, message: str
) -> None:
    done = ran(tasor_command, "calibrate", "-q", *words)
    assert done.code == code
    [line] = done.err.strip().splitlines()
    assert message in line


# Errors of estimates


def test_estimates_are_held_against_the_kernels_they_chose(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "machine.json"
    done = ran(
        tasor_command,
        "calibrate",
        "--threads",
        "1",
        "--error",
        model,
        "--shape",
        "x=4,6",
        "--json",
        file,
    )
    assert done.code == 0, done.err
    assert "rank correlation" in done.out
    errors = json.loads(file.read_text(encoding="utf-8"))["error"]
    assert set(errors) == {"measured constants", "typical constants"}
    for error in errors.values():
        [case] = error["cases"]
        assert case["measured_seconds"] > 0
        assert case["ratio"] == pytest.approx(case["predicted_seconds"] / case["measured_seconds"])
        assert error["worst_case"] == "small"


def test_kernels_are_timed_once_and_count_as_often_as_they_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed: list[Any] = []

    def seconds(chosen: list[Any], target: Target, threads: int) -> list[float]:
        timed.extend(chosen)
        return [1e-6 * (len(timed) - len(chosen) + n + 1) for n in range(len(chosen))]

    monkeypatch.setattr(model_error_module, "kernel_seconds", seconds)
    small, large = matmul((), 8, 8, 8), matmul((), 64, 64, 64)
    cases = [Kernels("a", ((small, 3), (large, 1))), Kernels("b", ((large, 2),))]
    machines: dict[str, Machine | None] = {"typical": None, "same": typical_machine(HOST)}
    found = predictions(cases, HOST, 1, machines)
    assert len(timed) == 2
    assert found["typical"] == found["same"]
    a, b = found["typical"]
    cost = AnalyticCost(HOST).cost
    assert a.measured == pytest.approx(3e-6 + 2e-6)
    assert b.measured == pytest.approx(4e-6)
    assert a.predicted == pytest.approx(3 * cost(small) + cost(large))


def test_the_error_of_a_model() -> None:
    found = ModelError.of([Prediction("a", 2.0, 1.0), Prediction("b", 8.0, 1.0)])
    assert found.bias == pytest.approx(4.0)
    assert found.error == pytest.approx(4.0)
    assert found.scatter == pytest.approx(2.0)
    assert found.worst.name == "b"
    both_ways = ModelError.of([Prediction("a", 1.0, 4.0), Prediction("b", 4.0, 1.0)])
    assert both_ways.bias == pytest.approx(1.0)
    assert both_ways.error == pytest.approx(4.0)
    exact = ModelError.of([Prediction("a", 1.0, 1.0)])
    assert (exact.bias, exact.error, exact.scatter, exact.rank) == (1.0, 1.0, 1.0, 1.0)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=20).filter(
        lambda pairs: all(len(set(values)) > 1 for values in zip(*pairs, strict=True))
    )
)
def test_the_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    found = ModelError.of([Prediction("", float(a), float(b)) for a, b in pairs]).rank
    expected = spearmanr([float(a) for a, _ in pairs], [float(b) for _, b in pairs]).statistic
    assert found == pytest.approx(expected, abs=1e-12)
