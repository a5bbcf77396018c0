"""Parts of kernels as functions: the same results, shared by kernels that differ in sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.emit import Spelling, emit_kernel
from tensorgen.emit_statements import function_text
from tensorgen.expr import Axis, Expr, Load, const, substitute
from tensorgen.loop import (
    Allocate,
    Buffer,
    Call,
    Declare,
    Fill,
    For,
    If,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    TransposeBlock,
    TransposeSums,
    VectorLoad,
    VectorStore,
    statements,
)
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.schedule import ColumnRun, RegisterTile, Schedule, VectorSource, WindowTile
from tensorgen.simplify import affine
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune import parts_apart
from tensorgen.tune.candidate_source import functions_file
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.outcome import Slower, Timed
from tensorgen.tune.parts_apart import is_frame, with_parts_apart
from tensorgen.types import int64
from tests.compiled_kernels import Case, runnable_isas
from tests.contraction_tasks import (
    convolution,
    matmul,
    padded,
    whole_inputs,
    with_epilogue,
)
from tests.draft_tasks import ATTENTION, EVERY_TASK, WINDOWS, drawn
from tests.window_tasks import Spatial, whole_numbers, window_task

LEVELS = ("x86-64-v4", "x86-64-v3")

PLAIN = ("row", "batched", "residual", "line", "transposed", "pool", "attention")
"""Tasks for C99, where all loops are plain ones: one for each kind of kernel, edge and epilogue.
The others are slow."""

SLOW = [name for name in EVERY_TASK if name not in PLAIN]

EVERY_CASE = [
    *((name, level) for name in EVERY_TASK for level in LEVELS),
    *((name, "c99") for name in PLAIN),
    *(pytest.param(name, "c99", marks=pytest.mark.slow) for name in SLOW),
]

AVX512 = Spelling("avx512", False)

FIRST_INLINED = 1 << 30
"""Loops of functions are numbered as those of kernels are: where both occur, from here."""


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any size become functions."""
    monkeypatch.setattr(parts_apart, "LEAST_WORK", 1)
    monkeypatch.setattr(parts_apart, "LEAST_STORES", 1)


def inlined(call: Call) -> tuple[Stmt, ...]:
    """The body of a function with what a call gives in the place of its parameters."""
    function = call.function
    given = dict(zip(function.numbers, call.numbers, strict=True))
    counts = {loop: affine(given[number]).constant for loop, number in function.counts}
    axes = (s.axis for s in statements(function.body) if isinstance(s, For))
    loops = {
        axis: Axis(FIRST_INLINED + axis.position, counts.get(axis, axis.extent), axis.name)
        for axis in axes
    }
    arrays = {
        array.number: place for array, place in zip(function.arrays, call.arrays, strict=True)
    }

    def term(value: Expr) -> Expr:
        return substitute(value, replaced)

    def replaced(value: Expr) -> Expr | None:
        match value:
            case Axis():
                return loops.get(value, given.get(value))
            case Load(operand=operand, indices=(index,)) if operand in arrays:
                buffer, begin = arrays[operand]
                return buffer.at(begin + term(index))
            case _:
                return None

    def place(buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        if buffer.number not in arrays:
            return buffer, term(index)
        target, begin = arrays[buffer.number]
        return target, begin + term(index)

    def block(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(map(moved, body))

    def moved(statement: Stmt) -> Stmt:
        match statement:
            case For(axis=axis, body=body):
                return replace(statement, axis=loops.get(axis, axis), body=block(body))
            case If(condition=condition, body=body, otherwise=otherwise):
                return If(term(condition), block(body), block(otherwise))
            case Declare(body=body) | Allocate(body=body):
                return replace(statement, body=block(body))
            case Fill(value=value):
                return replace(statement, value=term(value))
            case Store(buffer=buffer, index=index, value=value):
                target, index = place(buffer, index)
                return replace(statement, buffer=target, index=index, value=term(value))
            case VectorLoad() | VectorStore() | Prefetch():
                target, index = place(statement.buffer, statement.index)
                return replace(statement, buffer=target, index=index)
            case TransposeSums(body=body) | TransposeBlock(body=body):
                return replace(statement, body=block(body))
            case _:
                return statement

    return block(function.body)


def with_functions_inlined(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for statement in body:
        match statement:
            case Call():
                found.extend(inlined(statement))
            case For() | Allocate() | Declare():
                found.append(replace(statement, body=with_functions_inlined(statement.body)))
            case If(body=then, otherwise=otherwise):
                then, otherwise = with_functions_inlined(then), with_functions_inlined(otherwise)
                found.append(replace(statement, body=then, otherwise=otherwise))
            case _:
                found.append(statement)
    return tuple(found)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(("name", "level"), EVERY_CASE)
def test_functions_do_what_the_parts_did(name: str, level: str) -> None:
    task = EVERY_TASK[name]
    inputs = whole_numbers(task, 1) if name in WINDOWS else whole_inputs(task)
    calls = 0
    for threads in (1, 2):
        for schedule in drawn(task, level, threads, 1):
            lowered = lower(task, schedule)
            apart = with_parts_apart(lowered.kernel, Spelling(Target.named(level).isa, False))
            calls += sum(isinstance(s, Call) for s in statements(apart.body))
            again = replace(apart, body=with_functions_inlined(apart.body))
            operands = Case(task, schedule, lowered).kernel_inputs(inputs)
            expected = run_kernel(lowered.kernel, operands)
            for kernel in (apart, again):
                for found, right in zip(run_kernel(kernel, operands), expected, strict=True):
                    assert np.array_equal(found, right), schedule
    assert calls or level == "c99"


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize(
    "name",
    [
        "with a stride",
        "with a stride, whole vectors",
        "transposed",
        "residual",
        "depthwise",
        *ATTENTION,
    ],
)
def test_drafts_compute_what_they_should(name: str, level: str, tmp_path: Path) -> None:
    """As C, with functions of parts of any size: each candidate is held against the task."""
    target = Target.named(level)
    if target.isa not in runnable_isas():
        pytest.skip(f"this machine has no {target.isa}")
    task = EVERY_TASK[name]
    with LocalMeasurer(target, 2, cache=tmp_path) as measurer:
        first, *others = drawn(task, level, 2, 1)
        found = measurer.measure(task, others, first)
    for outcome in (found.incumbent, *found.outcomes):
        assert isinstance(outcome, Timed | Slower), outcome


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", EVERY_TASK)
def test_no_draft_fails(name: str, threads: int, tmp_path: Path) -> None:
    """As the tuner has them built for this machine, many of each sketch."""
    task = EVERY_TASK[name]
    with LocalMeasurer(host_target(), threads, cache=tmp_path) as measurer:
        first, *others = drawn(task, host_target().name, threads, 24)
        found = measurer.measure(task, others, first)
    for schedule, outcome in zip((first, *others), (found.incumbent, *found.outcomes), strict=True):
        assert isinstance(outcome, Timed | Slower), (schedule, outcome)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("name", EVERY_TASK)
def test_loops_that_become_vectors_have_a_length(name: str) -> None:
    """Also where another loop over the same axis, in front of them, has a number for it."""
    task = EVERY_TASK[name]
    for schedule in drawn(task, "x86-64-v4", 1, 2):
        apart = with_parts_apart(lower(task, schedule).kernel, AVX512)
        for call in (s for s in statements(apart.body) if isinstance(s, Call)):
            counted = {loop for loop, _ in call.function.counts}
            for loop in (s for s in statements(call.function.body) if isinstance(s, For)):
                if loop.kind is LoopKind.SIMD:
                    assert loop.axis not in counted, schedule


def functions(task: Task, schedule: Schedule) -> set[str]:
    kernel = with_parts_apart(lower(task, schedule).kernel, AVX512)
    assert is_frame(kernel.body, AVX512)
    printed = emit_kernel(kernel, "k", AVX512, "", "")
    return {function.name for function in printed.made}


def tile(rows: int, vectors: int) -> RegisterTile:
    return RegisterTile(1, VectorSource.PACKED, False, rows, vectors, 16, True, False)


def test_kernels_of_other_sizes_share_functions() -> None:
    """Rows, lengths of sums and how far apart rows lie do not matter; the size of a tile does."""
    small = functions(matmul((), 12, 64, 100, constant=(False, True)), tile(6, 2))
    large = functions(matmul((), 300, 256, 512, constant=(False, True)), tile(6, 2))
    other = functions(matmul((), 300, 256, 512, constant=(False, True)), tile(5, 2))
    assert len(small) == 1
    assert small == large
    assert not large & other


def test_short_sums_stay_in_their_loops() -> None:
    """A call for each tile would take as long as it."""
    kernel = lower(matmul((), 300, 256, 4, constant=(False, True)), tile(6, 2)).kernel
    apart = with_parts_apart(kernel, AVX512)
    [call] = [s for s in statements(apart.body) if isinstance(s, Call)]
    assert any(isinstance(s, For) and s.axis.extent >= 8 for s in statements(call.body))


def test_what_is_left_over_is_no_reason_to_compile_the_rest() -> None:
    """The last rows are little, but there are many tiles for each of them."""
    tiles = functions(matmul((), 301, 256, 512, constant=(False, True)), tile(6, 2))
    assert len(tiles) == 2
    assert functions(matmul((), 300, 256, 512, constant=(False, True)), tile(6, 2)) < tiles


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_with_edges_are_functions(name: str, level: str) -> None:
    """Also where the first lanes of a vector lie before the plane, at every other column."""
    task, spelling = WINDOWS[name], Spelling(Target.named(level).isa, False)
    for schedule in drawn(task, level, 1, 4):
        if isinstance(schedule, WindowTile):
            kernel = with_parts_apart(lower(task, schedule).kernel, spelling)
            assert is_frame(kernel.body, spelling), schedule


def test_functions_have_the_constants_that_they_need(tmp_path: Path) -> None:
    """A function of a window with a stride that is left to a compiler: it takes every other lane by
    constants of its own. There was no C for it."""
    task = window_task((Spatial(13, 5, 2, 2, 2), Spatial(111, 5, 2, 2, 2)), weighted=True)
    schedule = WindowTile(3, (ColumnRun(0, 3, 16, 16), ColumnRun(48, 1, 8, 8)), 0)
    target = Target.named("x86-64-v4")
    apart = with_parts_apart(lower(task, schedule).kernel, AVX512)
    calls = [statement for statement in statements(apart.body) if isinstance(statement, Call)]
    functions = [function_text(call.function, target.isa, False) for call in calls]
    assert any("even_16" in function.text for function in functions)
    file = functions_file(functions, target, strict=False)
    build_library(file.sources, target=target, source_flags=file.source_flags, cache=tmp_path)


def test_indices_are_printed_as_indices() -> None:
    """Terms of parameters are not data, whose arithmetic would wrap."""
    task = with_epilogue(matmul((), 60, 256, 512, constant=(False, True)), "residual")
    schedule = replace(tile(6, 2), epilogue_ahead=True)
    kernel = with_parts_apart(lower(task, schedule).kernel, AVX512)
    printed = emit_kernel(kernel, "k", AVX512, "", "")
    text = "\n".join(function.text for function in printed.made)
    assert "TASOR_PREFETCH" in text
    assert "uint64_t" not in text
    assert "uintptr_t" not in text


def test_a_term_of_the_caller_is_given_once() -> None:
    """Conditions that ask for the same, where a tile is in an image, say, share a number."""
    task = padded(convolution((7, 7), (3, 3), channels=(64, 64), strides=(2, 2)), (1, 1), (1, 1))
    shared = 0
    for schedule in drawn(task, "x86-64-v4", 1, 4):
        kernel = with_parts_apart(lower(task, schedule).kernel, AVX512)
        for call in (s for s in statements(kernel.body) if isinstance(s, Call)):
            assert len(call.numbers) == len(call.function.numbers)
            assert len(set(call.function.numbers)) == len(call.numbers)
            assert all(number.dtype == int64 for number in call.numbers)
            assert const(0, int64) not in call.numbers
            pairs = zip(call.function.numbers, call.numbers, strict=True)
            asked = [value for number, value in pairs if number.name.startswith("fixed")]
            assert len(asked) == len(set(asked))
            shared += len(asked)
    assert shared
