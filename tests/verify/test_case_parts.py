"""What a case of a certificate says, and which instances it speaks of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphopt.graph import Param
from tensorgen.types import TensorType, boolean, float32
from tests.verify.certificates import proved, rule_named
from verify.case_parts import assumed, equations, names_in, numbers_in, parameter_at, type_at
from verify.integer_points import Fault, polynomial
from verify.sampled_instances import covered

CASE: dict[str, Any] = {
    "inputs": ["float32[n0,1+2*n1]"],
    "operands": {"x": "float32[n0,1+2*n1]", "c": "bool[]"},
    "parameters": {"p": "(1, k0)", "q.mode": "'constant'"},
    "equations": {"n3": "-1+n0"},
    "nonnegative": ["-2+n0"],
    "nonzero": ["n1"],
}


def test_what_is_assumed() -> None:
    assert assumed(CASE) == [
        (polynomial("n0-2"), ">="),
        (polynomial("n1"), "!="),
        (polynomial("n0-1-n3"), "=="),
    ]
    assert names_in(CASE) == ["k0", "n0", "n1", "n3"]


def test_types_at_a_point() -> None:
    assert type_at("float32[n0,1+2*n1]", {"n0": 2, "n1": 3}) == TensorType(float32, (2, 7))
    assert type_at("bool[]", {}) == TensorType(boolean, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("1+2*k0*k1", 13),
        ("(k0,)", (2,)),
        ("()", ()),
        ("((k0, k1), -1)", ((2, 3), -1)),
        ("True", True),
        ("'edge'", "edge"),
        ("0.5", 0.5),
        ("-0.5", -0.5),
        ("1e999", float("inf")),
    ],
)
def test_parameters_at_a_point(text: str, value: Param) -> None:
    found = parameter_at(text, {"k0": 2, "k1": 3})
    assert found == value
    assert type(found) is type(value)
    assert equations(text, value) is not None
    assert equations(text, (0, 0, 0)) is None


def test_equations_of_parameters() -> None:
    assert equations("(1, k0, 2*k1)", (1, 3, 4)) == [
        (polynomial("k0"), 3),
        (polynomial("2*k1"), 4),
    ]
    assert equations("(1, k0)", (2, 3)) is None
    assert equations("(1, k0)", (1,)) is None
    assert equations("True", 1) is None
    assert equations("k0", True) is None
    assert equations("'float32'", "float64") == []
    assert equations("'int64'", "int8") == []
    assert equations("'float32'", "int8") is None
    assert equations("'edge'", "reflect") is None
    assert numbers_in("(1, k0, 2)") == 3
    assert numbers_in("k0") == 1


@pytest.mark.parametrize(
    "text", ["", "(", "k0 k1", "__import__('os')", "k0.real", "[1]", "None", "b'x'", "lambda: 1"]
)
def test_text_that_is_no_parameter_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        parameter_at(text, {"k0": 2})


@pytest.mark.parametrize("text", ["", "float33[]", "float32[n 0]", "[n0]"])
def test_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        type_at(text, {"n0": 2})


def test_instances_that_a_certificate_does_not_speak_of_need_no_case() -> None:
    rule, certificate = rule_named("functions"), json.loads(proved("functions"))
    assert covered(rule, certificate, 20) == 20
    certificate["cases"] = [
        case for case in certificate["cases"] if case["operands"]["x"].count(",") == 0
    ]
    with pytest.raises(Fault, match="expected a case for"):
        covered(rule, certificate, 20)
    certificate["ranks"]["plain"] = [1]
    assert covered(rule, certificate, 20) > 0
