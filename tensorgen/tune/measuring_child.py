"""A process that runs kernels for another one, and may end by what they do.

What it does: forks; in the copy, limits memory and time, calls kernels when it is asked to, and
compares the result of each one's first call. To its parent it is an object that runs a candidate
and says how long it took, or how it ended. It needs the standard library alone (see
`measuring_process`).
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOMEM
from functools import partial
from math import inf
from typing import Any

from tensorgen.tune.cache_lines import DROP_LINES
from tensorgen.tune.measuring_memory import LARGE_FROM, Memory
from tensorgen.tune.race import RaceRules, Timing, Turn, timed

PATIENCE = 30.0
"""A kernel that uses no processor time, waiting for ever, ends after so many times its limit."""

LEAST_LIMIT = 0.05
"""Seconds that any run has: pages are touched for the first time."""

MOST_TURNS = 256
"""A child is told of so many turns at once, at most."""

_PR_SET_PDEATHSIG = 1
_DONE = "done"
_PROGRESS = struct.Struct("qd")


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a candidate gives no more figures: "wrong", "crashed", "took too long", "refused" (it
    cannot be loaded), "not built" (there is no room for what it writes to) or "slower", and a line
    about it: of the last, how many seconds a call takes at least."""

    status: str
    text: str


class Child:
    """The process for one request; `operand` gives the memory of a name and a copy."""

    def __init__(self, request: dict[str, Any], operand: Callable[[str, int], Memory]) -> None:
        self._patience = PATIENCE * float(request["limit_seconds"])
        self._progress = _Progress()
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        self._unread = b""
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(self._commands)
                os.close(self._replies)
                _serve(request, operand, commands, replies, parent, self._progress)
                status = 0
            finally:
                # Whatever happens, the copy must not go on as its parent.
                os._exit(status)
        os.close(commands)
        os.close(replies)
        # It says so when it has begun. One that cannot is missed when it is to run something.
        self._answer()

    def run(self, turns: Sequence[Turn]) -> list[Timing] | tuple[int, Ended]:
        """Has candidates take turns, MOST_TURNS at most: what came of each, or the place of a turn
        that has no figures and why that is so.

        Nobody wakes up for a turn but who runs it: there is no core for others.
        """
        command = json.dumps([(turn.number, turn.calls) for turn in turns])
        self._progress.store(0, 0.0)
        # If nobody is left to read it, there is no answer either.
        with suppress(BrokenPipeError):
            os.write(self._commands, f"{command}\n".encode())
        answer = self._answer()
        if answer is None:
            os.kill(self._pid, signal.SIGKILL)
            ended = Ended("took too long", "")
        elif not answer:
            ended = self._how_it_ended()
        else:
            kind, _, text = answer.partition(" ")
            if kind == _DONE:
                return [Timing(*timing) for timing in json.loads(text)]
            ended = Ended(kind.replace("-", " "), text)
        return max(0, min(self._progress.count, len(turns) - 1)), ended

    def _answer(self) -> str | None:
        """One line; "" at the end, None if there is none and for too long no turn ended."""
        while b"\n" not in self._unread:
            count = self._progress.count
            if not select.select([self._replies], [], [], self._patience)[0]:
                if self._progress.count > count:
                    continue
                return None
            more = os.read(self._replies, 1 << 16)
            if not more:
                return ""
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")

    def _how_it_ended(self) -> Ended:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGPROF:
            least = self._progress.least
            return Ended("slower", repr(least)) if 0.0 < least < inf else Ended("took too long", "")
        if code >= 0:
            return Ended("crashed", f"its process ended with status {code}")
        name = signal.Signals(-code).name
        told = {"SIGILL": ", an instruction that this processor lacks"}.get(name, "")
        return Ended("crashed", f"signal {-code} ({name}){told}")

    def end(self) -> None:
        """Ends the process and waits until it is gone."""
        os.close(self._commands)
        os.close(self._replies)
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


class _Progress:
    """Of the turns that a child was told of, in memory shared with its parent: what it says is so
    unless a kernel stored here."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, _PROGRESS.size)

    @property
    def count(self) -> int:
        """How many are done."""
        return int(_PROGRESS.unpack_from(self._map)[0])

    @property
    def least(self) -> float:
        """Seconds that a call takes at least if the current turn is ended; 0 if that says
        nothing about calls."""
        return float(_PROGRESS.unpack_from(self._map)[1])

    def store(self, count: int, least: float) -> None:
        """So many are done, and the next one is ended if a call takes longer than that."""
        _PROGRESS.pack_into(self._map, 0, count, least)


def _serve(
    request: dict[str, Any],
    operand: Callable[[str, int], Memory],
    commands: int,
    replies: int,
    parent: int,
    progress: _Progress,
) -> None:
    """Runs what is asked for until there are no more commands."""
    _limit(request, parent)
    _keep_apart(request["cores"])
    room = _Room(request, operand)
    candidates = [_Candidate(entry, room) for entry in request["candidates"]]
    checker = ctypes.CDLL(request["checker"])
    rules = RaceRules(**request["rules"])
    threads, limit = request["threads"], request["limit_seconds"]
    best = inf

    def seconds(number: int, done: int, calls: int) -> float:
        """Of so many calls of a candidate; the end of this process if they take too long."""
        # One call more is to check it, and one to fetch its weights.
        allowed = max(rules.given_up * best * (calls + 2), LEAST_LIMIT)
        progress.store(done, allowed / (calls + 2) if allowed < limit else 0.0)
        # Processor time, not the clock: others may be using the machine.
        signal.setitimer(signal.ITIMER_PROF, min(allowed, limit) * threads)
        found = candidates[number].run(calls, room, checker)
        signal.setitimer(signal.ITIMER_PROF, 0)
        return found

    _say(replies, _DONE)
    with os.fdopen(commands, "r") as lines:
        for line in lines:
            timings: list[tuple[float, int]] = []
            try:
                for number, calls in json.loads(line):
                    call = partial(seconds, number, len(timings))
                    timing = timed(call, Turn(number, calls), rules, best)
                    best = min(best, timing.seconds)
                    timings.append((timing.seconds, timing.calls))
                    progress.store(len(timings), 0.0)
                answer = f"{_DONE} {json.dumps(timings)}"
            except _Wrong as difference:
                answer = f"wrong {difference}"
            except (OSError, AttributeError, MemoryError) as error:
                status = "not-built" if _is_no_room(error) else "refused"
                answer = f"{status} {type(error).__name__}: {error}"
            _say(replies, answer)


def _is_no_room(error: Exception) -> bool:
    """True if memory was refused, not a library."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM)


def _say(replies: int, text: str) -> None:
    os.write(replies, (" ".join(text.split()) + "\n").encode("utf-8", "replace"))


def _limit(request: dict[str, Any], parent: int) -> None:
    """Limits what this process may take."""
    for name in (signal.SIGPROF, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        allowed = mapped + sum(written_sizes(request).values()) + request["spare_bytes"]
        if most == resource.RLIM_INFINITY or allowed < most:
            resource.setrlimit(resource.RLIMIT_AS, (allowed, most))
        # Else a kernel would run on for as long as its limits allow if our parent is killed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _keep_apart(cores: Sequence[int]) -> None:
    """Gives each thread of a team a core of its own, if there are cores to choose from: two may
    begin on one and stay there for longer than a race, and each call would wait for a time slice.
    The runtime asks for this when the first candidate that needs it brings it."""
    if cores:
        os.environ["OMP_PLACES"] = ",".join(f"{{{core}}}" for core in cores)
        os.environ["OMP_PROC_BIND"] = "true"


class _Room:
    """Memory for a request: operands that are read, and for each position of a parameter one piece
    that candidates write to, as large as any of them needs."""

    def __init__(self, request: dict[str, Any], operand: Callable[[str, int], Memory]) -> None:
        self.operand = operand
        self._sizes = written_sizes(request)
        self._written: dict[int, Memory] = {}

    def written(self, turn: int) -> Memory:
        """The memory for the parameter at a position."""
        if turn not in self._written:
            size = self._sizes[turn]
            # A library's arena is on large pages.
            self._written[turn] = memory = Memory(size, turn, large=size >= LARGE_FROM)
            # Its pages come now, while compilers run, and not when cores are kept for a race.
            memory.forget(memory.size)
        return self._written[turn]


def written_sizes(request: dict[str, Any]) -> dict[int, int]:
    """The most bytes that a candidate writes to, for each position of a parameter."""
    sizes: dict[int, int] = {}
    for candidate in request["candidates"]:
        for turn, buffer in enumerate(candidate["buffers"]):
            if "name" not in buffer:
                sizes[turn] = max(sizes.get(turn, 0), buffer["bytes"])
    return sizes


class _Wrong(Exception):
    """A kernel computes something else than it should: what."""


class _Candidate:
    """One kernel, loaded at once and checked when it is first called."""

    def __init__(self, entry: dict[str, Any], room: _Room) -> None:
        self._entry = entry
        self._set_bytes = len(entry["buffers"]) * ctypes.sizeof(ctypes.c_void_p)
        self._turn = 0
        self._checked = False
        self._unfit: Exception | None = None
        try:
            self._load(room)
        except (OSError, AttributeError, MemoryError) as error:
            # Told when it is to run: that is when candidates are asked for.
            self._unfit = error

    def run(self, calls: int, room: _Room, checker: ctypes.CDLL) -> float:
        """Seconds of so many calls. Raises _Wrong if the result of the first one is, and OSError,
        AttributeError or MemoryError if there is nothing to call."""
        if self._unfit is not None:
            raise self._unfit
        if not self._checked:
            self._first_call(room, checker)
        # Others have had the caches to themselves. A run of one call is long: that costs it little.
        fetch = self._entry["fetch"]
        if calls > 1:
            if fetch:
                self._fetch(calls + 1, room)
            self._call(1)
        if fetch:
            return self._timed(calls)
        seconds = 0.0
        for begin in range(0, calls, self._entry["sets"]):
            count = min(calls - begin, self._entry["sets"])
            self._drop(count, room, checker)
            seconds += self._timed(count)
        return seconds

    def _timed(self, calls: int) -> float:
        started = time.perf_counter()
        self._call(calls)
        return time.perf_counter() - started

    def _call(self, calls: int) -> None:
        """Calls go on with the set after the last one's: it has not been read for the longest."""
        count = self._entry["sets"]
        place = ctypes.byref(self._pointers, self._turn * self._set_bytes)
        self._turn = (self._turn + calls) % count
        self._function(self._entry["number"], place, count, calls)

    def _fetch(self, count: int, room: _Room) -> None:
        """Brings the weights of so many sets to the caches, those whose turn is last at last."""
        for name, number in self._weights(count):
            room.operand(name, number).fetch(room.operand(name, 0))

    def _drop(self, count: int, room: _Room, checker: ctypes.CDLL) -> None:
        """Puts the weights of so many sets out of the caches, no more than there are."""
        drop = getattr(checker, DROP_LINES)
        drop.restype = None
        for name, number in self._weights(count):
            memory = room.operand(name, number)
            drop(ctypes.c_void_p(memory.address), ctypes.c_long(memory.size))

    def _weights(self, count: int) -> Iterator[tuple[str, int]]:
        """The names and numbers of the weights of the next sets, so many or all there are."""
        sets = self._entry["sets"]
        names = [buffer["name"] for buffer in self._entry["buffers"] if buffer.get("copies")]
        for number in range(self._turn, self._turn + min(count, sets)):
            yield from ((name, number % sets) for name in names)

    def _load(self, room: _Room) -> None:
        """Loads the kernel and finds its buffers: nothing of it runs."""
        entry = self._entry
        for library in entry["needed"]:
            # Candidates do not say where the functions are that they call.
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        function = getattr(ctypes.CDLL(entry["library"]), entry["function"])
        function.restype = None
        function.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
        sets = []
        for number in range(entry["sets"]):
            for turn, buffer in enumerate(entry["buffers"]):
                if "name" in buffer:
                    copy = number if buffer.get("copies") else 0
                    sets.append(room.operand(buffer["name"], copy))
                else:
                    sets.append(room.written(turn))
        # Twice over, so that a run may begin with any of them.
        addresses = [memory.address for memory in (*sets, *sets)]
        self._pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        self._function, self._first = function, sets[: len(entry["buffers"])]

    def _first_call(self, room: _Room, checker: ctypes.CDLL) -> None:
        """Calls the kernel once. Raises _Wrong for its result."""
        buffers = self._entry["buffers"]
        for memory, buffer in zip(self._first, buffers, strict=True):
            if "name" not in buffer:
                memory.forget(buffer["bytes"])
        self._function(self._entry["number"], self._pointers, 1, 1)
        self._checked = True
        for memory, buffer in zip(self._first, buffers, strict=True):
            if not memory.is_guarded(buffer["bytes"]):
                raise _Wrong("a store next to one of its buffers")
            if "expected" in buffer:
                _check(memory, buffer, room, checker)


def _check(memory: Memory, buffer: dict[str, Any], room: _Room, checker: ctypes.CDLL) -> None:
    """Raises _Wrong for a result that is not close to what is expected."""
    values = (ctypes.c_double * 2)()
    first = ctypes.c_long(0)
    check = getattr(checker, buffer["check"])
    check.restype = ctypes.c_long
    count = check(
        ctypes.c_void_p(memory.address),
        ctypes.c_void_p(room.operand(buffer["expected"], 0).address),
        ctypes.c_long(buffer["count"]),
        ctypes.c_double(buffer["absolute"]),
        ctypes.c_double(buffer["relative"]),
        ctypes.byref(first),
        values,
    )
    if count > buffer["allowed"]:
        raise _Wrong(
            f"{count} of {buffer['count']} elements, first element {first.value}: "
            f"expected {values[0]:.9g}, got {values[1]:.9g}"
        )
