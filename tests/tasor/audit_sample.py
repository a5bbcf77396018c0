"""A made audit in the form of `verify.audit.audit_json`: one rule of each kind, hostile texts."""

from __future__ import annotations

import copy
from typing import Any

HOSTILE = "<script>alert('x')</script>&\"'`|\x1b[31m"
"""A text that no page, table or terminal may take for its own."""

QUESTION = (
    "(set-logic QF_NIA)\n(declare-const n0 Int)\n(assert (>= n0 1))\n(assert (< n0 0))\n(check-sat)"
)

JOIN: dict[str, Any] = {
    "index": 0,
    "name": "matmul-join",
    "text": "matmul-join: matmul(x, concat(y, z, axis=1)) => concat(matmul(x, y), matmul(x, z), "
    "axis=1) where rank(2, x)",
    "source": "matmul(x, concat(y, z, axis=1))",
    "target": "concat(matmul(x, y), matmul(x, z), axis=1)",
    "graphs": {
        "source": {
            "nodes": [
                {"id": 0, "label": "x", "kind": "input"},
                {"id": 1, "label": "y", "kind": "input"},
                {"id": 2, "label": "z", "kind": "input"},
                {"id": 3, "label": "concat\naxis=1", "kind": "operator"},
                {"id": 4, "label": "matmul", "kind": "operator"},
                {"id": 5, "label": "result", "kind": "result"},
            ],
            "edges": [[1, 3, "0"], [2, 3, "1"], [0, 4, ""], [3, 4, ""], [4, 5, ""]],
        },
        "target": {
            "nodes": [
                {"id": 0, "label": "x", "kind": "input"},
                {"id": 1, "label": "y", "kind": "input"},
                {"id": 2, "label": "z", "kind": "input"},
                {"id": 3, "label": "matmul", "kind": "operator"},
                {"id": 4, "label": "matmul", "kind": "operator"},
                {"id": 5, "label": "concat\naxis=1", "kind": "operator"},
                {"id": 6, "label": "result", "kind": "result"},
            ],
            "edges": [
                [0, 3, ""], [1, 3, ""], [0, 4, ""], [2, 4, ""], [3, 5, ""], [4, 5, ""], [5, 6, ""],
            ],
        },
    },
    "verdict": "proved",
    "guards": ["rank(2, x)"],
    "inferred": [],
    "reason": "",
    "counterexample": None,
    "certificate": {
        "rule": "matmul-join: …",
        "digest": "00",
        "ranks": {"plain": [1, 2], "spatial": [1], "longest_sequence": 2},
        "guards": [],
        "cases": [
            {
                "operands": {
                    "x": "float32[n0, n1]", "y": "float32[n1, n2]", "z": "float32[n1, n3]",
                },
                "inputs": ["float32[n0, n1]", "float32[n1, n2]", "float32[n1, n3]"],
                "parameters": {"p": "(1, 0)"},
                "equations": {"n4": "n1"},
                "nonnegative": ["-1+n0"],
                "nonzero": ["n2"],
                "results": [
                    {
                        "axes": ["i0", "i1"],
                        "extents": ["n0", "n2+n3"],
                        "source": [
                            {
                                "over": ["_0_0_"],
                                "where": ["n1-1-_0_0_ >= 0", "n2-1-i1 >= 0"],
                                "of": [[{"x": 0, "at": ["i0", "_0_0_"]}, 1],
                                       [{"x": 1, "at": ["_0_0_", "i1"]}, 1]],
                            },
                            {"times": "-1/2", "of": [[{"call": "exp", "of": [[
                                {"of": [[{"x": 2, "at": ["0", "i1"]}, 2]]}]]}, -1]]},
                        ],
                        "target": [
                            {
                                "over": ["_0_0_"],
                                "where": ["n1-1-_0_0_ >= 0", "n2-1-i1 >= 0"],
                                "of": [[{"x": 0, "at": ["i0", "_0_0_"]}, 1],
                                       [{"x": 1, "at": ["_0_0_", "i1"]}, 1]],
                            },
                            {"of": [[{"max": [
                                {"over": ["m"], "where": ["n1-1-m >= 0"],
                                 "value": [{"of": [[{"number": "n0"}, 1]]}]}, {"value": []}]}, 1]]},
                        ],
                        "pairs": [[0, 0]],
                        "obligations": [QUESTION],
                    }
                ],
            }
        ],
        "excluded": ["(check-sat)"],
        "unclaimed": 2,
    },
    "axioms": {
        "axioms": ["concat-associates", "matmul-over-concat"],
        "proofs": [
            {
                "cases": 3,
                "steps": [
                    {
                        "axiom": "matmul-over-concat",
                        "bindings": {"x": "x", "a": "1"},
                        "left": "(matmul x (concat y z))",
                        "right": "(concat (matmul x y) (matmul x z))",
                    }
                ],
                "smtlib": "(assert (not (= source target)))",
            }
        ],
        "excluded": [],
    },
    "seconds": 0.0123,
    "solver_seconds": 0.004,
    "obligations": 1,
    "cases": 1,
}  # fmt: skip

GUARDED: dict[str, Any] = {
    **copy.deepcopy(JOIN),
    "index": 1,
    "name": "conv-split",
    "guards": ["rank(4, x)", "same_shape(x, y)"],
    "inferred": ["same_shape(x, y)"],
    "axioms": None,
}

WRONG: dict[str, Any] = {
    **copy.deepcopy(JOIN),
    "index": 2,
    "name": "sub-commutes",
    "text": f"sub-commutes: sub(x, y) => sub(y, x) {HOSTILE}",
    "source": f"sub(x, y) {HOSTILE}",
    "target": "sub(y, x)",
    "verdict": "refuted",
    "guards": [HOSTILE],
    "certificate": None,
    "axioms": None,
    "obligations": 0,
    "cases": 0,
    "counterexample": {
        "text": f"sub-commutes is false for\n  x = {HOSTILE}\n```\n````\n",
        "tensors": {
            "x": {"type": "float32", "shape": [2, 3], "elements": ["1", "0", "2", "0", "0", "1/2"]},
            "y": {"type": "float32", "shape": [], "elements": ["0"]},
        },
        "parameters": {"axis": 1, "pads": [0, [1, 2]]},
        "results": [
            {
                "source": {
                    "type": "float32", "shape": [2, 2, 3],
                    "elements": ["1", "1", "1", "1", "1", "1", "0", "0", "2", "0", "0", "1/2"],
                },
                "target": {
                    "type": "float32", "shape": [2, 2, 3],
                    "elements": ["1", "1", "1", "1", "1", "1", "0", "0", "-2", "0", "0", "-1/2"],
                },
            }
        ],
        "difference": {"result": 0, "index": [1, 0, 2], "source": "2", "target": "-2"},
    },
}  # fmt: skip

OPEN: dict[str, Any] = {
    **copy.deepcopy(JOIN),
    "index": 3,
    "name": "softmax-shift",
    "verdict": "unknown",
    "reason": f"the solver gave no answer within 2 s {HOSTILE}",
    "certificate": None,
    "axioms": None,
    "obligations": 0,
    "cases": 0,
}


def sample_audit(*rules: dict[str, Any]) -> dict[str, Any]:
    """The audit of the rules, one of each kind if none is given."""
    chosen = copy.deepcopy(list(rules or (JOIN, GUARDED, WRONG, OPEN)))
    verdicts = [rule["verdict"] for rule in chosen]
    return {
        "file": f"sample{HOSTILE}.rules",
        "digest": "1f" * 16,
        "versions": {"tasor": "0.1.0", "z3": "4.13.0"},
        "seconds": 0.5,
        "summary": {
            "rules": len(chosen),
            "proved": verdicts.count("proved"),
            "guarded": sum(bool(rule["inferred"]) for rule in chosen),
            "refuted": verdicts.count("refuted"),
            "unknown": verdicts.count("unknown"),
            "median_seconds": 0.0123,
            "solver_seconds": 0.016,
        },
        "trusted": ["the meanings of operators"],
        "not_claimed": ["floating-point rounding, overflow and NaN", "ranks above the bound"],
        "rules": chosen,
    }
