"""One engine in its own process: loads a model, then runs it in timed turns.

What it does: pins the process to its CPUs, answers requests over a pipe, and blocks on that pipe
between turns, so that a resting engine takes no time from the one at work.
What it does not: decide whose turn it is; `peers` does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from statistics import median
from typing import assert_never

from tasor.peer_cases import Case
from tasor.peer_engines import Opened, Opener, Outputs

_WARM_UP = 0.1
"""Share of a turn that is run before its timing starts: caches refill, clocks rise."""

_IN_C = 0.25
"""Share of a turn, after it, in which a loop in C makes the calls of an engine that has one."""

_LOOP_SECONDS = 0.5e-3
"""A loop in C takes about so long: much to the clock, little to what disturbs a machine."""


@dataclass(frozen=True, slots=True)
class Load:
    """Open this model, in place of the last one."""

    case: Case
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Turn:
    """Run the model for that long, and at least once after the warm-up."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is open; `outputs` are those of its first run."""

    outputs: Outputs
    seconds: float


@dataclass(frozen=True, slots=True)
class Timed:
    """Median time of the calls of one turn; `in_c` of those that a loop in C made, if any."""

    milliseconds: float
    calls: int
    in_c: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine raised; the message is the first line of what it said."""

    message: str


Request = Load | Turn
Reply = Loaded | Timed | Failed


def time_turn(run: Callable[[], object], seconds: float) -> Timed:
    """Call `run` for `seconds`, the warm-up included; at least one call is timed."""
    start = time.perf_counter()
    warm, stop = start + seconds * _WARM_UP, start + seconds
    run()
    while time.perf_counter() < warm:
        run()
    samples: list[int] = []
    while not samples or time.perf_counter() < stop:
        before = time.perf_counter_ns()
        run()
        samples.append(time.perf_counter_ns() - before)
    return Timed(median(samples) / 1e6, len(samples))


def time_loops(repeat: Callable[[int], None], seconds: float) -> float:
    """Median milliseconds of a call that `repeat` makes in loops, for `seconds`."""
    calls = 1
    samples: list[float] = []
    stop = time.perf_counter() + seconds
    while not samples or time.perf_counter() < stop:
        before = time.perf_counter_ns()
        repeat(calls)
        each = (time.perf_counter_ns() - before) / calls
        samples.append(each)
        calls = max(1, round(_LOOP_SECONDS * 1e9 / max(each, 1.0)))
    # The first loop had one call, and told how many the others have.
    return median(samples[1:] or samples) / 1e6


def serve(connection: Connection, opener: Opener, threads: int, cpus: tuple[int, ...]) -> None:
    """Answer requests until the other end of the pipe closes."""
    # An interrupt reaches the whole process group; the parent then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if cpus:
        os.sched_setaffinity(0, cpus)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    opened: Opened | None = None
    loop: Callable[[int], None] | None = None
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        # Whatever an engine raises is a result of the comparison, not the end of it.
        try:
            match request:
                case Load(case, options):
                    opened, loop = None, None
                    placed = case.placed()
                    start = time.perf_counter()
                    opened = opener(placed, threads, options)
                    seconds = time.perf_counter() - start
                    # Not part of loading the model: nobody but this comparison needs it.
                    loop = None if opened.in_c is None else opened.in_c()
                    opened.run()
                    reply: Reply = Loaded(opened.outputs(), seconds)
                case Turn(seconds):
                    assert opened is not None
                    reply = time_turn(opened.run, seconds)
                    if loop is not None:
                        reply = replace(reply, in_c=time_loops(loop, seconds * _IN_C))
                case _:
                    assert_never(request)
        except Exception as error:
            text = str(error).strip().partition("\n")[0]
            reply = Failed(f"{type(error).__name__}: {text}")
        connection.send(reply)
