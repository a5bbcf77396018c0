"""Whole models through the compiled C: against ONNX Runtime, under strict flags and sanitizers.

The trained models and the networks of the benchmark suites, and the light models of the `onnx`
package. A few of them in every run, all with the slow tests.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tasor
from benchmarks.conformance.cases import Case, cases_of
from tasor.suites.networks import MODERN_NETWORKS, NETWORKS, network
from tasor.suites.real_models import REAL_MODELS
from tensorgen.types import Array
from tests.required_tools import require

STRICT = "-Wall -Wextra -pedantic -Wconversion -Wshadow -Wmissing-prototypes -Werror"
# Unoptimized: compilers take several times as long for checks that they also try to remove.
SANITIZE = "-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
QUICK = ("angle", "espcn", "gru")
"""Parts of the names of the models that every run takes."""

CLASSIFIERS = (
    "angle",
    "nsfw",
    "magika",
    *(n for n in NETWORKS if n not in ("bert", "nasrnn", "dcgan")),
    "efficientnet",
    "mobilenetv3",
    "shufflenet",
    "densenet",
    "convnext",
    "vit",
    "swin",
    "mixer",
)
"""Models whose output is one score for each class."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, its shapes and one set of inputs."""

    name: str
    path: Path
    shapes: Mapping[str, tuple[int, ...]]
    inputs: Mapping[str, Array]


def names() -> list[object]:
    every = [*(real.name for real in REAL_MODELS), *NETWORKS, *MODERN_NETWORKS]
    quick = [name for name in every if any(part in name for part in QUICK)]
    every += [case.name for case in cases_of("light")]
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in every]


def subject(name: str, folder: Path) -> Subject:
    for real in REAL_MODELS:
        if real.name == name:
            return Subject(name, real.path(), dict(real.shapes), dict(real.inputs()))
    for case in cases_of("light"):
        if case.name == name:
            assert case.path is not None
            return Subject(name, case.path, {}, dict(light_inputs(case)))
    model = network(name)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for value in model.graph.input:
        shape = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            inputs[value.name] = rng.integers(0, 1000, shape)
        else:
            inputs[value.name] = rng.standard_normal(shape).astype(np.float32)
    return Subject(name, path, {}, inputs)


def light_inputs(case: Case) -> Iterator[tuple[str, Array]]:
    model, ((inputs, _),) = case.loaded()
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    return zip(names, inputs, strict=True)


def expected(case: Subject) -> list[Array]:
    session = onnxruntime.InferenceSession(str(case.path), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(case.inputs)))


@pytest.fixture(scope="module", params=names())
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subject(request.param, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def compiled(case: Subject) -> tasor.CompiledModel:
    return tasor.compile(case.path, shapes=dict(case.shapes), threads=2)


@pytest.fixture(scope="module")
def folder(compiled: tasor.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = compiled.save(tmp_path_factory.mktemp("model") / "out")
    assert saved.no_self_test is None
    return saved.folder


def check_outputs(case: Subject, model: tasor.CompiledModel) -> None:
    results = list(model.run(dict(case.inputs)).values())
    for result, oracle in zip(results, expected(case), strict=True):
        spread = float(np.ptp(oracle)) or 1.0
        assert np.abs(result.astype(np.float64) - oracle).max() <= 1e-4 * spread
        # The light models have constant weights: all their scores are equal but for rounding.
        light = case.name.startswith("test_")
        if any(part in case.name for part in CLASSIFIERS) and not light:
            assert (result.argmax(-1) == oracle.argmax(-1)).all()


def test_equals_onnxruntime(case: Subject, compiled: tasor.CompiledModel) -> None:
    check_outputs(case, compiled)


@pytest.mark.slow
def test_one_thread_equals_onnxruntime(case: Subject) -> None:
    check_outputs(case, tasor.compile(case.path, shapes=dict(case.shapes), threads=1))


def test_arena_is_near_the_largest_live_set(compiled: tasor.CompiledModel) -> None:
    plan = compiled.stages.compilation.arena
    assert plan.arena_bytes <= 1.1 * plan.lower_bound


OTHER_MACHINE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Nehalem" if platform.machine() in ("x86_64", "AMD64") else "ARMV8",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX X86_V3 X86_V4",
}
"""Has numpy add up and approximate as it does on another processor, in any of its versions."""


def test_sources_are_the_same_in_another_process(
    case: Subject, folder: Path, tmp_path: Path
) -> None:
    program = (
        "import ast, sys, tasor; shapes = ast.literal_eval(sys.argv[2]); "
        "tasor.compile(sys.argv[1], shapes=shapes, threads=2).save('again')"
    )
    paths = os.pathsep.join(filter(None, sys.path))
    subprocess.run(
        [sys.executable, "-c", program, str(case.path), repr(dict(case.shapes))],
        cwd=tmp_path,
        check=True,
        env={**os.environ, **OTHER_MACHINE, "PYTHONHASHSEED": "7", "PYTHONPATH": paths},
    )
    again = tmp_path / "again"
    assert {path.name for path in folder.iterdir()} == {path.name for path in again.iterdir()}
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        pytest.param("gcc", STRICT, id="gcc-strict"),
        pytest.param("clang", SANITIZE, id="clang-sanitized"),
        pytest.param("clang", STRICT, id="clang-strict", marks=pytest.mark.slow),
        pytest.param("gcc", SANITIZE, id="gcc-sanitized", marks=pytest.mark.slow),
    ],
)
def test_builds_and_passes_its_own_test(
    folder: Path, compiler: str, flags: str, tmp_path: Path
) -> None:
    require(compiler)
    shutil.copytree(folder, tmp_path / "out")
    done = subprocess.run(
        ["make", "-s", f"CC={compiler}", f"CFLAGS={flags}", "test"],
        cwd=tmp_path / "out", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    assert done.stdout.strip().endswith("OK")
