"""The process that prints kernels beside the one that chooses them; see `printing_worker`.

What it does: reads whom it prints for, then one request after the other, and answers each. What it
does not: start or end itself.
"""

from __future__ import annotations

import pickle
import signal
import sys
from dataclasses import replace

from tensorgen.own_process import set_up_own_process
from tensorgen.task import Task
from tensorgen.tune.candidate_source import PrintedKernel
from tensorgen.tune.kernel_printer import PrintingHere

READY = b"ready\n"
"""What it says first."""


def main(limit_seconds: float) -> None:
    """Answers until there are no more requests, or one takes so much processor time. Each is the
    digest of a task, the task when it is named first, a schedule, and whether parts are set
    apart."""
    requests = sys.stdin.buffer
    # Not Python's own: where it is told to buffer nothing, as in many containers, that one may
    # write a part, when this process is stopped meanwhile, and leave out the rest.
    answers = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115 - until the end
    answers.write(READY)
    answers.flush()
    set_up_own_process()
    printer = PrintingHere(pickle.load(requests))
    tasks: dict[bytes, Task] = {}
    while True:
        try:
            digest, task, schedule, apart = pickle.load(requests)
        except EOFError:
            return
        if task is not None:
            tasks[digest] = task
        # Its time does not go on while it stands still; the signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, limit_seconds)
        found = printer.printed(tasks[digest], schedule, apart=apart)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pickle.dump(_without_loops(found), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _without_loops(found: object) -> object:
    """What who asked needs of it: of loops there are as many terms as in the text."""
    if not isinstance(found, PrintedKernel):
        return found
    kernel = replace(found.lowered.kernel, body=())
    return replace(found, lowered=replace(found.lowered, kernel=kernel))
