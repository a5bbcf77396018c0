"""What follows from assumptions, checked by trying small integers."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.sizes import Size
from verify.assumptions import Assumptions, tightened, without_positive_factors
from verify.feasibility import possible

A, B, C = (Size.variable(name) for name in "abc")
LINEAR = st.tuples(*[st.integers(-3, 3)] * 4).map(
    lambda f: Size({("a",): f[0], ("b",): f[1], ("c",): f[2], (): f[3]})
)


def is_possible(assumed: Assumptions) -> bool:
    return isinstance(possible(assumed), Assumptions)


def at(size: Size, point: tuple[int, ...]) -> int:
    names = dict(zip("abc", point, strict=True))
    return sum(f * prod(names[n] for n in monomial) for monomial, f in size.terms.items())


POINTS = list(product(range(7), repeat=3))


@settings(deadline=None)
@given(st.lists(LINEAR, max_size=3), LINEAR, LINEAR)
def test_what_follows_is_true(known: list[Size], zero: Size, wanted: Size) -> None:
    assumed = Assumptions().with_zero(zero)
    for size in known:
        assumed = assumed.with_nonnegative(size)
    fitting = [
        point
        for point in POINTS
        if at(zero, point) == 0 and all(at(size, point) >= 0 for size in known)
    ]
    if fitting:
        assert is_possible(assumed)
    if assumed.is_nonnegative(wanted):
        assert all(at(wanted, point) >= 0 for point in fitting)
    if not is_possible(assumed.with_nonzero(wanted)):
        assert all(at(wanted, point) == 0 for point in fitting)
    for point in fitting:
        assert at(assumed.normal(wanted), point) == at(wanted, point)


def test_signs_and_sums_decide() -> None:
    assumed = Assumptions().with_nonnegative(A - B - 1).with_nonnegative(B - C)
    assert assumed.is_nonnegative(A * B + 2)
    assert assumed.is_nonnegative(A - C - 1)
    assert not assumed.is_nonnegative(C - A)


def test_two_bounds_that_meet_are_an_equation() -> None:
    assumed = Assumptions().with_nonnegative(A - 3).with_nonnegative(3 - A)
    assert assumed.normal(A).same(3)


def test_contradictions_are_found() -> None:
    assert not is_possible(Assumptions().with_nonnegative(A - B - 1).with_nonnegative(B - A))
    assert not is_possible(Assumptions().with_zero(A + 1))
    assert is_possible(Assumptions().with_nonnegative(A * B - 6).with_nonzero(A - 2))


def test_products_are_left_to_the_solver() -> None:
    assumed = Assumptions().with_nonnegative(A - 2).with_nonnegative(B - 2)
    assert not assumed.is_nonnegative(A * B - 4)
    assert not is_possible(assumed.with_nonnegative(3 - A * B))


@settings(deadline=None)
@given(LINEAR, LINEAR, st.integers(-2, 2))
def test_factors_above_zero_go(left: Size, right: Size, rest: int) -> None:
    product = left * right * (A + 1) + rest
    bound, equation = tightened(product), without_positive_factors(product)
    for point in POINTS:
        assert (at(product, point) >= 0) == (at(bound, point) >= 0)
        assert (at(product, point) == 0) == (at(equation, point) == 0)


def test_a_sum_that_is_zero_has_only_zeros() -> None:
    assumed = Assumptions().with_nonnegative(-A * B - C)
    assert assumed.normal(C).same(0)
    assert not is_possible(assumed.with_nonnegative(A - 1).with_nonnegative(B - 1))
