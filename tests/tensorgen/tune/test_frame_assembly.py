"""Frames in assembly do what their statements say, on one thread and in teams."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tensorgen.emit import Spelling, emit_kernel
from tensorgen.expr import Axis, Expr, apply, const, maximum, minimum, select
from tensorgen.loop import (
    Allocate,
    Buffer,
    Call,
    For,
    If,
    LoopFunction,
    LoopKernel,
    LoopKind,
    Numbers,
    Prefetch,
    SoftmaxRows,
    Space,
    Stmt,
    Store,
    TransposeSums,
    statements,
)
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import Lowered, lower
from tensorgen.schedule import RegisterTile, Schedule, VectorSource
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune import parts_apart
from tensorgen.tune.candidate_source import PrintedKernel, frames_file, printed_kernel
from tensorgen.tune.frame_assembly import AssembledFrame, FrameTarget, frame_kernel
from tensorgen.tune.functions_apart import functions_apart
from tensorgen.tune.parts_apart import is_frame, with_parts_apart
from tensorgen.types import Array, float32, int64
from tests.assembled_kernels import HOST, Frames, frame_target
from tests.attention_tasks import AttentionShape
from tests.compiled_kernels import Case
from tests.contraction_tasks import matmul, whole_inputs
from tests.draft_tasks import drawn

SIZE = 4096
AVX512 = Target.named("x86-64-v4")

runs_here = pytest.mark.skipif(
    platform.system() != "Linux" or HOST.architecture != "x86_64",
    reason="frames are assembled on Linux on x86-64 alone",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all frames are beside is compiled once."""
    return tmp_path_factory.mktemp("cache")


class Frame:
    """A kernel in the making: loops around calls that add 1 to an element of its result."""

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.out = self.numbers.buffer("out", float32, SIZE, Space.OUTPUT)

    def axis(self, extent: int, name: str = "i") -> Axis:
        return self.numbers.axis(name, extent)

    def count(self, index: Expr, buffer: Buffer | None = None) -> Call:
        """The call that adds 1 to an element, whose array begins at the third one before it."""
        place = self.out if buffer is None else buffer
        array = self.numbers.buffer("array", float32, SIZE, Space.OUTPUT)
        number = self.axis(SIZE, "n")
        body = (Store(array, number + 3, array.at(number + 3) + 1.0),)
        function = LoopFunction((array,), frozenset(), (number,), (), body)
        written = (Store(place, index + 3, place.at(index + 3) + 1.0),)
        return Call(function, ((place, const(0, int64)),), (index,), written)

    def copy(self, source: Buffer, index: Expr, target: Buffer, target_index: Expr) -> Call:
        """The call that copies an element, with more arguments than there are registers."""
        arrays = [
            self.numbers.buffer(name, float32, SIZE, space)
            for name, space in (("from", Space.INPUT), ("to", Space.OUTPUT))
        ]
        many = [self.axis(SIZE, f"n_{position}") for position in range(7)]
        behind = many[0] + many[3] * many[5] + many[6]
        body = (Store(arrays[1], behind, arrays[0].at(behind)),)
        function = LoopFunction(tuple(arrays), frozenset(), tuple(many), (), body)
        written = (Store(target, target_index + 17, source.at(index + 17)),)
        values = (4, 9, 9, 2, 9, 3, 7)
        return Call(
            function,
            ((source, index), (target, target_index)),
            tuple(const(value, int64) for value in values),
            written,
        )

    def kernel(self, *body: Stmt, scratch: tuple[Buffer, ...] = ()) -> LoopKernel:
        return LoopKernel((), (self.out,), scratch, body)

    def meaning(self, *body: Stmt) -> Array:
        """What these statements leave in the result, by the interpreter of loops."""
        place = self.axis(SIZE, "place")
        cleared = For(place, (Store(self.out, place, const(0.0, float32)),))
        (found,) = run_kernel(self.kernel(cleared, *body), [])
        return found


def frame_of(kernel: LoopKernel, threads: int) -> PrintedKernel | None:
    """The kernel as the tuner writes it; None if it cannot."""
    found = frame_kernel(kernel, "tasor_timed_kernel", frame_target(threads))
    return None if found is None else _printed(kernel, found)


def _printed(kernel: LoopKernel, found: AssembledFrame) -> PrintedKernel:
    return PrintedKernel(Lowered(kernel, ()), found.kernel, True, True, found.parts)


def run_frame(kernel: LoopKernel, threads: int, cache: Path, calls: int = 1) -> Array:
    """What a frame leaves in its result, which is 0 at first."""
    printed = frame_of(kernel, threads)
    assert printed is not None
    return Frames([printed, printed], threads, cache).run(1, kernel, (), calls)[0]


Term = Callable[[Axis, Axis], Expr]

TERMS: dict[str, Term] = {
    "loops": lambda i, j: i * 50 + j,
    "the other way": lambda i, j: j + i * 50,
    "differences": lambda i, j: i * 50 - j + 60,
    "both sides are sums": lambda i, j: (i * 7 + 3) * (j + 2) - (i - j * 2),
    "quotients": lambda i, j: (i * 50 + j) // 7 + j % 3 * 100,
    "of loops": lambda i, j: (i * 50 + 400) // (j + 2) + (i * 9) % (j + 1) * 3,
    "limits": lambda i, j: minimum(i * 3, j * 4) * 50 + maximum(i, j),
    "numbers beyond 32 bits": lambda i, j: (i * (1 << 40) + j * (1 << 33)) // (1 << 32),
}


@runs_here
@pytest.mark.parametrize("name", TERMS)
def test_terms(name: str, cache: Path) -> None:
    frame = Frame()
    i, j = frame.axis(7), frame.axis(11, "j")
    loops = For(i, (For(j, (frame.count(TERMS[name](i, j)),), LoopKind.ROLLED),))
    expected = frame.meaning(loops)
    assert np.array_equal(run_frame(frame.kernel(loops), 1, cache), expected)
    assert expected.sum() == 77


CONDITIONS: dict[str, Term] = {
    "less": lambda i, j: i < j,
    "at most": lambda i, j: i * 2 <= j + 1,
    "equal": lambda i, j: (i % 3).equals(j % 3),
    "both": lambda i, j: (i < j) & (const(2, int64) <= i),
    "one of them": lambda i, j: (j < i) | ((i + j) % 5).equals(0),
}


@runs_here
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(name: str, cache: Path) -> None:
    frame = Frame()
    i, j = frame.axis(7), frame.axis(11, "j")
    then, otherwise = frame.count(i * 50 + j), frame.count(i * 50 + j + 1000)
    alone = If(CONDITIONS[name](i, j), (frame.count(i * 50 + j + 2000),))
    loops = For(i, (For(j, (If(CONDITIONS[name](i, j), (then,), (otherwise,)), alone)),))
    expected = frame.meaning(loops)
    assert np.array_equal(run_frame(frame.kernel(loops), 1, cache), expected)
    assert 0 < expected[:1000].sum() < 77


@runs_here
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_arrays_scratch_and_loops_of_a_team(threads: int, cache: Path) -> None:
    """Each iteration of a team's loop has arrays and scratch of its own, what stands beside it is
    done once, and whoever is called again finds what was written before."""
    frame = Frame()
    own = frame.numbers.buffer("own", float32, 40, Space.SCRATCH)
    all_have = frame.numbers.buffer("all_have", float32, 700, Space.SHARED)
    local = frame.numbers.buffer("local", float32, 50, Space.STACK)
    i, one, j = frame.axis(5), frame.axis(1, "one"), frame.axis(13, "j")
    k, m = frame.axis(20, "k"), frame.axis(65, "m")
    in_turn = (
        frame.copy(all_have, i * 13 + j, own, const(0, int64)),
        Prefetch(frame.out, i * 5000 - 3000),
        Prefetch(own, j, later=True),
        frame.copy(own, const(0, int64), local, const(20, int64)),
        frame.count(const(34, int64), local),
        frame.copy(local, const(20, int64), frame.out, i * 100 + j * 2),
        frame.count(i * 100 + j * 2 + 1000),
    )
    nest = For(
        i,
        (For(one, (For(j, (Allocate(own, (Allocate(local, in_turn),)),)),)),),
        LoopKind.PARALLEL,
        collapse=3,
    )
    kernel = frame.kernel(
        For(k, (frame.count(k + 2000),)),
        Allocate(
            all_have,
            (For(m, (frame.count(m, all_have),), LoopKind.PARALLEL), nest, frame.count(i * 0)),
        ),
        scratch=(all_have, own),
    )
    for calls in (1, 2):
        out = run_frame(kernel, threads, cache, calls)
        turns = np.array([i * 100 + j * 2 for i in range(5) for j in range(13)])
        # What is counted in memory of the team is counted again in the next call.
        assert out[turns + 17].min() >= 1.0
        assert np.array_equal(np.flatnonzero(out[1000:2000]), turns + 3)
        assert (out[turns + 1003] == calls).all()
        assert (out[2003:2023] == calls).all()
        assert out[3] == calls


def no_frame(make: Callable[[Frame, Axis], Stmt]) -> bool:
    frame = Frame()
    i = frame.axis(7)
    return frame_of(frame.kernel(For(i, (make(frame, i),))), 1) is None


def test_what_is_left_to_compilers() -> None:
    """Stores, quotients of what may be negative, and choices."""
    assert not no_frame(lambda frame, i: frame.count(i))
    assert no_frame(lambda frame, i: Store(frame.out, i, const(1.0, float32)))
    assert no_frame(lambda frame, i: frame.count((i - 3) // 2 + 3))
    assert no_frame(lambda frame, i: frame.count(apply("neg", i) + 9))
    assert no_frame(lambda frame, i: frame.count(select(i < 3, i, 5)))
    scalar = Buffer(99, "s", float32, 1, Space.SCALAR)
    assert no_frame(lambda frame, i: Allocate(scalar, (frame.count(i),)))


def held_softmaxes(task: Task) -> list[Schedule]:
    """Schedules for AVX-512 whose softmaxes are held in registers, by a function of ours."""
    return [
        schedule
        for schedule in drawn(task, AVX512.name, 1, 12)
        if any(isinstance(s, SoftmaxRows) for s in statements(lower(task, schedule).kernel.body))
    ]


@runs_here
def test_attention_is_a_frame(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Around functions for softmaxes, transposed keys and sums, also those of its first rows."""
    monkeypatch.setattr(parts_apart, "LEAST_WORK", 64)
    task, frames = AttentionShape((2,), 18, 32, 32, 0).task(), frame_target(1, AVX512)
    schedules = held_softmaxes(task)
    printed = [
        printed_kernel(task, schedule, AVX512, strict=False, apart=True, frames=frames)
        for schedule in schedules
    ]
    assert printed
    assert all(entry.assembly for entry in printed)
    lowered = [lower(task, schedule) for schedule in schedules]
    inside = [s for entry in lowered for s in statements(entry.kernel.body)]
    assert any(isinstance(s, TransposeSums) for s in inside)
    if HOST.isa != AVX512.isa:
        return
    inputs, built = whole_inputs(task), Frames(printed, 1, tmp_path)
    for number, (schedule, entry) in enumerate(zip(schedules, lowered, strict=True)):
        operands = Case(task, schedule, entry).kernel_inputs(inputs)
        expected = run_kernel(entry.kernel, operands)
        for found, right in zip(built.run(number, entry.kernel, operands), expected, strict=True):
            right = np.reshape(right, -1)
            np.testing.assert_allclose(found, right, atol=1e-6, err_msg=str(schedule))


def test_softmaxes_that_are_calls_are_not_written_out() -> None:
    """For who prints them; where there is no function, they are."""
    task = AttentionShape((2,), 18, 32, 32, 0).task()
    spelling = Spelling(AVX512.isa, False)
    for schedule in held_softmaxes(task):
        texts = set()
        for functions, written_out in ((None, True), (AVX512.isa, False), ("avx2", True)):
            kernel = lower(task, schedule, functions).kernel
            texts.add(emit_kernel(kernel, "k", spelling, "", "").text)
            softmaxes = [s for s in statements(kernel.body) if isinstance(s, SoftmaxRows)]
            assert {bool(s.body) for s in softmaxes} == {written_out}
        assert len(texts) == 1


def test_strict_softmaxes_are_left_to_compilers() -> None:
    """Their sums are in the order of the model, for which the library has no function."""
    task = AttentionShape((2,), 18, 32, 32, 0).task()
    schedules = held_softmaxes(task)
    assert schedules
    for schedule in schedules:
        kernel = lower(task, schedule).kernel
        for strict in (False, True):
            spelling = Spelling(AVX512.isa, strict)
            body = with_parts_apart(kernel, spelling).body
            softmaxes = tuple(s for s in statements(body) if isinstance(s, SoftmaxRows))
            assert is_frame(softmaxes, spelling) is not strict


def test_golden(golden: Callable[[str, str], None]) -> None:
    """A product whose last rows and columns are fewer, for two threads."""
    task = matmul((), 21, 40, 300, constant=(False, True))
    tile = RegisterTile(
        1, VectorSource.PACKED, False, 4, 3, 8, vectors_outer=True, parallel=True, grid=True
    )
    kernel = with_parts_apart(lower(task, tile).kernel, Spelling("avx2", False))
    target = FrameTarget("avx2", False, True, frozenset(functions_apart("avx2")))
    found = frame_kernel(kernel, "tasor_timed_kernel", target)
    assert found is not None
    printed = _printed(kernel, found)
    golden("frames/matmul.s", str(frames_file([printed]).sources["timed_frames.s"]))
