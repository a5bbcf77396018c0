"""Constants that several tasks read, laid out as few times as without trials.

Each schedule lays out the constants of its task. Where several tasks read one constant (the steps
of a recurrence do), each way to lay it out is a copy of it. Trials time one task alone: they do not
see that the run has more weights then than the caches hold.

What it does: tells which schedules make more copies than there would be without them. What it does
not: lower anything, or look for a schedule that suits several tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tensorgen.task import Task

Layouts = tuple[bytes, ...]
"""How a kernel has its inputs laid out: a digest of each way, empty for one read as it is."""


@dataclass(frozen=True, slots=True)
class Read:
    """A constant that a task reads, by digest, and the position among the task's inputs."""

    constant: bytes
    task: Task
    position: int


def shared_reads(reads: Iterable[Read]) -> dict[bytes, tuple[Read, ...]]:
    """The distinct reads of each constant that several tasks read."""
    found: dict[bytes, dict[Read, None]] = {}
    for read in reads:
        found.setdefault(read.constant, {})[read] = None
    return {
        constant: tuple(own)
        for constant, own in found.items()
        if len({read.task for read in own}) > 1
    }


def splitting(
    shared: Mapping[bytes, tuple[Read, ...]],
    usual: Callable[[Task], Layouts],
    chosen: Mapping[Task, Layouts],
) -> frozenset[Task]:
    """The tasks that need their usual layouts, so that no constant has more copies than by the
    usual ones of all. `chosen` has those of all tasks; `usual` is asked where it matters."""
    kept = dict(chosen)
    given_up: set[Task] = set()
    while True:
        found: set[Task] = set()
        for reads in shared.values():
            copies = {kept[read.task][read.position] for read in reads}
            if len(copies) == 1:
                continue
            before = {usual(read.task)[read.position] for read in reads}
            if len(copies) > len(before):
                found |= {r.task for r in reads if kept[r.task][r.position] not in before}
        if not found:
            return frozenset(given_up)
        given_up |= found
        kept |= {task: usual(task) for task in found}
