"""The rules of the search, held against exact evaluation on random instances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphopt.evaluation import NodeValue, by_meaning, by_reference
from graphopt.graph import Constant, Input
from graphopt.rule_functions import CONDITIONS, FUNCTIONS, Undefined
from graphopt.rules import read_rules
from tensorgen.types import TensorType, float32
from tests.graphs_for_search import search_rules
from verify.oracle import Agreed, Refuted, judge

RULES = {rule.name: rule for rule in search_rules()}


def _agreed(name: str, wanted: int, value_of: NodeValue = by_reference) -> int:
    """On how many random instances, at most about `wanted`, a rule agrees. None may differ."""
    tested = 0
    for seed in range(60):
        # Slices that adjoin are drawn seldom.
        outcome = judge(RULES[name], wanted - tested, seed=seed, value_of=value_of)
        assert not isinstance(outcome, Refuted), str(outcome)
        tested += outcome.instances if isinstance(outcome, Agreed) else 0
        if tested >= wanted:
            break
    return tested


@pytest.mark.parametrize("name", RULES)
def test_a_search_rule_agrees_on_random_instances(name: str) -> None:
    assert _agreed(name, 10) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_search_rule_agrees_by_the_meaning_of_operators(name: str) -> None:
    assert _agreed(name, 60, by_meaning) >= 5
    assert _agreed(name, 300) >= 5


@pytest.mark.parametrize(
    "text",
    [
        "wrong: matmul(matmul(x, y), z) => matmul(x, matmul(z, y))",
        "wrong: add(matmul(x, w), matmul(y, w)) => matmul(add(x, x), w)",
        "wrong: concat(max(x, 0), max(y, 0), axis=a) => max(concat(y, x, axis=a), 0)",
        "wrong: matmul(x, concat(w, v, axis=a))"
        " => concat(matmul(x, v), matmul(x, w), axis=broadcast_axis(a, w, x))",
    ],
)
def test_a_false_variant_is_refuted(text: str) -> None:
    [rule] = read_rules(text)
    assert any(isinstance(judge(rule, 40, seed=seed), Refuted) for seed in range(3))


def test_truth_conditions_of_search_rules_are_needed() -> None:
    """Each stated condition that a rule's truth depends on excludes something false."""
    needed = ("concat-slices", "conv-factor-left[add]", "conv-factor-right[sub]")
    for name in needed:
        rule = RULES[name]
        truth = [c for c in rule.where if not CONDITIONS[c.function].profit]
        assert truth
        bare = replace(rule, where=tuple(c for c in rule.where if c not in truth))
        outcomes = [judge(bare, 200, seed=seed) for seed in range(8)]
        assert any(isinstance(outcome, Refuted) for outcome in outcomes), name


def _value(name: str, *args: object) -> object:
    return FUNCTIONS[name].value(*args)


def test_the_functions_that_search_rules_use() -> None:
    x = Input(0, TensorType(float32, (2, 3, 4)))
    w = Constant(np.zeros((4, 5), np.float32))
    assert _value("counted", -1, x) == 2
    assert _value("ones_like", (7, 8)) == (1, 1)
    assert _value("offset_on", (7, 8, 9), 1) == (0, 8, 0)
    assert _value("spread_on", (7, 8, 9), 2) == (1, 1, 9)
    assert _value("lengthened", (7, 8), (3, 4), 1) == (7, 12)
    assert _value("broadcast_axis", -1, w, x) == 2
    assert _value("broadcast_axis", 0, x, w) == 0
    assert _value("matmul_shape", x, w) == (2, 3, 5)
    window = (("dilations", (1, 1)), ("pads", (1, 1, 1, 1)), ("strides", (1, 1)))
    image = Input(0, TensorType(float32, (1, 3, 6, 6)))
    kernel = Constant(np.zeros((2, 3, 3, 3), np.float32))
    assert _value("conv_shape", image, kernel, window) == (1, 2, 6, 6)
    for name in ("offset_on", "spread_on"):
        with pytest.raises(Undefined, match="no such axis"):
            _value(name, (1, 2), 2)
    with pytest.raises(Undefined, match="different lengths"):
        _value("lengthened", (1, 2), (1,), 0)


def test_the_conditions_that_search_rules_use() -> None:
    adjoins = CONDITIONS["adjoins"]
    assert adjoins.value((0, 0), (2, 3), (0, 3), (2, 4), 1)
    assert not adjoins.value((0, 0), (2, 3), (0, 4), (2, 4), 1)
    assert not adjoins.value((0, 0), (2, 3), (1, 3), (2, 4), 1)
    assert not adjoins.value((0, 0), (2, 3), (0, 3), (2, 4), 2)
    same = CONDITIONS["same_shape"]
    x, y = (Input(n, TensorType(float32, (2, 3))) for n in range(2))
    assert same.value(x, y)
    assert not same.value(x, Input(2, TensorType(float32, (1, 3))))


def test_rules_read_as_they_print() -> None:
    for rule in RULES.values():
        [again] = read_rules(str(rule))
        assert again.digest == rule.digest
