"""The C functions of minimal filtering: the products of matrices that they say they are, no UB."""

from __future__ import annotations

import ctypes
import re
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.c_functions_filter import filter_function
from tensorgen.minimal_filtering import Row, minimal_filter
from tensorgen.target import host_target
from tests.compiled_c_functions import needs_gcc, watched_program

MACROS = """
#define TASOR_ALIGNED
#define TASOR_NO_UNROLL
#define TASOR_SIMD
"""
FILTERS = [(2, 3), (4, 3), (4, 2), (3, 4), (1, 1), (2, 5)]
MATRICES = {
    "outputs": lambda results, taps: minimal_filter(results, taps).outputs,
    "inputs": lambda results, taps: minimal_filter(results, taps).inputs,
    "finite": lambda results, taps: tuple(
        row[:-1] for row in minimal_filter(results, taps).inputs[:-1]
    ),
}


def matrices() -> list[tuple[Row, ...]]:
    """Those of data and results, and of data without the point at infinity."""
    made = [make(*sizes) for make, sizes in product(MATRICES.values(), FILTERS)]
    return [matrix for matrix in dict.fromkeys(made) if matrix]


def test_a_name_is_that_of_one_pair_of_matrices() -> None:
    """Functions of one size differ in their matrices: F(4, 3) has as many points as F(2, 5)."""
    names: dict[str, str] = {}
    for down, across in product(matrices(), repeat=2):
        function = filter_function(down, across, "float", 16)
        assert names.setdefault(function.name, function.text) == function.text
        assert function.text.count(f"static void {function.name}(") == 1
    assert len(names) == len(matrices()) ** 2


def test_the_text_is_the_same_each_time_and_says_what_it_computes() -> None:
    filter = minimal_filter(2, 3)
    function = filter_function(filter.outputs, filter.outputs, "float", 8)
    assert re.fullmatch(r"tasor_filter_2x4_2x4_[0-9a-f]{6}_f32x8", function.name)
    comment = " ".join(function.text.partition("*/")[0].replace("*", " ").split())
    assert "down = [[1 1 1 0], [0 1 -1 1]]" in comment
    assert "columns[j * 8 + lane] = x0 + x1 + x2;" in function.text
    assert "columns[j * 8 + lane + 32] = x1 + x3 - x2;" in function.text
    # An element without a weight is not read: it may not be there.
    finite = tuple(row[:-1] for row in filter.inputs[:-1])
    assert "x[3 * line" not in filter_function(finite, finite, "float", 8).text


@needs_gcc
@pytest.mark.parametrize("c_type", ["float", "double"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_tiles_are_transformed(tmp_path: Path, c_type: str, lanes: int) -> None:
    chosen = matrices()[:6]
    functions = [filter_function(d, a, c_type, lanes) for d, a in product(chosen, repeat=2)]
    text = "#include <stddef.h>\n" + MACROS
    text += "".join(f.text.replace("static void", "void") for f in functions)
    library = ctypes.CDLL(str(build_library({"f.c": text}, target=host_target(), cache=tmp_path)))
    rng = np.random.default_rng(0)
    for (down, across), function in zip(product(chosen, repeat=2), functions, strict=True):
        d, a = np.array(down), np.array(across)
        x = rng.integers(-9, 10, (d.shape[1], 2, a.shape[1], lanes)).astype(c_type[:1])
        out = np.zeros((d.shape[0], a.shape[0], 3, lanes), c_type[:1])
        steps = [n // x.itemsize for n in (*x.strides[::2], *out.strides[:2])]
        library[function.name](
            x.ctypes.data_as(ctypes.c_void_p), *map(ctypes.c_ssize_t, steps[:2]),
            out.ctypes.data_as(ctypes.c_void_p), *map(ctypes.c_ssize_t, steps[2:]),
        )  # fmt: skip
        expected = np.einsum("ik,kml,jm->ijl", d, x[:, 0], a)
        assert np.array_equal(out[:, :, 0], expected), function.name
        assert not out[:, :, 1:].any()


MAIN = """
#include <stdlib.h>

int main(void)
{
    float *x = calloc(X, sizeof *x), *out = calloc(OUT, sizeof *out);
    if (x == NULL || out == NULL) { return 2; }
    NAME(x, LINE, 16, out, OUT_LINE, 16);
    free(x);
    free(out);
    return 0;
}
"""


@needs_gcc
def test_nothing_is_touched_beside_a_tile(tmp_path: Path) -> None:
    filter = minimal_filter(4, 3)
    function = filter_function(filter.inputs, filter.inputs, "float", 16)
    macros = {"X": 6 * 6 * 16, "OUT": 6 * 6 * 16, "LINE": 96, "OUT_LINE": 96, "NAME": function.name}
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    program = watched_program(tmp_path, "x86-64-v3", MACROS + function.text + MAIN, *defined)
    assert subprocess.run([str(program)], check=True, capture_output=True).stderr == b""
