"""Windows over planes: what is recognised, and their tiles against the meaning of the task."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.dialects import vector_dialect
from tensorgen.expr import Fold
from tensorgen.loop import has_parallel_loop
from tensorgen.lower import lower
from tensorgen.memory_order import Together, reordered
from tensorgen.module import module_files, source_flags
from tensorgen.module_build import base_flags
from tensorgen.schedule import ScheduleError, WindowTile
from tensorgen.sketch import default_schedule, tiled_window_of
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import float32, float64, int32
from tensorgen.window import window_of
from tensorgen.window_sketch import (
    column_runs,
    most_rows,
    window_cycles,
    window_schedule,
    window_share,
)
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
    kernels_module,
    kernels_source,
    runnable_isas,
)
from tests.contraction_tasks import matmul, typical_core
from tests.required_tools import require
from tests.window_tasks import Spatial, whole_numbers, window_task

ISAS = ("c99", "sse42", "avx2", "avx512", "neon", "neon32")


RUNNABLE = [
    # Vectors of SSE are spelled like those of AVX2; strict sums are run on both below.
    pytest.param(isa, marks=pytest.mark.slow if isa == "sse42" else ())
    for isa in runnable_isas()
]


def tile_of(task: Task, isa: str) -> WindowTile:
    """The tile of a window under an instruction set."""
    window = window_of(task)
    assert window is not None, str(task)
    dialect = vector_dialect(isa, window.dtype)
    assert dialect is not None
    return window_schedule(window, dialect, 1)


@cache
def case_of(name: str, isa: str) -> Case:
    """One of the tasks, lowered for an instruction set: interpreted, run and complained about."""
    task = TASKS[name]
    return Case.of(task, tile_of(task, isa))


def square(size: int, kernel: int, stride: int = 1, pad: int = 0) -> tuple[Spatial, Spatial]:
    axis = Spatial(size, kernel, stride, pad, pad)
    return axis, axis


def channels_together(task: Task) -> Task:
    """The task with constant weights, if any, on data and to results whose last planes' axis is the
    innermost in memory."""
    axis = 1
    channels = task.inputs[0].shape[axis]
    orders = {0: Together(axis, channels), len(task.inputs): Together(axis, channels)}
    constant = (False, *(True for _ in task.inputs[1:]))
    return reordered(replace(task, constant=constant), orders)


TASKS: dict[str, Task] = {
    "depthwise 7x7": window_task(square(7, 3, 1, 1), weighted=True),
    "depthwise, stride 2": window_task(square(14, 3, 2, 1), weighted=True, epilogue="bias"),
    "depthwise, wide": window_task(
        (Spatial(9, 3, 1, 1, 1), Spatial(53, 3, 1, 1, 1)), weighted=True, epilogue="residual"
    ),
    "wide, stride 2": window_task(
        (Spatial(9, 3, 2, 1, 1), Spatial(71, 5, 2, 2, 1)), weighted=True, epilogue="scaled"
    ),
    "5x5": window_task(square(19, 5, 1, 2), weighted=True),
    "dilated": window_task(
        (Spatial(11, 3, 1, 2, 1, 2), Spatial(13, 2, 1, 3, 0, 3)), weighted=True
    ),
    "all padding": window_task(
        (Spatial(3, 2, 1, 4, 4), Spatial(5, 3, 1, 6, 6)), weighted=True
    ),
    "one dimension": window_task((Spatial(40, 3, 1, 1, 1),), weighted=True, epilogue="bias"),
    "pool of one dimension": window_task((Spatial(40, 3, 2, 1, 0),), planes=(2, 5)),
    "three dimensions": window_task((Spatial(4, 2), *square(9, 3)), planes=(2,)),
    "groups": window_task(square(9, 2, 1, 1), weighted=True, depth=2),
    "max pool": window_task(square(12, 3, 2, 1), fold=Fold.MAX),
    "min pool": window_task(square(21, 2, 1, 1), fold=Fold.MIN),
    "sum pool": window_task(square(17, 3, 1, 1), epilogue="residual"),
    "pool with a function behind it": window_task(square(10, 3, 1, 1), epilogue="exp"),
    "double": window_task(square(15, 3, 2, 1), weighted=True, dtype=float64),
    "channels together": channels_together(
        window_task(square(9, 3, 1, 1), planes=(2, 19), weighted=True, epilogue="bias")
    ),
    "channels together, stride 2": channels_together(
        window_task((Spatial(8, 5, 2, 2, 1), Spatial(9, 3, 2, 0, 2)), planes=(1, 33), weighted=True)
    ),
    "max pool of channels together": channels_together(
        window_task(square(12, 3, 2, 1), planes=(2, 7), fold=Fold.MAX)
    ),
    "pool of channels together, three dimensions": channels_together(
        window_task((Spatial(4, 2, 1, 1, 0), *square(7, 3, 1, 1)), planes=(1, 8))
    ),
    "double max pool": window_task(square(11, 3, 1, 1), fold=Fold.MAX, dtype=float64),
}  # fmt: skip


@st.composite
def spatial_axes(draw: st.DrawFn, most: int, stride: int) -> Spatial:
    kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    before, after = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    span = (kernel - 1) * dilation + 1
    size = draw(st.integers(max(1, span - before - after), max(most, span)))
    return Spatial(size, kernel, draw(st.integers(1, stride)), before, after, dilation)


@st.composite
def window_tasks(draw: st.DrawFn) -> Task:
    axes = tuple(draw(spatial_axes(9, 3)) for _ in range(draw(st.integers(0, 1))))
    columns = draw(spatial_axes(40, 2))
    weighted = draw(st.booleans())
    fold = Fold.SUM if weighted else draw(st.sampled_from([Fold.SUM, Fold.MAX, Fold.MIN]))
    return window_task(
        (*axes, columns),
        planes=(1, draw(st.integers(1, 2))),
        fold=fold,
        weighted=weighted,
        epilogue=draw(st.sampled_from(["none", "bias", "residual", "scaled", "exp"])),
        depth=draw(st.integers(1, 2)),
        dtype=draw(st.sampled_from([float32, float64])),
    )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", TASKS)
def test_tiles_compute_the_window(name: str, isa: str) -> None:
    task = TASKS[name]
    arrays = whole_numbers(task, seed=1)
    found = case_of(name, isa).interpret(arrays)
    for result, expected in zip(found, evaluate_task(task, arrays), strict=True):
        np.testing.assert_array_equal(result, expected)


def shares_rows(task: Task, isa: str) -> WindowTile:
    """The tile of a window whose rows of tiles are shared, as planes are."""
    window = window_of(task)
    assert window is not None, str(task)
    return replace(tile_of(task, isa), parallel=len(window.outer) + 1)


@settings(max_examples=60, deadline=None)
@given(
    task=window_tasks(), isa=st.sampled_from(ISAS), shared=st.booleans(), seed=st.integers(0, 99)
)
def test_tiles_of_any_window_compute_it_within_its_buffers(
    task: Task, isa: str, shared: bool, seed: int
) -> None:
    if window_of(task) is None:
        return
    arrays = whole_numbers(task, seed)
    tile = shares_rows(task, isa) if shared else tile_of(task, isa)
    found = Case.of(task, tile).interpret(arrays)
    for result, expected in zip(found, evaluate_task(task, arrays), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_compiled_tiles_compute_the_window(isa: str, tmp_path: Path) -> None:
    cases = [case_of(name, isa) for name in TASKS]
    kernels = CompiledKernels(cases, tmp_path, target=Target.named(ISA_TARGETS[isa]))
    for number, case in enumerate(cases):
        arrays = whole_numbers(case.task, seed=number)
        (found,), (expected,) = kernels.run(number, arrays), evaluate_task(case.task, arrays)
        assert_same(found, expected, tolerance=0)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_rows_of_tiles(threads: int, tmp_path: Path) -> None:
    """In one loop, whatever taps are outside: a race between threads would be a wrong result."""
    isa = runnable_isas()[-1]
    cases = [Case.of(task, shares_rows(task, isa)) for task in TASKS.values()]
    target = Target.named(ISA_TARGETS[isa])
    kernels = CompiledKernels(cases, tmp_path, target=target, threads=threads)
    for number, case in enumerate(cases):
        assert has_parallel_loop(case.lowered.kernel.body)
        arrays = whole_numbers(case.task, seed=number)
        (found,), (expected,) = kernels.run(number, arrays), evaluate_task(case.task, arrays)
        assert_same(found, expected, tolerance=0)


@pytest.mark.parametrize(
    ("planes", "rows", "threads", "shared"),
    [(1, 64, 2, 1), (1, 64, 1, 0), (64, 64, 2, 1), (3, 64, 2, 2), (2, 64, 2, 1), (2, 64, 3, 2)],
)
def test_rows_are_shared_where_planes_are_too_few(
    planes: int, rows: int, threads: int, shared: int
) -> None:
    """Planes are one loop, or none if there is one."""
    axes = (Spatial(rows, 3, 1, 1, 1), Spatial(40, 3, 1, 1, 1))
    window = window_of(window_task(axes, planes=(1, planes), weighted=True))
    core = typical_core("avx512")
    assert window is not None
    schedule = window_schedule(window, core.dialect, threads)
    assert schedule.parallel == shared
    assert window_share(window, schedule, threads) <= 1.2 / threads


@pytest.mark.parametrize("isa", RUNNABLE)
def test_maxima_propagate_nan_and_infinities(isa: str, tmp_path: Path) -> None:
    cases = [case_of(name, isa) for name in ("max pool", "min pool", "double max pool")]
    kernels = CompiledKernels(cases, tmp_path, target=Target.named(ISA_TARGETS[isa]))
    rng = np.random.default_rng(3)
    for number, case in enumerate(cases):
        (array,) = whole_numbers(case.task, seed=number)
        specials = rng.choice([np.nan, np.inf, -np.inf, 1.0], array.shape, p=[0.1, 0.1, 0.4, 0.4])
        arrays = [specials.astype(array.dtype)]
        (found,), (expected,) = kernels.run(number, arrays), evaluate_task(case.task, arrays)
        np.testing.assert_array_equal(found, expected)


def test_strict_sums_are_the_same_bits_for_all_instruction_sets(tmp_path: Path) -> None:
    names = ("depthwise, wide", "wide, stride 2", "sum pool", "groups")
    tasks = [TASKS[name] for name in names]
    rng = np.random.default_rng(5)
    inputs = [[rng.standard_normal(t.shape).astype(np.float32) for t in k.inputs] for k in tasks]
    results = []
    for isa in runnable_isas():
        cases = [case_of(name, isa) for name in names]
        target = Target.named(ISA_TARGETS[isa])
        kernels = CompiledKernels(cases, tmp_path, target=target, strict=True)
        results.append([kernels.run(n, arrays)[0].tobytes() for n, arrays in enumerate(inputs)])
    assert all(result == results[0] for result in results)


COMPILERS = {
    "gcc": ("c99", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    "clang": ("x86-64-v3", "x86-64-v4"),
    "aarch64-linux-gnu-gcc": ("aarch64",),
    "arm-linux-gnueabihf-gcc": ("armv7",),
}


ALIKE = {("gcc", "x86-64-v2"), ("gcc", "x86-64-v3"), ("clang", "x86-64-v4")}
"""What another compiler or instruction set shows, too."""


@pytest.mark.parametrize(
    ("compiler", "name"),
    [
        pytest.param(compiler, name, marks=pytest.mark.slow if (compiler, name) in ALIKE else ())
        for compiler, names in COMPILERS.items()
        for name in names
    ],
)
def test_no_compiler_complains(compiler: str, name: str, tmp_path: Path) -> None:
    require(compiler)
    target = Target.named(name)
    cases = [case_of(name, target.isa) for name in TASKS]
    module = kernels_module(cases, target)
    for file, content in kernels_source(module).items():
        (tmp_path / file).write_bytes(content.encode() if isinstance(content, str) else content)
    flags = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Werror")
    made = subprocess.run(
        [compiler, "-std=c99", "-O1", *flags, *target.compiler_flags, "-c", "cases_kernels.c"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[:3000]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
def test_each_vector_of_a_plane_is_loaded_once(compiler: str, name: str, tmp_path: Path) -> None:
    """Compilers like to read a vector again for each of the multiply-adds that use it."""
    require(compiler)
    target = Target.named(name)
    task = window_task(square(96, 3), planes=(4,), weighted=True)
    tile = tile_of(task, target.isa)
    module = kernels_module([Case.of(task, tile)], target)
    for file, content in module_files(module).items():
        (tmp_path / file).write_bytes(content)
    source = "cases_kernels.c"
    flags = (*base_flags(module), *source_flags(module)[source])
    subprocess.run([compiler, *flags, "-S", "-o", "made.s", source], cwd=tmp_path, check=True)
    text = (tmp_path / "made.s").read_text()
    sums = re.findall(r"vfmadd\d+ps\s.*", text)
    loads = re.findall(r"v(?:fmadd\d+ps|mov[au]ps)\s+\S*\(.*%[yz]mm", text)
    last = 94 % tile.rows or tile.rows
    tiles = (tile.rows, last) if last != tile.rows else (tile.rows,)
    # The columns are a run of vectors and one that reaches back.
    runs = len(tile.columns)
    assert len(sums) == runs * sum(9 * rows for rows in tiles)
    # Weights are read from memory, or from the stack; without care there would be 9 * rows loads.
    assert len(loads) <= runs * sum(3 * (rows + 2) + 2 * 9 for rows in tiles)


# What is recognised


@pytest.mark.parametrize("name", TASKS)
def test_windows_are_scheduled_as_tiles_on_every_target(name: str) -> None:
    for target in ("c99", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "armv7"):
        task = TASKS[name]
        schedule = default_schedule(task, Target.named(target), threads=1)
        assert isinstance(schedule, WindowTile)


@pytest.mark.parametrize(
    "task",
    [
        window_task(square(5, 3)),  # three columns
        window_task((Spatial(9, 3), Spatial(30, 3, 3))),  # every third element
        window_task(square(40, 12)),  # too many taps
        window_task(square(9, 1)),  # no window
        window_task(square(9, 3), dtype=int32),
        matmul((), 7, 37, 3),
    ],
)
def test_other_tasks_are_no_windows(task: Task) -> None:
    assert tiled_window_of(task) is None


def test_a_window_without_a_plane_of_its_own_is_a_contraction() -> None:
    assert window_of(matmul((), 8, 64, 64)) is None


def test_what_is_no_window_is_refused() -> None:
    with pytest.raises(ScheduleError, match="window_tile: expected a window"):
        lower(matmul((), 7, 37, 3), WindowTile(1, (), 0))


# Schedules


@given(
    extent=st.integers(4, 300),
    widths=st.sampled_from(
        [((16, True), (8, True), (4, True)), ((8, False), (4, False)), ((4, False),), ((1, False),)]
    ),
)
def test_runs_cover_every_column_and_nothing_else(
    extent: int, widths: tuple[tuple[int, bool], ...]
) -> None:
    runs = list(column_runs(extent, widths))
    covered = {
        run.start + vector * run.lanes + lane
        for run in runs
        for vector in range(run.vectors)
        for lane in range(run.count)
    }
    assert covered == set(range(extent))
    for run in runs:
        assert (run.lanes, True) in widths or run.count == run.lanes
        assert run.vectors == 1 or run.count == run.lanes


def test_the_tiles_of_a_plane_are_about_equally_high() -> None:
    task = window_task(square(14, 3, 1, 1), weighted=True)
    assert tile_of(task, "avx512").rows == 7


def test_tiles_of_large_windows_are_high_too() -> None:
    """Tiles of two rows of 7 x 7 taps took one and a half times as long."""
    task = window_task(square(56, 7, 1, 3), weighted=True)
    assert tile_of(task, "avx512").rows == 8
    task = window_task(square(56, 11, 1, 5), weighted=True)
    assert tile_of(task, "avx512").rows == 3


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (7, 1)])
def test_a_plane_one_vector_wide_is_one_tile(isa: str, kernel: int, stride: int) -> None:
    task = window_task(square(7 * stride, kernel, stride, kernel // 2), weighted=True)
    assert tile_of(task, isa).rows == 7


def test_a_plane_one_vector_wide_is_several_tiles_if_it_is_high() -> None:
    axes = (Spatial(20, 3, 1, 1, 1), Spatial(8, 3, 1, 1, 1))
    assert 1 < tile_of(window_task(axes, weighted=True), "avx2").rows < 20
    axes = (Spatial(8, 9, 1, 4, 4), Spatial(8, 9, 1, 4, 4))
    assert tile_of(window_task(axes, weighted=True), "avx2").rows * 81 <= 400


def test_rows_that_do_not_fit_the_registers_are_estimated_to_take_longer() -> None:
    core = typical_core("avx2")
    window = window_of(window_task(square(7, 3, 1, 1), weighted=True))
    assert window is not None
    tile = window_schedule(window, core.dialect, 1)
    assert tile.rows > most_rows(window, core.dialect)
    roomy = replace(core, dialect=replace(core.dialect, registers=32))
    assert tile.rows <= most_rows(window, roomy.dialect)
    assert window_cycles(window, tile, core) > window_cycles(window, tile, roomy)


def test_more_work_is_estimated_to_take_longer() -> None:
    core = typical_core("avx512")
    cycles = []
    for size in (16, 32, 64):
        window = window_of(window_task(square(size, 3, 1, 1), weighted=True))
        assert window is not None
        cycles.append(window_cycles(window, window_schedule(window, core.dialect, 1), core))
    assert cycles == sorted(cycles)
    assert cycles[2] > 3 * cycles[1]
