"""Tasks in processes: values, crashes, time limits, and nothing left running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from verify.workers import Done, Ended, in_processes


def outcomes(
    work: Callable[[int], int], count: int, jobs: int = 2, seconds: float = 20.0
) -> list[Done[int] | Ended]:
    found = dict(in_processes(work, range(count), jobs, seconds))
    return [found[position] for position in range(count)]


def test_each_task_gives_its_value() -> None:
    values = [o.value if isinstance(o, Done) else None for o in outcomes(lambda n: n * n, 20, 3)]
    assert values == [n * n for n in range(20)]


def test_no_tasks_are_no_work() -> None:
    assert outcomes(lambda n: n, 0) == []


def test_tasks_run_in_other_processes() -> None:
    found = outcomes(lambda n: os.getpid(), 4, jobs=1)
    pids = {outcome.value for outcome in found if isinstance(outcome, Done)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_an_exception_is_the_reason_and_the_process_goes_on() -> None:
    def work(number: int) -> int:
        if number == 1:
            raise ValueError("one is wrong\nand more")
        return number

    first, second, third = outcomes(work, 3, jobs=1)
    assert isinstance(first, Done)
    assert isinstance(second, Ended)
    assert second.reason == "ValueError: one is wrong"
    assert isinstance(third, Done)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_process_ends_its_task_alone(jobs: int) -> None:
    def work(number: int) -> int:
        if number % 3 == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    found = outcomes(work, 7, jobs)
    reasons = [o.reason if isinstance(o, Ended) else "" for o in found]
    assert [bool(reason) for reason in reasons] == [n % 3 == 1 for n in range(7)]
    assert reasons[1] == "its process ended with signal 9 (SIGKILL)"


def test_a_task_past_its_limit_is_ended() -> None:
    def work(number: int) -> int:
        time.sleep(60 if number == 0 else 0)
        return number

    begun = time.monotonic()
    first, second, third = outcomes(work, 3, jobs=1, seconds=0.3)
    assert time.monotonic() - begun < 10
    assert isinstance(first, Ended)
    assert first.reason == "no answer within 0.3 seconds"
    assert isinstance(second, Done)
    assert isinstance(third, Done)


def test_closing_ends_the_processes() -> None:
    running = in_processes(lambda n: os.getpid() if n == 0 else time.sleep(60), range(4), 2, 100.0)
    _, first = next(running)
    running.close()
    assert isinstance(first, Done)
    pid = first.value
    assert isinstance(pid, int)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
