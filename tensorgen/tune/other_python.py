"""Processes of Python beside this one, which answer on a pipe what they are asked on another one.

What it does: starts one that calls the `main` of a module of ours, and ends one. What it does not:
know what is asked.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tensorgen.tune.measurer import MeasureError

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from {module} import main
main({arguments})
"""
_ROOT = Path(__file__).resolve().parent.parent.parent
_STOP_SECONDS = 2.0


def start_python(
    module: str,
    purpose: str,
    *arguments: float,
    options: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    files: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """A process in a group of its own that calls the `main` of a module with these arguments, by
    Python with these options. It has these open files. Raises MeasureError, which names the
    purpose, if it cannot be started."""
    program = _PROGRAM.format(module=module, arguments=", ".join(map(str, arguments)))
    try:
        return subprocess.Popen(
            (sys.executable, *options, "-c", program, str(_ROOT)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            process_group=0,
            pass_fds=files,
        )
    except OSError as error:
        raise MeasureError(
            f"{purpose}: expected to start {sys.executable}, got {error}; free some memory or "
            "processes"
        ) from None


def end_python(process: subprocess.Popen[bytes]) -> None:
    """Tells a process that nothing more is asked, and waits for its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
