"""`tasor tune` ended at any moment: prompt, one line at most, trials kept, no process left."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorgen.tune.records import TrialRecords
from tests.tasor.test_interrupts import PROMPT_SECONDS, TOLD, started_command

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc tells whether a process is there"
)

FEATURES = (64, 96, 128, 160, 192, 224, 256, 48, 80, 112, 144, 176, 208, 240, 72, 104, 136)
"""Of the products of the model, one behind the other: kernels enough for some seconds of trials,
and for some of races behind them."""


def layers_model() -> onnx.ModelProto:
    """Products with constant weights, each of another size."""
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in pairwise(FEATURES)]
    names = [f"t{number}" for number in range(len(FEATURES))]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]])
            for n in range(len(weights))
        ],
        "layers",
        [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, [96, FEATURES[0]])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [96, FEATURES[-1]])],
        [numpy_helper.from_array(w, f"w{n}") for n, w in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@contextmanager
def tuning(folder: Path, table: str = "trials") -> Iterator[subprocess.Popen[str]]:
    """A tuning of the model that has the first entries in this table of its `trials.sqlite`."""
    onnx.save(layers_model(), folder / "layers.onnx")
    words = ("--trials", 64, "--threads", 1, "--records", "trials.sqlite", "--quiet")
    process = started_command(("tune", "layers.onnx", *words), folder)
    try:
        limit = time.monotonic() + 120
        while not entries_of(folder, table):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < limit, f"there are no {table}"
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def entries_of(folder: Path, table: str) -> int:
    file = folder / "trials.sqlite"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as records:
        try:
            return int(records.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # its tables are being made


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that have this folder in their environment."""
    marked = os.fsencode(folder)
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_ours = entry.name.isdecimal() and marked in (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_bytes() if is_ours else b""
        except OSError:
            continue  # one that has ended, or is somebody else's
        if words and entry.name != str(os.getpid()):
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def check_end(folder: Path, table: str, delay: float, signal_number: int) -> None:
    with tuning(folder, table) as process:
        time.sleep(delay)
        sent = time.monotonic()
        process.send_signal(signal_number)
        _, err = process.communicate(timeout=60)
        seconds = time.monotonic() - sent
        left = processes_of(folder)
    ends = [TOLD[signal_number]]
    if table == "races":
        # They take so little that all may be done, and Python have taken its handlers back.
        ends += [(0, ""), (-signal_number, "")]
    assert (process.returncode, err) in ends
    assert seconds < PROMPT_SECONDS
    assert TrialRecords(folder / "trials.sqlite").count() > 0
    assert list((folder / "cache" / "building").iterdir()) == []
    assert left == []


@pytest.mark.parametrize(
    ("table", "signal_number"), [("trials", signal.SIGINT), ("races", signal.SIGTERM)]
)
def test_a_tuning_ends_when_it_is_told(tmp_path: Path, table: str, signal_number: int) -> None:
    """In its trials, and in the races of libraries behind them."""
    check_end(tmp_path, table, 0.1, signal_number)


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("table", ["trials", "races"])
@pytest.mark.parametrize("delay", [0.05 * step for step in range(16)])
def test_a_tuning_ends_at_any_moment(
    tmp_path: Path, table: str, delay: float, signal_number: int
) -> None:
    check_end(tmp_path, table, delay, signal_number)


def test_a_tuning_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    """Those that wait for it find nobody to answer."""
    with tuning(tmp_path) as process:
        process.kill()
        process.wait()
        limit = time.monotonic() + 30
        while processes_of(tmp_path):
            assert time.monotonic() < limit, processes_of(tmp_path)
            time.sleep(0.05)
    assert TrialRecords(tmp_path / "trials.sqlite").count() > 0
