"""Audits: every rule has a verdict, whatever happens to some; what is finished is kept."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphopt.rule import Rule
from graphopt.rules import read_rules
from graphopt.taso_rules import Unsupported
from verify import audit as audit_module
from verify import judging
from verify.audit import Audit, Audited, audit
from verify.audit_json import audit_json
from verify.judging import Judged, Settings, judged
from verify.prover import Undecided, prove
from verify.records import Corrupt, Folder, Record, record_json, record_of
from verify.rule_graph import pattern_graph
from verify.symbolic_rule import Ranks
from verify.verdict import Refuted, Unknown

SMALL = Settings(Ranks((1,)))

RULES = read_rules(
    """
distribute: mul(add(x, y), z) => add(mul(x, z), mul(y, z))
reciprocal: div(x, y) => mul(x, div(1, y))
commute: sub(x, y) => sub(y, x)
beyond: matmul(x, neg(y)) => neg(matmul(x, y))
"""
)
BEYOND = "beyond the prover"


@pytest.fixture(autouse=True)
def _limited_prover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that has no answer for one of the rules."""

    def limited(rule: Rule, *others: Any) -> object:
        return Undecided(BEYOND) if rule.name == "beyond" else prove(rule, *others)

    monkeypatch.setattr(judging, "prove", limited)


def kinds(found: Audit) -> list[str]:
    return [type(entry.verdict).__name__ for entry in found.entries]


def test_every_rule_has_its_verdict_in_order() -> None:
    told: list[Audited] = []
    found = audit(RULES, SMALL, report=told.append, file="a.rules", digest="00", jobs=2)
    assert [entry.name for entry in found.entries] == [rule.name for rule in RULES]
    assert [entry.index for entry in found.entries] == [0, 1, 2, 3]
    assert kinds(found) == ["Proved", "Proved", "Refuted", "Unknown"]
    assert sorted(entry.index for entry in told) == [0, 1, 2, 3]
    guarded = found.entries[1]
    assert guarded.rule == RULES[1]
    assert guarded.proved_rule is not None
    assert str(guarded.proved_rule) == f"{RULES[1]} where floating(x)"
    assert found.entries[2].proved_rule is None


def test_the_number_of_processes_changes_nothing() -> None:
    def timeless(found: Audit) -> dict[str, object]:
        data = audit_json(found)
        data["seconds"] = data["summary"] = None
        for rule in data["rules"]:
            rule["seconds"] = rule["solver_seconds"] = None
        return data

    assert timeless(audit(RULES, SMALL, jobs=1)) == timeless(audit(RULES, SMALL, jobs=3))


def test_entries_that_are_no_rules_are_unknown() -> None:
    found = audit([RULES[0], Unsupported(1, "taso-001", "operator 99")], SMALL)
    assert kinds(found) == ["Proved", "Unknown"]
    data = audit_json(found)
    assert data["rules"][1]["reason"] == "operator 99"
    assert data["rules"][1]["text"] == ""


def test_no_rules_are_an_audit() -> None:
    assert audit_json(audit([]))["summary"]["rules"] == 0


# What goes wrong


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that hangs, dies and raises."""

    def fragile_judged(rule: Rule, settings: Settings) -> Judged:
        match rule.name:
            case "distribute":
                time.sleep(60)
            case "commute":
                os.kill(os.getpid(), signal.SIGKILL)
            case "beyond":
                raise RuntimeError("solver: out of memory")
        return judged(rule, settings)

    monkeypatch.setattr(audit_module, "judged", fragile_judged)


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_judge_that_hangs_or_crashes_gives_no_proof_and_the_run_goes_on(jobs: int) -> None:
    found = audit(RULES, SMALL, jobs=jobs, seconds=3.0)
    assert kinds(found) == ["Unknown", "Proved", "Refuted", "Unknown"]
    reasons = [e.verdict.reason for e in found.entries if isinstance(e.verdict, Unknown)]
    assert reasons == ["no answer within 3 seconds", "RuntimeError: solver: out of memory"]


# Resuming


def test_what_is_finished_is_not_judged_again(tmp_path: Path) -> None:
    first = audit(RULES, SMALL, tmp_path)
    assert not any(entry.kept for entry in first.entries)
    assert len(list(tmp_path.iterdir())) == len(RULES)
    second = audit(RULES, SMALL, tmp_path)
    assert all(entry.kept for entry in second.entries)
    one, other = audit_json(first)["rules"], audit_json(second)["rules"]
    assert one == other


@pytest.mark.usefixtures("fragile")
def test_a_run_that_ends_early_keeps_what_it_has(tmp_path: Path) -> None:
    def stop(entry: Audited) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit((RULES[1], RULES[3]), SMALL, tmp_path, stop)
    assert len(list(tmp_path.iterdir())) == 1
    again = audit(RULES[1:2], SMALL, tmp_path)
    assert [entry.kept for entry in again.entries] == [True]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"record": {}}', "null"])
def test_damaged_files_are_judged_again(tmp_path: Path, damage: str) -> None:
    audit(RULES[:1], SMALL, tmp_path)
    [file] = tmp_path.iterdir()
    file.write_text(damage)
    again = audit(RULES[:1], SMALL, tmp_path)
    assert kinds(again) == ["Proved"]
    assert not again.entries[0].kept
    assert audit(RULES[:1], SMALL, tmp_path).entries[0].kept


def test_edited_files_are_judged_again(tmp_path: Path) -> None:
    audit(RULES[2:3], SMALL, tmp_path)
    [file] = tmp_path.iterdir()
    data = json.loads(file.read_text())
    data["record"]["verdict"] = {"unknown": "edited"}
    file.write_text(json.dumps(data))
    again = audit(RULES[2:3], SMALL, tmp_path)
    assert kinds(again) == ["Refuted"]
    assert not again.entries[0].kept


def test_other_settings_are_other_verdicts(tmp_path: Path) -> None:
    audit(RULES[:1], SMALL, tmp_path)
    other = audit(RULES[:1], replace(SMALL, seed=1), tmp_path)
    assert not other.entries[0].kept
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OSError, match="file"):
        audit(RULES[:1], SMALL, file / "folder")


# Records


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_records_read_as_they_are_written(rule: Rule) -> None:
    record = Record(judged(rule, SMALL), 1.5, 0.25)
    data = json.loads(json.dumps(record_json(record)))
    again = record_of(rule, data)
    assert (again.seconds, again.solver_seconds) == (1.5, 0.25)
    assert (again.judged.rule, again.judged.inferred) == (
        record.judged.rule,
        record.judged.inferred,
    )
    match record.judged.verdict, again.judged.verdict:
        case Refuted(counterexample=one), Refuted(counterexample=other):
            assert one.as_json() == other.as_json()
        case one_verdict, other_verdict:
            assert one_verdict == other_verdict


def test_a_counterexample_is_replayed() -> None:
    data = record_json(Record(judged(RULES[2], SMALL), 0.0, 0.0))
    for tensor in data["verdict"]["refuted"]["tensors"]:
        tensor["elements"] = [0.0] * len(tensor["elements"])
    with pytest.raises(Corrupt, match="both sides agree"):
        record_of(RULES[2], data)


def test_a_certificate_of_another_rule_is_refused() -> None:
    data = record_json(Record(judged(RULES[0], SMALL), 0.0, 0.0))
    with pytest.raises(Corrupt, match="another rule"):
        record_of(RULES[2], data)


@pytest.mark.parametrize(
    "verdict",
    [{}, {"proved": 1}, {"refuted": {}}, {"sure": 1}, {"refuted": {"tensors": [1]}}, []],
)
def test_records_of_another_form_are_refused(verdict: object) -> None:
    data = {"verdict": verdict, "inferred": [], "seconds": 0.0, "solver_seconds": 0.0}
    with pytest.raises(Corrupt):
        record_of(RULES[0], data)


def test_a_record_is_written_at_once(tmp_path: Path) -> None:
    folder = Folder.at(tmp_path / "new", SMALL, 1.0)
    record = Record(judged(RULES[0], SMALL), 0.0, 0.0)
    folder.write(RULES[0], record)
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".json"]
    assert folder.read(RULES[0]) == record
    assert folder.read(RULES[1]) is None


# JSON


def test_the_json_has_everything_that_reports_show() -> None:
    data = json.loads(json.dumps(audit_json(audit(RULES, SMALL, file="a.rules", digest="ab"))))
    assert (data["file"], data["digest"]) == ("a.rules", "ab")
    summary = data["summary"]
    assert [summary[key] for key in ("rules", "proved", "guarded", "refuted", "unknown")] == [
        4, 2, 1, 1, 1,
    ]  # fmt: skip
    assert summary["median_seconds"] > 0
    assert {"tasor", "prover", "python", "numpy", "z3"} == set(data["versions"])
    assert data["trusted"]
    assert any("rounding" in line for line in data["not_claimed"])
    proved, guarded, wrong, unknown = data["rules"]
    assert proved["verdict"] == guarded["verdict"] == "proved"
    assert proved["cases"] == len(proved["certificate"]["cases"]) > 0
    assert guarded["inferred"] == ["floating(x)"]
    assert guarded["guards"] == ["floating(x)"]
    assert guarded["text"].endswith("where floating(x)")
    assert wrong["verdict"] == "refuted"
    assert "is false for" in wrong["counterexample"]["text"]
    assert wrong["counterexample"]["difference"]["source"] != "undefined"
    assert wrong["certificate"] is None
    assert unknown["verdict"] == "unknown"
    assert unknown["reason"] == BEYOND


def test_equal_terms_are_one_node() -> None:
    [rule] = read_rules("r: add(matmul(x, y), matmul(x, y)) => mul(2, matmul(x, y))")
    graph = pattern_graph(rule.source)
    labels = [(node["label"], node["kind"]) for node in graph["nodes"]]
    assert labels == [
        ("x", "input"), ("y", "input"), ("matmul", "operator"), ("add", "operator"),
        ("result", "result"),
    ]  # fmt: skip
    assert graph["edges"] == [[0, 2, "0"], [1, 2, "1"], [2, 3, "0"], [2, 3, "1"], [3, 4, ""]]
    assert ("2", "constant") in [
        (node["label"], node["kind"]) for node in pattern_graph(rule.target)["nodes"]
    ]


def test_labels_name_parameters_and_results() -> None:
    [rule] = read_rules(
        "r: neg(conv(x, w, strides=s, **q)), concat(y := neg(x), *zs, axis=1) => "
        "conv(neg(x), w, strides=s, **q), neg(concat(x, *zs, axis=1))"
    )
    graph = pattern_graph(rule.source)
    labels = [node["label"] for node in graph["nodes"]]
    assert "conv\nstrides=s\n**q" in labels
    assert "y := neg" in labels
    assert "concat\naxis=1" in labels
    assert labels[-1] == "result 1"
    assert "*zs" in labels
