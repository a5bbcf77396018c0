"""The benchmarks of the search: what they print for what they found, and wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import ablation, search_networks
from benchmarks.search_networks import Searched, markdown


def test_the_page_has_a_row_for_each_network() -> None:
    row = Searched(
        network="bert",
        rules=(("matmul-join-columns", 24),),
        graphs=402,
        search_seconds=2.2,
        stopped="graphs",
        predicted=1.01,
        own=1.02,
        milliseconds=(2.0, 1.96),
        peers={"onnxruntime": 0.99, "openvino": None},
        taso=1.5,
    )
    arguments = search_networks._parser().parse_args([])
    page = markdown([row], arguments.peers, arguments)
    assert (
        "| bert | 24 x matmul-join-columns | 402 | 2.2 (graphs) | 1.01 | 1.02 | 0.99 |  | 1.5 |"
        in page
    )
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


def test_the_page_of_the_ablation_ends_in_means() -> None:
    rows = [
        ablation.Ablated("one", (4.0, 2.0, 1.0), (9, 5, 4)),
        ablation.Ablated("two", (1.0, 1.0, 1.0), (3, 3, 3)),
    ]
    page = ablation.markdown(rows, ablation._parser().parse_args(["--winograd"]))
    assert "--winograd --markdown FILE" in page
    assert "| one | 4 | 2 | 1 | 2.000 | 4.000 |" in page
    assert page.rstrip().endswith("| geometric mean |  |  |  | 1.414 | 2.000 |")
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("main", [ablation.main, search_networks.main])
@pytest.mark.parametrize(
    "words", [["--threads", "0"], ["--seconds", "-1"], ["--suite", "all"], ["--only", "("]]
)
def test_wrong_usage(main: object, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 64
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_one_network_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    words = ["--only", "nasrnn", "--seconds", "0.2", "--rounds", "2"]
    made = ["--json", str(tmp_path / "a.json"), "--markdown", str(tmp_path / "a.md")]
    assert ablation.main([*words, *made]) == 0
    assert "| nasrnn | " in (tmp_path / "a.md").read_text()
    [row] = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert row["network"] == "nasrnn"
    assert len(row["milliseconds"]) == 3
    page = tmp_path / "s.md"
    words += ["--peers", "onnxruntime", "--markdown", str(page)]
    assert search_networks.main(words) == 0
    assert "| nasrnn | " in page.read_text()
