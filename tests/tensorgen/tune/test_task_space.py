"""Spaces of tasks: every point is a schedule, is found again, and computes the task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tensorgen.contraction import contraction_of
from tensorgen.lower import lower
from tensorgen.machine import Core
from tensorgen.schedule import (
    AttentionTile,
    Lanes,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    WindowTile,
    WinogradTile,
)
from tensorgen.sketch import default_schedule
from tensorgen.sketch_tiles import register_tiles
from tensorgen.sketch_winograd import winograd_tiles
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune.space import Space
from tensorgen.tune.task_space import space_of
from tensorgen.types import Array, float32
from tensorgen.typical_machine import typical_machine
from tests.compiled_kernels import Case, CompiledKernels, evaluate_task
from tests.contraction_tasks import convolution, matmul, padded, whole_inputs
from tests.tuned_tasks import CONVOLUTIONS, EXACT, ROUNDED

TASKS = {**EXACT, **ROUNDED, **CONVOLUTIONS}

FOLDED = padded(convolution((3, 12, 12), (3, 3, 3), channels=(3, 40)), (1, 1, 1), (1, 1, 1))
"""A convolution of few channels, which is filtered in parts that are folded."""

TARGETS = [("x86-64-v4", 1), ("x86-64-v3", 2), ("aarch64", 4), ("armv7", 1), ("c99", 2)]
"""Targets, and how many threads."""

each_task = pytest.mark.parametrize("name", TASKS)


def inputs_of(name: str) -> list[Array]:
    """Inputs of a task: small whole numbers where these tell more."""
    task = TASKS[name]
    if name not in ROUNDED:
        return whole_inputs(task)
    rng = np.random.default_rng(0)
    return [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in task.inputs]


def drawn(space: Space, count: int, seed: int = 0) -> list[Schedule]:
    """Schedules at random, so many of each sketch, all different."""
    rng = Random(seed)
    points = {space.random(rng, n) for n in range(len(space.sketches)) for _ in range(count)}
    found = [space.schedule(point) for point in sorted(points, key=lambda p: (p.sketch, p.choices))]
    schedules = [schedule for schedule in found if schedule is not None]
    assert len(schedules) == len(points)
    assert len(set(schedules)) == len(schedules), "two points stand for one schedule"
    return schedules


@each_task
@pytest.mark.parametrize(
    ("target", "threads", "strict"),
    [("x86-64-v4", 1, False), ("x86-64-v3", 2, False), ("aarch64", 4, True)],
)
def test_points_are_found_again(name: str, target: str, threads: int, strict: bool) -> None:
    space = space_of(TASKS[name], Target.named(target), threads, strict=strict)
    assert space.schedule(space.start) == space.zero_trial
    rng = Random(1)
    for point in [space.random(rng) for _ in range(6)]:
        schedule = space.schedule(point)
        assert schedule is not None
        assert space.locate(schedule) == point
        assert 0 < space.estimate(point) < np.inf
        for moved in (space.mutate(point, rng), space.cross(point, space.start, rng)):
            other = space.schedule(moved)
            assert other is not None
            assert space.locate(other) == moved


@pytest.mark.parametrize("task", [*TASKS.values(), FOLDED], ids=[*TASKS, "folded"])
@pytest.mark.parametrize(
    ("first", "second"), [(1 << 10, 2 << 10), (1 << 10, 16 << 10), (32 << 10, 1 << 20)]
)
def test_the_start_is_in_the_space_whatever_the_caches_hold(
    task: Task, first: int, second: int
) -> None:
    for name, threads in (("x86-64-v4", 1), ("x86-64-v3", 1), ("x86-64-v3", 2)):
        target = Target.named(name)
        typical = typical_machine(target, threads)
        near, own, *shared = typical.levels
        levels = (replace(near, bytes=first), replace(own, bytes=second), *shared)
        space = space_of(task, target, threads, replace(typical, levels=levels))
        assert space.schedule(space.start) == space.zero_trial


@pytest.mark.parametrize("channels", [12, 16, 20, 24, 28])
def test_tiles_that_rules_consider_are_in_the_space(channels: int) -> None:
    """Whatever part of the sums a cache holds: one that it holds as a whole is no block."""
    task = padded(convolution((7, 7), (3, 3), channels=(channels, 32), groups=2), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    target = Target.named("x86-64-v4")
    for traffic in (0.0, 1e9):
        machine = typical_machine(target, 2).serving(traffic)
        core = Core.of(target.isa, float32, machine)
        assert core is not None
        space = space_of(task, target, 2, machine)
        rows = [e.schedule for e in register_tiles(task, contraction, core, 2)]
        filtered = [e.schedule for e in winograd_tiles(task, contraction, core, 2)]
        blocked = [tile for tile in rows if tile.depth]
        assert len(rows) > len(blocked)
        considered: list[Schedule] = [*rows[::50], *blocked, *filtered[::50]]
        for schedule in considered:
            assert space.locate(schedule) is not None, schedule


@each_task
def test_the_start_is_what_compiling_takes(name: str) -> None:
    for target, threads in (TARGETS[1], TARGETS[4]):
        for winograd in (True, False):
            space = space_of(TASKS[name], Target.named(target), threads, winograd=winograd)
            chosen = default_schedule(
                TASKS[name], Target.named(target), threads, filtering=winograd
            )
            assert space.schedule(space.start) == chosen


@each_task
def test_every_point_can_be_lowered(name: str) -> None:
    for target, threads in TARGETS[1:3]:
        space = space_of(TASKS[name], Target.named(target), threads)
        for schedule in drawn(space, 1):
            assert lower(TASKS[name], schedule).kernel.outputs


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_every_point_computes_the_task(name: str) -> None:
    """By the interpreter, which sees what nobody wrote and what lies outside."""
    task, arrays = TASKS[name], inputs_of(name)
    expected = evaluate_task(task, arrays)
    space = space_of(task, Target.named("x86-64-v3"), 2)
    for schedule in drawn(space, 1, seed=len(name)):
        for result, wanted in zip(Case.of(task, schedule).interpret(arrays), expected, strict=True):
            if name in ROUNDED:
                assert np.allclose(result, wanted, rtol=1e-4, atol=1e-5), schedule
            else:
                assert np.array_equal(result, wanted), schedule


@pytest.mark.slow
@each_task
@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_points_compute_the_task(name: str, threads: int, tmp_path: Path) -> None:
    task, arrays = TASKS[name], inputs_of(name)
    expected = evaluate_task(task, arrays)
    space = space_of(task, host_target(), threads)
    cases = [Case.of(task, schedule) for schedule in drawn(space, 12, seed=threads)]
    kernels = CompiledKernels(cases, tmp_path, threads=threads)
    for number, case in enumerate(cases):
        for result, wanted in zip(kernels.run(number, arrays), expected, strict=True):
            exact = name not in ROUNDED and not isinstance(case.schedule, WinogradTile)
            tolerance = 0.0 if exact else 1e-3
            assert np.allclose(result, wanted, rtol=tolerance, atol=tolerance), case.schedule


# What is in a space


def kinds(space: Space) -> set[type[Schedule]]:
    """The kinds of schedules that a space has."""
    rng = Random(0)
    points = (space.random(rng, sketch) for sketch in range(len(space.sketches)))
    return {type(schedule) for p in points if (schedule := space.schedule(p)) is not None}


def test_algorithms_are_siblings() -> None:
    target = Target.named("x86-64-v4")
    assert kinds(space_of(CONVOLUTIONS["3 x 3"], target, 1)) == {
        RegisterTile, WinogradTile, RowStages,
    }  # fmt: skip
    assert kinds(space_of(EXACT["depthwise"], target, 1)) == {WindowTile, Loops}
    assert kinds(space_of(ROUNDED["attention"], target, 1)) == {AttentionTile, RowStages}
    assert kinds(space_of(EXACT["sums"], target, 1)) == {Loops}


def test_no_filtering_where_it_is_forbidden() -> None:
    target = Target.named("x86-64-v4")
    for space in (
        space_of(CONVOLUTIONS["3 x 3"], target, 1, winograd=False),
        space_of(CONVOLUTIONS["3 x 3"], target, 1, strict=True),
    ):
        assert WinogradTile not in kinds(space)


@pytest.mark.parametrize("name", [*ROUNDED, "sums", "depthwise", "strided"])
def test_strict_spaces_keep_the_order_of_sums(name: str) -> None:
    """The same bits at every point, on data whose sums round."""
    task = TASKS[name]
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in task.inputs]
    space = space_of(task, Target.named("x86-64-v3"), 2, strict=True)
    expected = Case.of(task, space.zero_trial).interpret(arrays)
    for schedule in drawn(space, 2, seed=4):
        for result, wanted in zip(Case.of(task, schedule).interpret(arrays), expected, strict=True):
            assert result.tobytes() == wanted.tobytes(), schedule


def test_lanes_of_a_reduction_are_free_unless_strict() -> None:
    target = Target.named("x86-64-v4")

    def lanes(strict: bool) -> set[tuple[Lanes, int]]:
        space = space_of(EXACT["sums"], target, 1, strict=strict)
        found = [space.schedule(point) for point in space.points()]
        return {(s.lanes, s.tile) for s in found if isinstance(s, Loops)}

    assert lanes(True) == {(Lanes.REDUCTION, 32)}
    assert len(lanes(False)) > 3


def test_one_thread_decides_nothing_about_threads() -> None:
    for name in TASKS:
        space = space_of(TASKS[name], Target.named("x86-64-v4"), 1)
        for schedule in drawn(space, 1):
            assert "parallel(" not in str(schedule).replace("parallel(0)", "")


def test_tiles_keep_their_partial_sums_near() -> None:
    """Whole lines of results in buffers larger than the cache would be read from afar."""
    task = matmul((), 4096, 64, 512, constant=(False, True))
    target = Target.named("x86-64-v3")
    space = space_of(task, target, 1)
    rng = Random(3)
    for point in (space.random(rng) for _ in range(200)):
        schedule = space.schedule(point)
        if isinstance(schedule, RegisterTile) and schedule.depth:
            rows = 4096 if schedule.vector_operand == 1 else 64
            assert rows * schedule.vectors * schedule.lanes * 4 <= target.l2_bytes


def test_large_factors_may_have_their_panels_in_groups() -> None:
    """Of several sizes, found again as they are; only where several blocks of rows go over them."""
    task = matmul((), 4096, 2048, 2048, constant=(False, True))
    space = space_of(task, Target.named("x86-64-v4"), 1)
    start = space.zero_trial
    assert isinstance(start, RegisterTile)
    assert start.panel_group
    sizes = set()
    rng = Random(5)
    for point in (space.random(rng) for _ in range(3000)):
        schedule = space.schedule(point)
        if isinstance(schedule, RegisterTile) and schedule.panel_group:
            assert 0 < schedule.row_block < 4096
            assert space.locate(schedule) is not None
            sizes.add(schedule.panel_group * schedule.vectors)
    assert len(sizes) > 2
    small = space_of(matmul((), 512, 512, 512, constant=(False, True)), host_target(), 1)
    for point in (small.random(rng) for _ in range(300)):
        schedule = small.schedule(point)
        assert not isinstance(schedule, RegisterTile) or not schedule.panel_group


def test_a_schedule_of_another_shape_is_adapted() -> None:
    target = Target.named("x86-64-v4")
    small = padded(convolution((14, 14), (3, 3), channels=(16, 32)), (1, 1), (1, 1))
    large = padded(convolution((28, 28), (3, 3), channels=(32, 48)), (1, 1), (1, 1))
    one, other = space_of(small, target, 1), space_of(large, target, 1)
    rng = Random(0)
    for point in [one.random(rng) for _ in range(20)]:
        schedule = one.schedule(point)
        assert schedule is not None
        found = other.adapted(schedule)
        if found is None:
            continue
        adapted = other.schedule(found)
        assert type(adapted) is type(schedule)
        if isinstance(adapted, RegisterTile) and isinstance(schedule, RegisterTile):
            assert adapted.source == schedule.source
            assert (adapted.rows, adapted.vectors) == (schedule.rows, schedule.vectors)
        if isinstance(adapted, WinogradTile) and isinstance(schedule, WinogradTile):
            assert adapted.results == schedule.results
    assert other.adapted(one.zero_trial) is not None
    assert space_of(EXACT["sums"], target, 1).adapted(one.zero_trial) is None
