"""An audit as JSON: what reports are made of.

    {"file", "digest", "versions", "seconds", "summary": {"rules", "proved", "guarded", "refuted",
     "unknown", "median_seconds", "solver_seconds"}, "trusted": [line], "not_claimed": [line],
     "rules": [RULE]}
    RULE    {"index", "name", "text", "source", "target", "graphs": {"source", "target"},
             "verdict": "proved" | "refuted" | "unknown", "guards", "inferred", "reason",
             "counterexample", "certificate", "axioms", "seconds", "solver_seconds", "obligations",
             "cases"}

`text` and the graphs are those of the rule as it is proved, with the inferred guards. `proved`
counts `guarded`, too. What it does not: judge (`audit`), render.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

import numpy as np
import z3

from graphopt.pattern import expression_text, pattern_text
from graphopt.rule import rule_text
from graphopt.rule_functions import CONDITIONS
from verify.audit import Audit, Audited
from verify.records import prover_digest
from verify.rule_graph import pattern_graph
from verify.symbolic_rule import Ranks
from verify.verdict import Proved, Refuted, Unknown

Json = dict[str, Any]


def audit_json(audit: Audit) -> Json:
    """The audit as what `json.dumps` takes."""
    rules = [_rule(entry) for entry in audit.entries]
    verdicts = [rule["verdict"] for rule in rules]
    return {
        "file": audit.file,
        "digest": audit.digest,
        "versions": _versions(),
        "seconds": audit.seconds,
        "summary": {
            "rules": len(rules),
            "proved": verdicts.count("proved"),
            "guarded": sum(bool(rule["inferred"]) for rule in rules),
            "refuted": verdicts.count("refuted"),
            "unknown": verdicts.count("unknown"),
            "median_seconds": median([entry.seconds for entry in audit.entries] or [0.0]),
            "solver_seconds": sum(entry.solver_seconds for entry in audit.entries),
        },
        "trusted": list(_TRUSTED),
        "not_claimed": list(_not_claimed(audit.settings.ranks)),
        "rules": rules,
    }


def _versions() -> dict[str, str]:
    try:
        tasor = version("tasor")
    except PackageNotFoundError:
        tasor = "from source"
    return {
        "tasor": tasor,
        "prover": prover_digest(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "z3": z3.get_version_string(),
    }


def _rule(entry: Audited) -> Json:
    rule = entry.rule if entry.proved_rule is None else entry.proved_rule
    certificate = counterexample = None
    reason = ""
    match entry.verdict:
        case Proved(certificate=found):
            kind, certificate = "proved", dict(found)
        case Refuted(counterexample=found):
            kind, counterexample = "refuted", {"text": found.text(), **found.as_json()}
        case Unknown(reason=reason):
            kind = "unknown"
    obligations = {
        text
        for case in (certificate or {}).get("cases", ())
        for result in case["results"]
        for text in result["obligations"]
    }
    return {
        "index": entry.index,
        "name": entry.name,
        "text": "" if rule is None else rule_text(rule),
        "source": "" if rule is None else pattern_text(rule.source),
        "target": "" if rule is None else pattern_text(rule.target),
        "graphs": {
            "source": _NO_GRAPH if rule is None else pattern_graph(rule.source),
            "target": _NO_GRAPH if rule is None else pattern_graph(rule.target),
        },
        "verdict": kind,
        "guards": [] if rule is None else [expression_text(guard) for guard in rule.where],
        "inferred": list(entry.inferred),
        "reason": reason,
        "counterexample": counterexample,
        "certificate": certificate,
        "axioms": None,
        "seconds": entry.seconds,
        "solver_seconds": entry.solver_seconds,
        "obligations": len(obligations | set((certificate or {}).get("excluded", ()))),
        "cases": len((certificate or {}).get("cases", ())),
    }


_NO_GRAPH: Json = {"nodes": [], "edges": []}

_PROFIT = ", ".join(name for name, condition in CONDITIONS.items() if condition.profit)

_TRUSTED = (
    "the type rule and the meaning of each operator (OpSpec.infer, OpSpec.compute)",
    "the functions and conditions of the rule language (rule_functions)",
    "that the prover has looked at every case: operand ranks, parameters, comparisons of sizes",
    "that the forms in a certificate are what the operators' meanings say (checked by samples)",
    "Z3 on quantifier-free questions about integers; another solver can answer them again",
)


def _not_claimed(ranks: Ranks) -> tuple[str, ...]:
    plain = ", ".join(map(str, ranks.plain))
    spatial = ", ".join(map(str, ranks.spatial))
    return (
        "rounding, overflow and NaN of floats: they are taken as real numbers",
        "quotients by 0, and what other operators do outside their domain",
        "integers: proofs are of floats; on integers rules were tried, not proved",
        f"operands of other ranks than {plain}, windows over other than {spatial} spatial axes, "
        f"sequences of more than {ranks.longest_sequence} operands: see symbolic_rule on why these "
        "stand for the others",
        "operands for which the target is not defined or has other types: the rule does not apply",
        f"when a rule pays: conditions on profit ({_PROFIT}) play no part in a proof",
    )
