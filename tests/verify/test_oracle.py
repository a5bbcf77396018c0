"""The numeric oracle on rules known to be true or false, and its exact arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike

from graphopt.data_files import data_path
from graphopt.evaluation import by_meaning, by_reference
from graphopt.graph import Constant, Node, Param, Value
from graphopt.instances import FLOATS, OTHERS, find_instance
from graphopt.ops import OP, OPS
from graphopt.ops.spec import OpSpec
from graphopt.pattern import Literal
from graphopt.rule import Rule
from graphopt.rules import load_rules, read_rules
from graphopt.taso_rules import Groups, Translated, load_taso_rules
from tensorgen.types import Array, TensorType
from tests.taso_file import FALSE_FOR_GROUPED, FALSE_FOR_ORDINARY, taso_file
from verify.assignment import Assignment, assignment_of, instance_of
from verify.difference import compare
from verify.exact import Elements, Inexact, Undefined
from verify.oracle import Agreed, Refuted, Untested, judge


def rule_of(text: str) -> Rule:
    [rule] = read_rules(f"rule: {text}")
    return rule


def holding(values: object, dtype: DTypeLike = np.float64) -> Constant:
    return Constant(np.asarray(values, dtype=dtype))


# Judgements


@pytest.mark.parametrize(
    "text",
    [
        "mul(add(x, y), z) => add(mul(x, z), mul(y, z))",
        "floor(neg(x)) => neg(ceil(x))",
        "div(div(x, y), z) => div(x, mul(y, z)) where floating(x)",
        "exp(add(x, y)) => mul(exp(x), exp(y))",
        "max(max_pool(x, **p), max_pool(y, **p)) => max_pool(max(x, y), **p)",
        "reduce_prod(mul(x, y), **p) => mul(reduce_prod(x, **p), reduce_prod(y, **p)) "
        "where same_shape(x, y)",
        "add(conv(x, v, groups=1, **p), conv(y, w, groups=1, **p)) => "
        "conv(concat(x, y, axis=1), concat(v, w, axis=1), groups=1, **p)",
        "matmul(x, concat(y, z, axis=1)) => concat(matmul(x, y), matmul(x, z), axis=1)",
        "concat(conv(x, v, groups=1, **p), conv(x, w, groups=1, **p), axis=1) => "
        "conv(x, concat(v, w, axis=0), groups=1, **p)",
        "matmul(matmul(x, y), z) => matmul(x, matmul(y, z))",
        "concat(sum_pool(x, **p), sum_pool(y, **p), axis=1) => sum_pool(concat(x, y, axis=1), **p)",
        "matmul(transpose(x, perm=(1, 0)), transpose(y, perm=(1, 0))) => "
        "transpose(matmul(y, x), perm=(1, 0))",
        "where(lt(x, y), x, y) => where(lt(x, y), min(x, y), y)",
        "max(max(x, 0), 0) => max(x, 0)",
        "gather(x, c, axis=a) => gather(add(x, 0), c, axis=a)",
        "bitcast(bitcast(x, to='int32'), to='float32') => x",
    ],
)
def test_true_rules_agree(text: str) -> None:
    outcome = judge(rule_of(text), 25)
    assert isinstance(outcome, Agreed), outcome
    assert outcome.instances == 25


@pytest.mark.parametrize(
    "text",
    [
        "sub(x, y) => sub(y, x)",
        "floor(x) => round(x)",
        "trunc(x) => floor(x)",
        "ceil(x) => round(x)",
        "exp(x) => tanh(x)",
        "sin(x) => cos(x)",
        "div(x, y) => mul(x, div(1, y))",  # true of the reals, not of integers
        "abs(neg(x)) => abs(x)",  # false of unsigned integers
        "max(x, y) => max(x, 0) where same_shape(x, y)",
        "reduce_max(x, **p) => reduce_sum(x, **p)",
        # -1 of int8 by way of floats saturates to 0, at once it wraps to 255
        "cast(cast(x, to='float32'), to='uint8') => cast(x, to='uint8') "
        "where lossless(x, 'float32')",
        "max_pool(x, **p) => sum_pool(x, **p)",
        "matmul(x, transpose(x, perm=(1, 0))) => matmul(transpose(x, perm=(1, 0)), x)",
        "transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(q, p))",
        "matmul(x, y) => matmul(y, x)",
        "conv(mul(x, c), w, **q) => mul(conv(x, w, **q), c)",
        # true of one group
        "add(conv(x, v, **p), conv(y, w, **p)) => "
        "conv(concat(x, y, axis=1), concat(v, w, axis=1), **p)",
        "max(add(x, y), z) => add(max(x, z), y)",
        "slice(x, **p) => x",
        "cast(cast(x, to=t), to=u) => cast(x, to=u)",
        "reduce_sum(max(x, y), **p) => max(reduce_sum(x, **p), reduce_sum(y, **p))",
        "bitcast(bitcast(x, to='int32'), to='float32') => neg(x)",
    ],
)
def test_false_rules_are_refuted(text: str) -> None:
    assert isinstance(judge(rule_of(text), 200), Refuted)


def test_element_types_may_be_chosen() -> None:
    """x * (1 / y) is x / y of floats only."""
    rule = rule_of("div(x, y) => mul(x, div(1, y))")
    assert isinstance(judge(rule, dtypes=FLOATS), Agreed)
    assert isinstance(judge(rule, dtypes=OTHERS), Refuted)


def test_quotients_by_zero_are_no_difference() -> None:
    """x / (y - y) has no value; whatever numpy makes of it on either side says nothing."""
    rule = rule_of("div(x, sub(y, y)) => mul(x, div(1, sub(y, y))) where floating(x)")
    outcome = judge(rule, 20)
    assert isinstance(outcome, Untested)
    assert outcome.reason == "no element of 80 instances has a value on both sides"


def test_rules_without_instances_are_untested() -> None:
    impossible = replace(rule_of("add(x, 0) => x"), target=rule_of("not_(eq(x, y)) => x").target)
    where = rule_of("transpose(x, perm=p) => x where ones(p)").where
    outcome = judge(replace(impossible, where=(replace(where[0], args=(Literal((2,)),)),)))
    assert outcome == Untested("no operands of fitting types in 400 draws")


def test_the_same_seed_gives_the_same_judgement() -> None:
    rule = rule_of("matmul(x, y) => matmul(y, x)")
    first, second, other = (judge(rule, seed=seed) for seed in (3, 3, 4))
    assert isinstance(first, Refuted)
    assert isinstance(second, Refuted)
    assert isinstance(other, Refuted)
    assert first.counterexample.as_json() == second.counterexample.as_json()
    assert first.counterexample.as_json() != other.counterexample.as_json()


SHIPPED = [
    rule
    for file in ("default.rules", "lowering.rules")
    for rule in load_rules(data_path("rules", file))
]


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda rule: rule.name)
def test_shipped_rules_agree(rule: Rule) -> None:
    outcome = judge(rule, 12, seed=1)
    assert isinstance(outcome, Agreed), outcome
    assert outcome.instances >= 4  # atanh has a value at few of what is drawn


@pytest.mark.slow
@pytest.mark.parametrize("rule", SHIPPED, ids=lambda rule: rule.name)
def test_shipped_rules_agree_by_the_meaning_of_operators(rule: Rule) -> None:
    for count, seed, value_of in ((60, 2, by_meaning), (300, 3, by_reference)):
        outcome = judge(rule, count, seed, value_of=value_of)
        assert isinstance(outcome, Agreed), outcome
        assert outcome.instances >= count // 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "expected"), [(Groups.FREE, FALSE_FOR_GROUPED), (Groups.ONE, FALSE_FOR_ORDINARY)]
)
def test_substitutions_of_taso_that_are_false(groups: Groups, expected: tuple[int, ...]) -> None:
    """Every false one is found, and a sample of the others agrees."""
    rules = {
        entry.index: entry.rule
        for entry in load_taso_rules(taso_file(), groups)
        if isinstance(entry, Translated)
    }
    for index in expected:
        assert isinstance(judge(rules[index]), Refuted), index
    for index in sorted(set(rules) - set(expected))[::9]:
        assert isinstance(judge(rules[index], 10), Agreed), index


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "expected"), [(Groups.FREE, FALSE_FOR_GROUPED), (Groups.ONE, FALSE_FOR_ORDINARY)]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_exactly_these_are_false(groups: Groups, expected: tuple[int, ...], seed: int) -> None:
    outcomes = {
        entry.index: judge(entry.rule, seed=seed)
        for entry in load_taso_rules(taso_file(), groups)
        if isinstance(entry, Translated)
    }
    assert not [n for n, outcome in outcomes.items() if isinstance(outcome, Untested)]
    refuted = tuple(n for n, outcome in outcomes.items() if isinstance(outcome, Refuted))
    assert refuted == expected
    agreed = [outcome for outcome in outcomes.values() if isinstance(outcome, Agreed)]
    assert all(outcome.instances == 60 for outcome in agreed)


# Exact elements


@pytest.mark.parametrize("op", [op for op in OPS if op.family != "bitcast"], ids=repr)
def test_exact_elements_are_those_of_the_meaning(op: OpSpec) -> None:
    """Wherever an element is a rational, the interpreter's rounds to it."""
    rng = np.random.default_rng(1)
    for sample in op.samples[:3]:
        arrays = [_random_array(rng, type) for type in sample.types]
        node = op(*map(Constant, arrays), **sample.keywords)
        found = by_meaning(node, arrays)
        elements = Elements()
        for index in list(np.ndindex(found.shape))[:12]:
            try:
                exact = elements.element(node, index)
            except (Inexact, Undefined):
                continue
            assert float(exact) == pytest.approx(float(found[index]), rel=1e-3, abs=1e-3)


def _random_array(rng: np.random.Generator, type: TensorType) -> Array:
    if type.dtype.name == "bool":
        return np.asarray(rng.integers(0, 2, size=type.shape), np.bool_)
    low = -3 if type.dtype.kind.value in ("float", "signed") else 0
    return np.asarray(rng.integers(low, 4, size=type.shape)).astype(type.dtype.numpy)


def applied(name: str, *operands: Value, **params: Param) -> Node:
    return OP[name](*operands, **params)


def test_rationals_do_not_round() -> None:
    third = applied("div", holding([1.0]), holding([3.0]))
    whole = applied("mul", third, holding([3.0]))
    assert Elements().element(third, (0,)) == Fraction(1, 3)
    assert Elements().element(whole, (0,)) == 1


def test_floats_do_not_overflow_or_cancel() -> None:
    big = holding([2.0**1000])
    huge = applied("mul", big, big)
    assert Elements().element(applied("div", huge, big), (0,)) == 2**1000
    small = applied("sub", applied("add", big, holding([1.0])), big)
    assert Elements().element(small, (0,)) == 1


def test_bits_are_those_of_the_type() -> None:
    bits = applied("bitcast", holding([1.5], np.float32), to="int32")
    assert Elements().element(bits, (0,)) == 0x3FC00000
    assert Elements().element(applied("bitcast", bits, to="float32"), (0,)) == Fraction(3, 2)


def test_integers_wrap() -> None:
    node = applied("add", holding([127], np.int8), holding([1], np.int8))
    assert Elements().element(node, (0,)) == -128
    product = applied("mul", holding([16], np.uint8), holding([17], np.uint8))
    assert Elements().element(product, (0,)) == 16


@pytest.mark.parametrize(
    "value",
    [
        applied("div", holding([1.0]), holding([0.0])),
        applied("div", holding([1], np.int64), holding([0], np.int64)),
        applied("mod", holding([1.0]), holding([0.0])),
        applied("sub", holding([np.inf]), holding([np.inf])),
        applied("mul", holding([np.inf]), holding([0.0])),
        applied("pow", holding([0.0]), holding([-1.0])),
        holding([np.nan]),
    ],
)
def test_what_has_no_value_is_undefined(value: Value) -> None:
    with pytest.raises(Undefined):
        Elements().element(value, (0,))


@pytest.mark.parametrize(
    "value",
    [
        applied("exp", holding([1.0])),
        applied("pow", holding([2.0]), holding([0.5])),
        applied("sqrt", holding([2.0])),
        applied("bitcast", applied("div", holding([1.0]), holding([3.0])), to="int64"),
        applied("bitcast", applied("mul", holding([1e300]), holding([1e300])), to="int64"),
    ],
)
def test_what_is_no_rational_is_inexact(value: Value) -> None:
    with pytest.raises(Inexact):
        Elements().element(value, (0,))


def test_infinities_of_padding_have_values() -> None:
    fill = Constant(np.asarray(-np.inf))
    padded = applied("pad", holding([1.0]), fill, before=(1,), after=(0,), mode="constant")
    assert Elements().element(padded, (0,)) == -np.inf
    assert Elements().element(applied("max", padded, holding([0.0])), (0,)) == 0


# Differences


def test_a_difference_lost_to_rounding_is_found_exactly() -> None:
    """In float64, (2**60 + 1) - 2**60 is 0, over the reals 1."""
    rule = rule_of("sub(add(x, y), x) => mul(y, 2) where floating(x), same_shape(x, y)")
    outcome = judge(rule)
    assert isinstance(outcome, Refuted)
    assignment = outcome.counterexample.assignment
    for place, array in assignment.tensors:
        value = 2.0**60 if place[0] == "x" else 1.0
        assignment = assignment.with_tensor(place, np.full(array.shape, value))
    instance = instance_of(rule, assignment)
    assert instance is not None
    comparison = compare(instance)
    assert not comparison.exact
    assert comparison.difference is not None
    assert comparison.difference.source == 1
    assert comparison.difference.target == 2


def test_a_difference_made_by_rounding_is_none() -> None:
    rule = rule_of("sub(add(x, y), x) => y where floating(x), same_shape(x, y)")
    instance = instance_of(
        rule, _filled(rule, {"x": np.full((2,), 2.0**60), "y": np.full((2,), 1.0)})
    )
    assert instance is not None
    comparison = compare(instance)
    assert not comparison.exact
    assert comparison.difference is None


def _filled(rule: Rule, arrays: Mapping[str, Array]) -> Assignment:
    drawn = find_instance(rule)
    assert drawn is not None
    assignment = assignment_of(rule, drawn)
    for name, array in arrays.items():
        assignment = assignment.with_tensor((name, 0), array)
    return assignment


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_small_numbers_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule = rule_of("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))")
    assignment = _filled(
        rule, {name: rng.integers(-4, 5, size=(3, 3)).astype(np.float64) for name in "xyz"}
    )
    instance = instance_of(rule, assignment)
    assert instance is not None
    comparison = compare(instance)
    assert comparison.exact
    assert comparison.difference is None
    assert comparison.elements == 9
