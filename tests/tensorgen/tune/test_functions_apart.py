"""Functions of candidates in a library of their own: the same results, called from elsewhere."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.c_functions import ON_ARRAYS, definitions
from tensorgen.target import Isa, Target
from tensorgen.tune.functions_apart import apart_source, functions_apart
from tests.compiled_c_functions import needs_gcc
from tests.compiled_kernels import runnable_isas

LEVELS: list[tuple[Isa, str, int]] = [("avx512", "x86-64-v4", 16), ("avx2", "x86-64-v3", 8)]


def test_each_instruction_set_has_those_of_its_vectors() -> None:
    wide, narrow = functions_apart("avx512"), functions_apart("avx2")
    assert set(narrow) == {name for name in ON_ARRAYS if re.search(r"x8_f32$", name)}
    assert set(wide) | set(narrow) == set(ON_ARRAYS)
    assert not set(wide) & set(narrow)
    assert functions_apart("sse42") == functions_apart("c99") == functions_apart("neon") == ()


def test_what_takes_vectors_stays_where_it_is_called() -> None:
    assert "tasor_transpose_sum_4x16_f32" not in ON_ARRAYS
    assert "tasor_stream_f32x16" not in ON_ARRAYS
    assert "tasor_exp_f32" not in ON_ARRAYS


def test_what_is_elsewhere_is_declared_without_what_only_it_calls() -> None:
    whole = "tasor_transpose_whole_16x16_f32"
    text = definitions([whole, "tasor_exp_f32"], frozenset([whole]))
    assert f"\nvoid {whole}(\n    const float *x, ptrdiff_t step, float *out" in text
    assert "tasor_transpose_16x16_f32" not in text
    assert "tasor_exp_f32(float x)\n{" in text


@needs_gcc
@pytest.mark.parametrize(("isa", "level"), [row[:2] for row in LEVELS])
def test_the_source_is_free_of_warnings(tmp_path: Path, isa: Isa, level: str) -> None:
    (tmp_path / "apart.c").write_text(apart_source(isa))
    strict = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wmissing-prototypes", "-Werror")
    command = ["gcc", *strict, f"-march={level}", "-c", "apart.c", "-o", "apart.o"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.parametrize(("isa", "level", "lanes"), LEVELS)
def test_blocks_are_transposed(tmp_path: Path, isa: Isa, level: str, lanes: int) -> None:
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    path = build_library({"a.c": apart_source(isa)}, target=Target.named(level), cache=tmp_path)
    library = ctypes.CDLL(str(path))
    block = np.arange(lanes * lanes, dtype=np.float32).reshape(lanes, lanes)
    for rows, columns in ((lanes, lanes), (lanes, lanes - 3), (lanes - 2, 5)):
        out = np.full((lanes, lanes), -1.0, np.float32)
        steps = ctypes.c_ssize_t(lanes)
        library[f"tasor_transpose_{lanes}x{lanes}_f32"](
            block.ctypes.data_as(ctypes.c_void_p), steps, rows,
            out.ctypes.data_as(ctypes.c_void_p), steps, columns,
        )  # fmt: skip
        assert np.array_equal(out[:columns, :rows], block[:rows, :columns].T)
        assert (out[columns:] == -1.0).all()
        assert (out[:, rows:] == -1.0).all()
