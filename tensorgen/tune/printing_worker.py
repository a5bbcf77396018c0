"""The process that prints kernels, from outside: a Python beside the one that chooses them.

What it does: starts a Python (`printing_process`), tells it what to print, keeps it to the core of
the thread that asks, and starts another one in the place of one that is gone. Of two threads of one
Python that compute, one waits: whoever chooses candidates and whoever prints them took turns, and a
core had nothing to do. What it does not: lower or print.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tensorgen.build import Around
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.candidate_source import PrintedKernel
from tensorgen.tune.kernel_printer import PrintSettings
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.outcome import NotBuilt, Refused
from tensorgen.tune.printing_process import READY

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from tensorgen.tune.printing_process import main
main()
"""
_ROOT = Path(__file__).resolve().parent.parent.parent
_STOP_SECONDS = 2.0


class PrintingWorker:
    """Prints in a process of its own, which starts when it is first asked."""

    def __init__(self, settings: PrintSettings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._known: dict[bytes, int] = {}

    def printed(
        self, task: Task, schedule: Schedule, *, apart: bool, around: Around
    ) -> PrintedKernel | NotBuilt | Refused:
        """The kernel, without its loops; or why there is none. Raises MeasureError if no process
        can be started."""
        if self._process is None:
            self._process = _started()
        process = self._process
        try:
            with around(process.pid):
                _keep_to_core_of_thread(process.pid)
                self._get_ready(process)
                return self._answer(process, task, schedule, apart)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            self.close()
            return Refused(f"lowering: the process that prints ended with {process.returncode}")
        except BaseException:
            # Interrupted between a question and its answer: it would answer the next one with it.
            self.close()
            raise

    def _get_ready(self, process: subprocess.Popen[bytes]) -> None:
        if self._is_ready:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != READY:
            raise MeasureError(
                f"printing: expected {sys.executable} to start, got its end; see whether the "
                "system ends processes for their memory"
            )
        pickle.dump(self._settings, process.stdin, pickle.HIGHEST_PROTOCOL)
        self._is_ready = True

    def _answer(
        self, process: subprocess.Popen[bytes], task: Task, schedule: Schedule, apart: bool
    ) -> PrintedKernel | NotBuilt | Refused:
        assert process.stdin is not None
        assert process.stdout is not None
        is_new = task.digest not in self._known
        number = self._known.setdefault(task.digest, len(self._known))
        request = (number, task if is_new else None, schedule, apart)
        pickle.dump(request, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        found = pickle.load(process.stdout)
        assert isinstance(found, PrintedKernel | NotBuilt | Refused), type(found)
        return found

    def close(self) -> None:
        """Ends the process, if there is one, and waits for it."""
        process, self._process = self._process, None
        self._is_ready, self._known = False, {}
        if process is None:
            return
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


def _keep_to_core_of_thread(process: int) -> None:
    """Keeps a process to the cores that this thread may use; where the system lets one choose."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(process, os.sched_getaffinity(0))


def _started() -> subprocess.Popen[bytes]:
    command = (sys.executable, "-c", _PROGRAM, str(_ROOT))
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
    except OSError as error:
        raise MeasureError(
            f"printing: expected to start {sys.executable}, got {error}; free some memory or "
            "processes"
        ) from None
