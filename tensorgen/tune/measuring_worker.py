"""The process that measures, from outside: started when it is first asked, ended by `close`.

What it does: sends requests to `measuring_process` and reads what it found. It starts a new Python
instead of a copy of this process: here are threads, perhaps an OpenMP runtime and whatever the
caller has open, of which a copy would have half. What it does not: know what is measured.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tensorgen.openmp_runtime import spinning_environment
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.other_python import end_python, start_python

_MODULE = "tensorgen.tune.measuring_process"
_READY = b"{}\n"
_ISOLATED = ("-I", "-S")
"""With the standard library alone it starts in milliseconds."""


class MeasuringWorker:
    """A process that measures on request, one request at a time, on operands in an open file."""

    def __init__(self, operands: int) -> None:
        self._operands = operands
        self._process: subprocess.Popen[bytes] | None = None

    def ask(
        self, request: Mapping[str, Any], timed: Callable[[], AbstractContextManager[None]]
    ) -> list[dict[str, Any]]:
        """What came of each candidate of a request (see `measuring_process`). Nothing is timed but
        in a block that `timed` gives.

        A process that is gone, killed for its memory, say, is replaced once. Raises MeasureError.
        """
        line = json.dumps(request).encode() + b"\n"
        answer = self._answer(line, timed) or self._answer(line, timed)
        if not answer:
            raise MeasureError(
                "measuring: expected an answer from the process that measures, got its end, twice; "
                "see whether the system ends processes for their memory"
            )
        found = json.loads(answer)
        if "error" in found:
            raise MeasureError(
                f"measuring: expected figures, got {found['error']}; try again, and report this"
            )
        results: list[dict[str, Any]] = found["results"]
        return results

    def _answer(self, line: bytes, timed: Callable[[], AbstractContextManager[None]]) -> bytes:
        """One line; nothing if the process ended."""
        if self._process is None:
            self._process = start_python(
                _MODULE, "measuring", self._operands,
                options=_ISOLATED, environment=spinning_environment(), files=(self._operands,),
            )  # fmt: skip
        process = self._process
        try:
            answer = _said(process, line)
            if answer == _READY:
                with timed():
                    answer = _said(process, b"\n")
        except BrokenPipeError:
            answer = b""
        except BaseException:
            # Interrupted between a question and its answer: it would answer the next one with it.
            self.close()
            raise
        if not answer:
            self.close()
        return answer

    def close(self) -> None:
        """Ends the process, if there is one, and waits for it."""
        process, self._process = self._process, None
        if process is not None:
            end_python(process)


def _said(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """What a process says to a line; nothing if it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()
