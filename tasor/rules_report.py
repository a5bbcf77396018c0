"""The report on an audit of rules: one HTML page that needs nothing else, JSON, and Markdown.

What it does: renders what `verify.audit.audit_json` says, as files of bytes. The page holds its
style and its script, loads nothing, and refuses to (a content security policy); every text in it
is escaped. Long proofs are cut on the page, with the number of what was left out; the JSON is
whole. What it does not: judge rules, or write files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tasor.audit_views import RuleView, rule_view
from tasor.graph_drawing import GRAPH_STYLE
from tasor.report_page import page_template, printed, shipped_text, source_hash

_MOST_TEXT, _LEAST_TEXT, _ALL_TEXT = 200_000, 10_000, 8_000_000
"""Characters of proof on the page: of one rule at most and at least, of all rules together."""


def report_files(audit: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a report by name; `audit` is what `verify.audit.audit_json` returns."""
    return {
        "report.html": report_html(audit).encode(),
        "report.json": f"{json.dumps(audit, indent=1)}\n".encode(),
        "report.md": report_markdown(audit).encode(),
    }


def report_html(audit: Mapping[str, Any]) -> str:
    """The page."""
    rules = audit["rules"]
    budget = max(_LEAST_TEXT, min(_MOST_TEXT, _ALL_TEXT // max(1, len(rules))))
    views = [rule_view(rule, number, budget) for number, rule in enumerate(rules)]
    style = f"{shipped_text('report.css')}{GRAPH_STYLE}"
    script = shipped_text("rules_report.js")
    page = page_template("rules_report.html.j2").render(
        file=audit["file"],
        digest=audit.get("digest"),
        style=Markup(style),
        script=Markup(script),
        style_hash=Markup(source_hash(style)),
        script_hash=Markup(source_hash(script)),
        cards=_cards(audit["summary"]),
        trusted=audit.get("trusted", ()),
        not_claimed=audit.get("not_claimed", ()),
        filters=_filters(views),
        rules=views,
        footer=_footer(audit),
    )
    return printed(page)


def report_markdown(audit: Mapping[str, Any]) -> str:
    """A table of all rules, the counterexamples of those refuted, and what is not claimed."""
    summary = audit["summary"]
    lines = [
        f"# Audit of {_cell(audit['file'])}",
        "",
        summary_line(summary),
        "",
        "| # | rule | verdict | inferred guards | cases | questions | ms |",
        "|--:|---|---|---|--:|--:|--:|",
    ]
    for number, rule in enumerate(audit["rules"]):
        view = rule_view(rule, number, 0)
        guards = ", ".join(map(_cell, view.inferred))
        lines.append(
            f"| {number} | {_cell(view.name)} | {view.verdict} | {guards} | {view.cases} | "
            f"{view.questions} | {view.milliseconds} |"
        )
    for heading, verdict in (("Refuted", "refuted"), ("Unknown", "unknown")):
        chosen = [rule for rule in audit["rules"] if rule["verdict"] == verdict]
        if chosen:
            lines += ["", f"## {heading}"]
        for rule in chosen:
            lines += ["", f"### {_cell(rule['name'])}", "", *_fenced(rule["text"])]
            if rule.get("reason"):
                lines += ["", _cell(rule["reason"])]
            if rule.get("counterexample"):
                lines += ["", *_fenced(rule["counterexample"].get("text", ""))]
    for heading, said in (("Trusted", "trusted"), ("Not claimed", "not_claimed")):
        if audit.get(said):
            lines += ["", f"## {heading}", "", *(f"- {_cell(line)}" for line in audit[said])]
    return printed("\n".join([*lines, ""]))


def summary_line(summary: Mapping[str, Any]) -> str:
    """The counts in a sentence."""
    return (
        f"{summary['rules']} rules: {summary['proved']} proved ({summary['guarded']} of them with "
        f"inferred guards), {summary['refuted']} refuted, {summary['unknown']} unknown"
    )


def _cards(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    counted = [
        ("", "rules", summary["rules"]),
        ("proved", "proved for all sizes", summary["proved"]),
        ("proved", "of them with inferred guards", summary["guarded"]),
        ("refuted", "refuted", summary["refuted"]),
        ("unknown", "unknown", summary["unknown"]),
        ("", "median time of a rule", f"{summary['median_seconds'] * 1e3:.3g} ms"),
        ("", "solver, all rules", f"{summary['solver_seconds']:.3g} s"),
    ]
    return [{"kind": kind, "name": name, "value": str(value)} for kind, name, value in counted]


def _filters(views: Sequence[RuleView]) -> list[dict[str, object]]:
    wanted = (
        ("all", "all"), ("proved", "proved"), ("guarded", "proved with inferred guards"),
        ("refuted", "refuted"), ("unknown", "unknown"),
    )  # fmt: skip
    return [
        {
            "kind": kind,
            "name": name,
            "count": sum(kind == "all" or kind in view.kinds.split() for view in views),
        }
        for kind, name in wanted
    ]


def _footer(audit: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in audit["versions"].items())
    return f"Audited in {audit['seconds']:.3g} s with {versions}. The same as data: report.json."


_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]<>|#~&"})


def _cell(text: object) -> str:
    """Text that Markdown shows as it is, also inside a table."""
    return " ".join(str(text).split()).translate(_SPECIAL)


def _fenced(text: str) -> list[str]:
    """Lines of text between fences that no line of it can end."""
    longest = 2
    for line in text.splitlines():
        longest = max(longest, len(line) - len(line.lstrip("` ")))
    fence = "`" * (longest + 1)
    return [fence, *text.splitlines(), fence]
