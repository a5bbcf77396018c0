"""`tasor optimize` ended in the middle: prompt, one line, nothing half written."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.tasor.test_interrupts import VERSION, interrupted

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

WORDS = (
    "optimize", "small.onnx", "--shape", "x=2,6", "-o", "deep/o.onnx", "--report", "deep/r.html"
)  # fmt: skip


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(model: Path, signal_number: int) -> None:
    folder = model.parent
    code, err, seconds = interrupted((*WORDS, "--measure"), folder, VERSION, signal_number)
    if signal_number == signal.SIGINT:
        assert (code, err) == (130, "tasor: interrupted; no output was written\n")
    elif signal_number == signal.SIGTERM:
        assert (code, err) == (143, "")
    else:
        assert code == -signal.SIGKILL
    assert seconds < 5.0
    kept = {"small.onnx", "slowcc", "started", "cache"}
    assert {path.name for path in folder.iterdir()} <= kept


def test_what_was_there_before_stays(model: Path) -> None:
    folder = model.parent
    (folder / "deep").mkdir()
    for name in ("o.onnx", "r.html"):
        (folder / "deep" / name).write_text("before")
    interrupted(WORDS, folder, VERSION, signal.SIGTERM)
    found = {path.name: path.read_text() for path in (folder / "deep").iterdir()}
    assert found == {"o.onnx": "before", "r.html": "before"}
