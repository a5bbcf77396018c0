"""Work in processes that may be ended: each task has a limit on its time, and may crash.

What it does: forks processes, gives each one task at a time, and says of every task what came of
it, a value or why there is none. A process that is past the limit is killed, and another one takes
its place. What it does not: know what the tasks are, or order the results: they come as they are
done.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE = 1.0
"""Seconds after which an idle process looks whether its parent is alive."""

_CONTEXT = get_context("fork")


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """A task that gave a value, and the seconds that it took."""

    value: R
    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A task without a value. `reason` is one line."""

    reason: str
    seconds: float


def in_processes(
    work: Callable[[T], R], tasks: Sequence[T], jobs: int, seconds: float
) -> Generator[tuple[int, Done[R] | Ended], None, None]:
    """The position of each task with what came of it, as it is done, from up to `jobs` processes.

    A task may take so many seconds. Values must be such as `pickle` takes; an exception is a crash.
    Closing the iterator ends the processes.
    """
    assert jobs > 0
    pending = list(reversed(range(len(tasks))))
    workers: list[_Worker[T, R]] = []
    try:
        while pending or any(worker.task is not None for worker in workers):
            for worker in [worker for worker in workers if worker.task is None]:
                if pending:
                    worker.begin(pending.pop(), seconds)
            while pending and len(workers) < jobs:
                workers.append(_Worker(work, tasks))
                workers[-1].begin(pending.pop(), seconds)
            for worker in _next(workers):
                task = worker.task
                assert task is not None
                outcome = worker.outcome(seconds)
                if outcome is None:
                    continue
                if isinstance(outcome, Ended) and not worker.process.is_alive():
                    workers.remove(worker)
                yield task, outcome
    finally:
        for worker in workers:
            worker.end()


def _next(workers: Sequence[_Worker[T, R]]) -> list[_Worker[T, R]]:
    """The workers that have an answer or no more time, after waiting for one of them."""
    busy = [worker for worker in workers if worker.task is not None]
    now = time.monotonic()
    patience = max(0.0, min(worker.deadline for worker in busy) - now)
    answered = wait([worker.connection for worker in busy], patience)
    now = time.monotonic()
    return [w for w in busy if w.connection in answered or w.deadline <= now]


class _Worker(Generic[T, R]):
    """One process."""

    def __init__(self, work: Callable[[T], R], tasks: Sequence[T]) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(
            target=_serve, args=(theirs, work, tasks, os.getpid()), daemon=True
        )
        self.process.start()
        theirs.close()
        self.task: int | None = None
        self.begun = self.deadline = 0.0

    def begin(self, task: int, seconds: float) -> None:
        self.task = task
        self.begun = time.monotonic()
        self.deadline = self.begun + seconds
        try:
            self.connection.send(task)
        except OSError:
            return  # the process is gone: its connection says so when it is read

    def outcome(self, seconds: float) -> Done[R] | Ended | None:
        """What came of the task; None if there is nothing yet."""
        taken = time.monotonic() - self.begun
        if not self.connection.poll():
            if time.monotonic() < self.deadline:
                return None
            self.end()
            return Ended(f"no answer within {seconds:g} seconds", taken)
        try:
            value, reason = self.connection.recv()
        except (EOFError, OSError):
            self.end()
            return Ended(f"its process ended with {_status(self.process.exitcode)}", taken)
        self.task = None
        return Done(value, taken) if reason is None else Ended(reason, taken)

    def end(self) -> None:
        self.task = None
        self.process.kill()
        self.process.join()
        self.connection.close()


def _status(code: int | None) -> str:
    if code is None or code >= 0:
        return f"status {code}"
    return f"signal {-code} ({signal.Signals(-code).name})"


def _serve(connection: Connection, work: Callable[[T], R], tasks: Sequence[T], parent: int) -> None:
    """Do one task after the other until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        while not connection.poll(_PATIENCE):
            if os.getppid() != parent:
                return
        try:
            task = connection.recv()
        except EOFError:
            return
        answer: tuple[R, None] | tuple[None, str]
        try:
            answer = (work(tasks[task]), None)
        except Exception as error:  # what may go wrong with a task is its own business
            first = str(error).partition("\n")[0]
            answer = (None, f"{type(error).__name__}: {first}")
        try:
            connection.send(answer)
        except OSError:
            return  # the parent is gone
