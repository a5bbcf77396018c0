"""Runs candidates and times them; for a process of its own, not to be imported by others.

What it does: maps the operands, forks a process for each request, has it check and run the kernels
as the race asks for, and starts another one where a kernel ends it, so that a crash or a hang costs
the kernel that caused it. What it does not: compile, or know what kernels compute.

It needs the standard library alone: it starts in milliseconds, has one thread and no OpenMP
runtime, and may therefore fork. Requests and replies are lines of JSON on standard input and
output:

    {"threads": t, "cores": [c, …], "spare_bytes": b, "limit_seconds": s, "checker": path,
     "rules": {…}, "incumbent": true, "operand_bytes": b,
     "candidates": [{"library": path, "needed": [path, …], "function": name, "number": n,
                     "sets": n, "fetch": true,
                     "buffers": [{"bytes": b, "name": name, "offset": o, "copies": true,
                                  "large": false},
                                 {"bytes": b, "expected": path, "check": name, "count": n,
                                  "absolute": a, "relative": r, "allowed": n}, {"bytes": b}]}]}
    {}

    {"results": [{"runs": [s, …], "lost": false, "status": "", "text": ""}, …]}

Operands are parts of the file that is open under the number given to `main` (`operand_memory`), of
which so many bytes are there; no two have had one name. The empty reply says that they are mapped,
candidates are loaded and nothing has run: an empty line lets it begin. Libraries that a candidate's
needs are loaded first. Calls take turns with `sets` copies of a kernel's weights. Before a run of
several calls there is one that is not timed, with `fetch` behind reads of the copies that are next;
without, no timed call finds its copy in a cache.
Operands that are `large` are on large pages.
The first candidate of a request with an incumbent is that. The end of the input ends the process.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from collections.abc import Callable, Sequence, Set
from typing import Any

from tensorgen.tune.measuring_child import MOST_TURNS, Child, Ended
from tensorgen.tune.measuring_memory import Memory
from tensorgen.tune.race import RaceRules, Runner, Timing, Turn, race

KEPT_BYTES = 1 << 30
"""Copies that the current request does not need are kept up to this size."""


def main(file: int) -> None:
    """Answers requests until there are no more; the file has the operands."""
    # Who waits for us may be interrupted, and then ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    operands = Operands(file)
    while line := sys.stdin.readline():
        reply: dict[str, Any]
        try:
            reply = {"results": answer(json.loads(line), operands, _ready)}
        except Exception as error:
            reply = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
        _say(reply)


def _ready() -> None:
    """Says so, and waits until it is to begin; ends the process if nobody is there to say so."""
    _say({})
    if not sys.stdin.readline():
        raise SystemExit


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


class Operands:
    """The operands of a request: parts of a file that is mapped, and what was made of them and read
    so far, by name and number of the copy."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self._parts: dict[str, Memory] = {}
        self._kept: dict[tuple[str, int], Memory] = {}

    def prepare(self, request: dict[str, Any]) -> None:
        """Finds what a request needs, and lets go of what it does not if there is too much."""
        self._parts.clear()
        mapped = 0 if self._map is None else len(self._map)
        # Nothing is there before the first operand: kernels need not have any.
        if mapped < request["operand_bytes"]:
            # What a kernel stores there stays in its process.
            self._map = mmap.mmap(self._file, request["operand_bytes"], flags=mmap.MAP_PRIVATE)
        copies: dict[tuple[str, int], int] = {}
        results: dict[str, int] = {}
        for candidate in request["candidates"]:
            for turn, buffer in enumerate(candidate["buffers"]):
                if "name" in buffer:
                    name = buffer["name"]
                    assert self._map is not None, "operands are there"
                    self._parts[name] = Memory.part(self._map, buffer["offset"], buffer["bytes"])
                    # The file is on small pages.
                    first = 0 if buffer["large"] else 1
                    count = candidate["sets"] if buffer["copies"] else 1
                    copies |= {(name, copy): turn for copy in range(first, count)}
                if "expected" in buffer:
                    results[buffer["expected"]] = turn
        self._let_go({*copies, *((path, 0) for path in results)})
        for (name, copy), turn in copies.items():
            if (name, copy) not in self._kept:
                part = self._parts[name]
                self._kept[name, copy] = part.copy(turn + copy, large=not copy)
        for path, turn in results.items():
            if (path, 0) not in self._kept:
                self._kept[path, 0] = Memory.of_file(path, turn)

    def _let_go(self, needed: Set[tuple[str, int]]) -> None:
        kept = sum(memory.taken for memory in self._kept.values())
        for key in list(self._kept):
            if kept > KEPT_BYTES and key not in needed:
                memory = self._kept.pop(key)
                kept -= memory.taken
                memory.close()

    def at(self, name: str, copy: int) -> Memory:
        """A copy of an operand, or of what a file held."""
        key = name, copy
        return self._kept[key] if copy or key in self._kept else self._parts[name]


class _Runs:
    """Runs of the candidates of a request, by one child after the other."""

    def __init__(self, request: dict[str, Any], operands: Operands) -> None:
        self._request = request
        self._operands = operands
        self._child: Child | None = Child(request, operands.at)
        self.ended: dict[int, Ended] = {}
        """Those that give no more figures."""

    def run(self, turns: Sequence[Turn]) -> list[Timing | None]:
        """What came of each turn; None for those of a candidate that gives no more figures."""
        parts = (turns[start : start + MOST_TURNS] for start in range(0, len(turns), MOST_TURNS))
        return [timing for part in parts for timing in self._part(part)]

    def _part(self, turns: Sequence[Turn]) -> list[Timing | None]:
        """As `run`, of MOST_TURNS at most: once more without a candidate that ends the child."""
        while left := [turn for turn in turns if turn.number not in self.ended]:
            if self._child is None:
                self._child = Child(self._request, self._operands.at)
            found = self._child.run(left)
            if isinstance(found, list):
                timings = iter(found)
                return [None if t.number in self.ended else next(timings) for t in turns]
            place, ended = found
            self.ended[left[place].number] = ended
            self.close()
        return [None] * len(turns)

    def close(self) -> None:
        """Ends the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.end()


def answer(
    request: dict[str, Any], operands: Operands, ready: Callable[[], None]
) -> list[dict[str, Any]]:
    """What came of each candidate of a request. From `ready` on candidates run; before it nothing
    is timed."""
    if request["cores"] and sys.platform == "linux":
        # The child's cores are ours, too: who waits for it should not wait for a compiler's core.
        os.sched_setaffinity(0, request["cores"])
    operands.prepare(request)
    runs = _Runs(request, operands)
    runners = [Runner(number) for number in range(len(request["candidates"]))]
    split = 1 if request["incumbent"] else 0
    incumbent, rules = runners[0] if split else None, RaceRules(**request["rules"])
    try:
        ready()
        race(runners[split:], incumbent, rules, runs.run)
    finally:
        runs.close()
    ended = runs.ended
    return [
        {
            "runs": runner.runs,
            "lost": runner.lost,
            "status": ended[runner.number].status if runner.number in ended else "",
            "text": ended[runner.number].text if runner.number in ended else "",
        }
        for runner in runners
    ]
