"""Certificates as JSON: every kind of part, and the same text each time."""

from __future__ import annotations

import json
from fractions import Fraction

from graphopt.graph import Input
from graphopt.matching import Bindings
from tensorgen.sizes import Size, judged_by, sizes
from tensorgen.types import TensorType, boolean, float32
from tests.verify.certificates import RANKS, RULES, proved, rule_named
from verify.assumptions import Assumptions
from verify.certificate import Case, Certificate, Comparison, parameter_text
from verify.certificate_json import certificate_json, certificate_text
from verify.exploration import Path
from verify.normal_form import (
    NUMBER,
    Call,
    Element,
    Folded,
    Guard,
    Member,
    Product,
    Relation,
    Sum,
    atom,
)
from verify.prover import prove

N0, I0, K = (Size.variable(name) for name in ("n0", "i0", "_0_0_"))


def form_json(value: Sum) -> object:
    comparison = Comparison(0, (I0,), (N0,), (), value, (), (), ())
    case = Case((), (), (), Assumptions(), (comparison,))
    certificate = Certificate("a: b", "0", RANKS, (), (case,), (), 0)
    return certificate_json(certificate)["cases"][0]["results"][0]["source"]


def test_the_parts_of_a_form() -> None:
    element = Element(0, (I0, K))
    guard = Guard(N0 - 1 - K, Relation.NONNEGATIVE)
    member = Member(("_1_0_",), frozenset({Guard(I0, Relation.NONZERO)}), atom(element))
    assert form_json((
        Product(Fraction(-1, 2), ("_0_0_",), frozenset({guard}), ((element, 2),)),
        Product(Fraction(1), (), frozenset(), ((Element(NUMBER, (N0,)), -1), (Call("inf", ()), 1))),
        Product(Fraction(3), (), frozenset(), ((Call("exp", (atom(element),)), 1),)),
        Product(Fraction(1), (), frozenset(), ((Folded("max", (member,)), 1),)),
        Product(Fraction(1), (), frozenset(), ()),
    )) == [
        {"times": "-1/2", "over": ["_0_0_"], "where": ["-1-_0_0_+n0 >= 0"],
         "of": [[{"x": 0, "at": ["i0", "_0_0_"]}, 2]]},
        {"of": [[{"number": "n0"}, -1], [{"call": "inf"}, 1]]},
        {"times": "3",
         "of": [[{"call": "exp", "of": [[{"of": [[{"x": 0, "at": ["i0", "_0_0_"]}, 1]]}]]}, 1]]},
        {"of": [[{"max": [{"over": ["_1_0_"], "where": ["i0 != 0"],
                           "value": [{"of": [[{"x": 0, "at": ["i0", "_0_0_"]}, 1]]}]}]}, 1]]},
        {},
    ]  # fmt: skip


def test_the_parts_of_a_case() -> None:
    with judged_by(Path(())):
        x = Input(1, TensorType(float32, sizes([N0, N0 * 2 + 1])))
    c = Input(0, TensorType(boolean, ()))
    bindings = Bindings(
        {"c": c}, {"xs": (x,), "ys": ()}, {"p": (1, 0), "to": "float64"},
        {"q": (("pads", sizes([Size.variable("p0")])), ("groups", 1))},
    )  # fmt: skip
    case = Case.of(bindings, Assumptions({"n3": N0}, (N0 - 1, N0 - 1), (N0 - 2,)), ())
    certificate = Certificate("a: b", "0", RANKS, ("ones(s)",), (case,), ("(…)",), 3)
    assert certificate_json(certificate) == {
        "rule": "a: b",
        "digest": "0",
        "ranks": {"plain": [1, 2], "spatial": [1], "longest_sequence": 2},
        "guards": ["ones(s)"],
        "excluded": ["(…)"],
        "unclaimed": 3,
        "cases": [
            {
                "operands": {"c": "bool[]", "xs[0]": "float32[n0,1+2*n0]"},
                "inputs": ["bool[]", "float32[n0,1+2*n0]"],
                "parameters": {
                    "p": "(1, 0)", "q.groups": "1", "q.pads": "(p0,)", "to": "'float64'",
                },
                "equations": {"n3": "n0"},
                "nonnegative": ["-1+n0"],
                "nonzero": ["-2+n0"],
                "results": [],
            }
        ],
    }  # fmt: skip


def test_parameters_read_as_python_writes_them() -> None:
    assert parameter_text(()) == "()"
    assert parameter_text((1,)) == "(1,)"
    assert parameter_text((True, "edge", 0.5, (2, -1))) == "(True, 'edge', 0.5, (2, -1))"


def test_the_text_is_one_line_in_a_fixed_order() -> None:
    for name in RULES:
        text = proved(name)
        assert text.isascii()
        assert "\n" not in text
        assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
        again = prove(rule_named(name), RANKS)
        assert isinstance(again, Certificate)
        assert certificate_text(again) == text
