"""Det against numpy: closed forms, elimination with exchanged rows, singular matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphopt.onnx_import import ModelError, UnsupportedOperator


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 9), seed=st.integers(0, 1000), batch=st.integers(0, 3))
def test_random_matrices(one_node: Callable[..., Any], rows: int, seed: int, batch: int) -> None:
    x = np.random.default_rng(seed).standard_normal((batch, 2, rows, rows))
    (result,) = one_node("Det", {"x": x}).evaluated()
    np.testing.assert_allclose(result, np.linalg.det(x), rtol=1e-9, atol=1e-9)


def test_integers_with_zeros_on_the_diagonal(one_node: Callable[..., Any]) -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-2, 3, (200, 5, 5)).astype(np.float64)
    x[:, 0, 0] = 0
    (result,) = one_node("Det", {"x": x}).evaluated()
    np.testing.assert_allclose(result, np.linalg.det(x), atol=1e-9)


def test_singular_matrices_have_determinant_zero(one_node: Callable[..., Any]) -> None:
    for rows in range(1, 7):
        x = np.zeros((3, rows, rows))
        x[1] = 1 if rows > 1 else 0
        x[2, :, 1:] = 2
        assert one_node("Det", {"x": x}).evaluated()[0].tolist() == [0, 0, 0]


def test_a_permutation_has_its_sign(one_node: Callable[..., Any]) -> None:
    x = np.eye(6)[[1, 0, 2, 4, 5, 3]]
    assert one_node("Det", {"x": x}).evaluated()[0] == pytest.approx(-1)


def test_refused(one_node: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="square matrices of floats"):
        one_node("Det", {"x": np.zeros((2, 3))}).imported()
    with pytest.raises(UnsupportedOperator, match="matrices of 1 to 128 rows, got 129"):
        one_node("Det", {"x": np.zeros((129, 129))}).imported()
