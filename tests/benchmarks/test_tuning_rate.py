"""How many trials a second tuning makes: rows of the table, and a tuning that is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.tuning_rate import Tuned, main, rows

FOUND = (
    Tuned("x", 0.4e-3, 64, 0, 1.6),
    Tuned("y", 1e-3, 16, 1, 0.4),
    Tuned("z", 20e-3, 64, 2, 8.0),
)


def test_short_kernels_are_summed_up_and_so_are_all() -> None:
    assert tuple(rows(FOUND)) == (
        ("x", "0.4 ms", "64", "0", "1.6", "40"),
        ("y", "1 ms", "16", "1", "0.4", "40"),
        ("z", "20 ms", "64", "2", "8.0", "8"),
        ("up to 1 ms", "1 ms", "80", "1", "2.0", "40"),
        ("all", "20 ms", "144", "3", "10.0", "14"),
    )


def test_without_short_kernels_all_are_one_row() -> None:
    assert [row[0] for row in rows(FOUND[2:])] == ["z", "all"]


def test_trials_of_a_case_are_counted(tmp_path: Path) -> None:
    page, document = tmp_path / "rate.md", tmp_path / "rate.json"
    words = ["--only", "^C1D1-b1$", "--trials", "4", "--markdown", str(page)]
    assert main([*words, "--json", str(document)]) == 0
    (row,) = (line for line in page.read_text().splitlines() if line.startswith("| C1D1-b1 |"))
    _, _, longest, trials, faults, *_ = (cell.strip() for cell in row.split("|"))
    assert longest.endswith(" ms")
    assert (trials, faults) == ("4", "0")
    (tuning,) = json.loads(document.read_text())["tunings"]
    assert (tuning["case"], tuning["trials"], tuning["faults"]) == ("C1D1-b1", 4, 0)


def test_cases_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "^nothing$"]) == 64
    assert "got none that matches" in capsys.readouterr().err
