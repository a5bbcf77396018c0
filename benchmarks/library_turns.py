"""Libraries of one model, timed in turns in this process by loops in C.

What it does: gives each library its turn after the other, whoever is first changing from turn to
turn, so that a machine that changes does so for all of them. What it does not: compare with other
engines, which need processes of their own (`tasor.peers`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from tasor.compiled_model import CompiledModel
from tasor.peer_cases import Case
from tasor.peer_worker import time_loops
from tasor.peers import pinned_cpus
from tensorgen.calls_in_c import repeated_calls

Loop = Callable[[int], None]
"""Calls a library so many times."""


def ratio(turns: Sequence[Sequence[float]], one: int, other: int) -> float:
    """The median over turns of the seconds of one library over those of another one."""
    return median(turn[one] / turn[other] for turn in turns)


def turns_of(
    case: Case, models: Sequence[CompiledModel], threads: int, turns: int, seconds: float
) -> list[tuple[float, ...]]:
    """Seconds of a call of each model, once for each turn; each turn begins with another one."""
    with pinned(threads):
        loops = [_loop(case, model) for model in models]
        return in_turns(loops, turns, seconds)


def _loop(case: Case, model: CompiledModel) -> Loop:
    given = dict(case.inputs)
    inputs = [given[port.name] for port in model.inputs]
    return repeated_calls(model.library, inputs, model.empty_outputs())


def in_turns(loops: Sequence[Loop], turns: int, seconds: float) -> list[tuple[float, ...]]:
    """Seconds of a call of each loop in each turn, which lasts so many seconds for each; whoever
    was first is last in the next one. A call before its figures brings back caches."""
    found = []
    for turn in range(turns):
        figures = [0.0] * len(loops)
        for step in range(len(loops)):
            number = (turn + step) % len(loops)
            loops[number](1)
            figures[number] = time_loops(loops[number], seconds) / 1e3
        found.append(tuple(figures))
    return found


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Meanwhile this process keeps to the processors of a comparison, as engines do."""
    cpus = pinned_cpus(threads)
    before = os.sched_getaffinity(0) if cpus else set()
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)
