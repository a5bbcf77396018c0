"""`tasor rules list`, `show`, `prove` and `check` as users meet them: rules with their proofs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphopt.proofs import load_proved_rules, read_proofs, write_proofs
from tests.tasor.given_rules import FALSE, TRUE

Command = Callable[..., tuple[int, str, str]]


def test_list_shows_what_is_shipped(tasor_command: Command) -> None:
    code, out, err = tasor_command("rules", "list", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    names = [rule["name"] for rule in found]
    assert "add-zero" in names
    assert {Path(rule["file"]).name for rule in found} >= {"default.rules", "lowering.rules"}


def test_list_says_what_is_proved(tasor_command: Command, rules: Path) -> None:
    _, out, _ = tasor_command("rules", "list", rules)
    assert "some.rules: 2 rules, 0 proved" in out
    assert tasor_command("rules", "prove", rules, "-q", "--jobs", 1)[0] == 0
    _, out, _ = tasor_command("rules", "list", rules)
    assert "some.rules: 2 rules, 2 proved" in out
    assert "mul(x, y) => mul(y, x)" in out


def test_show_prints_both_sides_as_terms(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "show", "matmul-join", "--file", rules)
    assert code == 0
    assert (
        "target\n  concat axis=1\n    matmul\n      x\n      y\n    matmul\n      x\n      z\n"
    ) in out
    assert "where\n  rank(2, x)\n" in out
    assert "proof: none is stored" in out
    assert "some.rules, line 3\n" in out


def test_show_says_what_the_proof_says(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    _, out, _ = tasor_command("rules", "show", "matmul-join", "--file", rules)
    assert "proof: cases " in out
    _, out, _ = tasor_command("rules", "show", "matmul-join", "--file", rules, "--json")
    (found,) = json.loads(out)
    assert found["proved"] is True
    assert found["certificate"]["digest"] == found["digest"]


def test_show_finds_shipped_rules_of_families_and_inverses(tasor_command: Command) -> None:
    code, out, _ = tasor_command("rules", "show", "idempotent-operand[max]")
    assert code == 0
    assert "from: rules/default.rules, line " in out


def test_show_knows_no_such_rule(tasor_command: Command, rules: Path) -> None:
    code, out, err = tasor_command("rules", "show", "no\nsuch", "--file", rules)
    assert (code, out) == (64, "")
    assert err == (
        f"tasor: rule: expected the name of a rule in '{rules}', got 'no such'; `tasor rules list` "
        "shows the names\n"
    )


def test_prove_writes_proofs_that_load_and_check(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "prove", rules, "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    assert (code, out) == (0, f"{proofs}: written\n")
    assert len(load_proved_rules(rules)) == 2
    before = proofs.read_bytes()
    assert tasor_command("rules", "prove", rules, "-q", "--jobs", 1)[0] == 0
    assert proofs.read_bytes() == before
    code, out, _ = tasor_command("rules", "check", rules, "--jobs", 1, "--no-solver")
    assert code == 0
    assert "2 proofs: 2 accepted, 0 rejected, 0 open" in out


def test_prove_keeps_what_is_there_if_a_rule_is_false(tasor_command: Command, rules: Path) -> None:
    assert tasor_command("rules", "prove", rules, "-q", "--jobs", 1)[0] == 0
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    before = proofs.read_bytes()
    rules.write_text(TRUE + FALSE)
    code, out, _ = tasor_command("rules", "prove", rules, "--jobs", 1)
    assert code == 1
    assert "1 refuted" in out
    assert f"{proofs}: not written" in out
    assert proofs.read_bytes() == before


def test_check_asks_the_second_solver(tasor_command: Command, rules: Path) -> None:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    code, out, _ = tasor_command("rules", "check", rules, "--jobs", 1, "--json")
    assert code == 0
    assert {one["verdict"] for one in json.loads(out)} == {"accepted"}


def test_check_without_the_second_solver_says_what_to_do(
    tasor_command: Command, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    code, out, err = tasor_command("rules", "check", rules)
    assert (code, out) == (69, "")
    assert "pip install cvc5" in err
    assert "--no-solver" in err


def test_check_wants_a_proof_of_every_rule(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "check", rules, "--no-solver")
    assert code == 1
    assert "2 proofs: 0 accepted, 2 rejected, 0 open" in out
    assert "no proof is stored" in out


def forged(proofs: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites every certificate with digests that fit, as somebody might who means to deceive."""
    certificates = {}
    for digest, text in read_proofs(proofs).items():
        certificate = json.loads(text)
        change(certificate)
        certificates[digest] = json.dumps(certificate)
    write_proofs(proofs, certificates)


def test_check_rejects_edited_certificates(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"

    def change(certificate: dict[str, Any]) -> None:
        for case in certificate["cases"]:
            for result in case["results"]:
                result["target"] = [*result["target"], {"times": "2"}]

    forged(proofs, change)
    code, out, _ = tasor_command("rules", "check", rules, "--no-solver", "--jobs", 1)
    assert code == 1
    assert "2 proofs: 0 accepted, 2 rejected" in out


def test_check_rejects_the_proof_of_another_rule(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    (first, one), (second, other) = sorted(read_proofs(proofs).items())
    certificates = {first: json.loads(other), second: json.loads(one)}

    def change(certificate: dict[str, Any]) -> None:
        swapped = certificates[certificate["digest"]]
        certificate.clear()
        certificate.update(swapped)

    forged(proofs, change)
    code, out, _ = tasor_command("rules", "check", rules, "--no-solver", "--jobs", 1)
    assert code == 1
    assert "a proof of another rule" in out


def test_edited_proof_files_are_refused(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    text = proofs.read_bytes()
    proofs.write_bytes(text[:-5] + b"AAAA\n")
    for command in ("list", "check"):
        code, out, err = tasor_command("rules", command, rules)
        assert (code, out) == (65, "")
        assert str(proofs) in err
        assert "SHA-256" in err
    proofs.write_bytes(text[:-20])
    code, _, err = tasor_command("rules", "list", rules)
    assert code == 65
    assert "expected a file whose last line ends" in err


def test_help_names_every_command(tasor_command: Command) -> None:
    code, out, _ = tasor_command("rules", "--help")
    assert code == 0
    for name in ("enumerate", "verify", "list", "show", "prove", "check"):
        assert name in out
