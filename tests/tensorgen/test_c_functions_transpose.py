"""Blocks transposed in registers: every size, nothing read or written beside it, no UB."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tensorgen.c_functions import definitions
from tensorgen.c_functions_transpose import TRANSPOSE
from tensorgen.expr import const
from tensorgen.lane_vectors import transpose_function
from tensorgen.loop import Buffer, Space, TransposeBlock
from tensorgen.types import float32, int64
from tests.compiled_c_functions import INCLUDES, needs_gcc
from tests.compiled_kernels import runnable_isas

SIZES = {
    function.name: tuple(map(int, match.groups()))
    for function in TRANSPOSE
    if (match := re.match(r"tasor_transpose_(\d+)x(\d+)_f32", function.name))
}
"""The most rows and columns of each function."""

MAIN = """
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    for (int rows = FEWEST; rows <= MOST; rows++) {
        for (int columns = 1; columns <= COLUMNS; columns++) {
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
        "FUNCTION": name, "FEWEST": max(narrower, default=0) + 1, "MOST": most, "COLUMNS": columns,
    }  # fmt: skip
    source, built = tmp_path / "main.c", tmp_path / "main"
    source.write_text(f"#include <immintrin.h>\n{INCLUDES}{definitions([name])}{MAIN}")
    flags = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", f"-march={level}")
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    defined = [f"-D{macro}={value}" for macro, value in macros.items()]
    command = ["gcc", *flags, *sanitizers, *defined, str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    finished = subprocess.run([str(built)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == ""


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
    buffer = Buffer(0, "x", float32, 1024, Space.STACK)
    zero = const(0, int64)
    block = TransposeBlock(buffer, zero, 16, buffer, zero, 16, rows, lanes, lanes, ())
    assert transpose_function(isa, block) == name
