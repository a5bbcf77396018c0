"""The trial of prover against oracle on mutants of all rules: a sample, and all of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.mutants import EXIT_DONE, EXIT_NO, MOST_UNKNOWN, RANKS, document, main, true_rules
from tests.taso_file import FALSE_FOR_GROUPED, taso_file
from verify.mutant_trial import Trial, Trials, try_mutants
from verify.mutants import mutants


def test_a_sample_holds_no_false_proof(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "trial.json"
    code = main(["--count", "40", "--jobs", "2", "--seconds", "20", "--json", str(file)])
    printed = capsys.readouterr().out
    data = json.loads(file.read_text())
    assert data["faults"] == []
    assert data["mutants"] == sum(row["mutants"] for row in data["counts"]) == 40
    assert code == (EXIT_DONE if len(data["unknown"]) <= MOST_UNKNOWN * 40 else EXIT_NO)
    assert "neither proved nor refuted" in printed


@pytest.mark.parametrize("arguments", [["--count", "0"], ["--jobs", "x"], ["--seconds", "-1"]])
def test_wrong_usage_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 64
    assert arguments[0] in capsys.readouterr().err


def test_a_false_proof_is_a_failure() -> None:
    fault = Trial("r: sub(x, y) => sub(y, x)", "proved", "refuted", "", 0.0)
    data = document(Trials((fault,)))
    assert data["faults"] == [fault.rule]


@pytest.mark.slow
def test_rules_of_taso_are_taken_if_they_are_true() -> None:
    shipped, all_of_them = true_rules(None), true_rules(taso_file())
    added = [rule.name for rule in all_of_them[len(shipped) :]]
    assert len(added) == 133 - len(FALSE_FOR_GROUPED)


@pytest.mark.slow
def test_all_mutants(tmp_path: Path) -> None:
    """At least ten thousand: no false proof, and at most 2 % of which neither says anything."""
    try:
        substitutions: Path | None = taso_file()
    except pytest.skip.Exception:
        substitutions = None
    found = list(mutants(true_rules(substitutions)))
    assert len(found) >= 10_000
    trials = try_mutants(found, RANKS, kept=tmp_path / "kept", jobs=os.cpu_count() or 1)
    assert trials.faults == ()
    assert len(trials.unknown) <= MOST_UNKNOWN * len(found)
