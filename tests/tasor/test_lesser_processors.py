"""Libraries on processors that lack their instructions: a status and an exception, no signal.

The processors are emulated, so that the check itself is seen to need nothing that they lack.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tasor
from benchmarks.call_overhead import sums
from tests.required_tools import require

REFUSED = "the processor lacks instructions that the library was made for"


def emulated(processor: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command on that processor; the emulator's own warnings are left out of what it says."""
    return subprocess.run(
        ["qemu-x86_64", "-cpu", processor, *command],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="the emulator runs programs for Linux")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("target", "processors"),
    [
        ("x86-64-v2", {"Nehalem": True, "qemu64": False}),
        ("x86-64-v3", {"Haswell": True, "Haswell,-fma": False, "Haswell,-bmi2": False,
                       "SandyBridge": False, "Nehalem": False, "qemu64": False}),
        ("x86-64-v4", {"Haswell": False, "Nehalem": False, "qemu64": False}),
        ("c99", {"qemu64": True}),
    ],
)  # fmt: skip
def test_the_self_test_passes_or_says_why_not(
    target: str, processors: dict[str, bool], compiler: str, tmp_path: Path
) -> None:
    require("make", compiler, "qemu-x86_64")
    folder = tmp_path / "out"
    tasor.compile(sums(3), target=target, threads=1, name="net").save(folder)
    subprocess.run(["make", "-s", f"CC={compiler}", "net_test"], cwd=folder, check=True)
    for processor, runs in processors.items():
        done = emulated(processor, str(folder / "net_test"))
        expected = (0, "net: OK\n") if runs else (1, f"net: {REFUSED}\n")
        assert (done.returncode, done.stdout) == expected, f"{processor}: {done.stderr}"


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from tensorgen.library import Library, RunError
from tensorgen.ports import Port
from tensorgen.types import TensorType, float32

vector = TensorType(float32, (4,))
library = Library(
    Path(sys.argv[1]), "net", (Port("x", vector), Port("y", vector)), (Port("z", vector),), 0
)
ones = np.ones(4, np.float32)
try:
    print(library.run([ones, ones])[0])
except RunError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the emulator runs programs for Linux")
def test_python_raises_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    require("make", "gcc", "qemu-x86_64")
    folder = tmp_path / "out"
    model = tasor.compile(sums(1), target="x86-64-v3", threads=1, name="net")
    assert model.arena_bytes == 0
    model.save(folder)
    subprocess.run(["make", "-s", "libnet.so"], cwd=folder, check=True)
    paths = os.pathsep.join([str(Path(tasor.__file__).parents[1]), *sys.path])
    # The interpreter itself: a virtual environment's is a link, or a script.
    python = str(Path(sys.executable).resolve())
    words = (python, "-c", PROGRAM, str(folder / "libnet.so"))
    # Numpy's BLAS may take the emulated processor for another one, and end the process.
    refused = emulated("Nehalem", *words, PYTHONPATH=paths, OPENBLAS_CORETYPE="Nehalem")
    assert refused.stdout == (
        "net_run: expected a CPU with the instructions that the library was built for, got one "
        "without; build it for this machine or for an older level\n"
    ), refused.stderr
    assert emulated("Haswell", *words, PYTHONPATH=paths).stdout == "[2. 2. 2. 2.]\n"
