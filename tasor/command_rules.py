"""`tasor rules enumerate` and `tasor rules verify`: rules are found, and judged.

What it does: calls the enumerator and the audit with what the user said, and writes what came of
them. What it does not: print (see `rule_tables`), or judge by itself.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphopt.data_files import data_path
from graphopt.enumerate import Counts, Progress, enumerate_rules
from graphopt.onnx_import.errors import printable
from graphopt.rule import Rule, rule_text
from graphopt.rules import load_rules
from graphopt.taso_rules import Groups
from tasor.errors import EXIT_DONE, EXIT_NO, EXIT_UNKNOWN, OutputError, UsageError
from tasor.output_file import check_file_place, check_writable, write_file, write_files
from tasor.rule_files import read_rule_file, settings_for
from tasor.rules_report import report_files
from tasor.terminal import Advance
from verify.audit import Audit, Audited, audit
from verify.audit_json import audit_json
from verify.axioms import FromAxioms, axioms_json, proved_from_axioms
from verify.discovery import VOCABULARIES, Settings, discover
from verify.workers import Done, in_processes


@dataclass(frozen=True, slots=True)
class EnumerateOptions:
    """What is enumerated; finished parts are kept in `resume`.

    `prove` keeps what is proved as it stands; `minimize`, of that, what smaller rules do not say
    already. `jobs` processes prove.
    """

    vocabulary: str = "taso"
    most_operators: int = 2
    seed: int = 0
    resume: Path | None = None
    prove: bool = False
    minimize: bool = False
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How a file is judged; finished verdicts are kept in `resume`, `seconds` are for one rule.

    With `axioms` what is proved is proved once more, from axioms alone.
    """

    groups: str | None = None
    jobs: int = 1
    seconds: float = 60.0
    resume: Path | None = None
    report: Path | None = None
    axioms: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The rules written, the counts by vocabulary, and what minimization did with them."""

    rules: tuple[Rule, ...]
    counts: tuple[tuple[str, tuple[Counts, ...]], ...]
    fates: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """As what `json.dumps` takes."""
        return {
            "levels": {name: [asdict(level) for level in counts] for name, counts in self.counts},
            "fates": dict(self.fates),
            "rules": [rule_text(rule) for rule in self.rules],
        }


def enumerate_into(output: Path, options: EnumerateOptions, advance: Advance) -> Found:
    """Enumerate, and write the rules found as text.

    UsageError for an unknown vocabulary, OutputError if a place cannot be written,
    EnumerationError if the folder to resume holds another enumeration.
    """
    if options.vocabulary not in VOCABULARIES:
        raise UsageError(
            f"--vocabulary: expected {' or '.join(VOCABULARIES)}, got "
            f"{printable(options.vocabulary)!r}; choose one"
        )
    check_file_place(output)
    if options.resume is not None:
        check_folder_place(options.resume, "part")
    found, text = (_minimized if options.minimize else _enumerated)(options, advance)
    write_file(output, text.encode())
    return found


def _enumerated(options: EnumerateOptions, advance: Advance) -> tuple[Found, str]:
    def progress(done: Progress) -> None:
        shape = "x".join(map(str, done.shape))
        kept = " (kept)" if done.resumed else ""
        advance(done.part, done.parts, f"{done.level} operators, results of {shape}{kept}")

    found = enumerate_rules(
        VOCABULARIES[options.vocabulary](), options.most_operators, seed=options.seed,
        folder=options.resume, progress=progress,
    )  # fmt: skip
    rules = found.rules
    counts = ((options.vocabulary, found.counts),)
    state = "Tested on many shapes, not proved: see tasor rules verify."
    if options.prove:
        rules = _proved(rules, options, advance)
        state = "Proved for all sizes; tasor rules prove stores the proofs."
    heading = (
        f"# Enumerated: {options.vocabulary} operators, at most {options.most_operators} of them, "
        f"seed {options.seed}.\n# {state}\n"
    )
    text = heading + "".join(f"{rule_text(rule)}\n" for rule in rules)
    return Found(rules, counts, {}), text


def _proved(
    rules: tuple[Rule, ...], options: EnumerateOptions, advance: Advance
) -> tuple[Rule, ...]:
    done = 0

    def report(one: Audited) -> None:
        nonlocal done
        done += 1
        advance(done, len(rules), "proving")

    folder = None if options.resume is None else options.resume / "verdicts"
    found = audit(rules, None, folder, report, jobs=options.jobs)
    return tuple(
        one.rule for one in found.entries if one.rule is not None and one.rule == one.proved_rule
    )


def _minimized(options: EnumerateOptions, advance: Advance) -> tuple[Found, str]:
    settings = Settings(((options.vocabulary, options.most_operators),), options.seed)
    found = discover(
        settings, options.resume, lambda step: advance(step.done, step.total, step.name)
    )
    return Found(found.rules, found.enumerated, found.fates), found.text


def verify_file(path: Path, options: VerifyOptions, advance: Advance) -> dict[str, Any]:
    """Judge every rule of a file, and write the report if one is wanted: the audit as JSON.

    RuleError if the file cannot be read, OutputError if the report cannot be written, UsageError.
    """
    if options.report is not None:
        check_folder_place(options.report, "report.html")
    if options.resume is not None:
        check_folder_place(options.resume, "part")
    given = read_rule_file(path, _groups_named(options.groups))
    counted: Counter[str] = Counter()

    def report(one: Audited) -> None:
        counted[type(one.verdict).__name__.lower()] += 1
        verdicts = ", ".join(f"{count} {name}" for name, count in sorted(counted.items()))
        advance(counted.total(), len(given.entries), verdicts)

    audited = audit(
        given.entries,
        settings_for(given),
        options.resume,
        report,
        file=path.name,
        digest=given.digest,
        jobs=options.jobs,
        seconds=options.seconds,
    )
    found = audit_json(audited)
    if options.axioms:
        _prove_from_axioms(audited, found, options, advance)
    if options.report is not None:
        write_files(options.report, report_files(found))
    return found


def _prove_from_axioms(
    audited: Audit, found: dict[str, Any], options: VerifyOptions, advance: Advance
) -> None:
    """Adds a second proof to the entries of an audit that are proved, where there is one."""
    axioms = load_rules(data_path("rules", "axioms.rules"))
    tasks = [(e.index, e.proved_rule) for e in audited.entries if e.proved_rule is not None]

    def work(task: tuple[int, Rule]) -> dict[str, object] | None:
        proof = proved_from_axioms(task[1], axioms, audited.settings.ranks)
        return axioms_json(proof) if isinstance(proof, FromAxioms) else None

    for done, (position, outcome) in enumerate(
        in_processes(work, tasks, options.jobs, options.seconds), start=1
    ):
        if isinstance(outcome, Done):
            found["rules"][tasks[position][0]]["axioms"] = outcome.value
        advance(done, len(tasks), "proving from axioms")


def _groups_named(word: str | None) -> Groups | None:
    if word is None:
        return None
    try:
        return Groups(word)
    except ValueError:
        known = " or ".join(groups.value for groups in Groups)
        raise UsageError(
            f"--groups: expected {known}, got {printable(word)!r}; choose one"
        ) from None


def check_folder_place(folder: Path, file: str) -> None:
    """Refuses, before any work is done, a DIR that `file` cannot be written into; OutputError."""
    if os.path.isdir(folder):
        check_writable(folder / file)
    elif os.path.lexists(folder):
        raise OutputError(
            f"output {printable(folder)!r}: expected a folder, got a file; choose another name"
        )
    else:
        check_writable(folder)


def verdict_code(found: Mapping[str, Any]) -> int:
    """The exit code for an audit: 1 if a rule is refuted, else 2 if one is unknown, else 0."""
    summary = found["summary"]
    if summary["refuted"]:
        return EXIT_NO
    return EXIT_UNKNOWN if summary["unknown"] else EXIT_DONE


def without_proofs(found: Mapping[str, Any]) -> dict[str, Any]:
    """An audit without certificates and drawings, which are the larger part of it by far."""
    left_out = ("certificate", "graphs")
    rules = [
        {key: value for key, value in rule.items() if key not in left_out}
        for rule in found["rules"]
    ]
    return {**found, "rules": rules}
