"""Polynomials from text, and the points where conditions hold, against trying all points."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.sizes import Size
from verify.integer_points import (
    Condition,
    Fault,
    condition,
    holds,
    multiplied,
    narrowed,
    plus,
    points,
    polynomial,
    substituted,
    value_at,
    variables,
)

NAMES = ("a", "b", "c")
MONOMIALS = [m for n in range(3) for m in itertools.combinations_with_replacement(NAMES, n)]

polynomials = st.dictionaries(st.sampled_from(MONOMIALS), st.integers(-3, 3), max_size=4).map(Size)
conditions = st.tuples(polynomials, st.sampled_from((">=", "==", "!="))).map(
    lambda pair: f"{pair[0]} {pair[1]} 0"
)


def test_a_polynomial_reads_as_it_is_written() -> None:
    assert polynomial("-1+2*a*b-c") == (((), -1), (("a", "b"), 2), (("c",), -1))
    assert polynomial("0") == ()
    assert polynomial("b*a-a*b+3*2") == (((), 6),)


@given(polynomials, st.fixed_dictionaries({name: st.integers(0, 5) for name in NAMES}))
def test_values_are_those_of_sizes(size: Size, point: dict[str, int]) -> None:
    own = polynomial(str(size))
    value = size.replaced({name: Size.of(n) for name, n in point.items()}).constant
    assert value_at(own, point) == value
    assert variables(own) == size.variables


@given(polynomials, polynomials)
def test_arithmetic_is_that_of_sizes(left: Size, right: Size) -> None:
    a, b = polynomial(str(left)), polynomial(str(right))
    assert plus(a, b, -3) == polynomial(str(left - right * 3))
    assert multiplied(a, b) == polynomial(str(left * right))


@given(polynomials, polynomials)
def test_substitution_is_that_of_sizes(size: Size, value: Size) -> None:
    found = substituted(polynomial(str(size)), {"a": polynomial(str(value))})
    assert found == polynomial(str(size.replaced({"a": value})))


@pytest.mark.parametrize("text", ["", "a b", "a^2", "2a+", "--a", "a**b", "é", "a\n", "(a)", "1.5"])
def test_text_that_is_no_polynomial_is_refused(text: str) -> None:
    with pytest.raises(Fault, match="expected a polynomial"):
        polynomial(text)


@pytest.mark.parametrize("text", ["a", "a > 0", "a >= 1", "a >= 0 0", " >= 0"])
def test_text_that_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        condition(text)


def test_a_variable_without_a_value_is_refused() -> None:
    with pytest.raises(Fault, match="expected a known variable, got b"):
        value_at(polynomial("a+b"), {"a": 1})


@given(st.lists(conditions, max_size=4), st.integers(0, 6))
def test_points_are_all_that_fit(texts: list[str], largest: int) -> None:
    required: list[Condition] = [condition(text) for text in texts]
    spans = dict.fromkeys(NAMES, (0, largest))
    everywhere = itertools.product(range(largest + 1), repeat=len(NAMES))
    wanted = [dict(zip(NAMES, values, strict=True)) for values in everywhere]
    wanted = [point for point in wanted if all(holds(one, point) for one in required)]
    found = list(points(required, {}, spans))
    assert sorted(tuple(point[n] for n in NAMES) for point in found) == sorted(
        tuple(point[n] for n in NAMES) for point in wanted
    )


@given(st.lists(conditions, max_size=3), st.integers(0, 4))
def test_what_is_known_is_kept(texts: list[str], value: int) -> None:
    required = [condition(text) for text in texts]
    spans = {"b": (0, 4), "c": (0, 4)}
    all_points = points(required, {}, {"a": (0, 4), **spans})
    known = list(points(required, {"a": value}, spans))
    assert sorted(map(str, map(_sorted, known))) == sorted(
        str(_sorted(point)) for point in all_points if point["a"] == value
    )


def _sorted(point: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(point.items())


def test_bounds_follow_from_conditions() -> None:
    # A quotient: 0 <= 17 - 5 * q < 5.
    required = [condition("17-5*q >= 0"), condition("-13+5*q >= 0")]
    assert narrowed(required, {"q": (0, 10**6)}) == {"q": (3, 3)}
    assert narrowed([condition("a+b+1 == 0")], {"a": (0, 9), "b": (0, 9)}) is None
