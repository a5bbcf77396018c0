"""Lane loops in intrinsics, folded lanes and quotients by reciprocals, on every instruction set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from tensorgen.c_functions import C_FUNCTIONS
from tensorgen.emit import Spelling
from tensorgen.expr import Apply, Fold, Tensor, apply, compute, maximum, minimum, reduce
from tensorgen.scalar_ops import EXP_NONPOSITIVE, quotient_divisors
from tensorgen.schedule import Lanes, Loops
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, DType, TensorType, float32, float64
from tensorgen.vector_spelling import VECTOR_SPELLINGS
from tests.compiled_c_functions import SPECIAL, float32_sample
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    print_kernel,
    runnable_isas,
)

EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "tanh": np.tanh, "erf": special.erf, "sigmoid": special.expit,
}  # fmt: skip
"""Functions with vector versions of their own, in double."""

OUTPUT = Loops(Lanes.OUTPUT, 2048, 0, 0)
RECIPROCALS = Loops(Lanes.OUTPUT, 2048, 0, 0, reciprocals=True)
FOLDED = Loops(Lanes.REDUCTION, 32, 0, 0)


def compiled(cases: list[Case], cache: Path, isa: str, *, strict: bool = False) -> CompiledKernels:
    return CompiledKernels(cases, cache, target=Target.named(ISA_TARGETS[isa]), strict=strict)


def elementwise(op: str, size: int) -> Task:
    x = Tensor(0, TensorType(float32, (size,)))
    return Task((x.type,), (compute((size,), lambda i: apply(op, x[i])),), (0,), (False,))


def quotients(rows: int, columns: int, dtype: DType = float32) -> Task:
    """The rows of x divided by the elements of y."""
    x, y = Tensor(0, TensorType(dtype, (rows, columns))), Tensor(1, TensorType(dtype, (rows,)))
    stage = compute((rows, columns), lambda i, j: x[i, j] / y[i])
    return Task((x.type, y.type), (stage,), (0,), (False, False))


def folds(size: int, fold: Fold) -> Task:
    x = Tensor(0, TensorType(float32, (size,)))
    stage = compute((1,), lambda i: reduce(fold, size, lambda k: x[k]))
    return Task((x.type,), (stage,), (0,), (False,))


@pytest.mark.parametrize("isa", runnable_isas())
def test_functions_keep_their_bounds_in_loops(isa: str, tmp_path: Path) -> None:
    x = float32_sample(2047)
    library = compiled([Case.of(elementwise(op, x.size), OUTPUT) for op in EXACT], tmp_path, isa)
    for number, (op, reference) in enumerate(EXACT.items()):
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.float64))
            rounded = exact.astype(np.float32)
            (found,) = library.run(number, [x])
            error = np.abs(found - exact) / np.spacing(np.abs(rounded))
        finite = np.isfinite(rounded)
        if op == "sigmoid":
            below = exact < np.finfo(np.float32).tiny
            assert np.all((found[below] >= 0) & (found[below] <= np.finfo(np.float32).tiny))
            error[below] = 0
        bound = C_FUNCTIONS[f"tasor_{op}_f32"].ulp
        assert bound is not None
        worst = int(np.argmax(np.where(finite, error, 0)))
        assert error[worst] <= bound + 1e-3, f"{op}({float(x[worst]).hex()}): {error[worst]} ulp"
        np.testing.assert_array_equal(found[~finite], rounded[~finite])
        np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(rounded[finite]))


@pytest.mark.parametrize("isa", runnable_isas())
def test_every_count_of_lanes_has_all_its_values(isa: str, tmp_path: Path) -> None:
    sizes = (1, 4, 5, 15, 16, 17, 31, 33, 48, 67)
    library = compiled([Case.of(elementwise("exp", size), OUTPUT) for size in sizes], tmp_path, isa)
    for number, size in enumerate(sizes):
        x = np.linspace(-3, 3, size, dtype=np.float32)
        np.testing.assert_allclose(library.run(number, [x])[0], np.exp(x), rtol=3e-7)


@pytest.mark.parametrize("isa", runnable_isas())
def test_extremes_in_loops_propagate_nan(isa: str, tmp_path: Path) -> None:
    left, right = (g.ravel().astype(np.float32) for g in np.meshgrid(SPECIAL, SPECIAL))
    types = (TensorType(float32, (left.size,)),) * 3
    x, y, z = (Tensor(number, type) for number, type in enumerate(types))
    # exp(-inf) adds nothing, and makes the loop one for intrinsics.
    cases = [
        Case.of(Task(types, (stage,), (0,), (False,) * 3), OUTPUT)
        for stage in (
            compute((left.size,), lambda i: maximum(x[i], y[i]) + apply("exp", z[i])),
            compute((left.size,), lambda i: minimum(x[i], y[i]) + apply("exp", z[i])),
        )
    ]
    library = compiled(cases, tmp_path, isa)
    nothing = np.full(left.size, -np.inf, np.float32)
    for number, reference in enumerate((np.maximum, np.minimum)):
        with np.errstate(all="ignore"):
            expected = reference(left, right) + np.float32(0)
        np.testing.assert_array_equal(library.run(number, [left, right, nothing])[0], expected)


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("isa", runnable_isas())
def test_folded_lanes_find_nan_wherever_it_is(isa: str, lanes: int, tmp_path: Path) -> None:
    size = 71
    folded = replace(FOLDED, tile=lanes)
    cases = [Case.of(folds(size, fold), folded) for fold in (Fold.MAX, Fold.MIN)]
    library = compiled(cases, tmp_path, isa)
    values = np.random.default_rng(3).normal(size=size).astype(np.float32)
    for number, reference in enumerate((np.max, np.min)):
        assert library.run(number, [values])[0] == reference(values)
        for position in range(size):
            spoiled = values.copy()
            spoiled[position] = np.nan
            assert np.isnan(library.run(number, [spoiled])[0]).all(), position


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("strict", [False, True])
def test_sums_are_the_same_on_every_instruction_set(
    strict: bool, lanes: int, tmp_path: Path
) -> None:
    values = np.random.default_rng(4).normal(size=333).astype(np.float32)
    cases = [Case.of(folds(333, Fold.SUM), replace(FOLDED, tile=lanes))]
    sums = {
        float(compiled(cases, tmp_path, isa, strict=strict).run(0, [values])[0].item())
        for isa in runnable_isas()
    }
    assert len(sums) == 1


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_lanes_are_folded_in_registers(isa: str, lanes: int) -> None:
    """A load across the stores of two vectors waits for both: a softmax took a third longer."""
    folded = replace(FOLDED, tile=lanes)
    text = print_kernel(Case.of(folds(96, Fold.MAX), folded), "kernel", Spelling(isa, False)).text
    whole = isa == "avx2" or lanes > 8
    assert (f"tasor_max_of_{lanes}_lanes_f32" in text) == whole
    assert not (whole and "maskload" in text)


def hard_quotients() -> tuple[Array, Array]:
    """Dividends and divisors whose quotients lie next to the middle between two floats.

    For an odd divisor b of 24 bits, a 2**s = b m + c with an odd m and a small c says that a / b is
    nearly m / 2**s, and m has one bit too many.
    """
    rng = np.random.default_rng(5)
    divisors = [2**23 + 1, 2**24 - 1, *(int(b) | 1 for b in rng.integers(2**23, 2**24, 60))]
    rows = []
    for b in divisors:
        dividends = [
            a
            for shift in (24, 25)
            for c in (-5, -3, -2, -1, 1, 2, 3, 5)
            for a in (c * pow(2, -shift, b) % b + b * k for k in range(3))
            if 2**23 <= a < 2**24
        ]
        rows.append((dividends * 70)[:70])
    return np.array(rows, np.float32), np.array(divisors, np.float32)


@pytest.mark.parametrize("isa", runnable_isas())
def test_quotients_by_reciprocals_are_correctly_rounded(isa: str, tmp_path: Path) -> None:
    x, y = hard_quotients()
    library = compiled([Case.of(quotients(*x.shape), RECIPROCALS)], tmp_path, isa)
    for exponent in (-99, -40, 0, 40, 99):
        for scale in (-23 - 24, -23, 0):
            dividends, divisors = np.ldexp(x, exponent - 23), np.ldexp(y, scale)
            np.testing.assert_array_equal(
                library.run(0, [dividends, divisors])[0], dividends / divisors[:, None]
            )


@pytest.mark.parametrize("isa", runnable_isas())
def test_shares_are_rounded_once_but_for_very_little(isa: str, tmp_path: Path) -> None:
    """Powers of at most 1 by sums of at least 1; tiny ones within a unit, subnormal or not."""
    x, y = hard_quotients()
    shares = replace(RECIPROCALS, softmax=True)
    library = compiled([Case.of(quotients(*x.shape), shares)], tmp_path, isa)
    for exponent in (0, -1, -40, -120, -149):
        for scale in (0, 1, 13, 40):
            powers = np.ldexp(x / x.max(), exponent).astype(np.float32)
            sums = np.ldexp(y, scale - 23).astype(np.float32)
            exact = powers.astype(np.float64) / sums[:, None].astype(np.float64)
            (found,) = library.run(0, [powers, sums])
            unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
            bound = 0.5 + 2**-20 if exponent > -100 else 1
            assert (np.abs(found - exact) / unit).max() <= bound
    powers[0, 0], sums[3] = np.nan, np.nan
    (found,) = library.run(0, [powers, sums])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(powers) | np.isnan(sums)[:, None])


@pytest.mark.parametrize("isa", runnable_isas())
def test_powers_of_what_is_at_most_0(isa: str, tmp_path: Path) -> None:
    x = -np.abs(float32_sample(509))
    v = Tensor(0, TensorType(float32, (x.size,)))
    stage = compute((x.size,), lambda i: Apply(EXP_NONPOSITIVE, (v[i],)))
    library = compiled([Case.of(Task((v.type,), (stage,), (0,), (False,)), OUTPUT)], tmp_path, isa)
    (found,) = library.run(0, [x])
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    exact = np.exp(x[numbers].astype(np.float64))
    exact[exact < np.finfo(np.float32).tiny] = 0
    error = np.abs(found[numbers] - exact) / np.spacing(exact.astype(np.float32))
    assert error.max() <= 1 + 1e-3
    np.testing.assert_array_equal(found[x == 0], 1)


@pytest.mark.slow
@pytest.mark.parametrize("isa", runnable_isas())
def test_powers_of_what_is_at_most_0_densely(isa: str, tmp_path: Path) -> None:
    """Every float from -88, where it is 0, to -2**-12, below which it is 1 or next to that."""
    size = 1 << 22
    v = Tensor(0, TensorType(float32, (size,)))
    stage = compute((size,), lambda i: Apply(EXP_NONPOSITIVE, (v[i],)))
    library = compiled([Case.of(Task((v.type,), (stage,), (0,), (False,)), OUTPUT)], tmp_path, isa)
    first, last = np.array([-(2.0**-12), -88.0], np.float32).view(np.uint32).tolist()
    for start in range(first, last, size):
        x = np.arange(start, start + size, dtype=np.uint32).view(np.float32)
        (found,) = library.run(0, [x])
        exact = np.exp(x.astype(np.float64))
        exact[exact < np.finfo(np.float32).tiny] = 0
        error = np.abs(found - exact) / np.spacing(exact.astype(np.float32))
        worst = int(np.argmax(error))
        assert error[worst] <= 1, f"exp({float(x[worst]).hex()}): {error[worst]} ulp"


@pytest.mark.parametrize("isa", runnable_isas())
def test_streamed_results_arrive_wherever_they_begin(isa: str, tmp_path: Path) -> None:
    """Rows of 77 begin at every alignment that floats can have."""
    widths = [16, 64, 77, 1000]
    schedule = replace(OUTPUT, streamed=True)
    cases = [Case.of(quotients(19, columns), schedule) for columns in widths]
    library = compiled(cases, tmp_path, isa)
    for number, (columns, case) in enumerate(zip(widths, cases, strict=True)):
        rng = np.random.default_rng(8)
        x, y = (rng.normal(size=n).astype(np.float32) for n in ((19, columns), 19))
        np.testing.assert_array_equal(library.run(number, [x, y])[0], x / y[:, None], str(columns))
        text = print_kernel(case, "streamed", Spelling(isa, False)).text
        streams = isa in VECTOR_SPELLINGS
        assert ("tasor_stream_" in text) == streams, columns
        assert text.endswith("    _mm_sfence();\n}\n") == streams, columns
        strict = print_kernel(case, "streamed", Spelling(isa, True)).text
        assert "tasor_stream_" not in strict, columns
        assert "_mm_sfence" not in strict, columns


@pytest.mark.parametrize("isa", runnable_isas())
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_quotients_of_special_values_are_those_of_divisions(
    isa: str, dtype: DType, tmp_path: Path
) -> None:
    least, most = quotient_divisors(dtype)
    near = [value * factor for value in (least, most) for factor in (0.999, 1.0, 1.001)]
    y = np.array([*SPECIAL, *near, 0.7, 1.3, 1e-30, 1e30], dtype.numpy)
    greatest = float(np.finfo(dtype.name).max)
    x = np.array([*SPECIAL, greatest, -greatest, greatest / 2, 3e-20, -7e20], dtype.numpy)
    x = x[(x == 0) | ~(np.abs(x) < 2.0**-100)]
    dividends = np.tile(x, (y.size, 2))
    task = quotients(y.size, 2 * x.size, dtype)
    library = compiled([Case.of(task, RECIPROCALS)], tmp_path, isa)
    with np.errstate(all="ignore"):
        expected = dividends / y[:, None]
    found = library.run(0, [dividends, y])[0]
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("isa", runnable_isas())
def test_tiny_quotients_are_off_by_one_unit_at_most(isa: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    x = np.ldexp(rng.uniform(1, 2, (50, 201)), rng.integers(-149, -100, (50, 201)))
    y = np.ldexp(rng.uniform(1, 2, 50), rng.integers(-24, 24, 50)).astype(np.float32)
    dividends = x.astype(np.float32)
    library = compiled([Case.of(quotients(50, 201), RECIPROCALS)], tmp_path, isa)
    expected = dividends / y[:, None]
    difference = library.run(0, [dividends, y])[0].view(np.int32) - expected.view(np.int32)
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_what_compilers_make_less_of_is_in_intrinsics(isa: str) -> None:
    case = Case.of(elementwise("exp", 100), OUTPUT)
    text = print_kernel(case, "kernel", Spelling(isa, strict=False)).text
    assert f"tasor_exp_{VECTOR_SPELLINGS[isa].suffix}(" in text
    assert "tasor_exp_f32(" not in text


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_strict_kernels_keep_to_plain_loops(isa: str) -> None:
    case = Case.of(elementwise("exp", 100), OUTPUT)
    text = print_kernel(case, "kernel", Spelling(isa, strict=True)).text
    assert "_mm" not in text
    assert "tasor_exp_f32(" in text


def doubled(size: int, dtype: DType = float32) -> Task:
    x = Tensor(0, TensorType(dtype, (size,)))
    return Task((x.type,), (compute((size,), lambda i: x[i] * 2.0),), (0,), (False,))


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_loops_of_whole_vectors_are_in_intrinsics(isa: str) -> None:
    """Sums of lanes, too: what compilers make of several such loops may stay in memory."""
    for case in (Case.of(doubled(96), OUTPUT), Case.of(folds(96, Fold.SUM), FOLDED)):
        text = print_kernel(case, "kernel", Spelling(isa, strict=False)).text
        assert "_mm" in text
        assert "TASOR_SIMD" not in text


@pytest.mark.parametrize("isa", ["avx2", "avx512", "sse42", "neon"])
@pytest.mark.parametrize(("size", "dtype"), [(100, float32), (96, float64)], ids=str)
def test_loops_that_compilers_do_as_well_stay_plain(isa: str, size: int, dtype: DType) -> None:
    case = Case.of(doubled(size, dtype), OUTPUT)
    text = print_kernel(case, "kernel", Spelling(isa, strict=False)).text
    assert "_mm" not in text
    assert "TASOR_SIMD" in text


@pytest.mark.parametrize("isa", runnable_isas())
def test_whole_vectors_have_all_their_values(isa: str, tmp_path: Path) -> None:
    sizes = (8, 16, 24, 32, 96, 2048, 2064, 4096)
    library = compiled([Case.of(doubled(size), OUTPUT) for size in sizes], tmp_path, isa)
    for number, size in enumerate(sizes):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(library.run(number, [x])[0], 2 * x)
