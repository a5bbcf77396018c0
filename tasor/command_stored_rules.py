"""`tasor rules list`, `show`, `prove` and `check`: rules and the proofs that lie beside them.

What it does: finds rules by file and by name with what is stored of their proofs, writes proofs,
and has stored ones checked again. What it does not: print (see `rule_tables`), prove or check by
itself.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphopt.data_files import data_path
from graphopt.onnx_import.errors import printable
from graphopt.proofs import proofs_path, read_proof, read_proofs, write_proofs
from graphopt.rule import Rule, statement_text
from tasor.errors import EXIT_DONE, EXIT_NO, EXIT_UNKNOWN, UsageError
from tasor.output_file import check_file_place
from tasor.rule_files import read_rule_file, settings_for, shipped_rule_files
from tasor.terminal import Advance
from tensorgen.build import ToolMissing
from verify.audit import audit
from verify.audit_json import audit_json
from verify.checker import Rejected, check
from verify.solver_check import Answer, NoSolver, recheck
from verify.verdict import Proved
from verify.workers import Done, Ended, in_processes

CHECK_SECONDS = 600.0
"""The time for the check of one proof."""


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule, the file that says it, and its certificate if one is stored."""

    file: Path
    rule: Rule
    certificate: str | None

    @property
    def remark(self) -> str:
        """Whether it is proved."""
        return "not proved" if self.certificate is None else "proved"


def stored_rules(file: Path | None) -> tuple[StoredRule, ...]:
    """The rules of a file, of all that Tasor ships if None. RuleError, ProofError."""
    return tuple(rule for path in _files(file) for rule in _stored(path))


def _files(file: Path | None) -> tuple[Path, ...]:
    return shipped_rule_files() if file is None else (file,)


def _stored(path: Path) -> Iterator[StoredRule]:
    rules = read_rule_file(path).rules
    proofs = proofs_path(path.resolve())
    certificates = read_proofs(proofs) if proofs.exists() else {}
    for rule in rules:
        yield StoredRule(path, rule, certificates.get(rule.digest))


def rules_named(name: str, file: Path | None) -> tuple[StoredRule, ...]:
    """The rules of that name, one of a file at most. UsageError if there is none; RuleError,
    ProofError."""
    found = []
    for path in _files(file):
        for rule in read_rule_file(path).rules:
            if rule.name == name:
                proofs = proofs_path(path.resolve())
                proof = read_proof(proofs, rule) if proofs.exists() else None
                found.append(StoredRule(path, rule, proof))
    if not found:
        where = "what Tasor ships" if file is None else repr(printable(file))
        raise UsageError(
            f"rule: expected the name of a rule in {where}, got {printable(name)!r}; `tasor rules "
            "list` shows the names"
        )
    return tuple(found)


def rule_document(stored: StoredRule) -> dict[str, Any]:
    """A rule as what `json.dumps` takes."""
    certificate = None if stored.certificate is None else json.loads(stored.certificate)
    return {
        "name": stored.rule.name,
        "statement": statement_text(stored.rule),
        "digest": stored.rule.digest,
        "file": str(stored.file),
        "proved": certificate is not None,
        "certificate": certificate,
    }


def origin(stored: StoredRule) -> str:
    """The file and the line that say the rule."""
    folder = data_path().resolve()
    path = stored.file.resolve()
    shown = path.relative_to(folder) if path.is_relative_to(folder) else stored.file
    name = re.escape(re.sub(r"(-inverse)?(\[.*\])?$", "", stored.rule.name))
    begins = re.compile(rf"{name}(\[\w+\])?\s*:")
    if stored.file.suffix == ".rules":
        lines = stored.file.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, start=1):
            if begins.match(line):
                return f"{shown}, line {number}"
    return str(shown)


# Proving


@dataclass(frozen=True, slots=True)
class Proving:
    """The proofs of one file, written if every rule of it is proved as it stands."""

    rules: Path
    proofs: Path
    audit: Mapping[str, Any]
    missing: tuple[str, ...]


def prove_files(
    files: Sequence[Path], jobs: int, seconds: float, resume: Path | None, advance: Advance
) -> tuple[Proving, ...]:
    """Prove the rules of files and write their proofs beside them, where `proofs_path` says.

    A file with a rule that is not proved as it stands keeps the proofs that it has. RuleError,
    OutputError.
    """
    chosen = tuple(files) or shipped_rule_files()
    for path in chosen:
        check_file_place(proofs_path(path.resolve()))
    return tuple(_proved(path, jobs, seconds, resume, advance) for path in chosen)


def _proved(
    path: Path, jobs: int, seconds: float, resume: Path | None, advance: Advance
) -> Proving:
    given = read_rule_file(path)
    done = 0

    def report(_: object) -> None:
        nonlocal done
        done += 1
        advance(done, len(given.entries), path.name)

    found = audit(
        given.entries,
        settings_for(given),
        resume,
        report,
        file=path.name,
        digest=given.digest,
        jobs=jobs,
        seconds=seconds,
    )
    certificates: dict[str, str] = {}
    missing: list[str] = []
    for entry in found.entries:
        if isinstance(entry.verdict, Proved) and entry.rule == entry.proved_rule:
            text = json.dumps(entry.verdict.certificate, sort_keys=True, separators=(",", ":"))
            assert entry.rule is not None
            certificates[entry.rule.digest] = text
        else:
            missing.append(entry.name)
    proofs = proofs_path(path.resolve())
    if not missing:
        write_proofs(proofs, certificates)
    return Proving(path, proofs, audit_json(found), tuple(missing))


# Checking


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of checking one stored proof: `verdict` is accepted, rejected or open."""

    file: Path
    name: str
    verdict: str
    remark: str
    cases: int = 0
    questions: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """As what `json.dumps` takes."""
        return {
            "file": str(self.file),
            "rule": self.name,
            "verdict": self.verdict,
            "remark": self.remark,
            "cases": self.cases,
            "questions": self.questions,
            "seconds": self.seconds,
        }


def check_files(
    files: Sequence[Path], jobs: int, *, solver: bool, advance: Advance
) -> tuple[Checked, ...]:
    """Have every stored proof of the files' rules checked, of all shipped ones if none is given.

    Certificates by the independent checker, their questions by cvc5 unless `solver` is False.
    RuleError, ProofError; ToolMissing without cvc5.
    """
    if solver:
        answer = recheck(())
        if isinstance(answer, NoSolver):
            raise ToolMissing(f"{answer.reason}; or leave it out: --no-solver")
    rules = [rule for path in tuple(files) or shipped_rule_files() for rule in _stored(path)]
    tasks = [stored for stored in rules if stored.certificate is not None]
    found: dict[str, Checked] = {}

    def work(stored: StoredRule) -> Checked:
        return _checked(stored, solver)

    for position, outcome in in_processes(work, tasks, jobs, CHECK_SECONDS):
        stored = tasks[position]
        match outcome:
            case Done(value=value):
                found[stored.rule.digest] = value
            case Ended(reason=reason):
                found[stored.rule.digest] = _answer(stored, "open", reason)
        advance(len(found), len(tasks), stored.rule.name)
    return tuple(
        found.get(stored.rule.digest, _answer(stored, "rejected", "no proof is stored"))
        for stored in rules
    )


def _answer(stored: StoredRule, verdict: str, remark: str) -> Checked:
    return Checked(stored.file, stored.rule.name, verdict, remark)


def _checked(stored: StoredRule, solver: bool) -> Checked:
    begun = time.perf_counter()
    assert stored.certificate is not None
    accepted = check(stored.certificate)
    if isinstance(accepted, Rejected):
        return _answer(stored, "rejected", f"{accepted.place}: {accepted.reason}")
    certificate = json.loads(stored.certificate)
    if certificate["digest"] != stored.rule.digest:
        return _answer(stored, "rejected", f"a proof of another rule: {certificate['rule']}")
    questions = _questions(certificate)
    remark, verdict = "", "accepted"
    if solver:
        asked = recheck(questions)
        assert not isinstance(asked, NoSolver)
        for question, answer in asked.others:
            silent = answer is Answer.SILENT
            verdict = "open" if silent and verdict == "accepted" else verdict
            verdict = verdict if silent else "rejected"
            remark = f"{answer.value}: {' '.join(question.split())}"
    return Checked(
        stored.file, stored.rule.name, verdict, remark, accepted.cases, len(questions),
        time.perf_counter() - begun,
    )  # fmt: skip


def _questions(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Every question to a solver in a certificate, each once."""
    asked = [
        text
        for case in certificate["cases"]
        for result in case["results"]
        for text in result["obligations"]
    ]
    return tuple(dict.fromkeys([*certificate["excluded"], *asked]))


def checks_code(checks: Sequence[Checked]) -> int:
    """The exit code: 1 if a proof is rejected, else 2 if one is open, else 0."""
    verdicts = {checked.verdict for checked in checks}
    if "rejected" in verdicts:
        return EXIT_NO
    return EXIT_UNKNOWN if "open" in verdicts else EXIT_DONE
