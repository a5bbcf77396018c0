"""Tasks of one stage, whose body is index notation over its inputs."""

from __future__ import annotations

from collections.abc import Callable

from tensorgen.expr import Tensor, TensorExpr
from tensorgen.task import Task
from tensorgen.types import DType, TensorType, float32


def tensor_type(*shape: int, dtype: DType = float32) -> TensorType:
    return TensorType(dtype, shape)


def stage_task(types: tuple[TensorType, ...], body: Callable[..., TensorExpr]) -> Task:
    """The task of a stage that `body` makes of tensors of some types, none of them constant."""
    stage = body(*(Tensor(n, type) for n, type in enumerate(types)))
    return Task(types, (stage,), (0,), (False,) * len(types))
