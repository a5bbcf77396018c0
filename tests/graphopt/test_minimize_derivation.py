"""Derivations: what follows from rules follows, what does not does not, within the bounds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphopt.enumerate import enumerate_rules, taso
from graphopt.graph import Constant, Input, Value
from graphopt.minimize import Bounds, RuleBook, claims_of, derivable, sides_of
from graphopt.ops import OP
from graphopt.rules import read_rules
from tensorgen.types import TensorType, float32

ASSOCIATIVE = "add-associates: add(add(x, y), z) => add(x, add(y, z))"
DISTRIBUTIVE = """
mul-over-add: mul(add(x, y), z) <=> add(mul(x, z), mul(y, z))
mul-associates: mul(mul(x, y), z) => mul(x, mul(y, z))
add-associates: add(add(x, y), z) => add(x, add(y, z))
"""


def book(text: str) -> RuleBook:
    return RuleBook.of(read_rules(text))


def matrix(position: int, *shape: int) -> Input:
    return Input(position, TensorType(float32, shape))


def follows(statement: str, rules: RuleBook, forward: bool = False) -> bool:
    [rule] = read_rules(f"claim: {statement}")
    found = sides_of(rule)
    assert found
    return all(derivable(sides.sources, sides.targets, rules, forward=forward) for sides in found)


X, Y = matrix(0, 2, 3), matrix(1, 2, 3)


def test_equal_terms_need_no_rule() -> None:
    assert derivable([OP["add"](X, Y)], [OP["add"](X, Y)], RuleBook())


def test_operands_of_commutative_operators_have_no_order() -> None:
    add, sub = OP["add"], OP["sub"]
    assert derivable([add(X, add(X, Y))], [add(add(Y, X), X)], RuleBook())
    assert not derivable([sub(X, Y)], [sub(Y, X)], RuleBook())


def test_congruence_carries_an_equation_outwards() -> None:
    negative = OP["neg"]
    rules = book("neg-twice: neg(neg(x)) => x")
    assert derivable([OP["exp"](negative(negative(X)))], [OP["exp"](X)], rules)
    assert not derivable([OP["exp"](negative(X))], [OP["exp"](X)], rules)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("mul(add(x, y), add(x, y)) => add(mul(x, x), add(mul(y, y), mul(x, add(y, y))))", True),
        ("mul(add(x, y), z) => add(mul(x, y), mul(y, z))", False),
        ("add(add(mul(x, y), z), mul(z, y)) => add(mul(y, add(x, z)), z)", True),
        ("add(mul(x, y), z) => mul(add(x, z), y)", False),
    ],
)
def test_distributivity_derives_what_it_should(statement: str, expected: bool) -> None:
    assert follows(statement, book(DISTRIBUTIVE)) is expected


def test_conditions_guard_derivations() -> None:
    rules = book(
        "through: transpose(add(x, y), perm=p) => "
        "add(transpose(x, perm=p), transpose(y, perm=p)) where same_shape(x, y)"
    )
    perm = {"perm": (1, 0)}
    add, transpose = OP["add"], OP["transpose"]
    row = matrix(1, 1, 3)
    target = [add(transpose(X, **perm), transpose(Y, **perm))]
    assert derivable([transpose(add(X, Y), **perm)], target, rules)
    broadcast = [add(transpose(X, **perm), transpose(row, **perm))]
    assert not derivable([transpose(add(X, row), **perm)], broadcast, rules)


def test_captured_and_computed_parameters() -> None:
    rules = book(
        "transposes: transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(p, q))"
    )
    x = matrix(0, 2, 3, 5)
    twice = OP["transpose"](OP["transpose"](x, perm=(1, 2, 0)), perm=(1, 0, 2))
    assert derivable([twice], [OP["transpose"](x, perm=(2, 1, 0))], rules)
    assert not derivable([twice], [OP["transpose"](x, perm=(0, 1, 2))], rules)


def test_forward_derivations_do_not_rewrite_the_target() -> None:
    rules = book("relu-twice: max(max(x, 0), 0) => max(x, 0)")
    [rule] = read_rules("grown: max(x, 0) => max(max(x, 0), 0)")
    [sides, *_] = sides_of(rule)
    assert derivable(sides.sources, sides.targets, rules)
    # The target's terms are only looked up; its own class is not formed by rules of the source.
    assert not derivable(sides.sources, sides.targets, rules, forward=True)


def test_several_results_are_matched_together() -> None:
    rules = book(
        """
        join: matmul(x, w), matmul(y, w) =>
            slice(matmul(concat(x, y, axis=0), w), starts=(0, 0), steps=(1, 1),
                  sizes=matmul_shape(x, w)),
            slice(matmul(concat(x, y, axis=0), w), starts=offset_on(matmul_shape(x, w), 0),
                  steps=(1, 1), sizes=matmul_shape(y, w))
            where rank(2, x, y, w)
        """.replace("\n        ", "\n")
    )
    [rule] = rules.rules
    for sides in sides_of(rule):
        assert derivable(sides.sources, sides.targets, rules, forward=True)
        assert not derivable(sides.sources, sides.targets, RuleBook(), forward=True)


def test_bounds_end_a_derivation() -> None:
    values = [matrix(number, 2) for number in range(6)]
    left: Value = values[0]
    for value in values[1:]:
        left = OP["add"](left, value)
    right: Value = values[5]
    for value in reversed(values[:5]):
        right = OP["add"](value, right)
    rules = book(ASSOCIATIVE)
    assert derivable([left], [right], rules, Bounds(6, 1000))
    assert not derivable([left], [right], rules, Bounds(6, 12))
    assert not derivable([left], [right], rules, Bounds(0, 1000))


@st.composite
def _sums(draw: st.DrawFn) -> tuple[Value, Value]:
    """Two sums of the same four inputs, bracketed and ordered anyhow."""
    inputs = [matrix(number, 2, 3) for number in range(4)]

    def tree(values: list[Value]) -> Value:
        if len(values) == 1:
            return values[0]
        cut = draw(st.integers(1, len(values) - 1))
        return OP["add"](tree(values[:cut]), tree(values[cut:]))

    return tree(draw(st.permutations(inputs))), tree(draw(st.permutations(inputs)))


@given(_sums())
@settings(max_examples=40, deadline=None)
def test_associativity_derives_every_bracketing(pair: tuple[Value, Value]) -> None:
    left, right = pair
    assert derivable([left], [right], book(ASSOCIATIVE), Bounds(6, 400))


@given(_sums())
@settings(max_examples=20, deadline=None)
def test_no_sum_becomes_another(pair: tuple[Value, Value]) -> None:
    left, right = pair
    other = OP["add"](right, matrix(0, 2, 3))
    assert not derivable([left], [other], book(ASSOCIATIVE))


def _element(value: Value, drawn: dict[bytes, NDArray[np.float64]]) -> NDArray[np.float64]:
    """A value on random data, from the operators' own references."""
    if value.digest not in drawn:
        if isinstance(value, Constant):
            drawn[value.digest] = value.array.astype(np.float64)
        elif isinstance(value, Input):
            rng = np.random.default_rng(value.position)
            drawn[value.digest] = rng.uniform(-1, 1, value.type.shape)
        else:
            operands = [_element(operand, drawn) for operand in value.inputs]
            drawn[value.digest] = np.asarray(value.op.reference(*operands, **value.keywords))
    return drawn[value.digest]


def test_true_rules_derive_no_false_equation() -> None:
    """Sides of different equations, of which no true rules may make one class."""
    claims, _ = claims_of(enumerate_rules(taso(), 2).candidates)
    singles = [
        claim
        for claim in claims
        if not claim.is_joint and claim.sources[0].type.rank <= 2 and "conv" not in claim.text
    ]
    rules = RuleBook.of([claim.rules[0] for claim in singles if claim.rules])
    false = 0
    for one, other in pairwise(singles):
        source, target = one.sources[0], other.targets[0]
        drawn: dict[bytes, NDArray[np.float64]] = {}
        if source.type == target.type and not np.allclose(
            _element(source, drawn), _element(target, drawn)
        ):
            false += 1
            assert not derivable([source], [target], rules, Bounds(3, 150)), other.text
    assert false > 5
