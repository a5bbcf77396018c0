"""Tasks: equal content is an equal task, and what is no task is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from tensorgen.expr import Tensor, compute, maximum
from tensorgen.lower import lower
from tensorgen.scalar_ops import (
    EXP_NONPOSITIVE,
    MAX_NUMBER,
    QUOTIENT,
    RECIPROCAL_REST,
    RESCALED,
    SCALAR_OPS,
)
from tensorgen.sketch import default_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import TensorType, float32, float64

VECTOR = TensorType(float32, (4,))


def doubled() -> Task:
    x = Tensor(0, VECTOR)
    first = compute((4,), lambda i: x[i] * 2.0)
    stage = Tensor(1, first.type)
    return Task((VECTOR,), (first, compute((4,), lambda i: maximum(stage[i], 0.0))), (1,), (False,))


def test_equal_content_is_an_equal_task() -> None:
    assert doubled() == doubled()
    assert len({doubled(), doubled()}) == 1


def test_a_task_goes_to_another_process_and_comes_back() -> None:
    """With every operator, those that lowering makes and those whose meaning is a closure, too."""
    assert pickle.loads(pickle.dumps(doubled())) == doubled()
    made = (QUOTIENT, RECIPROCAL_REST, RESCALED, EXP_NONPOSITIVE, MAX_NUMBER)
    for op in (*SCALAR_OPS, *made):
        assert pickle.loads(pickle.dumps(op)) is op
    schedule = default_schedule(doubled(), Target.named("c99"), 1)
    kernel = lower(doubled(), schedule).kernel
    assert str(pickle.loads(pickle.dumps(kernel))) == str(kernel)


def test_everything_is_part_of_the_identity() -> None:
    task = doubled()
    others = [
        replace(task, constant=(True,)),
        replace(task, outputs=(0,)),
        replace(task, outputs=(0, 1)),
        replace(task, stages=task.stages[:1], outputs=(0,)),
        replace(task, inputs=(VECTOR, VECTOR), constant=(False, False), stages=task.stages[:1],
                outputs=(0,)),
    ]  # fmt: skip
    assert len({task, *others}) == len(others) + 1
    assert task != "a task"


def test_types_and_text() -> None:
    task = replace(doubled(), outputs=(1, 0))
    assert task.operand_type(0) == task.operand_type(1) == VECTOR
    assert task.output_types == (VECTOR, VECTOR)
    assert str(task) == "out[i] = x[i] * 2.0; out[i] = max(y[i], 0.0)"


def test_a_stage_may_not_read_a_later_one() -> None:
    task = doubled()
    with pytest.raises(AssertionError, match="a stage reads a later one"):
        replace(task, stages=tuple(reversed(task.stages)))


def test_a_load_must_state_its_operand() -> None:
    with pytest.raises(AssertionError, match="a load misstates its operand"):
        replace(doubled(), inputs=(TensorType(float64, (4,)),))


def test_a_task_has_a_result() -> None:
    with pytest.raises(AssertionError, match="at least one result"):
        replace(doubled(), outputs=())
