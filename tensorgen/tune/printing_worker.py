"""The process that prints kernels, from outside: a Python beside the one that chooses them.

What it does: starts a Python (`printing_process`), tells it what to print, keeps it to the core of
the thread that asks, and starts another one in the place of one that is gone. Of two threads of one
Python that compute, one waits: whoever chooses candidates and whoever prints them took turns, and a
core had nothing to do. What it does not: lower or print.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress

from tensorgen.build import Around
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.candidate_source import PrintedKernel
from tensorgen.tune.kernel_printer import PrintSettings
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.other_python import end_python, start_python
from tensorgen.tune.outcome import NotBuilt, Refused
from tensorgen.tune.printing_process import READY

LIMIT_SECONDS = 60.0
"""Processor time of one kernel; some milliseconds are usual."""

_MODULE = "tensorgen.tune.printing_process"


class PrintingWorker:
    """Prints in a process of its own, which starts when it is first asked."""

    def __init__(self, settings: PrintSettings, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._settings = settings
        self._limit_seconds = limit_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._known: set[bytes] = set()

    def printed(
        self, task: Task, schedule: Schedule, *, apart: bool, around: Around
    ) -> PrintedKernel | NotBuilt | Refused:
        """The kernel, without its loops; or why there is none. Raises MeasureError if no process
        can be started."""
        if self._process is None:
            self._process = start_python(_MODULE, "printing", self._limit_seconds)
        process = self._process
        try:
            with around(process.pid):
                _keep_to_core_of_thread(process.pid)
                self._get_ready(process)
                return self._answer(process, task, schedule, apart)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            self.close()
            return Refused(f"lowering: {self._why_ended(process.returncode)}")
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
        request = (task.digest, None if task.digest in self._known else task, schedule, apart)
        self._known.add(task.digest)
        pickle.dump(request, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        found = pickle.load(process.stdout)
        assert isinstance(found, PrintedKernel | NotBuilt | Refused), type(found)
        return found

    def _why_ended(self, code: int) -> str:
        if code == -signal.SIGPROF:
            return f"expected an end within {self._limit_seconds:g} s of processor time, got none"
        return f"the process that prints ended with {code}"

    def close(self) -> None:
        """Ends the process, if there is one, and waits for it."""
        process, self._process = self._process, None
        self._is_ready, self._known = False, set()
        if process is not None:
            end_python(process)


def _keep_to_core_of_thread(process: int) -> None:
    """Keeps a process to the cores that this thread may use; where the system lets one choose."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(process, os.sched_getaffinity(0))
