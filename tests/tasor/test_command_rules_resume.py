"""`tasor rules verify --resume`: killed, interrupted, and with damaged records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]


def records(folder: Path) -> dict[str, int]:
    """Files of finished verdicts with the time of their last change."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}


def verification(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a run over many rules, which keeps its work in `folder`/kept."""
    path = folder / "many.rules"
    path.write_text(
        "".join(
            f"r{n}: mul(add(x, {n}), y) => add(mul(x, y), mul({n}, y)) where same_shape(x, y)\n"
            for n in range(2, 2 + MANY)
        )
    )
    command = [
        sys.executable, "-m", "tasor", "rules", "verify", str(path), "--jobs", "1", "--json",
        "--resume", str(folder / "kept"), "--report", str(folder / "report"),
    ]  # fmt: skip
    return command, {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


MANY = 60


def stopped(folder: Path, number: int, *, group: bool) -> tuple[int, str]:
    """Exit code and stderr of such a run that gets a signal after its first verdicts."""
    command, environment = verification(folder)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # A test runner in the background may have had interrupts turned off for its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while len(records(folder / "kept")) < 3 and process.poll() is None:
            assert time.monotonic() < end, "no verdict was kept"
            time.sleep(0.005)
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, err = process.communicate(timeout=30)
        return process.returncode, err
    finally:
        process.kill()
        process.wait()


def test_a_killed_verification_goes_on_where_it_was(tmp_path: Path) -> None:
    code, _ = stopped(tmp_path, signal.SIGKILL, group=True)
    assert code == -signal.SIGKILL, "it was done before it could be killed"
    before = records(tmp_path / "kept")
    assert 3 <= len(before) < MANY
    assert not (tmp_path / "report").exists()
    command, environment = verification(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["summary"]["proved"]) == (0, MANY)
    after = records(tmp_path / "kept")
    assert {name: after[name] for name in before} == before
    assert len(after) == MANY
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGINT, (130, "tasor: interrupted; no output was written\n")),
        (signal.SIGTERM, (143, "")),
    ],
)
def test_a_signal_ends_a_verification_at_once(
    tmp_path: Path, number: int, expected: tuple[int, str]
) -> None:
    assert stopped(tmp_path, number, group=False) == expected
    kept = records(tmp_path / "kept")
    time.sleep(0.5)
    assert records(tmp_path / "kept") == kept, "its processes go on"
    assert not (tmp_path / "report").exists()


def test_a_damaged_record_is_judged_again(
    tasor_command: Command, rules: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    words = ("rules", "verify", rules, "--resume", kept, "--json", "--jobs", 1)
    first = json.loads(tasor_command(*words)[1])
    damaged = sorted(kept.glob("*.json"))[0]
    damaged.write_text(damaged.read_text()[:-10])
    again = json.loads(tasor_command(*words)[1])
    assert again["summary"]["proved"] == first["summary"]["proved"] == 2
    assert json.loads(damaged.read_text())
