"""Softmax of rows held in registers: every length, special values, nothing read or written beside.

The bound is that of the powers, two units and one more for each four that an element is below the
greatest, and four more for the sum, its reciprocal and the product with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tensorgen.c_functions import definitions
from tensorgen.dialects import HELD_VECTORS, vector_dialect
from tensorgen.expr import const
from tensorgen.lane_vectors import softmax_function
from tensorgen.loop import Buffer, SoftmaxRows, Space
from tensorgen.types import Array, DType, float32, float64, int64
from tests.compiled_c_functions import needs_gcc, watched_program
from tests.compiled_kernels import runnable_isas

MAIN = """
#include <stdio.h>
#include <stdlib.h>

/* Reads rows, columns, step, out_step and the rows; writes the results, the elements between them
 * included. A step for the result of 0 puts it in the place of the rows. */
int main(void)
{
    int sizes[4];
    while (fread(sizes, sizeof *sizes, 4, stdin) == 4) {
        const int rows = sizes[0], columns = sizes[1], step = sizes[2];
        const int out_step = sizes[3] ? sizes[3] : step;
        /* Memory ends with the last element that may be read, or written. */
        const size_t read = (size_t)((rows - 1) * step + columns);
        const size_t written = (size_t)((rows - 1) * out_step + columns);
        float *const x = malloc(read * sizeof *x);
        float *const out = sizes[3] ? malloc(written * sizeof *out) : x;
        if (x == NULL || out == NULL || fread(x, sizeof *x, read, stdin) != read) { return 2; }
        for (size_t n = 0; n < written && out != x; n++) { out[n] = -1.0f; }
        const int vectors = (columns + 15) / 16, lanes = columns - 16 * (vectors - 1);
        switch (vectors) {
CASES
        default: return 3;
        }
        if (fwrite(out, sizeof *out, written, stdout) != written) { return 4; }
        if (out != x) { free(out); }
        free(x);
    }
    return 0;
}
"""
FUNCTION = "tasor_softmax_rows_{}_f32x16"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "avx512" not in runnable_isas():
        pytest.skip("this machine has no avx512")
    folder = tmp_path_factory.mktemp("softmax")
    names = [FUNCTION.format(n) for n in range(1, HELD_VECTORS + 1)]
    cases = "\n".join(
        f"        case {n}: {name}(x, step, rows, out, out_step, lanes); break;"
        for n, name in enumerate(names, start=1)
    )
    text = definitions(names) + MAIN.replace("CASES", cases)
    return watched_program(folder, "x86-64-v4", text)


def computed(program: Path, blocks: list[Array], *, gap: int, in_place: bool) -> Iterator[Array]:
    """The softmax of the rows of each block, `gap` elements apart; what lies between stays."""
    told = b""
    for block in blocks:
        rows, columns = block.shape
        step, out_step = columns + gap, 0 if in_place else columns + gap + 1
        apart = np.full((rows, step), 7.0, np.float32)
        apart[:, :columns] = block
        told += np.array([rows, columns, step, out_step], np.int32).tobytes()
        told += apart.ravel()[: (rows - 1) * step + columns].tobytes()
    finished = subprocess.run([str(program)], input=told, capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    found = np.frombuffer(finished.stdout, np.float32)
    for block in blocks:
        rows, columns = block.shape
        out_step, between = columns + gap, 7.0
        if not in_place:
            out_step, between = out_step + 1, -1.0
        size = (rows - 1) * out_step + columns
        result, found = np.append(found[:size], [between] * (out_step - columns)), found[size:]
        apart = result.reshape(rows, out_step)
        assert (apart[:, columns:] == between).all()
        yield apart[:, :columns]
    assert found.size == 0


def assert_softmax(found: Array, x: Array) -> None:
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        below = (x - x.max(axis=1, keepdims=True)).astype(np.float64)
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        units = 6.0 + np.abs(below) / 4
        # What rounding the difference does to its power is nobody's fault.
        error = units * 2.0**-23 + np.abs(below) * 2.0**-24
        allowed = np.where(expected == 0, 0, expected * error + 2.0**-126)
        near = np.abs(found - expected) <= allowed
    assert (near | (np.isnan(found) & np.isnan(expected))).all()


@needs_gcc
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_of_every_length(program: Path, in_place: bool) -> None:
    rng = np.random.default_rng(0)
    blocks = [
        (rng.standard_normal((1 + columns % 5, columns)) * 10).astype(np.float32)
        for columns in range(1, HELD_VECTORS * 16 + 1)
    ]
    results = computed(program, blocks, gap=3, in_place=in_place)
    for found, x in zip(results, blocks, strict=True):
        assert_softmax(found, x)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-5)


@needs_gcc
def test_special_values(program: Path) -> None:
    """As the formula has them, each in its row alone."""
    inf, nan, most = np.inf, np.nan, np.float32(3.4028235e38)
    blocks = []
    for columns in (5, 16, 37, 128):
        x = np.random.default_rng(columns).standard_normal((12, columns)).astype(np.float32)
        last = columns - 1
        x[0, last] = nan
        x[1, 0] = -nan
        x[2, last] = inf
        x[3, :] = -inf
        x[4, 1:] = -inf
        x[5, last] = -inf
        x[6, :] = nan
        x[7, 0], x[7, last] = inf, nan
        x[8, :] = -most
        x[9, 0], x[9, 1:] = most, -most
        x[10, :] = most
        x[11, 0], x[11, 1:] = 100, 0
        blocks.append(x)
    for found, x in zip(computed(program, blocks, gap=0, in_place=False), blocks, strict=True):
        assert_softmax(found, x)
        assert np.isnan(found[[0, 1, 2, 3, 6, 7]]).all()
        assert (found[4] == np.eye(1, x.shape[1])).all()
        assert (found[8] == found[8, 0]).all()
        # Below the normal numbers there is nothing.
        assert (found[11, 1:] == 0).all()


@needs_gcc
def test_powers_of_all_sizes(program: Path) -> None:
    """From the greatest down to where nothing is left, in steps of no special size."""
    below = np.linspace(0.0, 90.0, 127 * 4000, dtype=np.float32).reshape(4000, 127)
    x = np.concatenate([np.zeros((4000, 1), np.float32), -below], axis=1)
    (found,) = computed(program, [x], gap=0, in_place=False)
    assert_softmax(found, x)


@pytest.mark.parametrize(
    ("isa", "dtype", "columns", "expected"),
    [
        ("avx512", float32, 1, (FUNCTION.format(1), 1)),
        ("avx512", float32, 16, (FUNCTION.format(1), 16)),
        ("avx512", float32, 17, (FUNCTION.format(2), 1)),
        ("avx512", float32, 128, (FUNCTION.format(8), 16)),
        ("avx512", float32, 129, None),
        ("avx512", float64, 8, None),
        ("avx2", float32, 8, None),
        ("c99", float32, 1, None),
    ],
)
def test_the_function_for_a_length(
    isa: str, dtype: DType, columns: int, expected: tuple[str, int] | None
) -> None:
    buffer, zero = Buffer(0, "x", dtype, 1024, Space.STACK), const(0, int64)
    rows = SoftmaxRows(buffer, zero, columns, buffer, zero, columns, 3, columns, ())
    assert softmax_function(isa, rows) == expected


def test_none_without_fused_multiply_adds() -> None:
    dialect = vector_dialect("avx512", float32)
    assert dialect is not None
    assert dialect.held_vectors == HELD_VECTORS
    assert dialect.unfused().held_vectors == 0
