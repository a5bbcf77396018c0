"""Many test cases in worker processes: a crash or an endless case costs only itself.

What it does: hands cases out one by one, ends a worker whose case takes too long, and starts
another in the place of one that has died. What it does not: judge outcomes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from benchmarks.conformance.cases import Case
from benchmarks.conformance.check import check
from benchmarks.conformance.outcome import Failed, Outcome, Record

NODE_SECONDS = 60.0
MODEL_SECONDS = 300.0
"""The longest that a case may take, with the compiler's time."""

_CONTEXT = multiprocessing.get_context("spawn")
_STOP_SECONDS = 10.0


def time_limit(case: Case) -> float:
    """Seconds that a case may take."""
    return NODE_SECONDS if case.group == "node" else MODEL_SECONDS


def sweep(
    cases: Sequence[Case],
    target: str,
    *,
    threads: int = 1,
    workers: int = 2,
    limit: Callable[[Case], float] = time_limit,
    told: Callable[[Record], None] = lambda record: None,
) -> tuple[Record, ...]:
    """Runs every case on `threads` threads, `workers` at a time; `told` hears of each as it ends.

    The records are in the cases' order.
    """
    waiting = deque(enumerate(cases))
    outcomes: dict[int, Outcome] = {}
    busy: list[_Worker] = []

    def finish(worker: _Worker, outcome: Outcome) -> None:
        case = worker.case
        outcomes[worker.number] = outcome
        told(Record(case.name, case.group, case.operator, outcome))

    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _Worker(target, threads)
                number, case = waiting.popleft()
                worker.begin(number, case, time.monotonic() + limit(case))
                busy.append(worker)
            first = min(worker.deadline for worker in busy)
            wait([worker.connection for worker in busy], max(0.0, first - time.monotonic()))
            for worker in tuple(busy):
                outcome = worker.outcome(limit)
                if outcome is None:
                    continue
                busy.remove(worker)
                finish(worker, outcome)
                if worker.alive:
                    idle.append(worker)
    finally:
        for worker in (*busy, *idle):
            worker.end()
    return tuple(
        Record(case.name, case.group, case.operator, outcomes[number])
        for number, case in enumerate(cases)
    )


class _Worker:
    """A process that checks one case at a time."""

    def __init__(self, target: str, threads: int) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.alive = True
        self._process: SpawnProcess = _CONTEXT.Process(
            target=_serve, args=(theirs, target, threads), daemon=True
        )
        self._process.start()
        theirs.close()

    def begin(self, number: int, case: Case, deadline: float) -> None:
        self.number, self.case, self.deadline = number, case, deadline
        self.connection.send(case)

    def outcome(self, limit: Callable[[Case], float]) -> Outcome | None:
        """How the case ended; None while it goes on."""
        if self.connection.poll():
            try:
                outcome: Outcome = self.connection.recv()
            except EOFError:
                self.end()
                return Failed(f"the process ended with exit code {self._process.exitcode}")
            return outcome
        if time.monotonic() >= self.deadline:
            self.end()
            return Failed(f"no end within {limit(self.case):g} s")
        return None

    def end(self) -> None:
        self.alive = False
        self.connection.close()
        self._process.terminate()
        self._process.join(_STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, target: str, threads: int) -> None:
    while True:
        try:
            case: Case = connection.recv()
        except EOFError:
            return
        connection.send(check(case, target, threads))
