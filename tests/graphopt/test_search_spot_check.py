"""Spot checks agree with true applications and refute false ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphopt.graph import Constant, Graph, Value
from graphopt.instances import instances
from graphopt.matching import match
from graphopt.ops import OP
from graphopt.rules import read_rules
from graphopt.search import Checked, spot_check
from graphopt.search.moves import Application, Position
from graphopt.search.places import RuleIndex
from graphopt.search.promised import Promise
from tensorgen.types import TensorType, float32
from tests.graphs_for_search import (
    add,
    attention_inputs,
    conv,
    graph_of,
    matmul,
    random_products,
    relu,
    search_rules,
    tensor,
    weight,
)

INDEX = RuleIndex(search_rules())


def applications(graph: Graph) -> list[Application]:
    return [step.application for step in Position(graph, INDEX).successors()]


@pytest.mark.parametrize("seed", range(5))
def test_true_applications_agree(seed: int) -> None:
    for application in applications(random_products(seed, 8)):
        assert spot_check(application) is Checked.AGREED, str(application)


def test_applications_in_true_shapes_agree() -> None:
    """Shapes of real networks: only a few elements are computed."""
    x = tensor(0, 1, 256, 28, 28)
    branches = [
        relu(add(conv(x, weight(n, 64, 256, 1, 1)), weight(9 + n, 64, 1, 1))) for n in (1, 2)
    ]
    found = applications(graph_of(OP["concat"](*branches, axis=1)))
    found += applications(attention_inputs(128, 768))
    assert {application.rule.name for application in found} >= {
        "conv-shift-clip-join", "matmul-shift-join", "conv-widen",
    }  # fmt: skip
    for application in found:
        assert spot_check(application) is Checked.AGREED, str(application)


@pytest.mark.parametrize("name", [rule.name for rule in search_rules()])
def test_every_rule_agrees_on_an_instance(name: str) -> None:
    rule = next(rule for rule in search_rules() if rule.name == name)
    for seed in range(30):
        instance = next(instances(rule, seed, 50), None)
        if instance is None:
            continue
        bindings = next(iter(match(rule.source, instance.source)))
        application = Application(rule, instance.source, instance.target, bindings)  # type: ignore[arg-type]
        assert spot_check(application) is Checked.AGREED
        return
    pytest.fail("no instance")


FALSE = (
    "wrong: matmul(x, w) => matmul(x, matmul(w, w))",
    "wrong: add(matmul(x, w), matmul(y, w)) => matmul(add(x, x), w)",
    "wrong: matmul(matmul(x, y), z) => matmul(x, matmul(z, y))",
    "wrong: max(x, 0) => max(x, 1)",
    "wrong: tanh(x) => sigmoid(x)",
    "wrong: add(matmul(x, w), b) => matmul(x, w)",
)


def chained() -> Graph:
    x, w = tensor(0, 8, 8), weight(1, 8, 8)
    y = add(matmul(OP["tanh"](relu(x)), w), matmul(tensor(1, 8, 8), w))
    return graph_of(add(matmul(matmul(y, weight(2, 8, 8)), weight(3, 8, 8)), weight(4, 8)))


@pytest.mark.parametrize("text", FALSE)
def test_false_applications_differ(text: str) -> None:
    steps = list(Position(chained(), RuleIndex(read_rules(text))).successors())
    assert steps
    assert all(spot_check(step.application) is Checked.DIFFERS for step in steps)


def test_a_rounded_literal_refutes_nothing() -> None:
    """A tenth is no float: what is true of it holds up to rounding."""
    x = tensor(0, 300)
    tenth, ten = (Constant(np.array(value, np.float32)) for value in (0.1, 10.0))
    [rule] = read_rules("scaled: mul(mul(x, c), d) => x where constant(c, d)")
    root = OP["mul"](OP["mul"](x, tenth), ten)
    bindings = next(iter(match(rule.source, (root,))))
    assert spot_check(Application(rule, (root,), (x,), bindings)) is Checked.AGREED


def test_what_only_small_numbers_hide_is_seen() -> None:
    """x (x² - 1) (x² - 4) (x² - 9) (x² - 16) is 0 on the whole numbers from -4 to 4."""
    x = tensor(0, 50)
    product: Value = x
    for root in (1.0, 4.0, 9.0, 16.0):
        shifted = OP["sub"](OP["mul"](x, x), Constant(np.array(root, np.float32)))
        product = OP["mul"](product, shifted)
    [rule] = read_rules("wrong: neg(x) => neg(neg(x))")
    old = OP["neg"](x)
    bindings = next(iter(match(rule.source, (old,))))
    wrong = OP["add"](old, product)
    assert spot_check(Application(rule, (old,), (wrong,), bindings)) is Checked.DIFFERS


def test_a_difference_at_the_far_end_is_seen() -> None:
    """Only the last element differs: the boxes reach both ends."""
    x = tensor(0, 1000, 1000)
    spike = np.zeros((1000, 1000), np.float32)
    spike[-1, -1] = 1
    [rule] = read_rules("wrong: exp(x) => exp(neg(neg(x)))")
    root = OP["exp"](x)
    bindings = next(iter(match(rule.source, (root,))))
    wrong = OP["add"](OP["exp"](x), OP["cast"](Constant(spike.astype(np.int8)), to="float32"))
    assert spot_check(Application(rule, (root,), (wrong,), bindings)) is Checked.DIFFERS


def test_what_is_too_large_is_skipped() -> None:
    huge = tensor(0, 1 << 14, 1 << 14)
    [step] = Position(
        graph_of(matmul(matmul(huge, huge), huge)),
        RuleIndex([rule for rule in search_rules() if rule.name == "matmul-associate"]),
    ).successors()
    assert spot_check(step.application) is Checked.SKIPPED


def test_empty_results_agree() -> None:
    x, w, v = tensor(0, 0, 4), weight(1, 4, 4), weight(2, 4, 4)
    for application in applications(graph_of(matmul(matmul(x, w), v))):
        assert spot_check(application) is Checked.AGREED


def test_promises_are_filled() -> None:
    x = tensor(0, 4, 8)
    w, v = (Promise(TensorType(float32, (8, 8)), name) for name in (b"w", b"v"))
    found = applications(graph_of(matmul(x, w), matmul(x, v)))
    assert found
    assert all(spot_check(application) is Checked.AGREED for application in found)


def test_equal_claims_are_told_by_types_and_parameters() -> None:
    def claims(*graphs: Graph) -> set[bytes]:
        return {a.claim for g in graphs for a in applications(g) if a.rule.name == name}

    name = "matmul-associate"

    def chain(x: Value, rows: int, seed: int) -> Graph:
        return graph_of(matmul(matmul(x, weight(seed, rows, 8)), weight(seed + 1, 8, 8)))

    x, y = tensor(0, 4, 8), tensor(0, 4, 6)
    assert len(claims(chain(x, 8, 1), chain(relu(x), 8, 5))) == 1
    assert len(claims(chain(x, 8, 1), chain(y, 6, 1))) == 2
    w = weight(1, 8, 8)
    # Twice the same weight is another claim than two weights.
    assert len(claims(chain(x, 8, 1), graph_of(matmul(matmul(x, w), w)))) == 2


def test_the_seed_decides_the_data() -> None:
    [application, *_] = applications(random_products(1, 6))
    assert spot_check(application, 1) is spot_check(application, 2) is Checked.AGREED
    assert replace(application).claim == application.claim


def test_an_operand_that_is_part_of_the_match_is_computed() -> None:
    """(x @ w) @ z where z is x @ w: its elements are no others than those of the product."""
    x, w = tensor(0, 8, 8), weight(1, 8, 8)
    inner = matmul(x, w)
    graph = graph_of(matmul(inner, inner), add(matmul(inner, w), matmul(x, w)))
    found = applications(graph)
    assert {"matmul-associate", "matmul-factor-right[add]"} <= {a.rule.name for a in found}
    for application in found:
        assert spot_check(application) is Checked.AGREED, str(application)
    chain = next(a for a in found if a.roots[0].inputs == (inner, inner))
    assert set(chain.leaves) == {x, w}
