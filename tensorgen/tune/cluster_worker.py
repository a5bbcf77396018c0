"""What a worker of a cluster does: answers requests of the tuner with what it measures itself.

What it does: builds and races candidates with this machine's own compiler and a measurer of its
own, so that a crash or a hang costs the candidate that caused it and not the worker. One race at a
time, whoever asks, and on one machine even if several workers run there. What it does not: know
which cluster it belongs to.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from tensorgen.build import BuildError, ToolMissing
from tensorgen.calibration import CalibrationError, calibrated
from tensorgen.tune.cluster_message import (
    MachineRequest,
    RaceRequest,
    SettingRequest,
    Work,
    failure_answer,
    machine_answer,
    race_answer,
    read_request,
    setting_answer,
)
from tensorgen.tune.fields import FieldError, one_line
from tensorgen.tune.local_measurer import LocalMeasurer, check_runs_here
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.trial import setting_of
from tensorgen.version import tasor_version

KEPT_SECONDS = 60.0
"""A measurer with nothing to do is closed after this time: who asked may be gone."""


class KeptMeasurer:
    """A measurer that is there for the next race of the same kind, and closes when none comes."""

    def __init__(self, seconds: float = KEPT_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._work: tuple[Work, bool] | None = None
        self._measurer: LocalMeasurer | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def measuring(self, work: Work, *, drafts: bool) -> Iterator[LocalMeasurer]:
        """A measurer for that work that nobody else uses meanwhile. Raises as `LocalMeasurer`."""
        with self._lock:
            self._forget_timer()
            if self._measurer is None or self._work != (work, drafts):
                self._close()
                self._measurer = LocalMeasurer(
                    work.target,
                    work.threads,
                    strict=work.strict,
                    drafts=drafts,
                    prints_apart=drafts,
                )
                self._work = (work, drafts)
            try:
                yield self._measurer
            except BaseException:
                self._close()
                raise
            self._timer = threading.Timer(self._seconds, self.close)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Closes the measurer, if there is one."""
        with self._lock:
            self._forget_timer()
            self._close()

    def _forget_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _close(self) -> None:
        measurer, self._measurer = self._measurer, None
        if measurer is not None:
            measurer.close()


_KEPT = KeptMeasurer()
"""The measurer of this worker: to open one takes as long as a small race."""


def answer(text: str) -> str:
    """The answer to a request, both one line. What cannot be done is an answer, too."""
    try:
        request = read_request(text)
        work = request.work
        match request:
            case SettingRequest():
                check_runs_here(work.target)
                version = tasor_version()
                return setting_answer(
                    setting_of(work.target, work.threads, version, strict=work.strict)
                )
            case MachineRequest():
                with _machine_to_itself():
                    return machine_answer(calibrated(work.target, work.threads))
            case RaceRequest(_, drafts, traffic, task, incumbent, schedules):
                with _machine_to_itself(), _KEPT.measuring(work, drafts=drafts) as measurer:
                    return race_answer(
                        measurer.measure(task, schedules, incumbent, traffic=traffic)
                    )
            case _:
                assert_never(request)
    except (
        FieldError, MeasureError, BuildError, ToolMissing, CalibrationError, OSError, MemoryError,
    ) as error:  # fmt: skip
        return failure_answer(one_line(error))


@contextmanager
def _machine_to_itself() -> Iterator[None]:
    """Waits until no other worker of this user measures on this machine."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = Path(tempfile.gettempdir()) / f"tasor-measuring-{os.getuid()}.lock"
    # In a folder that all may write to: not where somebody else has put a link.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
