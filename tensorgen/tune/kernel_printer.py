"""Schedules to kernels, one after the other: who prints remembers what the one before was made of.

What it does: lowers and prints a task under a schedule, and says of what cannot be built why not.
What it does not: compile anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tensorgen.build import Around
from tensorgen.schedule import Schedule, ScheduleError
from tensorgen.scratch import copies_bytes
from tensorgen.simplify import Memory, remembering
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.candidate_source import PrintedKernel, printed_kernel
from tensorgen.tune.fields import one_line
from tensorgen.tune.frame_assembly import FrameTarget
from tensorgen.tune.outcome import NotBuilt, Refused

MOST_BYTES = 4 << 30
"""Candidates that write to more memory are not built."""

_MOST_REMEMBERED = 1 << 17
"""Terms of which is remembered how they simplify."""


@dataclass(frozen=True, slots=True)
class PrintSettings:
    """For whom is printed: a target, threads, whether sums are as the model has them; and how what
    is left of a kernel may be written in assembly, if it may."""

    target: Target
    threads: int
    strict: bool
    frames: FrameTarget | None


class KernelPrinter(Protocol):
    """Whoever prints kernels. One thread at a time may ask."""

    def printed(
        self, task: Task, schedule: Schedule, *, apart: bool, around: Around
    ) -> PrintedKernel | NotBuilt | Refused:
        """The kernel of a task under a schedule, its parts set `apart` or not; or why there is
        none. A process that does it has a block `around` its work."""
        ...

    def close(self) -> None:
        """Ends what was started for it."""
        ...


class PrintingHere:
    """Prints in the thread that asks."""

    def __init__(self, settings: PrintSettings) -> None:
        self._settings = settings
        self._memory = Memory()

    def printed(
        self, task: Task, schedule: Schedule, *, apart: bool, around: Around | None = None
    ) -> PrintedKernel | NotBuilt | Refused:
        """The kernel; or why there is none."""
        settings = self._settings
        self._memory.keep_below(_MOST_REMEMBERED)
        try:
            with remembering(self._memory):
                printed = printed_kernel(
                    task, schedule, settings.target, strict=settings.strict, apart=apart,
                    frames=settings.frames,
                )  # fmt: skip
        except ScheduleError as error:
            return NotBuilt(one_line(error))
        except (AssertionError, LookupError, ArithmeticError) as error:
            # A bug of ours, but one that must not end the tuning of everything else.
            return Refused(f"lowering: {type(error).__name__}: {one_line(error)}")
        kernel = printed.lowered.kernel
        written = sum(
            copies_bytes(kernel, buffer, settings.threads)
            for buffer in (*kernel.outputs, *kernel.scratch)
        )
        if written > MOST_BYTES:
            return NotBuilt(f"memory: expected at most {MOST_BYTES} bytes to write, got {written}")
        return printed

    def close(self) -> None:
        """Nothing was started."""
