"""A small library of two kernels, one written by hand, and commands to build it with."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tensorgen.module import (
    STATUSES,
    Arena,
    Call,
    Constant,
    Input,
    Kernel,
    Module,
    Output,
    Parameter,
    SelfTest,
    WeightMode,
    generated_input,
    module_files,
)
from tensorgen.ports import Port
from tensorgen.target import Target
from tensorgen.types import TensorType, boolean, float32, int64
from tests.required_tools import require

COMPILERS = ("gcc", "clang")
MODES: tuple[WeightMode, ...] = ("c", "object", "file")
STRICT_FLAGS = (
    "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Wmissing-prototypes",
    "-Wvla", "-Wstrict-prototypes", "-Wundef", "-Werror",
)  # fmt: skip
HOST = Target.named("host")
STATUS = {suffix: value for suffix, value, _ in STATUSES}
ROWS, COLUMNS = 4, 37

SCALE = Kernel(
    name="scale_f32_4x37",
    text="""
/* expr: out[i,j] = x[i,j] * w[j] */
static void scale_f32_4x37(const float *restrict x, const float *restrict w, float *restrict out)
{
    TASOR_TEAM_FOR(i, 4) {
        TASOR_SIMD
        for (int j = 0; j < 37; ++j) {
            out[i * 37 + j] = x[i * 37 + j] * w[j];
        }
    }
}
""",
    parameters=(
        Parameter("x", float32, False),
        Parameter("w", float32, False),
        Parameter("out", float32, True),
    ),
    functions=(),
    schedule="parallel(i); vectorize(j)",
    expression="out[i,j] = x[i,j] * w[j]",
    parallel=True,
)
TOTAL = Kernel(
    name="total_f32_4x37",
    text="""
/* expr: total[i] = sum(j) a[i,j]; positive[i] = total[i] > limit[] */
static void total_f32_4x37(
    const float *restrict a, const int64_t *restrict limit, float *restrict total,
    uint8_t *restrict positive)
{
    for (int i = 0; i < 4; ++i) {
        float sum = 0.0f;
        TASOR_SIMD_REDUCTION(+, sum)
        for (int j = 0; j < 37; ++j) {
            sum += a[i * 37 + j];
        }
        total[i] = sum;
        positive[i] = sum > (float)limit[0] ? 1 : 0;
    }
}
""",
    parameters=(
        Parameter("a", float32, False),
        Parameter("limit", int64, False),
        Parameter("total", float32, True),
        Parameter("positive", boolean, True),
    ),
    functions=(),
    schedule="",
    expression="total[i] = sum(j) a[i,j]; positive[i] = total[i] > limit[]",
    parallel=False,
)
WEIGHT = np.linspace(-1, 2, COLUMNS, dtype=np.float32)
X_TYPE = TensorType(float32, (ROWS, COLUMNS))


def reference(x: np.ndarray[Any, Any], limit: int) -> tuple[Any, Any]:
    total = (x * WEIGHT).sum(axis=1, dtype=np.float32)
    return total, total > limit


def self_test() -> SelfTest:
    x = generated_input(X_TYPE, 0)
    limit = np.array(-(2**40), np.int64)
    return SelfTest((x, limit), reference(x, int(limit)), 1e-5, 1e-5)


def tiny(**changes: Any) -> Module:
    module = Module(
        name="tiny",
        inputs=(Port("x", X_TYPE), Port("limit", TensorType(int64, ()))),
        outputs=(
            Port("total", TensorType(float32, (ROWS,))),
            Port("positive?", TensorType(boolean, (ROWS,))),
        ),
        constants=(
            np.zeros((0, 3), np.int32),
            WEIGHT,
            np.array([np.nan, -np.inf, -0.0, 1e-45, 3.4028235e38], np.float32),
            np.array([-(2**63), 2**63 - 1, 0], np.int64),
            np.array([True, False]),
            np.array([1.5, -2.0], ml_dtypes.bfloat16),
            np.array([0.1, np.inf, np.nan, 5e-324]),
            np.array([2**64 - 1], np.uint64),
        ),
        kernels=(SCALE, TOTAL),
        calls=(
            Call("scale_f32_4x37", (Input(0), Constant(1), Arena(64)), "scale */ of ??/ layer\n1"),
            Call("total_f32_4x37", (Arena(64), Input(1), Output(0), Output(1)), "total"),
        ),
        arena_bytes=64 + ROWS * COLUMNS * 4,
        target=Target.named("c99"),
        threads=1,
        strict=False,
        weights="c",
        self_test=self_test(),
        metadata={
            "model_sha256": "ab" * 32,
            "tasor_version": "0.0",
            "rules": ["mul-one"],
            "compiler": "gcc",
        },
    )
    return replace(module, **changes)


def written(module: Module, folder: Path) -> Path:
    for name, content in module_files(module).items():
        (folder / name).write_bytes(content)
    return folder


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a tool, or a program of the folder by its path; skips the test without the tool."""
    if isinstance(command[0], str) and "/" not in command[0]:
        require(command[0])
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def make(folder: Path, *goals: str) -> None:
    done = run("make", "-s", *goals, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
