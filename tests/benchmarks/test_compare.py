"""The command line of the benchmarks: what it chooses, refuses and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from benchmarks.compare import main, sources


def test_suites_list_their_cases() -> None:
    every = re.compile("")
    assert len(sources("operators", (1,), every)) == 52
    assert len(sources("operators", (1, 16), every)) == 100
    assert len(sources("networks", (1,), every)) == 10
    assert [source.name for source in sources("real", (1,), re.compile("^magika$"))] == ["magika"]


def test_a_source_writes_a_model_with_static_shapes(tmp_path: Path) -> None:
    (source,) = sources("operators", (1,), re.compile("^TBS0"))
    case = source.write(tmp_path / "m.onnx")
    assert case.shapes == {"q": (1, 128, 12, 64), "k": (1, 128, 12, 64)}
    assert case.group == "TBS batch 1"
    assert case.flops == 12 * 128 * 128 * (2 * 64 + 5)
    onnx.checker.check_model(onnx.load(case.model), full_check=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite", "vgg"], "invalid choice: 'vgg'"),
        (["--suite", "operators", "--engines", "tvm"], "got 'tvm'"),
        (["--suite", "operators", "--only", "XYZ"], "got none that matches 'XYZ'"),
        (["--suite", "operators", "--only", "("], "expected a regular expression"),
        (["--suite", "operators", "--batch", "3"], "expected a case of the suite 'operators'"),
        (["--suite", "operators", "--threads", "0"], "expected a whole number of at least 1"),
        (["--suite", "operators", "--threads", "100000"], "expected at most"),
        (["--suite", "operators", "--seconds", "-1"], "expected a number above 0"),
        (["--suite", "operators", "--seconds", "nan"], "expected a number above 0"),
    ],
)
def test_wrong_usage_is_one_line_and_code_64(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words if "--engines" in words else [*words, "--engines", "onnxruntime"])
    error = capsys.readouterr().err
    assert stopped.value.code == 64
    assert message in error
    assert error.count("\n") == 1


def test_measures_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    words = ["--suite", "operators", "--only", "^GMM0", "--engines", "onnxruntime"]
    assert main([*words, "--seconds", "0.2", "--rounds", "2", "--json", str(target)]) == 0
    found = json.loads(target.read_text())
    (row,) = found["rows"]
    assert row["case"] == "GMM0-b1"
    assert row["engines"]["onnxruntime"]["median_ms"] > 0
    assert row["ratio"] is None
    assert found["versions"].keys() == {"onnxruntime"}
    assert "GMM0-b1" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
