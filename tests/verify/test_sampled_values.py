"""Values at a point: of forms, and of graphs by their operators, over the same numbers."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Constant, Input, Value
from graphopt.ops import OP
from tensorgen.types import TensorType, boolean, float32, int64
from verify.integer_points import Fault
from verify.sampled_values import BROKEN, NoValue, Number, Values

TYPES = (TensorType(float32, (3, 4)), TensorType(int64, (2,)), TensorType(boolean, (2,)))
X, Y, C = (Input(n, type) for n, type in enumerate(TYPES))


@pytest.fixture
def values() -> Values:
    return Values(random.Random(0), TYPES)


def element(*at: str, operand: int = 0) -> dict[str, Any]:
    return {"x": operand, "at": list(at)}


def test_inputs_keep_their_values_until_they_are_forgotten(values: Values) -> None:
    first = [values.input(0, (i, j)) for i in range(3) for j in range(4)]
    assert first == [values.input(0, (i, j)) for i in range(3) for j in range(4)]
    assert 0 not in first
    assert {values.input(2, (n,)) for n in range(2)} <= {0, 1}
    values.forget()
    assert first != [values.input(0, (i, j)) for i in range(3) for j in range(4)]


def test_a_sum_over_bound_variables(values: Values) -> None:
    term = {"times": "-1/2", "over": ["k"], "where": ["n-1-k >= 0", "k-i != 0"],
            "of": [[element("i", "k"), 2], [{"number": "k+1"}, 1]]}  # fmt: skip
    wanted = sum(Fraction(-1, 2) * values.input(0, (1, k)) ** 2 * (k + 1) for k in (0, 2, 3))
    assert values.form([term], {"i": 1, "n": 4}) == wanted
    assert values.form([{}, term], {"i": 1, "n": 4}) == wanted + 1
    assert values.form([], {}) == 0


def test_extremes_and_products_over_members(values: Values) -> None:
    row = [values.input(0, (2, j)) for j in range(4)]
    members = [{"over": ["k"], "where": ["3-k >= 0"], "value": [{"of": [[element("2", "k"), 1]]}]}]
    assert values.factor({"max": members}, {}) == max(row)
    assert values.factor({"min": members}, {}) == min(row)
    assert values.factor({"mul": members}, {}) == math.prod(row)
    assert values.factor({"max": []}, {}) == -math.inf


def test_functions_are_what_the_algebra_knows_of_them(values: Values) -> None:
    half = Fraction(5, 2)
    assert values.call("exp", [half]) == values.call("exp", [half])
    assert values.call("cos", [half]) == values.call("cos", [-half])
    assert values.call("floor", [half]) == 2
    assert values.call("round", [half]) == 2
    assert values.call("abs", [-half]) == half
    assert values.call("pow", [half, Fraction(3)]) == half**3
    assert values.call("pow", [half, -1]) == 1 / half
    assert values.call("pow", [half, Fraction(1, 2)]) == values.call("sqrt", [half])
    root = values.call("sqrt", [half])
    fourth = values.call("sqrt", [root])
    assert values.call("pow", [half, Fraction(3, 4)]) == root * fourth
    assert values.call("pow", [half, Fraction(7, 4)]) == half * root * fourth
    assert values.call("pow", [half, Fraction(-3, 2)]) == 1 / (half * root)
    assert values.call("inverse", [half]) == Fraction(2, 5)
    assert values.call("bitnot", [values.call("bitnot", [5])]) == 5
    assert values.call("lt", [1, half]) == 1
    assert values.call("-inf", []) == -math.inf


@pytest.mark.parametrize(
    ("name", "args"),
    [("inverse", [0]), ("pow", [0, -1]), ("mod", [1, 0]), ("exp", [math.inf])],
)
def test_some_have_no_value(values: Values, name: str, args: list[Number]) -> None:
    with pytest.raises(NoValue):
        values.call(name, args)


def test_infinities_that_cancel_have_no_value(values: Values) -> None:
    infinite = [{"of": [[{"call": "inf"}, 1]]}, {"of": [[{"call": "-inf"}, 1]]}]
    assert values.form(infinite[:1], {}) == math.inf
    with pytest.raises(NoValue):
        values.form(infinite, {})


@pytest.mark.parametrize(
    "form",
    [
        [{"over": ["k"], "of": []}],
        [{"over": ["k"], "where": ["k-n >= 0"]}],
        [{"over": ["n"], "where": ["3-n >= 0"]}],
        [{"where": ["m >= 0"]}],
        [{"of": [[element("0", "4"), 1]]}],
        [{"of": [[element("0"), 1]]}],
        [{"of": [[element("0", operand=7), 1]]}],
        [{"of": [[element("0", operand=-1), 1]]}],
        [{"of": [[{"y": 0}, 1]]}],
        [{"of": [[element("0", "0"), 0.5]]}],
        [{"of": [[element("0", "0"), 10**9]]}],
        [{"times": "1e9"}],
        [{"factor": 2}],
    ],
)
def test_what_is_no_form_is_refused(values: Values, form: Any) -> None:
    with pytest.raises(Fault):
        values.form(form, {"n": 3})


def exact(value: Value, values: Values) -> list[Number]:
    return [values.element(value, index) for index in np.ndindex(value.type.shape)]


def test_a_graph_has_the_values_of_its_operators() -> None:
    """Against the numpy references, on numbers that float64 holds exactly."""
    values = Values(random.Random(1), TYPES, BROKEN)
    half = Constant(np.array(0.5, np.float32))
    total = OP["reduce_sum"](OP["transpose"](X, perm=(1, 0)), axes=(0,), keepdims=False)
    graphs = [
        OP["matmul"](X, OP["transpose"](X, perm=(1, 0))),
        OP["max"](OP["mul"](total, half), OP["neg"](total)),
        OP["floor"](OP["slice"](X, starts=(1, 0), sizes=(2, 2), steps=(1, 3))),
        OP["pad"](X, half, before=(1, 0), after=(0, 2), mode="constant"),
        OP["where"](OP["lt"](X, half), X, half),
        OP["concat"](X, X, axis=1),
        OP["reduce_max"](X, axes=(1,), keepdims=True),
    ]
    array = np.array([values.input(0, i) for i in np.ndindex(3, 4)], np.float64).reshape(3, 4)

    def reference(value: Value) -> Any:
        if isinstance(value, Input):
            return array
        if isinstance(value, Constant):
            return value.array.astype(np.float64)
        return value.op.reference(*map(reference, value.inputs), **value.keywords)

    for graph in graphs:
        found = [float(number) for number in exact(graph, values)]
        assert found == reference(graph).reshape(-1).tolist(), graph


def test_functions_of_a_graph_are_those_of_forms(values: Values) -> None:
    graph = OP["exp"](OP["div"](X, Constant(np.array(4.0, np.float32))))
    form = [
        {"of": [[{"call": "exp", "of": [[{"times": "1/4", "of": [[element("1", "2"), 1]]}]]}, 1]]}
    ]
    assert values.element(graph, (1, 2)) == values.form(form, {})


def test_conversions_and_conditions(values: Values) -> None:
    cast = OP["cast"](Y, to="float32")
    form = [{"of": [[{"call": "to_float32", "of": [[{"of": [[element("1", operand=1), 1]]}]]}, 1]]}]
    assert values.element(cast, (1,)) == values.form(form, {})
    wide = OP["cast"](X, to="float64")
    assert values.element(wide, (0, 0)) == values.input(0, (0, 0))
    negated = OP["not"](C)
    truth = [{"of": [[{"call": "bool", "of": [[{"of": [[element("0", operand=2), 1]]}]]}, 1]]}]
    assert values.element(negated, (0,)) == 1 - values.form(truth, {})
