"""The C functions that convert: against numpy, ml_dtypes and Python's integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensorgen.c_functions import c_cast_for
from tensorgen.types import dtype_named
from tests.compiled_c_functions import (
    INTEGER_TYPES,
    SIGNATURES,
    SPECIAL,
    Library,
    Values,
    needs_gcc,
)

CASTS = tuple(name for name in SIGNATURES if "_from_" in name and "bits" not in name)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Without fused multiply-adds."""
    return Library(tmp_path_factory.mktemp("plain"), "gcc", "-O1", "-ffp-contract=off", names=CASTS)


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """With fused multiply-adds, where this machine has them."""
    flags = ("-O2", "-ffp-contract=fast", "-march=native", "-fno-math-errno", "-fno-trapping-math")
    return Library(tmp_path_factory.mktemp("fused"), "gcc", *flags, names=CASTS)


@pytest.fixture(params=["plain", "fused"])
def library(request: pytest.FixtureRequest) -> Library:
    built = request.getfixturevalue(request.param)
    assert isinstance(built, Library)
    return built


@needs_gcc
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", INTEGER_TYPES)
def test_float_to_integer_truncates_and_saturates(plain: Library, source: str, target: str) -> None:
    info = np.iinfo(target)
    edges = np.array([info.min, info.max, info.max // 2], dtype=source)
    beside = [np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), edges + 1, edges - 1]
    fractions = np.arange(-300, 300, dtype=source) * np.dtype(source).type(0.375)
    x = np.concatenate([SPECIAL.astype(source), edges, *beside, fractions])
    expected = [
        0 if np.isnan(value)
        else info.max if value >= info.max
        else info.min if value <= info.min
        else int(value)
        for value in x.tolist()
    ]  # fmt: skip
    name = c_cast_for(source, target)
    assert name is not None
    np.testing.assert_array_equal(plain(name, x), np.array(expected, dtype=target))


@needs_gcc
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_every_half_becomes_the_same_float_and_comes_back(library: Library, half: str) -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        values = patterns.view(dtype_named(half).numpy).astype(np.float32)
    widen, narrow = c_cast_for(half, "float32"), c_cast_for("float32", half)
    assert widen is not None
    assert narrow is not None
    got = library(widen, patterns)
    np.testing.assert_array_equal(got, values)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(library(narrow, got)[numbers], patterns[numbers])


@needs_gcc
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_float_to_half_rounds_to_nearest_even(library: Library, half: str) -> None:
    dtype = dtype_named(half).numpy
    patterns = np.arange(0, 2**32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        halves = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float32)
        between = (halves[1:] + halves[:-1]) / 2
        x = np.concatenate([patterns, halves, between])
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, -x)])
        expected = x.astype(dtype)
    name = c_cast_for("float32", half)
    assert name is not None
    _assert_same_halves(library(name, x), expected)


@needs_gcc
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_double_to_half_rounds_once(library: Library, half: str) -> None:
    """A double just beside a tie must not be rounded to the tie on its way."""
    dtype = dtype_named(half).numpy
    infinity = int(np.array(np.inf, dtype).view(np.uint16))
    halves = np.arange(infinity, dtype=np.uint16).view(dtype).astype(np.float64)
    ties = (halves[1:] + halves[:-1]) / 2
    below, above = np.nextafter(ties, 0), np.nextafter(ties, np.inf)
    lower, upper = halves[:-1].astype(dtype), halves[1:].astype(dtype)
    even = np.where(lower.view(np.uint16) % 2 == 0, lower, upper)
    name = c_cast_for("float64", half)
    assert name is not None
    for x, expected in ((below, lower), (above, upper), (ties, even)):
        _assert_same_halves(library(name, x), expected)
        _assert_same_halves(library(name, -x), -expected)


def _assert_same_halves(got: Values, expected: Values) -> None:
    with np.errstate(invalid="ignore"):
        nan = np.isnan(expected.astype(np.float32))
        assert np.isnan(got.view(expected.dtype).astype(np.float32)[nan]).all()
    np.testing.assert_array_equal(got[~nan], expected.view(np.uint16)[~nan])


def test_bfloat16_is_the_one_of_ml_dtypes() -> None:
    assert dtype_named("bfloat16").numpy == np.dtype(ml_dtypes.bfloat16)
