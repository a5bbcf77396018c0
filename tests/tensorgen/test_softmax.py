"""Softmax among stages: recognised, and the shortcuts that it allows give the same values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensorgen.expr import (
    Axis,
    Const,
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    apply,
    compute,
    const,
    reduce,
    substitute,
)
from tensorgen.loop import Prefetch, Space, statements
from tensorgen.lower import lower
from tensorgen.schedule import RowStages, ScheduleError
from tensorgen.simplify import simplify
from tensorgen.sketch import default_schedule, loop_schedule
from tensorgen.softmax import softmax_stages
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, DType, TensorType, float32, float64, int64
from tests.compiled_kernels import ISA_TARGETS, Case, CompiledKernels, assert_same, runnable_isas


def softmax(rows: int, columns: int, dtype: DType = float32) -> Task:
    """Four stages over the rows of a matrix."""
    whole, one = TensorType(dtype, (rows, columns)), TensorType(dtype, (rows, 1))
    x, top, power, total = Tensor(0, whole), Tensor(1, one), Tensor(2, whole), Tensor(3, one)
    stages = (
        compute(one.shape, lambda i, j: reduce(Fold.MAX, columns, lambda k: x[i, k])),
        compute(whole.shape, lambda i, j: apply("exp", x[i, j] - top[i, 0])),
        compute(one.shape, lambda i, j: reduce(Fold.SUM, columns, lambda k: power[i, k])),
        compute(whole.shape, lambda i, j: power[i, j] / total[i, 0] * 2 + 1),
    )
    return Task((whole,), stages, (3,), (False,))


def changed(position: int, stage: TensorExpr, outputs: tuple[int, ...] = (3,)) -> Task:
    task = softmax(5, 9)
    stages = tuple(stage if n == position else s for n, s in enumerate(task.stages))
    return replace(task, stages=stages, outputs=outputs)


WHOLE, ONE = TensorType(float32, (5, 9)), TensorType(float32, (5, 1))
X, TOP, POWER, TOTAL = Tensor(0, WHOLE), Tensor(1, ONE), Tensor(2, WHOLE), Tensor(3, ONE)

OTHERS = {
    "the least": changed(
        0, compute((5, 1), lambda i, j: reduce(Fold.MIN, 9, lambda k: X[i, k]))
    ),
    "of some elements": changed(
        0, compute((5, 1), lambda i, j: reduce(Fold.MAX, 8, lambda k: X[i, k]))
    ),
    "sum of some elements": changed(
        2, compute((5, 1), lambda i, j: reduce(Fold.SUM, 8, lambda k: POWER[i, k]))
    ),
    "powers read besides": changed(
        3, compute((5, 9), lambda i, j: POWER[i, j] / TOTAL[i, 0] + POWER[i, j])
    ),
    "sum read besides": changed(
        3, compute((5, 9), lambda i, j: POWER[i, j] / TOTAL[i, 0] + TOTAL[i, 0])
    ),
    "maximum read besides": changed(
        3, compute((5, 9), lambda i, j: POWER[i, j] / TOTAL[i, 0] + TOP[i, 0])
    ),
    "maximum of another row": changed(
        1, compute((5, 9), lambda i, j: apply("exp", X[i, j] - TOP[4 - i, 0]))
    ),
    "powers of other elements": changed(
        1, compute((5, 9), lambda i, j: apply("exp", X[i, 8 - j] - TOP[i, 0]))
    ),
    "something else is divided": changed(
        3, compute((5, 9), lambda i, j: POWER[i, j] / TOTAL[i, 0] / TOP[0, 0])
    ),
    "the sum is a result": replace(softmax(5, 9), outputs=(2, 3)),
}  # fmt: skip


def test_is_recognised() -> None:
    assert softmax_stages(softmax(5, 9), range(4)) == {0, 1, 2, 3}
    assert softmax_stages(softmax(1, 1), range(4)) == {0, 1, 2, 3}
    assert softmax_stages(softmax(5, 9), range(3)) == frozenset()


@pytest.mark.parametrize("name", OTHERS)
def test_is_not_mistaken(name: str) -> None:
    assert softmax_stages(OTHERS[name], range(4)) == frozenset()


def test_the_schedule_says_so() -> None:
    schedule = loop_schedule(softmax(5, 200), 1, fused=True)
    assert isinstance(schedule, RowStages)
    assert all(stage.softmax for stage in schedule.stages)
    other = loop_schedule(OTHERS["the sum is a result"], 1, fused=True)
    assert isinstance(other, RowStages)
    assert not any(stage.softmax for stage in other.stages)


def test_one_loop_asks_for_the_next_row() -> None:
    """That of the powers and their sum, for each line of it, and for this row's results."""
    task = softmax(5, 200)
    schedule = loop_schedule(task, 1, fused=True)
    assert isinstance(schedule, RowStages)
    assert [stage.ahead for stage in schedule.stages] == [False, False, True, False]
    asked = prefetches(task, schedule)
    # Two lines in the loop over whole blocks of lanes, one behind it.
    for space, first in ((Space.INPUT, 600), (Space.OUTPUT, 400)):
        *whole, rest = (prefetch for prefetch in asked if prefetch.buffer.space is space)
        assert len(whole) == 2
        lines = {
            evaluate_index(prefetch.index, row=2, block=block)
            for prefetch in whole
            for block in range(6)
        }
        assert lines == set(range(first, first + 192, 16))
        assert evaluate_index(rest.index, row=2, block=0) == first + 192
    assert len(asked) == 6


def test_results_that_go_past_the_caches_are_not_asked_for() -> None:
    task = softmax(5, 200)
    schedule = loop_schedule(task, 1, fused=True)
    assert isinstance(schedule, RowStages)
    *stages, last = schedule.stages
    streaming = replace(schedule, stages=(*stages, replace(last, streamed=True)))
    asked = prefetches(task, streaming)
    assert [prefetch.buffer.space for prefetch in asked] == [Space.INPUT] * 3


def test_of_one_row_nothing_is_ahead() -> None:
    task = softmax(1, 200)
    schedule = loop_schedule(task, 1, fused=True)
    assert isinstance(schedule, RowStages)
    assert not any(stage.ahead for stage in schedule.stages)
    stages = tuple(replace(stage, ahead=True) for stage in schedule.stages)
    with pytest.raises(ScheduleError, match="expected several rows to look ahead, got one"):
        lower(task, replace(schedule, stages=stages))


def prefetches(task: Task, schedule: RowStages) -> list[Prefetch]:
    """What the kernel asks the caches for."""
    body = lower(task, schedule).kernel.body
    return [statement for statement in statements(body) if isinstance(statement, Prefetch)]


def evaluate_index(index: Expr, *, row: int, block: int) -> int:
    """The value of an index where the loops over rows and blocks are there, all others at 0."""
    names = {"i": row, "k_o": block}
    at = substitute(
        index,
        lambda t: const(names.get(t.name, 0), int64) if isinstance(t, Axis) else None,
    )
    value = simplify(at)
    assert isinstance(value, Const)
    return int(value.value)


def test_results_go_past_caches_that_cannot_hold_them() -> None:
    target = Target.named("x86-64-v4")
    for rows, streamed in ((512, False), (1 << 14, True)):
        schedule = default_schedule(softmax(rows, 1024), target, 1)
        assert isinstance(schedule, RowStages)
        assert [stage.streamed for stage in schedule.stages] == [False, False, False, streamed]


def rows_with_special_values(columns: int, dtype: DType) -> Array:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((9, columns)).astype(dtype.numpy) * 30
    x[1, columns // 2] = np.nan
    x[2, 0] = np.nan
    x[3, -1] = np.inf
    x[4, :] = -np.inf
    x[5, 1:] = -np.inf
    x[6, :] = np.nan
    x[7, 0], x[7, -1] = np.inf, np.nan
    return x


@pytest.mark.parametrize("strict", [False, True], ids=["fused", "strict"])
@pytest.mark.parametrize("isa", ISA_TARGETS)
def test_values(isa: str, strict: bool, tmp_path: Path) -> None:
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    target = Target.named(ISA_TARGETS[isa])
    tasks = [softmax(9, n, dtype) for n in (3, 64, 77, 200) for dtype in (float32, float64)]
    fused = target.has_fma and not strict
    cases = [Case.of(task, loop_schedule(task, 1, fused=fused)) for task in tasks]
    compiled = CompiledKernels(cases, tmp_path, target=target, strict=strict)
    for number, task in enumerate(tasks):
        dtype = task.inputs[0].dtype
        x = rows_with_special_values(task.inputs[0].shape[1], dtype)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            power = np.exp(wide - wide.max(axis=1, keepdims=True))
            expected = power / power.sum(axis=1, keepdims=True) * 2 + 1
        (found,) = compiled.run(number, [x])
        assert_same(found, expected.astype(dtype.numpy), 16.0, f"{isa} {task.inputs[0]}")
