"""Schedules of a batch to kernels: what is printed and compiled, once, and by whom."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import Any

import pytest

from tensorgen.build import build_library, find_compiler
from tensorgen.expr import Tensor, compute
from tensorgen.schedule import RowStages, Schedule, VectorSource
from tensorgen.sketch import loop_schedule
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune import candidate_build, kernel_printer
from tensorgen.tune.candidate_batch import (
    FILE_CANDIDATES,
    FILE_KERNELS,
    BatchBuilder,
    Candidate,
    Chosen,
)
from tensorgen.tune.candidate_build import Built
from tensorgen.tune.candidate_source import (
    CandidateFile,
    PrintedKernel,
    candidate_file,
    frames_file,
    functions_file,
    printed_kernel,
)
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.draft_flags import ASSEMBLY, BARE, FILTERED, FRAME, LANES, LOOPS, TILES
from tensorgen.tune.intrinsics import intrinsics_of
from tensorgen.tune.outcome import NotBuilt, Refused
from tensorgen.types import TensorType, float32, float64
from tests.assembled_kernels import frame_target
from tests.contraction_tasks import matmul
from tests.contraction_tiles import candidates

HOST = host_target()
TASK = matmul((), 24, 48, 32, constant=(False, True))
DOUBLES = matmul((), 12, 24, 13, constant=(False, True), dtype=float64)
"""Vectors of these are left to the compiler, and so are kernels whose sums are worth no call."""


def draft(task: Task, schedule: Schedule) -> PrintedKernel:
    """A kernel as drafts are printed on this machine."""
    frames = None
    if platform.system() == "Linux" and intrinsics_of(find_compiler(HOST), HOST) is not None:
        frames = frame_target(1)
    return printed_kernel(task, schedule, HOST, strict=False, apart=True, frames=frames)


def tiles(count: int, *, frames: bool = False) -> list[Chosen]:
    """The first register tiles for the host whose drafts are frames, or are not."""
    task = TASK if frames else DOUBLES
    found = (
        (task, schedule)
        for schedule in candidates(task, HOST.isa)
        if draft(task, schedule).frame == frames
    )
    return list(islice(found, count))


def squares(size: int) -> Task:
    x = Tensor(0, TensorType(float32, (size,)))
    return Task((x.type,), (compute((size,), lambda i: x[i] * x[i]),), (0,), (False,))


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that wait for a compiler at the same time stay apart: how many wait is chance."""
    monkeypatch.setattr(candidate_build, "MOST_TOGETHER", FILE_KERNELS)


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[BatchBuilder]:
    found = BatchBuilder(HOST, 1, tmp_path, strict=False, drafts=True, cores=CompilerCores([]))
    yield found
    found.close()


def files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each file for the compiler has, as they are built."""
    found: list[int] = []

    def counted(made: Callable[..., CandidateFile]) -> Callable[..., CandidateFile]:
        def file(printed: list[PrintedKernel], *given: Any, **named: Any) -> CandidateFile:
            found.append(len(printed))
            return made(printed, *given, **named)

        return file

    monkeypatch.setattr(candidate_build, "candidate_file", counted(candidate_file))
    monkeypatch.setattr(candidate_build, "frames_file", counted(frames_file))
    return found


def test_equal_kernels_are_one_candidate(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = files(monkeypatch)
    first, second = tiles(2)
    batch = builder.begin([first, second, first, second])()
    assert batch.places == (0, 1, 0, 1)
    assert len(batch.candidates) == 2
    assert counts == [2]
    # What was built is not built again, with others or without.
    again = builder.begin([second])()
    assert (again.places, again.built) == ((0,), (batch.built[1],))
    third = tiles(3)[2]
    builder.begin([first, third])()
    assert counts == [2, 1]


@pytest.mark.usefixtures("no_waiting")
def test_places_are_those_of_the_schedules(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = files(monkeypatch)
    some = tiles(2 * FILE_KERNELS + 1)
    drafts = intrinsics_of(find_compiler(HOST), HOST) is not None
    unfit: Schedule = RowStages(0, (), 0, 0)
    batch = builder.begin([*some, (DOUBLES, unfit)])()
    assert batch.places[-1] == NotBuilt("rows: expected 1 stages, got 0")
    assert batch.places[:-1] == tuple(range(len(some)))
    for (task, schedule), candidate, built in zip(some, batch.candidates, batch.built, strict=True):
        assert isinstance(built, Built)
        expected = printed_kernel(task, schedule, HOST, strict=False, apart=drafts)
        assert len(candidate.text) == len(expected.text)
    # Files of about the same size: the last one is not left with a single candidate.
    assert sum(counts) == len(some)
    assert len(counts) == 3
    assert max(counts) - min(counts) == 1


def test_frames_of_a_batch_fill_a_file(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of its kernels are none, and in whatever order they are printed."""
    needs_drafts()
    counts = files(monkeypatch)
    others, frames = tiles(2), tiles(3, frames=True)
    mixed = [frames[0], others[0], *frames[1:], others[1]]
    batch = builder.begin(mixed)()
    assert all(isinstance(built, Built) for built in batch.built)
    assert batch.places == tuple(range(len(mixed)))
    assert sorted(counts) == [2, 3]
    assert len(frames) <= FILE_CANDIDATES


@pytest.mark.parametrize("drafts", [False, True])
def test_loops_and_tiles_and_frames_have_passes_of_their_own(
    drafts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file for each kind, and those of functions; as a library is compiled if no drafts are
    wanted."""
    if intrinsics_of(find_compiler(HOST), HOST) is None:
        pytest.skip("the compiler is not gcc for x86-64, which alone has flags for drafts")
    given: list[tuple[str, ...]] = []

    def watched(sources: Any, *, flags: tuple[str, ...], **named: Any) -> Any:
        given.append(flags)
        return build_library(sources, flags=flags, **named)

    cores = CompilerCores([])
    builder = BatchBuilder(HOST, 1, tmp_path, strict=False, drafts=drafts, cores=cores)
    monkeypatch.setattr(candidate_build, "build_library", watched)
    chosen = [*tiles(2), *tiles(2, frames=True)]
    # The last vector of 100 elements is none: compilers are to see to it.
    chosen += [(task, loop_schedule(task, 1, fused=True)) for task in (squares(96), squares(100))]
    batch = builder.begin(chosen)()
    builder.close()
    assert all(isinstance(built, Built) for built in batch.built)
    of_kernels = [flags for flags in given if flags != ("-I.", *BARE, *FILTERED)]
    in_assembly = drafts and platform.system() == "Linux"
    kinds = (TILES, LANES, LOOPS, *(() if in_assembly else (FRAME,))) if drafts else ((),)
    expected = [("-I.", *BARE, *kind) for kind in kinds] + [ASSEMBLY] * in_assembly
    assert sorted(of_kernels) == sorted(expected)


def test_who_begins_does_not_wait(builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else prints, and prepares what has been printed while it is compiled."""
    asked = Event()
    threads: list[int] = []

    def print_late(task: Task, schedule: Schedule, target: Target, **named: bool) -> Any:
        assert asked.wait(60)
        threads.append(get_ident())
        return printed_kernel(task, schedule, target, strict=named["strict"])

    monkeypatch.setattr(kernel_printer, "printed_kernel", print_late)
    prepared: list[Candidate] = []
    begun = builder.begin(tiles(3), prepared.append)
    assert not threads
    asked.set()
    batch = begun()
    assert len(set(threads)) == 1
    assert get_ident() not in threads
    assert prepared == list(batch.candidates)


def test_who_closes_waits_for_one_kernel_at_most(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody will ask for the others: whoever pressed Ctrl-C wants an end."""
    begins = Event()
    goes_on = Event()
    printed: list[Schedule] = []

    def print_late(task: Task, schedule: Schedule, target: Target, **named: bool) -> Any:
        printed.append(schedule)
        begins.set()
        assert goes_on.wait(60)
        return printed_kernel(task, schedule, target, strict=named["strict"])

    monkeypatch.setattr(kernel_printer, "printed_kernel", print_late)
    prepared: list[Candidate] = []
    builder.begin(tiles(3), prepared.append)
    assert begins.wait(60)
    closing = Thread(target=builder.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive(), "a kernel is being printed"
    goes_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert len(printed) == 1
    assert not prepared


def test_what_fails_beside_it_is_told_to_who_waits(builder: BatchBuilder) -> None:
    def fails(candidate: Candidate) -> None:
        raise OSError(28, "No space left on device")

    begun = builder.begin(tiles(1), fails)
    with pytest.raises(OSError, match="No space left"):
        begun()
    assert isinstance(builder.begin(tiles(1))().built[0], Built)


def needs_drafts() -> None:
    if intrinsics_of(find_compiler(HOST), HOST) is None:
        pytest.skip("the compiler is not gcc for x86-64, which alone makes drafts")


def test_drafts_of_other_sizes_share_functions(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that has the same tiles as one before needs no function of its own, and is a frame
    around calls."""
    needs_drafts()
    given: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def watched(sources: dict[str, bytes], *, flags: tuple[str, ...], **named: Any) -> Any:
        given.append((flags, sources))
        return build_library(sources, flags=flags, **named)

    monkeypatch.setattr(candidate_build, "build_library", watched)
    small = matmul((), 48, 64, 256, constant=(False, True))
    large = matmul((), 96, 128, 512, constant=(False, True))
    needed = []
    for task in (small, large):
        schedule = next(
            s
            for s in candidates(task, HOST.isa)
            if (s.source, s.vector_operand) == (VectorSource.PACKED, 1) and s.rows in (4, 6)
        )
        [built] = builder.begin([(task, schedule)])().built
        assert isinstance(built, Built)
        needed.append(built.needed)
    # Functions and kernels are compiled at the same time.
    [made] = [files for flags, files in given if FILTERED[-1] in flags]
    first, second = (files for flags, files in given if FILTERED[-1] not in flags)
    assert len(given) == 3
    [name] = set(re.findall(r"\btasor_part_\w+", str(first)))
    if platform.system() == "Linux":
        assert made["timed_parts.s"].count(f"\n{name}:") == 1
    else:
        assert made["timed_kernels.c"].decode().count(f"void {name}(") == 2  # declared and defined
    assert name in str(second)
    assert needed[0] == needed[1]
    assert all(path.is_file() for path in needed[0])


def test_a_bug_in_lowering_costs_its_candidate_only(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = tiles(2)

    def broken(task: Task, schedule: Schedule, *given: Any, **named: Any) -> PrintedKernel:
        if (task, schedule) == bad:
            raise AssertionError("a tile of no width")
        return printed_kernel(task, schedule, *given, **named)

    monkeypatch.setattr(kernel_printer, "printed_kernel", broken)
    batch = builder.begin([bad, good])()
    assert batch.places[0] == Refused("lowering: AssertionError: a tile of no width")
    assert isinstance(batch.built[0], Built)


def test_candidates_of_a_refused_function_are_refused(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_drafts()

    def broken(*given: Any, **named: Any) -> CandidateFile:
        file = functions_file(*given, **named)
        return replace(file, sources=file.sources | {"timed_kernels.c": "nonsense"})

    monkeypatch.setattr(candidate_build, "functions_file", broken)
    loops: Schedule = loop_schedule(TASK, 1, fused=True)
    one, other = builder.begin([*tiles(1, frames=True), (TASK, loops)])().built
    assert isinstance(one, Refused)
    assert "to accept the emitted code" in one.reason
    assert isinstance(other, Built)


def test_who_shares_a_file_with_a_refused_function_is_built_alone(
    builder: BatchBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that calls what is nowhere cannot be loaded: the others get one without it."""
    needs_drafts()
    first, *others = tiles(64, frames=True)
    own = {function.name for function in draft(*first).functions}
    second = next(
        other for other in others if own.isdisjoint(f.name for f in draft(*other).functions)
    )

    def broken(functions: Any, *given: Any, **named: Any) -> CandidateFile:
        file = functions_file(functions, *given, **named)
        if own.isdisjoint(function.name for function in functions):
            return file
        return replace(file, sources=file.sources | {"timed_kernels.c": "nonsense"})

    counts = files(monkeypatch)
    monkeypatch.setattr(candidate_build, "functions_file", broken)
    one, other = builder.begin([first, second])().built
    assert isinstance(one, Refused)
    assert isinstance(other, Built)
    assert counts == [2, 1]
