"""Files of proofs: what is written is read, and what does not fit is refused by name."""

from __future__ import annotations

import base64
import bz2
import hashlib
import os
from pathlib import Path

import pytest

from graphopt import proofs
from graphopt.pattern import RuleError
from graphopt.proofs import (
    ProofError,
    load_proved_rules,
    proof_line,
    proofs_path,
    read_proof,
    read_proofs,
    write_proofs,
)
from graphopt.rules import load_rules

RULES = "one: mul(x, 1) => x\ntwo: add(x, 0) => x\nthree: add(x, y) <=> add(y, x)\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A rule file with a proof for each rule."""
    path = tmp_path / "rules" / "some.rules"
    path.parent.mkdir()
    path.write_text(RULES, encoding="utf-8")
    loaded = load_rules(path)
    write_proofs(proofs_path(path), {rule.digest: f'{{"rule":"{rule}"}}' for rule in loaded})
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ProofError) as caught:
        load_proved_rules(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    assert message.startswith(str(proofs_path(path)))
    assert message.endswith("prove the rules again: tasor rules prove")
    return message


def lines_of(path: Path) -> list[bytes]:
    return proofs_path(path).read_bytes().splitlines(keepends=True)


def test_rules_with_proofs_are_loaded(rules: Path) -> None:
    assert load_proved_rules(rules) == load_rules(rules)
    elsewhere = rules.parent / "elsewhere.proofs"
    proofs_path(rules).rename(elsewhere)
    assert load_proved_rules(rules, elsewhere) == load_rules(rules)


def test_what_is_written_is_read(rules: Path) -> None:
    file = proofs_path(rules)
    found = read_proofs(file)
    one, *_ = load_rules(rules)
    assert found[one.digest] == '{"rule":"one: mul(x, 1) => x"}' == read_proof(file, one)
    before = file.read_bytes()
    write_proofs(file, dict(sorted(found.items(), reverse=True)))
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["some.proofs"]


def test_the_form_of_a_line(rules: Path) -> None:
    one, *_ = load_rules(rules)
    line = next(line for line in lines_of(rules) if line.startswith(one.digest.encode()))
    digest, sha256, proof = line.decode().split(" ")
    assert digest == one.digest
    assert sha256 == hashlib.sha256(f"{digest} {proof.strip()}".encode()).hexdigest()
    assert bz2.decompress(base64.b64decode(proof)) == b'{"rule":"one: mul(x, 1) => x"}'


def test_a_rule_without_a_proof_is_refused(rules: Path) -> None:
    _, two, *_ = load_rules(rules)
    kept = [line for line in lines_of(rules) if not line.startswith(two.digest.encode())]
    proofs_path(rules).write_bytes(b"".join(kept))
    assert f"rule two: expected a proof of digest {two.digest}, got none" in refusal(rules)
    assert read_proof(proofs_path(rules), two) is None


def test_a_changed_rule_has_no_proof(rules: Path) -> None:
    rules.write_text(RULES.replace("mul(x, 1)", "div(x, 1)"), encoding="utf-8")
    assert "rule one: expected a proof of digest" in refusal(rules)


def test_a_renamed_rule_keeps_its_proof(rules: Path) -> None:
    rules.write_text(RULES.replace("one:", "uno:"), encoding="utf-8")
    assert load_proved_rules(rules)[0].name == "uno"


def test_every_byte_of_a_line_counts(rules: Path) -> None:
    whole = proofs_path(rules).read_bytes()
    for position in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[position] ^= 1
        proofs_path(rules).write_bytes(bytes(changed))
        refusal(rules)


def test_an_edited_certificate_is_refused(rules: Path) -> None:
    one, *_ = load_rules(rules)
    other = proof_line(one.digest, '{"rule":"one"}').split(b" ")[2]
    edited = [
        b" ".join((*line.split(b" ")[:2], other)) if line.startswith(one.digest.encode()) else line
        for line in lines_of(rules)
    ]
    proofs_path(rules).write_bytes(b"".join(edited))
    message = refusal(rules)
    assert "rule one: expected a line of SHA-256 " in message
    assert hashlib.sha256(one.digest.encode() + b" " + other.strip()).hexdigest() in message
    with pytest.raises(ProofError, match="expected a line of SHA-256"):
        read_proofs(proofs_path(rules))


def test_proofs_of_other_rules_do_not_fit(rules: Path) -> None:
    first, second, *rest = lines_of(rules)
    swapped = [second[:32] + first[32:], first[:32] + second[32:], *rest]
    proofs_path(rules).write_bytes(b"".join(swapped))
    assert "expected a line of SHA-256" in refusal(rules)


@pytest.mark.parametrize("kept", [1, 33, 90, 150, -1])
def test_a_truncated_file_is_refused(rules: Path, kept: int) -> None:
    file = proofs_path(rules)
    file.write_bytes(file.read_bytes()[:kept])
    assert "expected a file whose last line ends, got a part of one" in refusal(rules)


def test_a_file_cut_between_lines_lacks_proofs(rules: Path) -> None:
    proofs_path(rules).write_bytes(b"".join(lines_of(rules)[:1]))
    assert "got none" in refusal(rules)
    proofs_path(rules).write_bytes(b"")
    assert "got a part of one" in refusal(rules) or "got none" in refusal(rules)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"hello\n",
        b"\xff\xfe\x00not text\n",
        b"../../etc/passwd " + b"0" * 64 + b" QQ==\n",
        b"\x1b[31m" + b"0" * 200 + b"\n",
        b"0" * 31 + b"G " + b"0" * 64 + b" QQ==\n",
        b"0" * 32 + b"  " + b"0" * 64 + b" QQ==\n",
        b"0" * 32 + b" " + b"0" * 63 + b" QQ==\n",
        "\uff11".encode() * 32 + b" " + b"0" * 64 + b" QQ==\n",
    ],
)
def test_a_line_that_is_none_is_refused(rules: Path, line: bytes) -> None:
    file = proofs_path(rules)
    file.write_bytes(line + file.read_bytes())
    assert f"{file}:1: expected 'RULE_DIGEST SHA256 PROOF', got " in refusal(rules)


def test_a_second_proof_of_a_rule_is_refused(rules: Path) -> None:
    lines = lines_of(rules)
    proofs_path(rules).write_bytes(b"".join([*lines, lines[0]]))
    wanted = f":{len(lines) + 1}: expected one proof of rule {lines[0][:32].decode()}, got another"
    assert wanted in refusal(rules)


def test_missing_proofs_are_refused(rules: Path) -> None:
    proofs_path(rules).unlink()
    assert "expected a readable file of proofs, got No such file" in refusal(rules)
    proofs_path(rules).mkdir()
    assert "expected a readable file of proofs" in refusal(rules)


def test_rules_that_cannot_be_read_are_refused_first(rules: Path) -> None:
    rules.write_text("one mul(x, 1) => x\n", encoding="utf-8")
    with pytest.raises(RuleError, match="lower-case name"):
        load_proved_rules(rules)


@pytest.mark.parametrize(
    ("proof", "reason"),
    [
        (b"****", "compressed certificate"),
        (base64.b64encode(b"not compressed"), "compressed certificate"),
        (base64.b64encode(bz2.compress(b"{}")[:-3]), "does not end"),
        (base64.b64encode(bz2.compress(b"{}") + b"more"), "does not end"),
        (base64.b64encode(bz2.compress("é".encode())), "compressed certificate"),
    ],
)
def test_a_proof_that_does_not_unfold_is_refused(rules: Path, proof: bytes, reason: str) -> None:
    one, *_ = load_rules(rules)
    sha256 = hashlib.sha256(one.digest.encode() + b" " + proof).hexdigest().encode()
    file = proofs_path(rules)
    file.write_bytes(one.digest.encode() + b" " + sha256 + b" " + proof + b"\n")
    with pytest.raises(ProofError, match=reason):
        read_proof(file, one)


def test_a_proof_that_unfolds_without_end_is_refused(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, *_ = load_rules(rules)
    monkeypatch.setattr(proofs, "MOST_CHARACTERS", 1000)
    file = proofs_path(rules)
    file.write_bytes(proof_line(one.digest, "0" * 10_000))
    with pytest.raises(ProofError, match="does not end"):
        read_proof(file, one)


def test_a_failed_writing_leaves_the_old_file(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = proofs_path(rules)
    before = file.read_bytes()

    def fail(source: str, target: Path) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_proofs(file, {})
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["some.proofs"]
