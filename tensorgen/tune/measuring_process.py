"""Runs candidates and times them; for a process of its own, not to be imported by others.

What it does: loads operands once, forks a process for each request, has it check and run the
kernels as the race asks for, and starts another one where a kernel ends it, so that a crash or a
hang costs the kernel that caused it. What it does not: compile, or know what kernels compute.

It needs the standard library alone: it starts in milliseconds, has one thread and no OpenMP
runtime, and may therefore fork. Requests and replies are lines of JSON on standard input and
output:

    {"threads": t, "cores": [c, …], "spare_bytes": b, "limit_seconds": s, "checker": path,
     "rules": {…}, "incumbent": true,
     "candidates": [{"library": path, "needed": [path, …], "function": name, "number": n,
                     "sets": n, "fetch": true,
                     "buffers": [{"bytes": b, "file": path, "copies": true},
                                 {"bytes": b, "expected": path, "check": name, "count": n,
                                  "absolute": a, "relative": r, "allowed": n}, {"bytes": b}]}]}
    {}

    {"results": [{"runs": [s, …], "lost": false, "status": "", "text": ""}, …]}

The empty reply says that operands are read and nothing has run: an empty line lets it begin.
Libraries that a candidate's needs are loaded first. Calls take turns with `sets` copies of a
kernel's weights. With `fetch`, before a run these are read and there is a call that is not timed.
The first candidate of a request with an incumbent is that. The end of the input ends the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tensorgen.tune.measuring_child import MOST_TURNS, Child, Ended
from tensorgen.tune.measuring_memory import Memory
from tensorgen.tune.race import RaceRules, Runner, Timing, Turn, race

KEPT_BYTES = 1 << 30
"""Operands that the current request does not need are kept up to this size."""


def main() -> None:
    """Answers requests until there are no more."""
    # Who waits for us may be interrupted, and then ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    operands = Operands()
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
    """The operands read so far, by file and number of the copy."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Memory] = {}

    def prepare(self, request: dict[str, Any]) -> None:
        """Reads what a request needs, and lets go of what it does not if there is too much."""
        needed: dict[tuple[str, int], int] = {}
        for candidate in request["candidates"]:
            for turn, buffer in enumerate(candidate["buffers"]):
                for path in (buffer.get("file"), buffer.get("expected")):
                    copies = candidate["sets"] if buffer.get("copies") else 1
                    if path is not None:
                        needed |= {(path, copy): turn for copy in range(copies)}
        kept = sum(memory.size for memory in self._kept.values())
        for key in list(self._kept):
            if kept > KEPT_BYTES and key not in needed:
                memory = self._kept.pop(key)
                kept -= memory.size
                memory.close()
        for key, turn in needed.items():
            if key not in self._kept:
                path, copy = key
                first = self._kept.get((path, 0))
                self._kept[key] = (
                    Memory.of_file(path, turn) if first is None else first.copy(turn + copy)
                )

    def at(self, path: str, copy: int) -> Memory:
        """A copy of what a file held."""
        return self._kept[path, copy]


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


if __name__ == "__main__":
    main()
