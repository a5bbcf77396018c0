"""Differences in units of the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasor.graph_difference import Difference, difference


def apart(a: list[float], b: list[float], dtype: str = "float32") -> Difference:
    return difference([np.array(a, dtype)], [np.array(b, dtype)])


def test_equal_outputs() -> None:
    assert apart([1.0, math.nan, math.inf, -0.0], [1.0, math.nan, math.inf, 0.0]) == Difference(
        0, 0
    )
    assert difference([], []) == Difference(0, 0)
    assert apart([], []) == Difference(0, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_step_is_one_unit(dtype: str) -> None:
    one = np.array([1.0, 1024.0], dtype)
    other = np.array([np.nextafter(one[0], one.dtype.type(2)), 1024.0], dtype)
    found = difference([one], [other])
    assert found.ulps == 1.0
    assert found.ulps_of_largest == 2.0**-10


def test_cancellation_is_large_in_one_measure_only() -> None:
    found = apart([1e-12, 1.0], [3e-12, 1.0])
    assert found.ulps > 1e6
    assert found.ulps_of_largest < 1e-4


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [([1.0], [math.nan], "float32"), ([math.inf], [1.0], "float64"), ([1], [2], "int32")],
)
def test_what_has_no_distance_is_infinite(a: list[float], b: list[float], dtype: str) -> None:
    assert apart(a, b, dtype) == Difference(math.inf, math.inf)
