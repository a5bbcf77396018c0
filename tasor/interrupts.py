"""Ctrl-C and SIGTERM as exceptions, so that what was started is ended on the way out.

What it does: raises in the thread that works, once for signals that come together. What it does
not: end anything, or say so.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from math import inf
from types import FrameType

from tasor.errors import EXIT_TERMINATED

_TOGETHER_SECONDS = 1.0
"""Signals that follow each other faster are one."""


def raise_for_signals() -> None:
    """From here on SIGTERM raises SystemExit, and Ctrl-C KeyboardInterrupt as before."""
    signal.signal(signal.SIGTERM, _raising(lambda: SystemExit(EXIT_TERMINATED)))
    # A shell may have told those that it puts into the background to ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _raising(KeyboardInterrupt))


def _raising(
    error: Callable[[], BaseException], clock: Callable[[], float] = time.monotonic
) -> Callable[[int, FrameType | None], None]:
    """A handler that raises, but not soon again: some send a signal to a process and then to its
    group, as `timeout` does, and the second one would cut short what cleans up for the first."""
    latest = -inf

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal latest
        before, latest = latest, clock()
        if latest - before > _TOGETHER_SECONDS:
            raise error()

    return handle
