"""Tables and texts of rules for the terminal: counts of an enumeration, verdicts, single rules.

What it does: draws with rich what the rule commands found. What it does not: print, or find
anything. Texts out of files reach a table only as `Text`, never as markup.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from graphopt.enumerate import Counts
from graphopt.onnx_import.errors import printable
from graphopt.pattern import (
    Application,
    Pattern,
    Term,
    expression_text,
    spelling,
    term_text,
)
from graphopt.rule import Rule, statement_text
from tasor.command_rules import Found
from tasor.command_stored_rules import Checked, StoredRule, origin
from tasor.rules_report import summary_line

_COLOURS: Mapping[str, str] = {
    "proved": "green", "refuted": "red", "unknown": "yellow",
    "accepted": "green", "rejected": "red", "open": "yellow",
}  # fmt: skip

_STEPS: Sequence[tuple[str, str]] = (
    ("generated", "terms generated"),
    ("undefined", "undefined, left out before"),
    ("distinct", "values not seen before"),
    ("equations", "equations"),
    ("renamed", "  other names of variables"),
    ("shared", "  a shared subterm"),
    ("duplicate", "  the same as another equation"),
    ("special", "  another equation, variables alike"),
    ("failed", "  false on other shapes or data"),
    ("untested", "  no shapes to test it on"),
    ("candidates", "candidates left"),
)
"""Fields of the counts, in the order of pruning, and what a reader calls them."""

_COUNTEREXAMPLES = 10
"""So many are shown in the terminal."""


def found_views(found: Found) -> Iterator[RenderableType]:
    """What each step of an enumeration left, and what became of claims in a minimization."""
    for name, counts in found.counts:
        yield _counts_table(name, counts)
    if found.fates:
        table = Table(title="what became of claims", title_justify="left")
        table.add_column("claims")
        table.add_column("", justify="right")
        for name, count in found.fates.items():
            table.add_row(Text(name), f"{count:,}")
        yield table


def _counts_table(name: str, counts: Sequence[Counts]) -> Table:
    """One row for each step of pruning, one column for each number of operators."""
    table = Table(title=Text(f"{name}: what each step left"), title_justify="left")
    table.add_column("operators")
    for column in counts:
        table.add_column(str(column.level), justify="right")
    for field, said in _STEPS:
        if field == "candidates":
            table.add_section()
        table.add_row(said, *(f"{getattr(column, field):,}" for column in counts))
    return table


def verdicts_table(audit: Mapping[str, Any]) -> Table:
    """A row for each rule of an audit (`verify.audit_json`)."""
    table = Table(title=Text(f"rules of {printable(audit['file'])}"), title_justify="left")
    table.add_column("rule", overflow="fold")
    table.add_column("verdict")
    table.add_column("inferred guards, or why no verdict", overflow="fold")
    table.add_column("cases", justify="right")
    table.add_column("questions", justify="right")
    table.add_column("ms", justify="right")
    for rule in audit["rules"]:
        remark = ", ".join(rule["inferred"]) or (rule["reason"] or "")
        table.add_row(
            Text(printable(rule["name"])),
            Text(rule["verdict"], style=_COLOURS[rule["verdict"]]),
            Text(_lines(remark)),
            str(rule["cases"]),
            str(rule["obligations"]),
            f"{rule['seconds'] * 1e3:.1f}",
        )
    return table


def audit_views(audit: Mapping[str, Any], *, with_table: bool) -> Iterator[RenderableType]:
    """The table if wanted, counterexamples of what is refuted, and the summary."""
    if with_table:
        yield verdicts_table(audit)
    refuted = [rule for rule in audit["rules"] if rule["verdict"] == "refuted"]
    for rule in refuted[:_COUNTEREXAMPLES]:
        yield Text(f"\n{_lines(rule['counterexample']['text'])}")
    if len(refuted) > _COUNTEREXAMPLES:
        more = len(refuted) - _COUNTEREXAMPLES
        yield Text(f"\n… and {more} more counterexamples: --report DIR writes all of them")
    twice = sum(rule["axioms"] is not None for rule in audit["rules"])
    if twice:
        yield Text(f"\n{twice} rules are proved from axioms, too")
    yield Text(f"\n{summary_line(audit['summary'])}, in {audit['seconds']:.1f} s")


def _lines(text: str) -> str:
    """Lines without control characters."""
    return "\n".join(
        "".join(letter if letter.isprintable() else "?" for letter in line)
        for line in text.split("\n")
    )


def rules_lists(stored: Sequence[StoredRule]) -> Iterator[Table]:
    """For each file a table with name, statement and whether it is proved of each rule."""
    for file in dict.fromkeys(one.file for one in stored):
        mine = [one for one in stored if one.file == file]
        proved = sum(one.certificate is not None for one in mine)
        title = f"{printable(file.name)}: {len(mine)} rules, {proved} proved"
        table = Table(title=Text(title), title_justify="left")
        table.add_column("rule", overflow="fold")
        table.add_column("source => target", overflow="fold")
        table.add_column("proof")
        for one in mine:
            table.add_row(Text(one.rule.name), Text(statement_text(one.rule)), Text(one.remark))
        yield table


def stored_rule_lines(stored: StoredRule) -> list[str]:
    """The rule, what its proof says, and where it is from."""
    lines = [*rule_lines(stored.rule), ""]
    if stored.certificate is None:
        lines.append("proof: none is stored")
    else:
        certificate = json.loads(stored.certificate)
        questions = {
            text
            for case in certificate["cases"]
            for result in case["results"]
            for text in result["obligations"]
        }
        ranks = ", ".join(
            f"{name.replace('_', ' ')} {value}" for name, value in certificate["ranks"].items()
        )
        lines += [
            f"proof: cases {len(certificate['cases'])}, questions to the solver {len(questions)}, "
            f"branches excluded {len(certificate['excluded'])}",
            f"  ranks: {ranks}",
            f"  ways to apply the source of which nothing is claimed: {certificate['unclaimed']}",
        ]
    return [*lines, f"digest: {stored.rule.digest}", f"from: {printable(origin(stored))}"]


def checks_table(checks: Sequence[Checked]) -> Table:
    """What came of checking stored proofs: a row for each."""
    table = Table(title="stored proofs", title_justify="left")
    table.add_column("rule", overflow="fold")
    table.add_column("check")
    table.add_column("why", overflow="fold")
    for name in ("cases", "questions", "ms"):
        table.add_column(name, justify="right")
    for checked in checks:
        table.add_row(
            Text(printable(checked.name)),
            Text(checked.verdict, style=_COLOURS[checked.verdict]),
            Text(_lines(checked.remark)),
            str(checked.cases),
            str(checked.questions),
            f"{checked.seconds * 1e3:.1f}",
        )
    return table


def checks_line(checks: Sequence[Checked]) -> str:
    """The counts in a sentence."""
    counted = Counter(checked.verdict for checked in checks)
    return (
        f"{len(checks)} proofs: {counted['accepted']} accepted, {counted['rejected']} rejected, "
        f"{counted['open']} open"
    )


def rule_lines(rule: Rule) -> list[str]:
    """The statement, both sides as indented terms, and the conditions."""
    lines = [f"{rule.name}: {statement_text(rule)}"]
    for side, pattern in (("source", rule.source), ("target", rule.target)):
        lines += ["", side, *_indented(pattern)]
    if rule.where:
        lines += ["", "where", *(f"  {expression_text(condition)}" for condition in rule.where)]
    return lines


def _indented(pattern: Pattern) -> Iterator[str]:
    for term in pattern.terms:
        yield from _term_lines(term, 1)


def _term_lines(term: Term, depth: int) -> Iterator[str]:
    """An operator with its parameters on a line, its operands below it, deeper."""
    if not isinstance(term, Application):
        yield f"{'  ' * depth}{term_text(term)}"
        return
    label = "" if term.label is None else f"{term.label} := "
    parameters = [f"{name}={expression_text(value)}" for name, value in term.params]
    parameters += [] if term.rest is None else [f"**{term.rest}"]
    yield f"{'  ' * depth}{label}{' '.join([spelling(term.op), *parameters])}"
    for operand in term.args:
        yield from _term_lines(operand, depth + 1)
