"""Certificates as JSON: one object a proof, the same text for the same proof.

    {"rule": "name: source => target", "digest": "…", "guards": […], "unclaimed": 0,
     "ranks": {"plain": [1, 2], "spatial": [1], "longest_sequence": 2}, "cases": [CASE], "excluded":
     ["(set-logic …"]}
    CASE    {"operands": {"x": "float32[n0,n1]"}, "inputs": ["float32[n0,n1]"], "parameters":
             {"p": "(1, 0)"}, "equations": {"n3": "n0"}, "nonnegative": ["-1+n0"], "nonzero": […],
             "results": [RESULT]}
    RESULT  {"result": 0, "axes": ["1+2*i0"], "extents": ["n0"], "quotients": [["f0", "i0", "n1"]],
             "source": FORM, "target": FORM, "pairs": [[0, 0]], "obligations": ["(set-logic …"]}
             where f0 is i0 / n1, rounded down
    FORM    a list of terms {"times": "1/2", "over": ["_0_0_"], "where": ["-1-_0_0_+n0 >= 0"],
            "of": [[ATOM, 1]]}: the sum of their values
    ATOM    {"x": 0, "at": ["i0", "i1"]}, an element of an input; {"number": "n0"}; {"call": "exp",
            "of": [FORM]}; {"max": [{"over": […], "where": […], "value": FORM}]}; so {"min": …} and
            {"mul": …}, a product over members

In a FORM a factor 1, and what would be empty, is left out. What it does not: read certificates
(`checker` does, for itself) or say what obligations ask (see `obligation`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, assert_never

from tensorgen.sizes import Size
from verify.certificate import Case, Certificate, Comparison
from verify.normal_form import NUMBER, Atom, Call, Element, Folded, Guards, Member, Sum


def certificate_text(certificate: Certificate) -> str:
    """The certificate as one line of JSON in ASCII."""
    return json.dumps(certificate_json(certificate), sort_keys=True, separators=(",", ":"))


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """The certificate as what `json.dumps` takes."""
    ranks = certificate.ranks
    return {
        "rule": certificate.rule,
        "digest": certificate.digest,
        "ranks": {
            "plain": list(ranks.plain),
            "spatial": list(ranks.spatial),
            "longest_sequence": ranks.longest_sequence,
        },
        "guards": list(certificate.guards),
        "cases": [_case(case) for case in certificate.cases],
        "excluded": list(certificate.excluded),
        "unclaimed": certificate.unclaimed,
    }


def _case(case: Case) -> dict[str, Any]:
    assumed = case.assumptions
    return {
        "operands": dict(case.operands),
        "inputs": list(case.inputs),
        "parameters": dict(case.parameters),
        "equations": {name: str(value) for name, value in sorted(assumed.solved.items())},
        "nonnegative": sorted({str(size) for size in assumed.nonnegative}),
        "nonzero": sorted({str(size) for size in assumed.nonzero}),
        "results": [_comparison(comparison) for comparison in case.comparisons],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "result": comparison.result,
        "axes": _texts(comparison.axes),
        "extents": _texts(comparison.extents),
        "quotients": [
            [quotient.name, str(quotient.dividend), str(quotient.divisor)]
            for quotient in comparison.quotients
        ],
        "source": _form(comparison.source),
        "target": _form(comparison.target),
        "pairs": [list(pair) for pair in comparison.pairs],
        "obligations": list(comparison.obligations),
    }


def _form(value: Sum) -> list[dict[str, Any]]:
    return [
        _told(
            times="" if term.coefficient == 1 else str(term.coefficient),
            over=list(term.bound),
            where=_conditions(term.guards),
            of=[[_atom(factor), exponent] for factor, exponent in term.factors],
        )
        for term in value
    ]


def _atom(value: Atom) -> dict[str, Any]:
    match value:
        case Element(operand=operand, indices=indices) if operand == NUMBER:
            return {"number": str(indices[0])}
        case Element():
            return {"x": value.operand, **_told(at=_texts(value.indices))}
        case Call():
            return {"call": value.function, **_told(of=[_form(arg) for arg in value.args])}
        case Folded():
            return {value.function: [_member(member) for member in value.members]}
        case _:
            assert_never(value)


def _member(member: Member) -> dict[str, Any]:
    return {
        **_told(over=list(member.bound), where=_conditions(member.guards)),
        "value": _form(member.value),
    }


def _conditions(guards: Guards) -> list[str]:
    return sorted(guard.text for guard in guards)


def _texts(sizes: Iterable[Size]) -> list[str]:
    return [str(size) for size in sizes]


def _told(**parts: Any) -> dict[str, Any]:
    """What is not empty."""
    return {key: part for key, part in parts.items() if part}
