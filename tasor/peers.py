"""Fair comparison of Tasor with its peers on one machine.

What it does: gives each engine a process of its own, pinned to the same CPUs with the same number
of threads, and lets them run in turn, A B C A B C, one at a time: a turn starts only when the
engine before it sleeps. Reports the median over the turns of the median call of each turn, so that
a disturbance of the machine hits all engines alike and none of the figures much. Where one lasted
for so long that the median of an engine is of a disturbed turn, all of them have more.
What it does not: choose models, or print; see `peer_report`.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self, assert_never

import numpy as np

from tasor.peer_cases import Case
from tasor.peer_engines import PEERS, TUNED, Opener, Outputs, open_model, require_engines
from tasor.peer_worker import Failed, Load, Loaded, Reply, Request, Timed, Turn, serve
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.types import Array

SHORTEST_TURN = 0.1
"""Seconds: long against the time that an engine's threads spin before they sleep."""

_DISTURBED = 1.25
"""A median so many times the fastest turn is of turns in which the machine did something else."""

_MOST_ROUNDS = 4
"""A case that is disturbed has so many times as many turns, at most."""

_SETTLE_STEP = 0.01
_SETTLE_LIMIT = 2.0
_LOADED_LIMIT = 10.0
"""Loading may start processes: OpenVINO's first model in a process sends statistics for 4 s."""
_ASLEEP = 0.05
"""A process that uses less than this share of one CPU is asleep."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What one engine did with one case.

    Times are in milliseconds: the median over the turns, the fastest and the slowest turn.
    `deviation` is the largest difference from the reference's outputs relative to their range;
    None for the reference itself. `quiet` is false if the engine kept burning CPU after a turn.
    `in_c` is the median of calls made in a loop in C, without what a call from Python costs; None
    for an engine that has no C to call.
    """

    engine: str
    milliseconds: float
    fastest: float
    slowest: float
    calls: int
    load_seconds: float
    deviation: float | None
    quiet: bool
    in_c: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One engine could not run one case."""

    engine: str
    message: str


@dataclass(frozen=True, slots=True)
class Row:
    """One case measured on all engines with the same number of threads.

    `flops` and `traffic` are the case's: work by definition, bytes that a run moves at least.
    `peak` is what plain multiply-adds reached in turns with the engines, in flop/s, and `fed_peak`
    what those of a tile did whose operands come from the first-level cache; None if they took no
    part.
    """

    case: str
    group: str
    threads: int
    flops: int | None
    results: tuple[Timing | Failure, ...]
    traffic: int | None = None
    peak: float | None = None
    fed_peak: float | None = None

    def timing(self, engine: str) -> Timing | None:
        """The figures of that engine; None if it failed or did not take part."""
        timings = (result for result in self.results if isinstance(result, Timing))
        return next((timing for timing in timings if timing.engine == engine), None)

    @property
    def ratio(self) -> float | None:
        """Time of the best peer over Tasor's: above 1, Tasor is faster. None without both."""
        return self._ratio_of("tasor")

    @property
    def tuned_ratio(self) -> float | None:
        """The same of Tasor as tuned."""
        return self._ratio_of(TUNED)

    @property
    def gain(self) -> float | None:
        """Tasor's time with zero trials over its time as tuned. None without both."""
        usual, tuned = self.timing("tasor"), self.timing(TUNED)
        if usual is None or tuned is None:
            return None
        return usual.milliseconds / tuned.milliseconds

    def _ratio_of(self, engine: str) -> float | None:
        own = self.timing(engine)
        peers = [timing for peer in PEERS if (timing := self.timing(peer)) is not None]
        if own is None or not peers:
            return None
        return min(peer.milliseconds for peer in peers) / own.milliseconds


def deviation(reference: Outputs, actual: Outputs) -> float:
    """Largest difference between two sets of outputs, relative to the range of the reference.

    The range of each output includes zero. NaN and infinities must agree; infinity if they, the
    shapes or the number of outputs do not.
    """
    if [array.shape for array in reference] != [array.shape for array in actual]:
        return float("inf")
    pairs = zip(reference, actual, strict=True)
    return max((_array_deviation(*pair) for pair in pairs), default=0.0)


def _array_deviation(reference: Array, actual: Array) -> float:
    wanted, got = (np.asarray(array, dtype=np.float64) for array in (reference, actual))
    agree = (wanted == got) | (np.isnan(wanted) & np.isnan(got))
    if agree.all():
        return 0.0
    if not np.isfinite(wanted[~agree]).all() or not np.isfinite(got[~agree]).all():
        return float("inf")
    finite = wanted[np.isfinite(wanted)]
    span = max(finite.max(), 0.0) - min(finite.min(), 0.0)
    largest = np.abs(wanted[~agree] - got[~agree]).max()
    return float(largest / span) if span > 0 else float("inf")


def pinned_cpus(threads: int) -> tuple[int, ...]:
    """The CPUs for that many threads: one per core first, the highest numbers first.

    Empty where the system cannot pin. Raises ValueError if the process may not use that many.
    """
    if threads < 1:
        raise ValueError(f"threads: expected at least 1, got {threads}")
    if not hasattr(os, "sched_getaffinity"):
        return ()
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    if threads > len(allowed):
        raise ValueError(f"threads: expected at most {len(allowed)} CPUs here, got {threads}")
    seen: set[str] = set()
    first_of_core: list[int] = []
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text(encoding="ascii") if siblings.exists() else str(cpu)
        if core not in seen:
            first_of_core.append(cpu)
        seen.add(core)
    others = [cpu for cpu in allowed if cpu not in first_of_core]
    return tuple(sorted([*first_of_core, *others][:threads]))


def _cpu_seconds(pid: int) -> float:
    """CPU time that all threads of a process have used."""
    nanoseconds = 0
    for statistics in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        # A thread may end while it is being looked at.
        with suppress(OSError, IndexError):
            nanoseconds += int(statistics.read_text(encoding="ascii").split()[0])
    return nanoseconds / 1e9


def _family(pid: int) -> set[int]:
    """A process, and those that it or they have started."""
    started: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while it is being looked at, and its name may have spaces.
        with suppress(OSError, IndexError, ValueError):
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            started.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, waiting = {pid}, [pid]
    while waiting:
        waiting = [child for parent in waiting for child in started.get(parent, ())]
        found.update(waiting)
    return found


def settle(pid: int, limit: float) -> bool:
    """Wait until the process sleeps and so do those that it has started; false if they do not
    within so many seconds."""
    stop = time.perf_counter() + limit
    while time.perf_counter() < stop:
        family = _family(pid)
        before, start = sum(map(_cpu_seconds, family)), time.perf_counter()
        time.sleep(_SETTLE_STEP)
        used = sum(map(_cpu_seconds, family)) - before
        if used < _ASLEEP * (time.perf_counter() - start):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection

    def ask(self, request: Request, timeout: float) -> Reply:
        """The reply; Failed if the process ends or says nothing within `timeout` seconds."""
        try:
            self.connection.send(request)
            if not self.connection.poll(timeout):
                return Failed(f"no answer within {timeout:g} s")
            reply: Reply = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(timeout=5)
            return Failed(f"the process ended with exit code {self.process.exitcode}")
        return reply

    def settle(self, limit: float = _SETTLE_LIMIT) -> bool:
        pid = self.process.pid
        return pid is not None and settle(pid, limit)

    def close(self) -> None:
        self.connection.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@dataclass(slots=True)
class _Progress:
    """What has been seen of one engine in the case under way."""

    loaded: Loaded
    turns: list[Timed]
    quiet: bool


class Comparison:
    """The engines side by side, each in its process; a context manager.

    `options` go to `tasor.compile`. `timeout` (seconds) bounds every load and turn. `guests` are
    engines of the caller's own by name, each a function that another process can import; they take
    their turns after the others. Raises ValueError for unknown engines or too many threads,
    MissingPackage for a missing engine.
    """

    def __init__(
        self,
        engines: tuple[str, ...],
        threads: int,
        *,
        options: Mapping[str, object] | None = None,
        timeout: float = 1800.0,
        guests: Mapping[str, Opener] | None = None,
    ) -> None:
        require_engines(engines)
        self._guests = {} if guests is None else dict(guests)
        self._engines = (*engines, *self._guests)
        self._threads = threads
        self._cpus = pinned_cpus(threads)
        self._options = {} if options is None else dict(options)
        self._timeout = timeout
        self._workers: dict[str, _Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for engine in self._engines:
            self._stop(engine)

    def measure(
        self,
        case: Case,
        *,
        seconds: float,
        rounds: int,
        schedules: Mapping[Task, Schedule] | None = None,
    ) -> Row:
        """Time `case` on every engine for `seconds` each, in `rounds` interleaved turns, and in
        more of them while any engine's are disturbed. The `schedules` are those of Tasor as tuned.
        """
        assert rounds >= 1
        progress: dict[str, _Progress] = {}
        failures: dict[str, Failure] = {}
        for engine in self._engines:
            match self._ask(engine, Load(case, self._load_options(engine, schedules))):
                case Loaded() as loaded:
                    quiet = self._workers[engine].settle(_LOADED_LIMIT)
                    progress[engine] = _Progress(loaded, [], quiet)
                case Failed(message):
                    failures[engine] = Failure(engine, message)
                case Timed():
                    raise AssertionError("a load answered as a turn")
        turn = Turn(max(SHORTEST_TURN, seconds / rounds))
        for done in range(rounds * _MOST_ROUNDS):
            if done >= rounds and not any(map(_is_disturbed, progress.values())):
                break
            for engine in tuple(progress):
                match self._ask(engine, turn):
                    case Timed() as timed:
                        progress[engine].turns.append(timed)
                        progress[engine].quiet &= self._workers[engine].settle()
                    case Failed(message):
                        failures[engine] = Failure(engine, message)
                        del progress[engine]
                    case Loaded():
                        raise AssertionError("a turn answered as a load")
        timings = _timings(progress)
        results = tuple((timings | failures)[engine] for engine in self._engines)
        return Row(case.name, case.group, self._threads, case.flops, results, case.traffic)

    def _load_options(
        self, engine: str, schedules: Mapping[Task, Schedule] | None
    ) -> Mapping[str, object]:
        if engine == TUNED:
            return {**self._options, "schedules": {} if schedules is None else schedules}
        return self._options if engine == "tasor" else {}

    def _ask(self, engine: str, request: Request) -> Reply:
        """Ask the engine's worker, started if need be; one that fails to answer is ended."""
        if engine not in self._workers:
            self._workers[engine] = self._start(engine)
        reply = self._workers[engine].ask(request, self._timeout)
        match reply:
            case Failed():
                self._stop(engine)
            case Loaded() | Timed():
                pass
            case _:
                assert_never(reply)
        return reply

    def _start(self, engine: str) -> _Worker:
        # Spawned, not forked: no engine may see what another has left in this process.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        opener = self._guests.get(engine, partial(open_model, engine))
        arguments = (theirs, opener, self._threads, self._cpus)
        process = context.Process(target=serve, args=arguments, name=f"peer-{engine}")
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _stop(self, engine: str) -> None:
        worker = self._workers.pop(engine, None)
        if worker is not None:
            worker.close()


def _is_disturbed(seen: _Progress) -> bool:
    """Whether half of an engine's turns took far longer than its fastest."""
    times = [turn.milliseconds for turn in seen.turns]
    return median(times) > _DISTURBED * min(times)


def _timings(progress: Mapping[str, _Progress]) -> dict[str, Timing | Failure]:
    """Figures per engine. ONNX Runtime is the reference of the outputs, else the first engine."""
    reference = "onnxruntime" if "onnxruntime" in progress else next(iter(progress), None)
    timings: dict[str, Timing | Failure] = {}
    for engine, seen in progress.items():
        medians = [turn.milliseconds for turn in seen.turns]
        in_c = [turn.in_c for turn in seen.turns if turn.in_c is not None]
        timings[engine] = Timing(
            engine=engine,
            milliseconds=median(medians),
            fastest=min(medians),
            slowest=max(medians),
            calls=sum(turn.calls for turn in seen.turns),
            load_seconds=seen.loaded.seconds,
            deviation=None
            if reference is None or engine == reference
            else deviation(progress[reference].loaded.outputs, seen.loaded.outputs),
            quiet=seen.quiet,
            in_c=median(in_c) if in_c else None,
        )
    return timings
