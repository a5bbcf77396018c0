"""Runs the probes of a calibration; a script for a process of its own, not to be imported.

What it does: loads the library that it is told of, runs each probe in turns with the others, and
prints how long the turns took. What it does not: know what the probes do.

It is run in isolation and uses the standard library alone: nothing that numpy or an engine starts
takes a core from it. Standard input holds a request as JSON, standard output gets the reply:

    {"library": path, "rounds": n, "seconds": s, "threads": t, "memory_bytes": b,
     "probes": [{"name": "read", "threads": t, "count": c}, ...]}
    [{"team": threads that took part, "seconds": [of one turn of the loop, for each round]}, ...]
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import time
from typing import Any

ELEMENT_BYTES = 4
LINE_ELEMENTS = 16
"""A cache line of float32: what each thread has to write its sum to."""


def main() -> None:
    """Answers the one request."""
    request = json.load(sys.stdin)
    library = ctypes.CDLL(request["library"])
    memory = mmap.mmap(-1, max(request["memory_bytes"], mmap.PAGESIZE))
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    threads = request["threads"]
    sums = (ctypes.c_float * (LINE_ELEMENTS * threads))()
    count = request["memory_bytes"] // ELEMENT_BYTES // threads
    library.touch(threads, ctypes.c_void_p(place), ctypes.c_size_t(count))
    probes = [_Probe(library, probe, place, sums) for probe in request["probes"]]
    for probe in probes:
        probe.lengthen(request["seconds"])
    for _ in range(request["rounds"]):
        for probe in probes:
            probe.run()
    json.dump([{"team": probe.team, "seconds": probe.seconds} for probe in probes], sys.stdout)


class _Probe:
    """One probe with what it has found so far."""

    def __init__(
        self,
        library: ctypes.CDLL,
        probe: dict[str, Any],
        place: int,
        sums: ctypes.Array[ctypes.c_float],
    ) -> None:
        self._function = getattr(library, f"probe_{probe['name']}")
        self._arguments = (
            probe["threads"], ctypes.c_void_p(place), ctypes.c_size_t(probe["count"]),
        )  # fmt: skip
        self._sums = sums
        self._turns = 1
        self.team = 1
        self.seconds: list[float] = []

    def _timed(self) -> float:
        started = time.perf_counter()
        self.team = self._function(*self._arguments, ctypes.c_long(self._turns), self._sums)
        return time.perf_counter() - started

    def lengthen(self, seconds: float) -> None:
        """Finds how many turns take at least so long; warms up caches and clocks by the way."""
        while (taken := self._timed()) < seconds:
            self._turns = max(2 * self._turns, int(self._turns * seconds / max(taken, 1e-7)))

    def run(self) -> None:
        """One round."""
        self.seconds.append(self._timed() / self._turns)


if __name__ == "__main__":
    main()
