"""`tasor rules verify` as users meet it: answers, exit codes and files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.taso_file import FALSE_FOR_GROUPED, encoded, op, taso_file
from tests.tasor.given_rules import FALSE, TRUE

Command = Callable[..., tuple[int, str, str]]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_verify_proves_true_rules(tasor_command: Command, rules: Path) -> None:
    code, out, err = tasor_command("rules", "verify", rules, "--jobs", 1)
    assert (code, err) == (0, "")
    assert "matmul-join" in out
    assert "2 rules: 2 proved (0 of them with inferred guards), 0 refuted, 0 unknown" in out


def test_verify_shows_a_counterexample_and_says_no(tasor_command: Command, rules: Path) -> None:
    rules.write_text(TRUE + FALSE)
    code, out, _ = tasor_command("rules", "verify", rules, "--jobs", 1)
    assert code == 1
    assert "3 rules: 2 proved (0 of them with inferred guards), 1 refuted, 0 unknown" in out
    assert "is false for" in out
    assert "the source gives" in out


def test_verify_does_not_know_what_takes_too_long(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "verify", rules, "--jobs", 1, "--time-limit", "1e-9")
    assert code == 2
    assert "0 refuted, 2 unknown" in out


@pytest.mark.parametrize("groups", [(), ("--groups", "one"), ("--groups", "free")])
def test_verify_reads_files_of_taso(
    tasor_command: Command, tmp_path: Path, groups: tuple[str, ...]
) -> None:
    path = tmp_path / "one.pb"
    path.write_bytes(encoded([op(8, [(-1, 0)]), op(8, [(0, 0)])], [op(8, [(-1, 0)])]))
    code, out, err = tasor_command("rules", "verify", path, "--jobs", 1, *groups)
    assert (code, err) == (0, "")
    assert "taso-000" in out


def test_verify_says_of_what_it_cannot_read_that_it_is_unknown(
    tasor_command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "same.pb"
    path.write_bytes(encoded([op(8, [(-1, 0)])], [op(8, [(-1, 0)])]))
    code, out, _ = tasor_command("rules", "verify", path, "--report", tmp_path / "report")
    assert code == 2
    assert "both sides are the same" in out
    assert "both sides are the same" in (tmp_path / "report" / "report.html").read_text()


def test_verify_prints_json(tasor_command: Command, rules: Path) -> None:
    rules.write_text(TRUE + FALSE)
    code, out, err = tasor_command("rules", "verify", rules, "--json", "--jobs", 1)
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert found["summary"]["proved"] == 2
    assert [rule["verdict"] for rule in found["rules"]] == ["proved", "proved", "refuted"]
    assert found["digest"] == hashlib.sha256(rules.read_bytes()).hexdigest()
    assert "certificate" not in found["rules"][0]


def test_verify_is_quiet(tasor_command: Command, rules: Path) -> None:
    assert tasor_command("rules", "verify", rules, "-q", "--jobs", 1) == (0, "", "")


def test_verify_writes_a_report(tasor_command: Command, rules: Path, tmp_path: Path) -> None:
    rules.write_text(TRUE + FALSE)
    folder = tmp_path / "new" / "report"
    code, out, _ = tasor_command("rules", "verify", rules, "--report", folder, "--jobs", 1)
    assert code == 1
    assert "report.html, report.json, report.md" in out
    assert files_below(folder) == {"report.html", "report.json", "report.md"}
    audit = json.loads((folder / "report.json").read_text())
    assert audit["rules"][0]["certificate"]["cases"]
    page = (folder / "report.html").read_text()
    assert page.count('<section class="rule"') == 3
    assert page.count("<svg") == 6
    assert "sub-commutes" in (folder / "report.md").read_text()


def test_verify_writes_into_a_folder_that_holds_other_files(
    tasor_command: Command, rules: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "report.html").write_text("old")
    assert tasor_command("rules", "verify", rules, "--report", tmp_path, "-q", "--jobs", 1)[0] == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert not [name for name in files_below(tmp_path) if name.endswith(".partial")]


def test_verify_proves_a_second_time_from_axioms(
    tasor_command: Command, rules: Path, tmp_path: Path
) -> None:
    words = ("rules", "verify", rules, "--jobs", 1, "--axioms", "--report", tmp_path)
    code, out, err = tasor_command(*words)
    assert (code, err) == (0, "")
    assert "rules are proved from axioms, too" in out
    audit = json.loads((tmp_path / "report.json").read_text())
    assert audit["rules"][1]["axioms"]["proofs"]
    assert "Second proof, from axioms" in (tmp_path / "report.html").read_text()


def test_inferred_guards_are_told_from_those_written(
    tasor_command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "pool.rules"
    path.write_text("twice: transpose(transpose(x, perm=p), perm=q) => x where rank(2, x)\n")
    code, out, _ = tasor_command("rules", "verify", path, "--json", "--jobs", 1)
    (rule,) = json.loads(out)["rules"]
    assert code == {"proved": 0, "refuted": 1, "unknown": 2}[rule["verdict"]]
    if rule["verdict"] == "proved":
        assert rule["inferred"]
        assert set(rule["inferred"]) <= set(rule["guards"])


@pytest.mark.slow
def test_verify_audits_the_file_that_taso_ships(tasor_command: Command, tmp_path: Path) -> None:
    code, out, _ = tasor_command("rules", "verify", taso_file(), "--report", tmp_path, "--json")
    assert code == 1
    found = json.loads(out)
    assert found["summary"]["rules"] == 133
    by_verdict: dict[str, set[int]] = {"proved": set(), "refuted": set(), "unknown": set()}
    for rule in found["rules"]:
        by_verdict[rule["verdict"]].add(rule["index"])
    guarded = {rule["index"] for rule in found["rules"] if rule["inferred"]}
    assert by_verdict["unknown"] == set()
    assert by_verdict["refuted"] | guarded == set(FALSE_FOR_GROUPED)
    assert (tmp_path / "report.html").stat().st_size < 20_000_000
