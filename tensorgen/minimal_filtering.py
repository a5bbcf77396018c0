"""Minimal filtering: m results of a filter with r taps by m + r - 1 products.

    y = A^T ((G g) * (B^T d))     m results of taps g (r of them) on elements d (m + r - 1 of them)

What it does: makes the matrices from interpolation points by the construction of Cook and Toom, in
exact fractions, and bounds what rounding may add. What it does not: judge when this pays.

Sources: Winograd, "Arithmetic complexity of computations" (SIAM 1980), section V; Lavin and Gray,
"Fast algorithms for convolutional neural networks" (CVPR 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(2), Fraction(-2))
"""Interpolation points; the last one is infinity."""

Row = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MinimalFilter:
    """F(m, r): `outputs` A^T (m, n), `kernels` G (n, r) with a divisor for each row, `inputs`
    B^T (n, n), for n = m + r - 1."""

    outputs: tuple[Row, ...]
    kernels: tuple[tuple[Row, int], ...]
    inputs: tuple[Row, ...]


@lru_cache(maxsize=256)
def minimal_filter(outputs: int, taps: int, points: tuple[Fraction, ...] = POINTS) -> MinimalFilter:
    """F(outputs, taps) from the first points. A^T and B^T are integers for integer points."""
    count = outputs + taps - 1
    finite = tuple(points[: count - 1])
    assert len(set(finite)) == count - 1, "as many different points as the algorithm needs"
    rows_out = [[point**power for point in finite] + [Fraction(0)] for power in range(outputs)]
    rows_out[-1][-1] = Fraction(1)
    kernels: list[tuple[Row, int]] = []
    inputs: list[Row] = []
    for point in finite:
        others = [other for other in finite if other != point]
        scale = _product([point - other for other in others])
        sign = 1 if scale > 0 else -1
        inputs.append(_integers([sign * c for c in (*_from_roots(others), Fraction(0))]))
        kernels.append(_fractions([sign * point**power / scale for power in range(taps)]))
    inputs.append(_integers(_from_roots(finite)))
    kernels.append(_fractions([Fraction(int(power == taps - 1)) for power in range(taps)]))
    return MinimalFilter(tuple(map(_integers, rows_out)), tuple(kernels), tuple(inputs))


def _product(values: Sequence[Fraction]) -> Fraction:
    total = Fraction(1)
    for value in values:
        total *= value
    return total


def _from_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients, lowest first, of the product of all (t - root)."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [*(-root * value for value in coefficients), Fraction(0)]
        coefficients = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients


def _integers(values: Sequence[Fraction]) -> Row:
    assert all(value.denominator == 1 for value in values), "integer interpolation points"
    return tuple(value.numerator for value in values)


def _fractions(values: Sequence[Fraction]) -> tuple[Row, int]:
    """Fractions as integers over one positive divisor, without a common factor."""
    divisor = lcm(*(value.denominator for value in values))
    row = tuple(int(value * divisor) for value in values)
    common = gcd(divisor, *row)
    return tuple(value // common for value in row), divisor // common
