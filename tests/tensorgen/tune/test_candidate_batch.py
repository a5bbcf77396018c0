"""Schedules of a batch to kernels: what is printed and compiled, once, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import pytest

from tensorgen.build import build_library, find_compiler
from tensorgen.schedule import RowStages, Schedule
from tensorgen.sketch import loop_schedule
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune import candidate_batch, candidate_build
from tensorgen.tune.candidate_batch import FILE_CANDIDATES, BatchBuilder, Candidate
from tensorgen.tune.candidate_build import Built
from tensorgen.tune.candidate_source import PrintedKernel, candidate_file, printed_kernel
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.draft_flags import LOOPS, TILES
from tensorgen.tune.intrinsics import intrinsics_of
from tensorgen.tune.outcome import NotBuilt
from tests.contraction_tasks import matmul
from tests.contraction_tiles import candidates

HOST = host_target()
TASK = matmul((), 24, 48, 32, constant=(False, True))


def tiles(count: int) -> list[Schedule]:
    """The first register tiles for the host."""
    return list(candidates(TASK, HOST.isa)[:count])


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[BatchBuilder]:
    found = BatchBuilder(HOST, 1, tmp_path, strict=False, drafts=True, cores=CompilerCores([]))
    yield found
    found.close()


def files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each file for the compiler has, as they are built."""
    found: list[int] = []

    def counted(printed: list[PrintedKernel], *given: Any, **named: Any) -> object:
        found.append(len(printed))
        return candidate_file(printed, *given, **named)

    monkeypatch.setattr(candidate_build, "candidate_file", counted)
    return found


def test_equal_kernels_are_one_candidate(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = files(monkeypatch)
    first, second = tiles(2)
    batch = builder.begin([(TASK, one) for one in (first, second, first, second)])()
    assert batch.places == (0, 1, 0, 1)
    assert len(batch.candidates) == 2
    assert counts == [2]
    # What was built is not built again, with others or without.
    again = builder.begin([(TASK, second)])()
    assert (again.places, again.built) == ((0,), (batch.built[1],))
    third = tiles(3)[2]
    builder.begin([(TASK, first), (TASK, third)])()
    assert counts == [2, 1]


def test_places_are_those_of_the_schedules(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = files(monkeypatch)
    some = tiles(FILE_CANDIDATES + 1)
    unfit: Schedule = RowStages(0, (), 0, 0)
    batch = builder.begin([(TASK, one) for one in (*some, unfit)])()
    assert batch.places[-1] == NotBuilt("rows: expected 1 stages, got 0")
    assert batch.places[:-1] == tuple(range(len(some)))
    for schedule, candidate, built in zip(some, batch.candidates, batch.built, strict=True):
        assert isinstance(built, Built)
        expected = printed_kernel(TASK, schedule, HOST, strict=False)
        assert len(candidate.text) == len(expected.text)
    # Files of about the same size: the last one is not left with a single candidate.
    assert sorted(counts) == [4, 5]


@pytest.mark.parametrize("drafts", [False, True])
def test_loops_and_tiles_have_passes_of_their_own(
    drafts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file for each kind; as a library is compiled if no drafts are wanted."""
    if intrinsics_of(find_compiler(HOST), HOST) is None:
        pytest.skip("the compiler is not gcc for x86-64, which alone has flags for drafts")
    given: list[tuple[str, ...]] = []

    def watched(sources: Any, *, flags: tuple[str, ...], **named: Any) -> Any:
        given.append(flags)
        return build_library(sources, flags=flags, **named)

    cores = CompilerCores([])
    builder = BatchBuilder(HOST, 1, tmp_path, strict=False, drafts=drafts, cores=cores)
    monkeypatch.setattr(candidate_build, "build_library", watched)
    loops: Schedule = loop_schedule(TASK, 1, fused=True)
    batch = builder.begin([(TASK, one) for one in (*tiles(2), loops)])()
    builder.close()
    assert all(isinstance(built, Built) for built in batch.built)
    expected = [("-I.", *TILES), ("-I.", *LOOPS)] if drafts else [("-I.",)]
    assert sorted(given) == sorted(expected)


def test_who_begins_does_not_wait(builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else prints, and prepares what has been printed while it is compiled."""
    asked = Event()
    threads: list[int] = []

    def print_late(task: Task, schedule: Schedule, target: Target, *, strict: bool) -> Any:
        assert asked.wait(60)
        threads.append(get_ident())
        return printed_kernel(task, schedule, target, strict=strict)

    monkeypatch.setattr(candidate_batch, "printed_kernel", print_late)
    prepared: list[Candidate] = []
    begun = builder.begin([(TASK, one) for one in tiles(3)], prepared.append)
    assert not threads
    asked.set()
    batch = begun()
    assert len(set(threads)) == 1
    assert get_ident() not in threads
    assert prepared == list(batch.candidates)


def test_what_fails_beside_it_is_told_to_who_waits(builder: BatchBuilder) -> None:
    def fails(candidate: Candidate) -> None:
        raise OSError(28, "No space left on device")

    begun = builder.begin([(TASK, one) for one in tiles(1)], fails)
    with pytest.raises(OSError, match="No space left"):
        begun()
    assert isinstance(builder.begin([(TASK, one) for one in tiles(1)])().built[0], Built)
