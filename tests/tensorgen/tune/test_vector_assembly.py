"""Statements on vectors in assembly do what they say: in functions, in frames, on every machine
that has the instructions."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorgen.build import find_compiler
from tensorgen.expr import Axis, Expr, apply, const, maximum, minimum
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Declare,
    Fill,
    For,
    If,
    LoopFunction,
    LoopKernel,
    LoopKind,
    MultiplyAdd,
    Numbers,
    Prefetch,
    Register,
    Space,
    Stmt,
    Store,
    VectorApply,
    VectorLoad,
    VectorStore,
    statements,
)
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.schedule import RegisterTile, WindowTile
from tensorgen.target import Isa, Target
from tensorgen.tune import parts_apart
from tensorgen.tune.candidate_source import PrintedKernel, frames_file, printed_kernel
from tensorgen.tune.part_assembly import assembled_part, parts_text
from tensorgen.types import Array, float32, float64, int64
from tests.assembled_kernels import HOST, Frames, frame_target, run_function
from tests.compiled_kernels import ISA_TARGETS, Case, runnable_isas
from tests.contraction_tasks import whole_inputs
from tests.draft_tasks import EVERY_TASK, WINDOWS, drawn
from tests.window_tasks import whole_numbers

ISAS: tuple[Isa, ...] = ("avx2", "avx512")
SIZE = 400
TWO_CALLS = 2

assembles_here = pytest.mark.skipif(
    platform.system() != "Linux" or HOST.isa not in ISAS,
    reason="vectors are assembled on Linux, for AVX2 and AVX-512 alone",
)

LEFT_TO_COMPILERS = {
    "functions": {"attention, whole vectors"},
    "frames": {
        "double", "convolution", "with a stride", "attention", "attention, whole vectors",
    },
}  # fmt: skip
"""Tasks of which no kernel may be assembly: their elements or what is around their sums is not."""


def runs_here(isa: Isa) -> None:
    if platform.system() != "Linux" or isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")


def assembled(text: str, tmp_path: Path) -> None:
    """The assembler takes a text."""
    source = tmp_path / "text.s"
    source.write_text(text)
    command = [*find_compiler(HOST).command, "-c", str(source), "-o", str(tmp_path / "text.o")]
    subprocess.run(command, check=True, capture_output=True)


# Whole kernels


@pytest.fixture(params=["functions", "frames"])
def placed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether whatever it is becomes a function, or nothing does."""
    least = 1 if request.param == "functions" else 1 << 60
    monkeypatch.setattr(parts_apart, "LEAST_WORK", least)
    monkeypatch.setattr(parts_apart, "LEAST_STORES", least)
    return str(request.param)


@assembles_here
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", EVERY_TASK)
def test_kernels_compute_what_they_should(
    name: str, threads: int, placed: str, tmp_path: Path
) -> None:
    """Sums of small whole numbers are exact in any order; minimal filtering and softmaxes round."""
    task = EVERY_TASK[name]
    inputs = whole_numbers(task, 1) if name in WINDOWS else whole_inputs(task)
    cases: list[Case] = []
    printed: list[PrintedKernel] = []
    for schedule in drawn(task, HOST.name, threads, 2):
        entry = printed_kernel(
            task, schedule, HOST, strict=False, apart=True, frames=frame_target(threads)
        )
        if entry.assembly:
            cases.append(Case(task, schedule, lower(task, schedule)))
            printed.append(entry)
    if not printed:
        assert name in LEFT_TO_COMPILERS[placed]
        return
    frames = Frames(printed, threads, tmp_path)
    for number, case in enumerate(cases):
        operands = case.kernel_inputs(inputs)
        expected = run_kernel(case.lowered.kernel, operands)
        # What a call leaves in local arrays and scratch does no harm to the next one.
        found = frames.run(number, case.lowered.kernel, operands, TWO_CALLS)
        for result, right in zip(found, expected, strict=True):
            exact = isinstance(case.schedule, RegisterTile | WindowTile)
            close = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-3}
            np.testing.assert_allclose(
                result, np.reshape(right, -1), err_msg=str(case.schedule), **close
            )


@assembles_here
@pytest.mark.parametrize("name", EVERY_TASK)
def test_assemblers_take_kernels_for_other_machines(name: str, placed: str, tmp_path: Path) -> None:
    """For the vectors that kernels are not run with here."""
    other = "x86-64-v3" if HOST.isa == "avx512" else "x86-64-v4"
    task, target = EVERY_TASK[name], Target.named(other)
    printed = [
        entry
        for schedule in drawn(task, target.name, 1, 2)
        if (
            entry := printed_kernel(
                task, schedule, target, strict=False, apart=True, frames=frame_target(1, target)
            )
        ).assembly
    ]
    if not printed:
        assert name in LEFT_TO_COMPILERS[placed]
        return
    assembled(str(next(iter(frames_file(printed).sources.values()))), tmp_path)
    parts = {part.name: part for entry in printed for part in entry.parts}
    assembled(parts_text(tuple(parts.values())), tmp_path)


@pytest.mark.parametrize("isa", ISAS)
def test_little_of_contractions_and_windows_is_left_to_compilers(isa: Isa) -> None:
    """Whole register tiles and windows are assembly, with whatever is done with their results."""
    level = ISA_TARGETS[isa]
    target = Target.named(level)
    for name in ("matmul", "residual", "convolution", "depthwise", "pool"):
        for schedule in drawn(EVERY_TASK[name], level, 1, 1):
            entry = printed_kernel(
                EVERY_TASK[name], schedule, target,
                strict=False, apart=True, frames=frame_target(1, target),
            )  # fmt: skip
            kind = type(schedule).__name__
            assert entry.assembly or kind not in ("RegisterTile", "WindowTile"), schedule


def test_sums_as_the_model_has_them_are_left_to_compilers() -> None:
    task = EVERY_TASK["matmul"]
    target = replace(frame_target(1, Target.named("x86-64-v3")), strict=True)
    for schedule in drawn(task, "x86-64-v3", 1, 1):
        entry = printed_kernel(
            task, schedule, Target.named("x86-64-v3"), strict=True, apart=True, frames=target
        )
        assert not entry.parts
        assert "vfmadd" not in entry.text or not entry.assembly


# Single functions


class Program:
    """A function of an array that is read and one that is written, in the making."""

    def __init__(self, lanes: int) -> None:
        self.numbers = Numbers()
        self.source = self.numbers.buffer("source", float32, SIZE, Space.INPUT)
        self.result = self.numbers.buffer("result", float32, SIZE, Space.OUTPUT)
        self.lanes = lanes

    def register(self, name: str) -> Register:
        return Register(name, float32, self.lanes)

    def axis(self, extent: int, name: str = "i") -> Axis:
        return self.numbers.axis(name, extent)

    def check(self, isa: Isa, body: Sequence[Stmt], source: Array, tmp_path: Path) -> Array:
        """The function leaves what the interpreter says, and nothing behind its array."""
        cleared = self.axis(SIZE)
        clear = For(cleared, (Store(self.result, cleared, const(0.0, float32)),))
        kernel = LoopKernel((self.source,), (self.result,), (), (clear, *body))
        (expected,) = run_kernel(kernel, [source])
        result = np.zeros(2 * SIZE, np.float32)
        function = LoopFunction((self.source, self.result), frozenset(), (), (), tuple(body))
        run_function(function, isa, [source, result], (), tmp_path)
        np.testing.assert_array_equal(result[:SIZE], expected)
        assert not result[SIZE:].any()
        return expected


def numbers_with_gaps() -> Array:
    """Whole numbers, some of them no numbers and infinite."""
    found = np.random.default_rng(3).integers(-50, 50, SIZE).astype(np.float32)
    found[::17], found[5::23], found[7::29] = np.nan, np.inf, -np.inf
    return found


OPERATIONS = ("add", "sub", "mul", "div", "max", "min", "max_number", "min_number")


@assembles_here
@pytest.mark.parametrize("in_place", ["left", "right", "apart"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("isa", ISAS)
def test_operations(isa: Isa, operation: str, in_place: str, tmp_path: Path) -> None:
    """On registers, and on what an instruction may load itself; also on what is no number."""
    runs_here(isa)
    for lanes in (4, 8, 16) if isa == "avx512" else (4, 8):
        program = Program(lanes)
        i = program.axis(6)
        one, other, apart = (program.register(name) for name in ("one", "other", "apart"))
        target = {"left": one, "right": other, "apart": apart}[in_place]
        body: list[Stmt] = []
        for turned in (False, True):
            loads = [
                VectorLoad(one, program.source, i * lanes, lanes),
                VectorLoad(other, program.source, i * lanes + 100, lanes),
            ]
            place = i * lanes + (200 if turned else 0)
            body += [
                *(loads[::-1] if turned else loads),
                VectorApply(operation, target, one, other),
                VectorStore(program.result, place, target, lanes),
            ]
        loop = For(i, (Declare((one, other, apart), tuple(body)),))
        source = numbers_with_gaps()
        if operation.endswith("_number"):
            source[100:300] = np.nan_to_num(source[100:300])
        with np.errstate(all="ignore"):
            program.check(isa, (loop,), source, tmp_path)


@assembles_here
@pytest.mark.parametrize("isa", ISAS)
def test_parts_of_vectors(isa: Isa, tmp_path: Path) -> None:
    """Loads of some lanes, with every number in the others, and stores of the first ones."""
    runs_here(isa)
    for lanes in (4, 8, 16) if isa == "avx512" else (4, 8):
        for outside in (0.0, -np.inf, 1.5):
            program = Program(lanes)
            one = program.register("one")
            body: list[Stmt] = []
            for count in range(1, lanes + 1):
                first = (lanes - count) // 2
                body += [
                    VectorLoad(one, program.source, const(7 - first, int64), count, first, outside),
                    VectorStore(program.result, const(lanes * count, int64), one, count),
                ]
            # AVX-512 has six registers for masks.
            for part in (body[n : n + 6] for n in range(0, len(body), 6)):
                if part:
                    loop = program.axis(2)
                    program.check(
                        isa, (For(loop, (Declare((one,), tuple(part)),)),),
                        numbers_with_gaps(), tmp_path,
                    )  # fmt: skip


@assembles_here
@pytest.mark.parametrize("isa", ISAS)
def test_alternating_lanes(isa: Isa, tmp_path: Path) -> None:
    runs_here(isa)
    for lanes in (4, 8, 16) if isa == "avx512" else (4, 8):
        for target in ("low", "high", "apart"):
            program = Program(lanes)
            low, high, apart = (program.register(name) for name in ("low", "high", "apart"))
            into = {"low": low, "high": high, "apart": apart}[target]
            body: list[Stmt] = []
            for odd in (False, True):
                body += [
                    VectorLoad(low, program.source, const(3, int64), lanes),
                    VectorLoad(high, program.source, const(50, int64), lanes),
                    Alternate(into, low, high, odd),
                    VectorStore(program.result, const(100 * odd, int64), into, lanes),
                ]
            source = numbers_with_gaps()
            program.check(isa, (Declare((low, high, apart), tuple(body)),), source, tmp_path)


@assembles_here
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("extent", [1, 3, 7, 8, 16, 21, 33])
def test_loops_over_lanes(isa: Isa, extent: int, tmp_path: Path) -> None:
    """Stores of terms, of lanes that lie apart, and of what was stored just before."""
    runs_here(isa)
    program = Program(16 if isa == "avx512" else 8)
    i, lane = program.axis(3), program.axis(extent, "lane")
    local = program.numbers.buffer("local", float32, extent, Space.STACK)
    value = maximum(program.source.at(i * 40 + lane), program.source.at(i)) * 2.0
    loops = For(i, (
        Allocate(local, (
            For(lane, (
                Store(local, lane, value + program.source.at(lane + 5)),
                Store(program.result, i * 40 + lane, minimum(local.at(lane), 30.0)),
            ), LoopKind.SIMD),
            For(lane, (Store(program.result, lane * 7 + i + 150, local.at(lane)),), LoopKind.SIMD),
        )),
    ))  # fmt: skip
    program.check(isa, (loops,), numbers_with_gaps(), tmp_path)


@assembles_here
def test_numbers_of_callers_and_rows_apart(tmp_path: Path) -> None:
    """How far rows lie apart, steps and how often loops run: each is the caller's."""
    isa = HOST.isa
    if isa not in ISAS:
        pytest.skip("this machine has no AVX2")
    program, rows = Program(8), 14
    i, j = program.axis(1 << 20), program.axis(1 << 20, "j")
    apart, step, turns, begin = (program.axis(1 << 20, n) for n in ("a", "s", "t", "b"))
    sums = [program.register(f"sum_{row}") for row in range(rows)]
    element = program.register("element")
    inner: list[Stmt] = []
    for row in range(rows):
        inner += [
            Fill(element, program.source.at(begin + i * step + j + apart * row)),
            MultiplyAdd(sums[row], element, element),
        ]
    body = Declare((*sums, element), (
        *(Fill(total, const(float(n), float32)) for n, total in enumerate(sums)),
        For(i, (Prefetch(program.source, i * step - 900), For(j, tuple(inner)))),
        *(VectorStore(program.result, apart * n, total, 8) for n, total in enumerate(sums)),
    ))  # fmt: skip
    function = LoopFunction(
        (program.source, program.result), frozenset(), (apart, step, turns, begin),
        ((i, turns), (j, turns)), (body,),
    )  # fmt: skip
    source = np.arange(SIZE, dtype=np.float32) % 11
    for count in (0, 1, 3):
        result = np.zeros(SIZE, np.float32)
        run_function(function, isa, [source, result], (20, 5, count, 2), tmp_path)
        expected = np.zeros(SIZE, np.float32)
        for row in range(rows):
            read = [2 + a * 5 + b + 20 * row for a in range(count) for b in range(count)]
            expected[20 * row : 20 * row + 8] = row + (source[read] ** 2).sum()
        np.testing.assert_array_equal(result, expected)


def test_what_is_left_to_compilers() -> None:
    """Other elements, other operators, more registers than there are, indices that go back and
    forth."""
    program = Program(8)
    i, one, other = program.axis(4), program.register("one"), program.register("other")
    many = [program.register(f"r{n}") for n in range(17)]
    wide = Register("wide", float64, 4)
    doubles = Buffer(9, "doubles", float64, SIZE, Space.INPUT)

    def left(*body: Stmt, isa: Isa = "avx2") -> bool:
        function = LoopFunction((program.source, program.result), frozenset(), (), (), body)
        return assembled_part(function, isa) is None

    def store(register: Register) -> VectorStore:
        return VectorStore(program.result, const(0, int64), register, 8)

    def load(register: Register, index: Expr) -> VectorLoad:
        return VectorLoad(register, program.source, index, 8)

    assert not left(Declare((one,), (load(one, i * 0), store(one))))
    assert left(Declare((one,), (load(one, i * 0), store(one))), isa="neon")
    assert left(Declare((wide,), (VectorLoad(wide, doubles, const(0, int64), 4),)))
    quotient = VectorApply("pow", one, one, other)
    assert left(Declare((one, other), (load(one, i * 0), load(other, i * 0), quotient)))
    assert left(For(i, (Declare((one,), (load(one, i // 2), store(one))),)))
    held: tuple[Stmt, ...] = tuple(load(r, const(n, int64)) for n, r in enumerate(many))
    held += tuple(map(store, many))
    assert left(Declare(tuple(many), held))
    assert not left(Declare(tuple(many), held), isa="avx512")
    assert left(Store(program.result, const(0, int64), const(1.0, float32)))
    root = For(i, (Store(program.result, i, apply("exp", program.source.at(i))),), LoopKind.SIMD)
    assert left(root)


def test_golden(golden: Callable[[str, str], None]) -> None:
    """A function of a product whose tiles have four rows of two vectors."""
    task = EVERY_TASK["residual"]
    schedule = next(iter(drawn(task, "x86-64-v3", 1, 1)))
    target = Target.named("x86-64-v3")
    entry = printed_kernel(
        task, schedule, target, strict=False, apart=True, frames=frame_target(1, target)
    )
    golden("frames/residual.s", entry.text + parts_text(entry.parts))


# Any program


@st.composite
def programs(draw: st.DrawFn, lanes: int) -> tuple[Program, tuple[Stmt, ...]]:
    """Loops and conditions around random statements on registers, all of which stay small."""
    program = Program(lanes)
    loaded = [program.register(f"loaded_{n}") for n in range(draw(st.integers(1, 5)))]
    sums = [program.register(f"sum_{n}") for n in range(draw(st.integers(1, 6)))]
    axes: list[Axis] = []

    def index(limit: int) -> Expr:
        found: Expr = const(draw(st.integers(0, limit)), int64)
        for axis in axes:
            found = found + axis * draw(st.integers(0, 9))
        return found

    def statement() -> Stmt:
        one, total = draw(st.sampled_from(loaded)), draw(st.sampled_from(sums))
        other, another = draw(st.sampled_from(loaded)), draw(st.sampled_from(sums))
        count = draw(st.integers(1, lanes))
        first = draw(st.integers(0, lanes - count))
        choices: tuple[Stmt, ...] = (
            Fill(one, program.source.at(index(200))),
            Fill(one, const(draw(st.sampled_from((0.0, 1.0, -3.0))), float32)),
            VectorLoad(one, program.source, index(200), lanes, kept=draw(st.booleans())),
            VectorLoad(one, program.source, index(200), lanes),
            VectorLoad(one, program.source, index(200), count, first, float(first % 3)),
            MultiplyAdd(total, one, other),
            MultiplyAdd(total, one, other),
            VectorApply(draw(st.sampled_from(("add", "sub"))), total, another, one),
            VectorApply(draw(st.sampled_from(("max", "min_number"))), total, one, another),
            VectorApply(draw(st.sampled_from(("max", "min"))), one, one, other),
            Alternate(one, one, other, draw(st.booleans())),
            VectorStore(program.result, index(200), total, lanes),
            VectorStore(program.result, index(200), one, count),
        )
        return draw(st.sampled_from(choices))

    def block(depth: int) -> tuple[Stmt, ...]:
        found: list[Stmt] = [statement() for _ in range(draw(st.integers(1, 7)))]
        if depth:
            for _ in range(draw(st.integers(0, 2))):
                axes.append(program.axis(draw(st.integers(1, 3))))
                body = block(depth - 1)
                if draw(st.booleans()):
                    limit = draw(st.integers(0, 3))
                    body = (If(axes[-1] < limit, body, block(0) if limit % 2 else ()),)
                found.append(For(axes.pop(), body))
            found += [statement() for _ in range(draw(st.integers(0, 4)))]
        return tuple(found)

    filled = [Fill(r, const(float(n), float32)) for n, r in enumerate((*loaded, *sums))]
    stored = [
        VectorStore(program.result, const(lanes * n, int64), r, lanes)
        for n, r in enumerate((*loaded, *sums))
    ]
    return program, (Declare((*loaded, *sums), (*filled, *block(2), *stored)),)


@assembles_here
@pytest.mark.parametrize("isa", ISAS)
def test_any_program(isa: Isa, tmp_path: Path) -> None:
    runs_here(isa)
    source = np.random.default_rng(1).integers(-2, 3, SIZE).astype(np.float32)

    @settings(
        max_examples=60, deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(programs(8))
    def check(found: tuple[Program, tuple[Stmt, ...]]) -> None:
        program, body = found
        assert any(isinstance(s, VectorStore) for s in statements(body))
        program.check(isa, body, source, tmp_path)

    check()
