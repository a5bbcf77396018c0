"""Prover and oracle on mutants: what is counted, kept and found wrong."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from graphopt.rule import Rule
from graphopt.rules import read_rules
from verify import mutant_trial
from verify.mutant_trial import Trial, Trials, tried, try_mutants
from verify.mutants import Mutant, mutants
from verify.prover import Undecided
from verify.symbolic_rule import Ranks

RANKS = Ranks((1, 2))


def rule_of(text: str) -> Rule:
    [rule] = read_rules(f"rule: {text}")
    return rule


def some() -> list[Mutant]:
    rules = read_rules(
        "one: sub(x, neg(y)) => add(x, y)\n"
        "two: transpose(matmul(x, y), perm=(1, 0))"
        " => matmul(transpose(y, perm=(1, 0)), transpose(x, perm=(1, 0)))"
    )
    return list(islice(mutants(rules), 12))


@pytest.mark.parametrize(
    ("text", "prover", "oracle"),
    [
        ("neg(sub(x, y)) => sub(y, x)", "proved", "agreed"),
        ("sub(x, y) => sub(y, x)", "no proof", "refuted"),
        ("div(x, y) => mul(x, div(1, y))", "proved", "refuted on integers"),
        ("matmul(x, neg(y)) => neg(matmul(x, y))", "proved", "agreed"),
    ],
)
def test_what_both_say(text: str, prover: str, oracle: str) -> None:
    trial = tried(rule_of(text), RANKS)
    assert (trial.prover, trial.oracle) == (prover, oracle)
    assert not trial.is_fault
    assert not trial.is_unknown


def test_what_the_prover_cannot_say_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant_trial, "prove", lambda *_: Undecided("beyond the prover"))
    trial = tried(rule_of("matmul(x, neg(y)) => neg(matmul(x, y))"), RANKS)
    assert (trial.prover, trial.oracle) == ("no answer", "agreed")
    assert trial.reason == "beyond the prover"
    assert trial.is_unknown


def test_faults_and_the_unknown_are_listed() -> None:
    trials = Trials(
        (
            Trial("a", "proved", "refuted", "", 0.0),
            Trial("b", "proved", "refuted on integers", "", 0.0),
            Trial("c", "no proof", "agreed", "", 0.0),
            Trial("d", "no answer", "untested", "late", 0.0),
            Trial("e", "no answer", "refuted", "late", 0.0),
            Trial("f", "proved", "untested", "", 0.0),
        )
    )
    assert [trial.rule for trial in trials.faults] == ["a"]
    assert [trial.rule for trial in trials.unknown] == ["c", "d"]
    assert trials.counts["refuted", "no answer"] == 1


def test_what_is_done_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept.jsonl"
    found = some()
    first = try_mutants(found[:8], RANKS, kept=kept, jobs=2)
    assert len(kept.read_text().splitlines()) == 8
    # A run that was killed has written half a line.
    with kept.open("a") as file:
        file.write('["half')
    called: list[str] = []

    def counting(rule: Rule, ranks: Ranks) -> Trial:
        called.append(rule.name)
        return Trial(str(rule), "no proof", "agreed", "", 0.0)

    monkeypatch.setattr(mutant_trial, "tried", counting)
    told: list[int] = []
    again = try_mutants(found, RANKS, kept=kept, report=told.append)
    assert again.trials[:8] == first.trials
    assert told == [9, 10, 11, 12]
    assert all(trial.prover == "no proof" for trial in again.trials[8:])


def test_what_other_code_said_is_tried_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    [mutant] = some()[:1]
    try_mutants([mutant], RANKS, kept=kept)
    line = json.loads(kept.read_text())
    line[0], line[3] = "older", "proved"
    kept.write_text(json.dumps(line) + "\n")
    assert try_mutants([mutant], RANKS, kept=kept).trials[0].prover != "proved"


def test_a_mutant_past_its_limit_is_still_judged_by_the_oracle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hanging(rule: Rule, ranks: Ranks) -> Trial:
        raise RuntimeError("the solver is gone")

    monkeypatch.setattr(mutant_trial, "tried", hanging)
    [trial] = try_mutants(some()[:1], RANKS).trials
    assert trial.prover == "no answer"
    assert trial.reason == "RuntimeError: the solver is gone"
    assert trial.oracle == "refuted"


def test_an_oracle_that_ends_too_leaves_the_mutant_untested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object) -> Trial:
        raise RuntimeError("no such parameter")

    monkeypatch.setattr(mutant_trial, "tried", failing)
    monkeypatch.setattr(mutant_trial, "judge", failing)
    trials = try_mutants(some()[:1], RANKS)
    assert [(trial.prover, trial.oracle) for trial in trials.trials] == [("no answer", "untested")]
