"""Blocks transposed in registers: every size, nothing read or written beside it, no UB."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tensorgen.c_functions import definitions
from tensorgen.c_functions_transpose import TRANSPOSE
from tensorgen.expr import const
from tensorgen.lane_vectors import transpose_function, whole_transpose_function
from tensorgen.loop import Buffer, Space, TransposeBlock
from tensorgen.types import float32, int64
from tests.compiled_c_functions import needs_gcc, watched_program
from tests.compiled_kernels import runnable_isas

SIZES = {
    function.name: tuple(map(int, match.groups()))
    for function in TRANSPOSE
    if (match := re.match(r"tasor_transpose_(\d+)x(\d+)_f32", function.name))
}
"""The most rows and columns of each function."""

LEVELS = [("avx512", "x86-64-v4", 16), ("avx2", "x86-64-v3", 8)]

MAIN = """
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    for (int rows = FEWEST; rows <= MOST; rows++) {
        for (int columns = FEWEST_COLUMNS; columns <= COLUMNS; columns++) {
            const int step = columns + 3, out_step = rows + 5;
            /* Memory ends with the last element that may be read, or written. */
            const size_t read = (size_t)((rows - 1) * step + columns);
            const size_t written = (size_t)((columns - 1) * out_step + rows);
            float *const x = malloc(read * sizeof *x), *const out = malloc(written * sizeof *out);
            if (x == NULL || out == NULL) { return 2; }
            for (size_t n = 0; n < read; n++) { x[n] = (float)n; }
            for (size_t n = 0; n < written; n++) { out[n] = -1.0f; }
            FUNCTION(x, step, rows, out, out_step, columns);
            for (size_t n = 0; n < written; n++) {
                const int j = (int)n / out_step, i = (int)n % out_step;
                const float expected = i < rows ? (float)(i * step + j) : -1.0f;
                if (out[n] != expected) { printf("%d x %d at %d, %d", rows, columns, i, j); }
            }
            free(x);
            free(out);
        }
    }
    return 0;
}
"""


@needs_gcc
@pytest.mark.parametrize("name", SIZES)
def test_blocks_of_every_size(tmp_path: Path, name: str) -> None:
    most, columns = SIZES[name]
    level, isa = ("x86-64-v4", "avx512") if columns == 16 else ("x86-64-v3", "avx2")
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    narrower = [rows for rows, width in SIZES.values() if width == columns and rows < most]
    macros = {
        "FUNCTION": name, "FEWEST": max(narrower, default=0) + 1, "MOST": most,
        "FEWEST_COLUMNS": 1, "COLUMNS": columns,
    }  # fmt: skip
    defined = [f"-D{macro}={value}" for macro, value in macros.items()]
    assert_finds_nothing(watched_program(tmp_path, level, definitions([name]) + MAIN, *defined))


@needs_gcc
@pytest.mark.parametrize(("isa", "level", "lanes"), LEVELS)
def test_whole_blocks(tmp_path: Path, isa: str, level: str, lanes: int) -> None:
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    name = f"tasor_transpose_whole_{lanes}x{lanes}_f32"
    sizes = ("FEWEST", "MOST", "FEWEST_COLUMNS", "COLUMNS")
    call = f"-DFUNCTION(x, step, rows, out, out_step, columns)={name}(x, step, out, out_step)"
    defined = [call, *(f"-D{size}={lanes}" for size in sizes)]
    assert_finds_nothing(watched_program(tmp_path, level, definitions([name]) + MAIN, *defined))


def assert_finds_nothing(program: Path) -> None:
    finished = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == ""


SUMS = """
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    enum { STEP = 21, OUT_STEP = 19, FACTOR_STEP = 18, ROWS = 4 };
    /* Memory ends with the last element that may be read, or written. */
    const size_t read = 15 * STEP + 16, written = 15 * OUT_STEP + 16;
    const size_t factors = (ROWS - 1) * FACTOR_STEP + 16;
    float *const x = malloc(read * sizeof *x), *const out = malloc(written * sizeof *out);
    float *const factor = malloc(factors * sizeof *factor);
    if (x == NULL || out == NULL || factor == NULL) { return 2; }
    for (size_t n = 0; n < read; n++) { x[n] = (float)(n % 97); }
    for (size_t n = 0; n < written; n++) { out[n] = -1.0f; }
    for (size_t n = 0; n < factors; n++) { factor[n] = (float)(n % 31) - 15.0f; }
    __m512 sums[ROWS];
    for (int r = 0; r < ROWS; r++) { sums[r] = _mm512_set1_ps((float)r); }
    tasor_transpose_sum_4x16_f32(
        x, STEP, out, OUT_STEP, factor, FACTOR_STEP, &sums[0], &sums[1], &sums[2], &sums[3]);
    for (int j = 0; j < 16; j++) {
        for (int i = 0; i < OUT_STEP && j * OUT_STEP + i < (int)written; i++) {
            const float expected = i < 16 ? x[i * STEP + j] : -1.0f;
            if (out[j * OUT_STEP + i] != expected) { printf("out at %d, %d", j, i); }
        }
    }
    for (int r = 0; r < ROWS; r++) {
        float lanes[16];
        _mm512_storeu_ps(lanes, sums[r]);
        for (int i = 0; i < 16; i++) {
            float expected = (float)r;
            for (int j = 0; j < 16; j++) {
                expected += factor[r * FACTOR_STEP + j] * x[i * STEP + j];
            }
            if (lanes[i] != expected) { printf("sum %d, lane %d", r, i); }
        }
    }
    free(x);
    free(out);
    free(factor);
    return 0;
}
"""


@needs_gcc
def test_sums_with_columns_as_they_are_transposed(tmp_path: Path) -> None:
    if "avx512" not in runnable_isas():
        pytest.skip("this machine has no avx512")
    text = definitions(["tasor_transpose_sum_4x16_f32"]) + SUMS
    assert_finds_nothing(watched_program(tmp_path, "x86-64-v4", text))


@pytest.mark.parametrize(
    ("isa", "lanes", "rows", "name"),
    [
        ("avx512", 16, 4, "tasor_transpose_4x16_f32"),
        ("avx512", 16, 5, "tasor_transpose_16x16_f32"),
        ("avx2", 8, 4, "tasor_transpose_4x8_f32"),
        ("avx2", 8, 5, "tasor_transpose_8x8_f32"),
        ("avx2", 16, 5, None),
        ("neon", 4, 4, None),
    ],
)
def test_the_narrowest_function_that_fits_is_chosen(
    isa: str, lanes: int, rows: int, name: str | None
) -> None:
    assert transpose_function(isa, block(rows, lanes, lanes)) == name


@pytest.mark.parametrize(
    ("isa", "rows", "columns", "lanes", "name"),
    [
        ("avx512", 16, 16, 16, "tasor_transpose_whole_16x16_f32"),
        ("avx512", 16, 15, 16, None),
        ("avx512", 4, 16, 16, None),
        ("avx2", 8, 8, 8, "tasor_transpose_whole_8x8_f32"),
        ("avx2", 7, 8, 8, None),
        ("neon", 4, 4, 4, None),
    ],
)
def test_whole_blocks_have_a_function(
    isa: str, rows: int, columns: int, lanes: int, name: str | None
) -> None:
    assert whole_transpose_function(isa, block(rows, columns, lanes)) == name


def block(rows: int, columns: int, lanes: int) -> TransposeBlock:
    buffer = Buffer(0, "x", float32, 1024, Space.STACK)
    zero = const(0, int64)
    return TransposeBlock(buffer, zero, 16, buffer, zero, 16, rows, columns, lanes, ())
