"""Every shipped rule has a proof, which is what the prover says today, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphopt.proofs import load_proved_rules, proofs_path, read_proof
from graphopt.rule import Rule
from tasor.rule_files import shipped_rule_files
from verify.checker import Accepted, check
from verify.judging import Settings, judged
from verify.solver_check import Rechecked, recheck
from verify.verdict import Proved

FILES = shipped_rule_files()
EVERY = 40
"""One rule in so many is proved again without being asked to be slow."""

LONG = 200_000
"""Certificates of so many characters took long to find."""


def stored(path: Path, rule: Rule) -> str:
    text = read_proof(proofs_path(path), rule)
    assert text is not None
    return text


def holds(path: Path, rule: Rule) -> None:
    """A rule's stored proof is found again, accepted by the checker and by the second solver."""
    text = stored(path, rule)
    answer = judged(rule, Settings())
    assert isinstance(answer.verdict, Proved), rule.name
    assert answer.rule == rule, "a shipped rule needs no guard that it does not say"
    again = json.dumps(answer.verdict.certificate, sort_keys=True, separators=(",", ":"))
    assert again == text, f"{rule.name}: expected the stored proof, got another"
    assert isinstance(check(text), Accepted), rule.name
    certificate = json.loads(text)
    asked = recheck(
        [
            *certificate["excluded"],
            *(
                question
                for case in certificate["cases"]
                for result in case["results"]
                for question in result["obligations"]
            ),
        ]
    )
    assert isinstance(asked, Rechecked)
    assert asked.others == ()


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_rule_has_a_proof(path: Path) -> None:
    assert load_proved_rules(path)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_some_proofs_are_found_again(path: Path) -> None:
    pytest.importorskip("cvc5")
    rules = [rule for rule in load_proved_rules(path) if len(stored(path, rule)) < LONG]
    for rule in rules[::EVERY]:
        holds(path, rule)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_all_proofs_are_found_again(path: Path) -> None:
    pytest.importorskip("cvc5")
    for rule in load_proved_rules(path):
        holds(path, rule)
