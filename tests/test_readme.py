"""The README's commands do what it says: every `sh` block after the set-up is run, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SET_UP = "pip install"
"""Blocks that install are what `make` itself does for the tests."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, sys.path)]
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def test_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.long
def test_commands_work(tmp_path: Path) -> None:
    commands = [block for block in blocks("sh") if SET_UP not in block]
    assert commands
    launcher = tmp_path / "tasor"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tasor "$@"\n')
    launcher.chmod(0o755)
    variables = environment()
    variables["PATH"] = f"{tmp_path}{os.pathsep}{variables['PATH']}"
    for block in commands:
        done = subprocess.run(
            ["sh", "-e", "-c", block], cwd=tmp_path, env=variables, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "optimized.onnx").exists()
    assert list((tmp_path / "out").glob("*.h"))


@pytest.mark.long
def test_python_example_works(tmp_path: Path) -> None:
    (example,) = blocks("python")
    program = (
        "import onnx\n"
        "from tasor.suites.real_models import REAL_MODELS\n"
        "real = next(r for r in REAL_MODELS if r.name == 'ppocr-angle')\n"
        "onnx.save(onnx.load(real.path()), 'model.onnx')\n" + example
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "better.onnx").exists()
    assert (tmp_path / "library").is_dir()
