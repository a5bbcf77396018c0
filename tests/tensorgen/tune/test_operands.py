"""Operands from a seed, and how close a result has to come."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.target import host_target
from tensorgen.tune.operands import expected_results, seeded_inputs, tolerance
from tensorgen.tune.result_check import check_name, check_source
from tensorgen.types import (
    DTYPES,
    Array,
    DType,
    bfloat16,
    boolean,
    dtype_of,
    float32,
    float64,
    int32,
    int64,
)
from tests.compiled_kernels import evaluate_task
from tests.contraction_tasks import convolution, matmul
from tests.tensorgen.test_softmax import softmax


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("check")
    path = build_library(
        {"check.c": check_source()}, target=host_target(), flags=("-Wall", "-Wextra", "-Werror"),
        cache=folder,
    )  # fmt: skip
    return ctypes.CDLL(str(path))


def differences(
    checker: ctypes.CDLL, found: Array, expected: Array, absolute: float, relative: float
) -> tuple[int, int]:
    """How many elements differ, and the first of them."""
    check: Any = getattr(checker, check_name(dtype_of(found)))
    check.restype = ctypes.c_long
    first, values = ctypes.c_long(-1), (ctypes.c_double * 2)()
    count = check(
        ctypes.c_void_p(found.ctypes.data), ctypes.c_void_p(expected.ctypes.data),
        ctypes.c_long(found.size), ctypes.c_double(absolute), ctypes.c_double(relative),
        ctypes.byref(first), values,
    )  # fmt: skip
    if count:
        assert values[0] == pytest.approx(float(expected[first.value]), nan_ok=True)
        assert values[1] == pytest.approx(float(found[first.value]), nan_ok=True)
    return int(count), first.value


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_of_every_type_are_compared(checker: ctypes.CDLL, dtype: DType) -> None:
    expected = np.array([0, 1, 1, 0, 1, 1], dtype.numpy)
    found = expected.copy()
    assert differences(checker, found, expected, 0.0, 0.0) == (0, -1)
    found[[2, 4]] = 0
    assert differences(checker, found, expected, 0.0, 0.0) == (2, 2)
    assert differences(checker, found, expected, 1.0, 0.0) == (0, -1)
    assert differences(checker, found, expected, 0.0, 1.0) == (0, -1)


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
def test_what_is_no_number_has_to_be_where_it_is_expected(
    checker: ctypes.CDLL, dtype: DType
) -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1.0], dtype.numpy)
    assert differences(checker, expected, expected.copy(), 0.0, 0.0) == (0, -1)
    for place, wrong in ((0, 1.0), (1, 1.0), (1, -np.inf), (2, np.nan), (3, np.nan), (3, np.inf)):
        found = expected.copy()
        found[place] = wrong
        assert differences(checker, found, expected, 1e30, 1e30) == (1, place)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_difference_counts_wherever_it_is(checker: ctypes.CDLL, dtype: DType) -> None:
    """Elements are looked at in blocks."""
    expected = np.ones(3000, dtype.numpy)
    for places in ([0], [1023], [1024], [2047, 2048], [2999], [700, 1500, 1501, 2999]):
        found = expected.copy()
        found[places] = 0
        assert differences(checker, found, expected, 0.0, 0.0) == (len(places), places[0])


def test_inputs_are_those_of_their_seed() -> None:
    task = matmul((), 8, 9, 10)
    first, again, other = seeded_inputs(task), seeded_inputs(task), seeded_inputs(task, 1)
    for a, b, c, type in zip(first, again, other, task.inputs, strict=True):
        assert dtype_of(a) == type.dtype
        assert a.shape == type.shape
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()
        assert (np.abs(a) <= 1).all()
        assert len(np.unique(a)) > 50


def test_results_are_those_of_the_meaning() -> None:
    for task in (matmul((), 8, 9, 10), softmax(4, 40)):
        inputs = seeded_inputs(task)
        for found, expected in zip(
            expected_results(task, inputs), evaluate_task(task, inputs), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_rounding_is_tolerated_and_a_wrong_index_is_not(dtype: DType) -> None:
    task = matmul((), 16, 24, 300, dtype=dtype)
    inputs = seeded_inputs(task)
    (expected,) = expected_results(task, inputs)
    allowed = tolerance(task, expected)
    limit = allowed.absolute + allowed.relative * np.abs(expected)
    exact = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
    assert (np.abs(exact - expected) <= limit).all()
    assert (np.abs(np.roll(expected, 1, axis=1) - expected) > limit).mean() > 0.99
    assert allowed.allowed == 0


def test_whole_numbers_are_exact_unless_they_were_floats() -> None:
    counted = convolution((4,), (3,), channels=(2, 2), dtype=int32)
    result = np.zeros(8, np.int32)
    assert tolerance(counted, result).absolute == 0
    assert tolerance(matmul((), 2, 2, 2), result).absolute == 1


def test_few_truth_values_may_differ_where_sums_do() -> None:
    result = np.zeros(5000, np.bool_)
    assert tolerance(matmul((), 2, 2, 2), result).allowed == 6
    assert tolerance(matmul((), 2, 2, 2, dtype=int64), result).allowed == 0
    assert boolean.numpy == result.dtype
