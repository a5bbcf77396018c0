"""The C functions: error bounds and special values, against numpy in higher precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensorgen.c_functions import C_FUNCTIONS
from tests.compiled_c_functions import (
    FLOATING,
    SPECIAL,
    SUFFIX,
    Library,
    Values,
    float32_sample,
    float64_sample,
    needs_gcc,
)

needs_longdouble = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double"
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Without fused multiply-adds."""
    return Library(
        tmp_path_factory.mktemp("plain"), "gcc", "-O1", "-ffp-contract=off", names=FLOATING
    )


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """With fused multiply-adds, where this machine has them."""
    flags = ("-O2", "-ffp-contract=fast", "-march=native", "-fno-math-errno", "-fno-trapping-math")
    return Library(tmp_path_factory.mktemp("fused"), "gcc", *flags, names=FLOATING)


@pytest.fixture(params=["plain", "fused"])
def library(request: pytest.FixtureRequest) -> Library:
    built = request.getfixturevalue(request.param)
    assert isinstance(built, Library)
    return built


def _sigmoid(x: Values) -> Values:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1) / (1 + e))


REFERENCES: dict[str, Callable[..., Values]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": _sigmoid, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "pow": np.power, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "abs": np.abs, "sign": np.sign, "fmod": np.fmod,
}  # fmt: skip
UNARY = (*(name for name in REFERENCES if name not in ("pow", "fmod")), "erf")


def _errors(exact: Values, got: Values) -> Values:
    """Distance in units in the last place of `got`'s type; infinite where a special value differs.

    `exact` has a wider type. Beyond the greatest finite value, infinity is exact.
    """
    info = np.finfo(got.dtype)
    wide = exact.dtype.type
    _, exponent = np.frexp(np.where(np.isfinite(exact), exact, 1))
    least = np.log2(wide(info.smallest_subnormal)).astype(int)
    unit = np.ldexp(wide(1), np.maximum(exponent - info.nmant - 1, least))
    half_unit = np.ldexp(wide(1), info.maxexp - info.nmant - 2)
    overflow = np.abs(exact) >= wide(info.max) + half_unit
    exact = np.where(overflow, np.copysign(wide(np.inf), exact), exact)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(got.astype(wide) - exact) / unit
    alike = (got == exact) | (np.isnan(got) & np.isnan(exact))
    return np.where(alike, 0, np.where(np.isnan(distance), np.inf, distance))


@needs_gcc
@pytest.mark.parametrize("op", UNARY)
def test_float32_bound(library: Library, op: str) -> None:
    x = float32_sample(8191)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = library.erf(wide) if op == "erf" else REFERENCES[op](wide)
    _assert_within(f"tasor_{op}_f32", exact, x, library)


@needs_gcc
@needs_longdouble
@pytest.mark.parametrize("op", UNARY)
def test_float64_bound(library: Library, op: str) -> None:
    x = float64_sample(12_000)
    with np.errstate(all="ignore"):
        exact = library.erf(x) if op == "erf" else REFERENCES[op](x.astype(np.longdouble))
    _assert_within(f"tasor_{op}_f64", exact, x, library)


@needs_gcc
@needs_longdouble
def test_powers_of_what_is_at_most_0(library: Library) -> None:
    for name, sample, wide in (
        ("tasor_exp_nonpositive_f32", float32_sample(127), np.float64),
        ("tasor_exp_nonpositive_f64", float64_sample(4000), np.longdouble),
    ):
        x = -np.abs(sample)
        with np.errstate(all="ignore"):
            exact = np.exp(x.astype(wide))
        _assert_within(name, np.where(exact < np.finfo(x.dtype).tiny, 0, exact), x, library)


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("op", ["exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "atan"])
def test_float32_bound_densely(library: Library, op: str) -> None:
    for start in range(8):
        x = float32_sample(8 * 127, start * 127 + 1)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            exact = library.erf(wide) if op == "erf" else REFERENCES[op](wide)
        _assert_within(f"tasor_{op}_f32", exact, x, library)


def _assert_within(name: str, exact: Values, x: Values, library: Library) -> None:
    bound = C_FUNCTIONS[name].ulp
    assert bound is not None
    errors = _errors(exact, library(name, x))
    worst = int(np.argmax(errors))
    # The reference is rounded too, by less than a thousandth of a unit of the narrower type.
    assert errors[worst] <= bound + 1e-3, f"{name}({float(x[worst]).hex()}): {errors[worst]} ulp"


def _pow_sample(count: int, dtype: str) -> tuple[Values, Values]:
    """Pairs whose power is finite more often than not, random patterns, and special values."""
    rng = np.random.default_rng(21)
    info = np.finfo(dtype)
    base = 2.0 ** rng.uniform(info.minexp, info.maxexp, count)
    near_one = 1 + rng.uniform(-0.5, 0.5, count)
    with np.errstate(divide="ignore"):
        x = np.concatenate([base, near_one]).astype(dtype)
        y = rng.uniform(1.05 * info.minexp, 1.05 * info.maxexp, 2 * count) / np.log2(x)
    patterns = rng.integers(0, 256, (2, count * info.bits // 8), dtype=np.uint8).view(dtype)
    small = np.arange(-20, 21) / 2
    special = np.concatenate([SPECIAL, small]).astype(dtype)
    left, right = (grid.ravel() for grid in np.meshgrid(special, special))
    return (
        np.concatenate([x, patterns[0], left]),
        np.concatenate([y.astype(dtype), patterns[1], right]),
    )


@needs_gcc
@needs_longdouble
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["pow", "fmod"])
def test_binary_bound(library: Library, op: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x, y = _pow_sample(20_000, dtype)
        exact = REFERENCES[op](x.astype(np.longdouble), y.astype(np.longdouble))
    name = f"tasor_{op}_{SUFFIX[dtype]}"
    bound = C_FUNCTIONS[name].ulp
    assert bound is not None
    errors = _errors(exact, library(name, x, y))
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound + 1e-3, (x[worst], y[worst], errors[worst])


@needs_gcc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", [name for name in UNARY if name != "sigmoid"])
def test_special_values_keep_their_sign(library: Library, op: str, dtype: str) -> None:
    """Zeros, infinities and NaN come out as C99 annex F and numpy have them, zeros signed."""
    x = SPECIAL.astype(dtype)
    with np.errstate(all="ignore"):
        expected = library.erf(SPECIAL) if op == "erf" else REFERENCES[op](x)
    got = library(f"tasor_{op}_{SUFFIX[dtype]}", x)
    special = (expected == 0) | ~np.isfinite(expected)
    np.testing.assert_array_equal(got[special], expected[special])
    numbers = special & ~np.isnan(expected)
    if op != "sign":
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@needs_gcc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_powers_keep_their_sign(library: Library, dtype: str) -> None:
    values = np.concatenate([SPECIAL, [5.0, -5.0, 1e30, -1e30]]).astype(dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    got = library(f"tasor_pow_{SUFFIX[dtype]}", x, y)
    special = (expected == 0) | ~np.isfinite(expected)
    np.testing.assert_array_equal(got[special], expected[special])
    numbers = special & ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))
