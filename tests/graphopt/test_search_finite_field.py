"""Expressions over the field mean what they mean, modulo the prime, and only where they can."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.graph import Input, Node
from graphopt.ops import OP
from graphopt.ops.spec import expression_of
from graphopt.search.finite_field import PRIME, over_field, residue, residues
from tensorgen.evaluate import evaluate
from tensorgen.expr import Load, TensorExpr, apply, const, select
from tensorgen.types import TensorType, float32, float64, int64


def node(name: str, *shapes: tuple[int, ...], **params: Any) -> Node:
    operands = [Input(n, TensorType(float32, shape)) for n, shape in enumerate(shapes)]
    made = OP[name](*operands, **params)
    assert isinstance(made, Node)
    return made


def test_the_prime_leaves_room_for_sums_of_products() -> None:
    assert all(PRIME % divisor for divisor in range(2, 1024))
    assert (PRIME - 1) ** 2 * 2**21 < 2**63


@given(st.fractions(max_denominator=2**12, min_value=-1000, max_value=1000))
def test_residues_of_dyadic_numbers(value: Fraction) -> None:
    exact = Fraction(float(value))
    assert residue(float(value)) * exact.denominator % PRIME == exact.numerator % PRIME


CASES = (
    node("matmul", (3, 5), (5, 4)),
    node(
        "conv",
        (1, 4, 6, 5),
        (6, 2, 3, 3),
        strides=(1, 2),
        pads=(1, 1, 0, 1),
        dilations=(1, 1),
        groups=2,
    ),
    node("add", (2, 3), (3,)),
    node("sub", (2, 3), (2, 1)),
    node("mul", (4,), (4,)),
    node("neg", (4,)),
    node("reduce_sum", (3, 4), axes=(1,), keepdims=False),
    node(
        "sum_pool", (1, 2, 5, 5), kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)
    ),
    node("concat", (2, 3), (2, 2), axis=1),
    node("transpose", (2, 3), perm=(1, 0)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op.name)
def test_means_the_same_on_whole_numbers_modulo_the_prime(case: Node) -> None:
    rng = np.random.default_rng(3)
    arrays = [
        rng.integers(-900, 900, operand.type.shape).astype(np.float32) for operand in case.inputs
    ]
    wide = [array.astype(np.float64) for array in arrays]
    exact = case.op.reference(*wide, **case.keywords)
    expr = over_field(expression_of(case))
    assert expr is not None
    found = evaluate(expr, [residues(array) for array in arrays])
    assert (found == exact.astype(np.int64) % PRIME).all()


def test_quotients_are_inverses() -> None:
    expr = over_field(expression_of(node("div", (50,), (50,))))
    assert expr is not None
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1, PRIME, 50) for _ in range(2))
    assert (evaluate(expr, [x, y]) * y % PRIME == x).all()


ORDERED_OR_TRANSCENDENTAL = (
    node("max", (3,), (3,)),
    node("exp", (3,)),
    node("tanh", (3,)),
    node("sqrt", (3,)),
    node("reduce_max", (3, 2), axes=(0,), keepdims=False),
    node("max_pool", (1, 1, 4), kernel=(2,), strides=(1,), pads=(0, 0), dilations=(1,)),
)


@pytest.mark.parametrize("case", ORDERED_OR_TRANSCENDENTAL, ids=lambda case: case.op.name)
def test_what_a_field_does_not_have(case: Node) -> None:
    assert over_field(expression_of(case)) is None


def test_indices_and_conditions_on_floats_have_no_meaning() -> None:
    x = Load(0, TensorType(float64, ()), ())
    below = apply("lt", x, const(0.5, float64))
    assert over_field(TensorExpr((), select(below, const(1.0, float64), 2.0))) is None
    assert over_field(TensorExpr((), const(float("inf"), float64))) is None


def test_integers_stay_as_they_are() -> None:
    index = TensorExpr((), const(7, int64))
    assert over_field(index) == index
