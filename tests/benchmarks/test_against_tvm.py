"""The command line of the comparison with TVM: what it asks for, refuses and writes."""

from __future__ import annotations

import importlib.metadata
import json
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from benchmarks import against_tvm
from benchmarks.against_tvm import REQUIREMENTS, chosen, main, missing_packages, parser
from benchmarks.time_to_reach import Point
from benchmarks.tvm_duel import Duel, DuelError, Reached, Turns
from benchmarks.tvm_operators import Convolution, Product
from tasor.suites.sources import Source
from tensorgen.tune.measurer import MeasureError

INSTALLED = {"apache-tvm": "0.27.0", "apache-tvm-ffi": "0.1.14.post1", "xgboost": "3.2.0"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The packages that seem to be installed, to be changed."""
    found = dict(INSTALLED)

    def version(name: str) -> str:
        if name not in found:
            raise importlib.metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    return found


def test_versions_are_those_asked_for(installed: dict[str, str]) -> None:
    assert missing_packages() == ()
    installed["apache-tvm"] = "0.27"
    assert missing_packages() == ()
    installed["apache-tvm"] = "0.271.0"
    assert missing_packages() == (REQUIREMENTS[0],)
    del installed["xgboost"]
    assert missing_packages() == (REQUIREMENTS[0], REQUIREMENTS[2])


def test_one_line_says_what_to_install(
    installed: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    installed.clear()
    assert main([]) == 69
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"pip install {' '.join(REQUIREMENTS)}" in said


def test_the_usual_cases_are_a_product_and_two_convolutions() -> None:
    (_, small), (_, wide), (_, product) = chosen(parser().parse_args([]))
    assert small == Convolution((1, 64, 56, 56), 64, 1, 1, 0, "nhwc")
    assert wide == Convolution((1, 256, 14, 14), 256, 3, 1, 1, "nhwc")
    assert product == Product(512, 512, 512)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "QQQ"], "--only: expected a case of operators, got none that matches"),
        (["--only", "^SFM1-b1$"], "expected a matrix product of batch 1 or a 2-D convolution"),
        (["--threads", "100000"], "threads: expected at most"),
    ],
)
def test_cases_that_are_none_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 64
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["--trials", "0"], ["--tvm-trials", "x"], ["--tvm-layout", "chwn"], ["--suite", "real"]],
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1


def result(source: Source, *_: object) -> Duel:
    """What a case might have come to; one of them has none."""
    if source.name == "C2D2-b1":
        raise DuelError(f"{source.name}: expected a kernel of TVM's, got none")
    turns = Turns(1e-3, 2e-3, 1e-6, 1.0)
    curve = (Point(1, 10.0, 3e-3), Point(9, 90.0, 2e-3))
    return Duel(source.name, 8, turns, curve, curve, 9.0, 99.0, Reached(0, 1.5, turns))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("only", "code", "cases"), [(None, 1, 2), ("^GMM2-b1$", 0, 1)])
def test_files_have_the_cases_that_could_be_compared(
    only: str | None,
    code: int,
    cases: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(against_tvm, "duel", result)
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    words = ["--markdown", str(page), "--json", str(data)]
    assert main([*words, *([] if only is None else ["--only", only])]) == code
    document = json.loads(data.read_text())
    assert [found["case"] for found in document["duels"]][-1] == "GMM2-b1"
    assert len(document["duels"]) == cases
    assert document["duels"][0]["shorter"] == 60.0
    assert document["duels"][0]["ratio"] == 2.0
    text = page.read_text()
    assert "apache-tvm 0.27.0" in text
    assert "--trials 64 --tvm-trials 256 --tvm-layout nhwc --threads 1 --seed 0" in text
    output = capsys.readouterr()
    assert "at least 60.0 times shorter" in output.out
    assert ("C2D2-b1: expected a kernel of TVM's, got none" in output.err) == (only is None)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "error", [MeasureError("nobody measures"), BrokenProcessPool("it was ended abruptly")]
)
def test_what_cannot_be_measured_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> Duel:
        raise error

    monkeypatch.setattr(against_tvm, "duel", fails)
    assert main(["--only", "^GMM2-b1$"]) == 69
    assert capsys.readouterr().err == f"benchmarks.against_tvm: {error}\n"
