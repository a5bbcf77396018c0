"""The README's commands do what it says: every `sh` block after the set-up is run, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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


def images_model() -> onnx.ModelProto:
    """A model of images as the Python example has them, of any number and size."""
    rng = np.random.default_rng(4)
    weights = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
    sizes = ("N", 3, "H", "W")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["y"]),
        ],
        "images",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("N", 8, 1, 1))],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_python_example_works(tmp_path: Path) -> None:
    # The commands have shown a trained model already; what the calls do does not depend on it.
    onnx.save_model(images_model(), tmp_path / "model.onnx")
    (example,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "better.onnx").exists()
    assert (tmp_path / "library").is_dir()
