"""Exact arithmetic modulo primes in float64, against Python's integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt.enumerate.fields import (
    LIMIT,
    MAX_TERMS,
    Worlds,
    constant_values,
    exponentials,
    inverse,
    is_prime,
    product,
    random_function,
    random_values,
    reduced,
    safe_primes,
)

PRIMES = safe_primes(3)
WORLDS = Worlds(PRIMES, exponents=True, seed=7)
residues = st.integers(0, PRIMES[-1] - 1)


def column(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.float64).reshape(3, 1)


def test_primes_are_safe_and_leave_room_for_sums() -> None:
    for prime in safe_primes(3, skipped=2):
        assert prime < LIMIT
        assert prime % 4 == 3
        assert is_prime(prime)
        assert is_prime(prime // 2)
    assert MAX_TERMS * (LIMIT - 1) ** 2 < 2**53
    assert set(safe_primes(2)).isdisjoint(safe_primes(3, skipped=2))


@given(st.integers(-(2**52), 2**53 - 1))
def test_reduction_is_exact_for_all_numbers_that_it_is_meant_for(number: int) -> None:
    found = reduced(column(number, number, number), PRIMES)[:, 0]
    assert found.tolist() == [number % prime for prime in PRIMES]


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_reduction_is_exact_beside_multiples_of_the_modulus(offset: int) -> None:
    for prime in PRIMES:
        multiples = np.arange(2**53 // prime - 2000, 2**53 // prime - 1) * prime + offset
        found = reduced(multiples.astype(np.float64)[None], (prime,))[0]
        assert found.tolist() == (multiples % prime).tolist()


@given(st.integers(1, 300), st.integers(0, 2**32))
def test_products_of_matrices_of_any_length_are_exact(terms: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = np.stack([rng.integers(prime - 3, prime, (2, terms)) for prime in PRIMES])
    right = np.stack([rng.integers(prime - 3, prime, (terms, 2)) for prime in PRIMES])
    found = product(left.astype(np.float64), right.astype(np.float64), PRIMES)
    for world, prime in enumerate(PRIMES):
        exact = left[world].astype(object) @ right[world].astype(object)
        assert found[world].astype(int).tolist() == (exact % prime).tolist()


@given(residues.filter(bool))
def test_the_inverse_of_a_residue(number: int) -> None:
    found = inverse(column(number, number, number), PRIMES)[:, 0]
    assert found.tolist() == [pow(number, -1, prime) for prime in PRIMES]


def test_the_inverse_of_zero_is_zero() -> None:
    assert not inverse(np.zeros((3, 1)), PRIMES).any()


@settings(deadline=None)  # the first call fills a table of powers
@given(st.lists(st.integers(0, 2**22), min_size=6, max_size=6))
def test_exponentials_turn_sums_into_products(exponents: list[int]) -> None:
    moduli = WORLDS.moduli
    x = np.array([[n % m] for n, m in zip(exponents, moduli, strict=True)], np.float64)
    y = np.array([[n % m] for n, m in zip(exponents[::-1], moduli, strict=True)], np.float64)
    whole = exponentials(reduced(x + y, moduli), WORLDS)[:3]
    parts = exponentials(x, WORLDS)[:3] * exponentials(y, WORLDS)[:3]
    assert whole.tolist() == reduced(parts, PRIMES).tolist()


def test_random_functions_are_functions_and_differ() -> None:
    x = random_values((50,), WORLDS, 0).residues
    first, again, other = (random_function(x, WORLDS, which) for which in (2, 2, 3))
    assert first.tolist() == again.tolist()
    assert (first != other).mean() > 0.99
    assert (first < np.array(WORLDS.moduli).reshape(-1, 1, 1)).all()


def test_residues_and_shadows_are_the_same_rational_numbers() -> None:
    values = random_values((4, 3), WORLDS, 5)
    for world in range(WORLDS.count):
        for place in np.ndindex(4, 3):
            number = Fraction(float(values.shadows[(world, 0, *place)]))
            for channel in (world, world + WORLDS.count):
                modulus = WORLDS.moduli[channel]
                wanted = number.numerator * pow(number.denominator, -1, modulus) % modulus
                assert values.residues[(channel, 0, *place)] == wanted


def test_single_elements_have_both_signs() -> None:
    signs = np.sign(random_values((), WORLDS, 1).shadows.reshape(-1))
    assert set(signs.tolist()) == {-1.0, 1.0}


def test_constants_are_the_same_in_each_world() -> None:
    values = constant_values(np.array([0, 1, -2]), WORLDS)
    for channel, modulus in enumerate(WORLDS.moduli):
        assert values.residues[channel, 0].tolist() == [0, 1, modulus - 2]
    assert values.shadows[:, 0].tolist() == [[0.0, 1.0, -2.0]] * 3
