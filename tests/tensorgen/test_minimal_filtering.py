"""The matrices of minimal filtering are exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from tensorgen.minimal_filtering import minimal_filter


@pytest.mark.parametrize(
    ("outputs", "kernel"), [(m, r) for r in range(1, 6) for m in range(1, 8 - r)]
)
def test_the_matrices_filter_exactly(outputs: int, kernel: int) -> None:
    """y = A^T ((G g) * (B^T d)) for every pair of unit vectors g and d."""
    matrices = minimal_filter(outputs, kernel)
    count = outputs + kernel - 1
    for tap, element in product(range(kernel), range(count)):
        sums = [
            Fraction(weights[tap], divisor) * row[element]
            for (weights, divisor), row in zip(matrices.kernels, matrices.inputs, strict=True)
        ]
        results = [
            sum(weight * value for weight, value in zip(row, sums, strict=True))
            for row in matrices.outputs
        ]
        assert results == [int(element == n + tap) for n in range(outputs)]


def test_the_matrices_are_those_of_lavin_and_gray() -> None:
    two = minimal_filter(2, 3)
    assert two.outputs == ((1, 1, 1, 0), (0, 1, -1, 1))
    assert two.kernels == (((1, 0, 0), 1), ((1, 1, 1), 2), ((1, -1, 1), 2), ((0, 0, 1), 1))
    four = minimal_filter(4, 3)
    assert four.outputs[3] == (0, 1, -1, 8, -8, 1)
    assert four.kernels[3] == ((1, 2, 4), 24)
    assert four.inputs[0] == (4, 0, -5, 0, 1, 0)


def test_equal_points_are_refused() -> None:
    with pytest.raises(AssertionError, match="different points"):
        minimal_filter(2, 3, (Fraction(0), Fraction(1), Fraction(1)))
