"""How long networks take to tune: rows of the table, and when a tuning was near its best."""

from __future__ import annotations

import pytest

from benchmarks.tuning_networks import main, rows, seconds_until_near
from benchmarks.tuning_runs import Run

FOUND = (
    Run("x", "staged", 0, (1.02, 1.1), (10.0, 20.0)),
    Run("x", "staged", 1, (1.0, 1.3), (12.0, 24.0)),
    Run("y", "staged", 0, (0.99, 1.0), (1.0, 2.0)),
)


def test_rows_begin_without_trials_and_seeds_count_by_their_median() -> None:
    assert rows(FOUND, {"x": 3, "y": 1}, 16) == (
        ("x", "3", "0", "0", "1.000", "0.833"),
        ("x", "3", "8", "11", "1.010", "0.842"),
        ("x", "3", "16", "22", "1.200", "1.000"),
        ("y", "1", "0", "0", "1.000", "1.000"),
        ("y", "1", "8", "1", "0.990", "0.990"),
        ("y", "1", "16", "2", "1.000", "1.000"),
    )


def test_a_tuning_is_near_its_best_when_a_race_says_so() -> None:
    assert [seconds_until_near(run) for run in FOUND] == [20.0, 24.0, 0.0]
    assert seconds_until_near(Run("z", "staged", 0, (1.29, 1.3), (7.0, 9.0))) == 7.0


def test_networks_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "^nothing$"]) == 64
    assert "got none that matches" in capsys.readouterr().err
