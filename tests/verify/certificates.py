"""Certificates written by hand and certificates proved, for tests that check or edit them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from graphopt.data_files import data_path
from graphopt.rule import Rule
from graphopt.rules import load_rules, read_rules
from verify.certificate import Certificate
from verify.certificate_json import certificate_text
from verify.prover import prove
from verify.symbolic_rule import Ranks

Json = Any

RANKS = Ranks((1, 2), (1,), 2)

RULES: Mapping[str, str] = {
    "double": "double: add(x, x) => mul(x, 2)",
    "reduce": "reduce: reduce_sum(add(x, x), axes=a, keepdims=k) "
    "=> mul(reduce_sum(x, axes=a, keepdims=k), 2)",
    "clip": "clip: max(max(x, y), x) => max(y, x)",
    "reshape": "reshape: exp(reshape(x, shape=s)) => reshape(exp(x), shape=s)",
    "functions": "functions: exp(neg(transpose(x, perm=p))) => transpose(exp(neg(x)), perm=p)",
}


@cache
def proved(name: str) -> str:
    """The certificate of a rule above, or of a rule of search.rules, as JSON text."""
    certificate = prove(rule_named(name), RANKS)
    assert isinstance(certificate, Certificate), certificate
    return certificate_text(certificate)


@cache
def rule_named(name: str) -> Rule:
    """A rule above, or of search.rules."""
    if name in RULES:
        (rule,) = read_rules(RULES[name])
        return rule
    rules = load_rules(data_path("rules", "search.rules"))
    return next(rule for rule in rules if rule.name == name)


def edited(text: str, edit: Callable[[Json], object]) -> str:
    """A certificate that an edit has changed in place."""
    certificate = copy.deepcopy(json.loads(text))
    edit(certificate)
    changed = json.dumps(certificate, sort_keys=True, separators=(",", ":"))
    assert changed != text, "an edit that changes nothing"
    return changed


OBLIGATION = """\
(set-logic QF_NIA)
(declare-const i0 Int)
(declare-const n0 Int)
(assert (>= i0 0))
(assert (>= n0 0))
(assert (>= (+ (- 1) (* (- 1) i0) n0) 0))
(assert (not (= (+ (ite (= i0 0) (- 2) 0) (ite (>= (+ (- 1) i0) 0) (- 2) 0) (ite true 2 0)) 0)))
(check-sat)"""


def by_hand() -> Json:
    """A certificate of `double`: one case pairs its terms, the other needs an obligation."""
    (rule,) = read_rules(RULES["double"])
    whole = {"times": "2", "of": [[{"x": 0}, 1]]}
    element = {"x": 0, "at": ["i0"]}
    return {
        "rule": RULES["double"],
        "digest": rule.digest,
        "ranks": {"plain": [0, 1], "spatial": [1], "longest_sequence": 2},
        "guards": [],
        "excluded": ["(set-logic QF_NIA)\n(assert (>= (- 1) 0))\n(check-sat)"],
        "unclaimed": 0,
        "cases": [
            {
                "operands": {"x": "float32[]"},
                "inputs": ["float32[]"],
                "parameters": {},
                "equations": {},
                "nonnegative": [],
                "nonzero": [],
                "results": [
                    {
                        "result": 0,
                        "axes": [],
                        "extents": [],
                        "quotients": [],
                        "source": [whole],
                        "target": [whole],
                        "pairs": [[0, 0]],
                        "obligations": [],
                    }
                ],
            },
            {
                "operands": {"x": "float32[n0]"},
                "inputs": ["float32[n0]"],
                "parameters": {},
                "equations": {},
                "nonnegative": [],
                "nonzero": [],
                "results": [
                    {
                        "result": 0,
                        "axes": ["i0"],
                        "extents": ["n0"],
                        "quotients": [],
                        "source": [{"times": "2", "of": [[element, 1]]}],
                        "target": [
                            {"times": "2", "where": ["i0 == 0"], "of": [[element, 1]]},
                            {"times": "2", "where": ["-1+i0 >= 0"], "of": [[element, 1]]},
                        ],
                        "pairs": [],
                        "obligations": [OBLIGATION],
                    }
                ],
            },
        ],
    }
