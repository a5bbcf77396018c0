"""Tasor beside the other generator of C from ONNX: emx-onnx-cgen, on the open-nsfw network.

Compiles the network with both, builds emx's C with `-O3 -march=native`, checks that both compute
the same, and times them in turns, one thread each. Needs the package emx-onnx-cgen; its generator
takes a minute or two, so a folder for its output can be kept.

    python -m benchmarks.against_emx --folder out/emx
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tasor
from tasor.suites.real_models import REAL_MODELS

EMX_FLAGS = ("-O3", "-march=native")
NAME = "open-nsfw"
ROUNDS = 7


def emx_library(model: Path, folder: Path) -> ctypes.CDLL:
    """emx's C for the model, built and loaded with its weights; made anew if not there."""
    command = shutil.which("emx-onnx-cgen", path=str(Path(sys.executable).parent))
    command = command or shutil.which("emx-onnx-cgen")
    source, library = folder / "emx.c", folder / "emx.so"
    if not source.exists():
        if command is None:
            raise SystemExit("against_emx: expected emx-onnx-cgen, got none; pip install it")
        subprocess.run([command, "compile", str(model), str(source)], check=True)
    subprocess.run(
        ["gcc", *EMX_FLAGS, "-shared", "-fPIC", "-o", library, source, "-lm"],
        check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    loaded = ctypes.CDLL(str(library))
    weights = next(folder.glob("*.bin"))
    loaded.model_load.restype = ctypes.c_bool
    if not loaded.model_load(str(weights).encode()):
        raise SystemExit(f"against_emx: expected emx to load {weights}, got a refusal")
    return loaded


def seconds(function: Callable[[], object]) -> float:
    """Processor time of one call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def main() -> int:
    """Print both times, their ratio and the largest difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/emx"))
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    real = next(model for model in REAL_MODELS if NAME in model.name)
    ours = tasor.compile(real.path(), shapes=dict(real.shapes), threads=1)
    theirs = emx_library(real.path(), folder)
    (_, image), *_ = real.inputs()
    image = np.ascontiguousarray(image)
    scores = np.zeros(ours.outputs[0].type.shape, np.float32)
    pointers = tuple(a.ctypes.data_as(ctypes.c_void_p) for a in (image, scores))

    def run_theirs() -> None:
        theirs.model(ctypes.c_int(1), ctypes.c_int(1), *pointers)

    run_theirs()
    result = np.asarray(ours(image), np.float32)
    times = [(seconds(lambda: ours(image)), seconds(run_theirs)) for _ in range(ROUNDS)]
    mine, other = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
    print(f"largest difference {np.abs(result - scores).max():.2e}")
    print(f"Tasor {mine:.2f} ms, emx-onnx-cgen {' '.join(EMX_FLAGS)} {other:.1f} ms")
    print(f"ratio {other / mine:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
