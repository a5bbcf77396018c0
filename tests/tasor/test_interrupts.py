"""Ctrl-C and SIGTERM in the middle of the work: a prompt end, one line, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tasor.interrupts import _raising

PROMPT_SECONDS = 5.0

TOLD: dict[int, tuple[int, str]] = {
    signal.SIGINT: (130, "tasor: interrupted; no output was written\n"),
    signal.SIGTERM: (143, ""),
}
"""Exit code and stderr of who is told to end."""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")


def started_command(
    words: Sequence[object], folder: Path, **environment: str
) -> subprocess.Popen[str]:
    """`tasor` with these words in a process of its own, in a folder with a cache of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tasor", *map(str, words)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TASOR_CACHE": str(folder / "cache"),
            **environment,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A test runner in the background may have had interrupts turned off for its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )


def interrupted(
    words: Sequence[object], folder: Path, compiler: str, signal_number: int, times: int = 1
) -> tuple[int, str, float]:
    """Exit code, stderr and seconds after a signal that arrives while the compiler is running, so
    many times.

    The compiler is a script that says that it has started, and then sleeps.
    """
    script = folder / "slowcc"
    started = folder / "started"
    script.write_text(f"#!/bin/sh\n{compiler}\ntouch {started}\nexec sleep 60\n")
    script.chmod(0o755)
    process = started_command(words, folder, CC=str(script))
    try:
        limit = time.monotonic() + 60
        while not started.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < limit, "the compiler was not started"
            time.sleep(0.02)
        time.sleep(0.2)
        sent = time.monotonic()
        for _ in range(times):
            process.send_signal(signal_number)
            time.sleep(1e-4)
        _, err = process.communicate(timeout=30)
        return process.returncode, err, time.monotonic() - sent
    finally:
        process.kill()
        process.wait()


VERSION = 'case "$*" in *--version*) echo slow 1.0; exit 0;; esac'
RUN = ("run", "small.onnx", "--shape", "x=2,6", "-o", "deep/out")
COMPILE = ("compile", "small.onnx", "--shape", "x=2,6", "-o", "deep/out")


@pytest.mark.parametrize(
    ("words", "compiler"), [(RUN, VERSION), ((*RUN, "--threads", "1"), VERSION), (COMPILE, "")]
)
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_at_once(
    model: Path, words: Sequence[object], compiler: str, signal_number: int
) -> None:
    folder = model.parent
    code, err, seconds = interrupted(words, folder, compiler, signal_number)
    assert (code, err) == TOLD[signal_number]
    assert seconds < PROMPT_SECONDS
    kept = {"small.onnx", "slowcc", "started", "cache"}
    assert {path.name for path in folder.iterdir()} <= kept
    building = folder / "cache" / "building"
    assert not building.exists() or list(building.iterdir()) == []


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_signals_behind_the_first_do_not_disturb_its_end(model: Path, signal_number: int) -> None:
    """`timeout` sends two."""
    words = (*RUN, "--threads", "1")
    code, err, seconds = interrupted(words, model.parent, VERSION, signal_number, 2)
    assert (code, err) == TOLD[signal_number]
    assert seconds < PROMPT_SECONDS
    assert list((model.parent / "cache" / "building").iterdir()) == []


def test_signals_that_come_together_raise_once() -> None:
    """Whoever is impatient may press Ctrl-C again a while later."""
    at = iter((5.0, 5.001, 5.8, 7.0))
    handle = _raising(KeyboardInterrupt, lambda: next(at))
    with pytest.raises(KeyboardInterrupt):
        handle(signal.SIGINT, None)
    handle(signal.SIGINT, None)
    handle(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        handle(signal.SIGINT, None)
