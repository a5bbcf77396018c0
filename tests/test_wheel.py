"""The wheel that people install: complete, and usable far from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tasor", "verify", "graphopt", "tensorgen")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def shipped_files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name[0] != "."
    }


def test_holds_every_file_of_the_four_packages_and_the_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    expected = {f"{name}/{file}" for name in PACKAGES for file in shipped_files(ROOT / name)}
    expected |= {f"graphopt/data/{file}" for file in shipped_files(ROOT / "data")}
    assert expected <= held
    assert {name.split("/")[0] for name in held} == {*PACKAGES, "tasor-0.1.0.dist-info"}


def test_names_its_command_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        scripts = archive.read("tasor-0.1.0.dist-info/entry_points.txt").decode()
        licence = archive.read("tasor-0.1.0.dist-info/licenses/LICENSE").decode()
    assert "tasor = tasor.command_line:main" in scripts
    assert "Apache License" in licence


def run_elsewhere(unpacked: Path, folder: Path, program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "TASOR_CACHE": str(folder / "cache")}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_finds_its_data_inside_itself(unpacked: Path, tmp_path: Path) -> None:
    program = "from graphopt.data_files import data_path; print(data_path('README.md').resolve())"
    found = Path(run_elsewhere(unpacked, tmp_path, program))
    assert found == (unpacked / "graphopt" / "data" / "README.md").resolve()
    assert found.read_bytes() == (ROOT / "data" / "README.md").read_bytes()


def test_lists_and_builds_the_suites_of_bench(unpacked: Path, tmp_path: Path) -> None:
    program = """
import re
from pathlib import Path
from tasor.suites.sources import sources

print([len(sources(suite, (1, 16), re.compile(""))) for suite in ("operators", "networks", "real")])
for suite, name in (("operators", "GMM0-b1"), ("networks", "dcgan")):
    (source,) = sources(suite, (1,), re.compile(name))
    print(source.write(Path("model.onnx")).flops)
"""
    assert run_elsewhere(unpacked, tmp_path, program) == "[100, 10, 6]\n4194304\n821166080"


def test_a_checkout_finds_its_data_beside_the_packages() -> None:
    from graphopt.data_files import data_path

    assert data_path("rules") == ROOT / "data" / "rules"
    assert data_path() == ROOT / "data"


def test_builds_and_runs_a_library_elsewhere(unpacked: Path, tmp_path: Path) -> None:
    program = """
import numpy as np
from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.ports import Port
from tensorgen.target import host_target
from tensorgen.types import TensorType, float32

code = '''
#include <stddef.h>
int twice_run(void *arena, size_t arena_bytes, const float *x, float *y) {
    (void)arena; (void)arena_bytes;
    for (int i = 0; i < 3; i++) y[i] = 2 * x[i];
    return 0;
}
'''
vector = TensorType(float32, (3,))
path = build_library({"twice.c": code}, target=host_target())
library = Library(path, "twice", (Port("x", vector),), (Port("y", vector),), 0)
print(library.run([np.array([1, 2, 3], np.float32)])[0].tolist())
"""
    assert run_elsewhere(unpacked, tmp_path, program) == "[2.0, 4.0, 6.0]"


SUITE = (
    "tests/tasor",
    "tests/graphopt/test_compiler.py",
    "tests/graphopt/test_fold.py",
    "tests/graphopt/test_rules.py",
    "tests/tensorgen/test_build.py",
    "tests/tensorgen/test_library.py",
    "tests/tensorgen/test_module.py",
    "tests/tensorgen/test_target.py",
)
"""Tests of a minute in all, of the front door and of what finds files, tools and processors."""

LEFT_OUT = (
    "tests/tasor/test_cross_targets.py",
    "tests/tasor/test_peers.py",
    "tests/tasor/test_mutations.py",
)

FROM_THE_WHEEL = """
from importlib import import_module
from importlib.metadata import version
from pathlib import Path


def test_comes_from_the_wheel():
    for name in {packages}:
        module = import_module(name)
        assert Path(module.__file__).is_relative_to({installed!r})
    assert version("tasor") == "0.1.0"
"""

WITHOUT_THE_CHECKOUT = """
import sys

sys.path[:] = [place for place in sys.path if place != {checkout!r}]
"""


@pytest.mark.slow
def test_the_installed_wheel_passes_its_tests(wheel: Path, tmp_path: Path) -> None:
    """The tests run on the packages that pip installed, from a folder far from the checkout."""
    installed, elsewhere, settings = (tmp_path / name for name in ("lib", "elsewhere", "settings"))
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--no-index", "--target", str(installed), str(wheel),
        ],
        check=True,
    )  # fmt: skip
    for name in ("tests", "benchmarks"):
        shutil.copytree(ROOT / name, elsewhere / name)
    shutil.copy(ROOT / "pyproject.toml", elsewhere)
    (elsewhere / "tests" / "test_installed.py").write_text(
        FROM_THE_WHEEL.format(packages=PACKAGES, installed=str(installed))
    )
    # Python itself runs this file, after it has added what was installed in place to its path.
    settings.mkdir()
    (settings / "sitecustomize.py").write_text(WITHOUT_THE_CHECKOUT.format(checkout=str(ROOT)))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (installed, settings)))
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow",
            *(f"--deselect={name}" for name in LEFT_OUT), "tests/test_installed.py", *SUITE,
        ],
        cwd=elsewhere, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-10000:] + done.stderr[-10000:]
    assert " passed" in done.stdout
