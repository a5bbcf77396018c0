"""What waits for a compiler is compiled with what goes with it; nobody waits for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from tensorgen.build import Around
from tensorgen.tune.compile_queue import CompileQueue, Flags
from tensorgen.tune.compiler_cores import CompilerCores


class Compiler:
    """Doubles numbers, those of a file when the first one may begin; refuses negative ones."""

    def __init__(self) -> None:
        self.may_begin = Event()
        self.has_begun = Event()
        self.files: list[tuple[Flags, tuple[int, ...]]] = []

    def compiled(self, flags: Flags, numbers: Sequence[int], around: Around) -> list[int]:
        self.files.append((flags, tuple(numbers)))
        self.has_begun.set()
        assert self.may_begin.wait(60)
        if any(number < 0 for number in numbers):
            raise OSError("no room")
        return [2 * number for number in numbers]


@contextmanager
def busy(most: int) -> Iterator[tuple[Compiler, CompileQueue[int, int]]]:
    """A compiler that is at work on a file, and the queue before it."""
    compiler = Compiler()
    with ThreadPoolExecutor(1) as pool:
        queue = CompileQueue(compiler.compiled, pool, CompilerCores([]), most)
        queue.submit(("-O1",), [0])
        assert compiler.has_begun.wait(60)
        yield compiler, queue


def test_what_waits_is_one_file_for_each_kind() -> None:
    with busy(4) as (compiler, queue):
        waiting = [
            queue.submit(("-O1",), [1, 2]),
            queue.submit(("-O0",), [3]),
            queue.submit(("-O1",), [4]),
            queue.submit(("-O0",), [5]),
        ]
        compiler.may_begin.set()
        assert [done.result() for done in waiting] == [(2, 4), (6,), (8,), (10,)]
    assert compiler.files[1:] == [(("-O1",), (1, 2, 4)), (("-O0",), (3, 5))]


def test_a_file_has_room_for_so_many_or_for_one_piece() -> None:
    with busy(3) as (compiler, queue):
        waiting = [queue.submit((), some) for some in ([1, 2], [3, 4], [5], [6, 7, 8, 9])]
        compiler.may_begin.set()
        assert [done.result() for done in waiting] == [(2, 4), (6, 8), (10,), (12, 14, 16, 18)]
    assert [numbers for _, numbers in compiler.files[1:]] == [(1, 2, 5), (3, 4), (6, 7, 8, 9)]


def test_what_is_raised_is_told_to_all_of_the_file() -> None:
    with busy(4) as (compiler, queue):
        waiting = [queue.submit((), some) for some in ([1], [-1])]
        compiler.may_begin.set()
        for done in waiting:
            with pytest.raises(OSError, match="no room"):
                done.result()
        assert queue.submit((), [3]).result() == (6,)
