"""Symbolic sizes calculate as integers do, and answer nothing by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.sizes import NotConcrete, Size, judged_by

A, B = Size.variable("a"), Size.variable("b")
SMALL = st.integers(-4, 4)
POLYNOMIALS = st.dictionaries(
    st.lists(st.sampled_from("abc"), max_size=3).map(lambda names: tuple(sorted(names))),
    SMALL,
    max_size=4,
).map(Size)


def value(size: Size, at: Mapping[str, int]) -> int:
    return sum(factor * prod(at[name] for name in names) for names, factor in size.terms.items())


class At:
    """A judge that knows every variable."""

    def __init__(self, at: Mapping[str, int]) -> None:
        self.at = at

    def is_zero(self, size: Size) -> bool:
        return value(size, self.at) == 0

    def is_negative(self, size: Size) -> bool:
        return value(size, self.at) < 0

    def quotient(self, dividend: Size, divisor: Size) -> Size:
        return Size.of(value(dividend, self.at) // value(divisor, self.at))


@given(POLYNOMIALS, POLYNOMIALS, SMALL, SMALL, SMALL)
def test_arithmetic_and_comparison(left: Size, right: Size, a: int, b: int, c: int) -> None:
    at = {"a": a, "b": b, "c": c}
    x, y = value(left, at), value(right, at)
    assert value(left + right, at) == x + y
    assert value(left - right, at) == x - y
    assert value(left * right, at) == x * y
    assert value(3 - left * 2, at) == 3 - 2 * x
    assert value(left.replaced({"a": right}), at) == value(left, {**at, "a": y})
    with judged_by(At(at)):
        assert (left == right) == (x == y)
        assert (left < right, left <= right, left > right, left >= right) == (
            x < y, x <= y, x > y, x >= y,
        )  # fmt: skip
        assert bool(left) == bool(x)
        if y > 0:
            assert value(left // right, at) == x // y
            assert value(left % right, at) == x % y


@given(POLYNOMIALS, POLYNOMIALS)
def test_equal_polynomials_print_the_same(left: Size, right: Size) -> None:
    assert left.same(right) == (str(left) == str(right))


def test_text() -> None:
    assert str(A * B * 2 - A + 3) == "3-a+2*a*b"
    assert str(A - A) == "0"


def test_exact_division_needs_no_judge() -> None:
    assert (A * B * 6 + A * 2).divided(A * 2) is not None
    assert ((A * B * 6 + A * 2) // (A * 2)).same(B * 3 + 1)
    assert (A + 1).divided(A) is None


def test_without_a_judge_nothing_is_decided() -> None:
    with pytest.raises(LookupError):
        assert A == B
    with pytest.raises(LookupError):
        sorted([A, B])
    assert A - A == 0


def test_a_size_is_no_number() -> None:
    """What needs one number for all sizes fails instead of taking some, and not with a TypeError,
    which type rules raise where an operator has no meaning."""
    for use in (range, int, (1, 2, 3).__getitem__):
        with pytest.raises(NotConcrete, match="a where a number is needed"):
            use(A)
    assert (1, 2, 3)[Size.of(2)] == 3


def test_sets_ask_the_judge() -> None:
    with judged_by(At({"a": 2, "b": 2})):
        assert len({A, B}) == 1
    with judged_by(At({"a": 2, "b": 3})):
        assert len({A, B}) == 2
