"""What candidates of a task run on, and what they should compute.

What it does: makes the inputs of a task from a seed, relays them as a kernel wants its constants,
computes the results by the meaning of the task, and says how close a kernel has to come. What it
does not: run kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from threadpoolctl import ThreadpoolController

from tensorgen.evaluate import evaluate
from tensorgen.expr import Reduce, TensorExpr, walk
from tensorgen.task import Task
from tensorgen.types import Array, DType, Kind, TensorType

SHARE_DIFFERENT = 1e-3
"""Of truth values that depend on sums of floats, so many may differ: sums of another order may lie
on the other side of what they are compared with."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an element `a` may be from the expected `e`: |a - e| <= absolute + relative * |e|.

    So many elements as are `allowed` may be farther away. NaN is expected where there is one.
    """

    absolute: float
    relative: float
    allowed: int = 0


def seeded_inputs(task: Task, seed: int = 0) -> tuple[Array, ...]:
    """Inputs of a task: floats from -1 to 1, small whole numbers, of which those of 64 bits, which
    may be indices, are 0 and 1. The same for equal seeds."""
    return tuple(
        _values(type, np.random.default_rng((seed, position)))
        for position, type in enumerate(task.inputs)
    )


def _values(type: TensorType, rng: np.random.Generator) -> Array:
    match type.dtype.kind:
        case Kind.FLOAT:
            return (2 * rng.random(type.shape, np.float32) - 1).astype(type.dtype.numpy)
        case Kind.BOOL:
            return rng.integers(0, 2, type.shape).astype(type.dtype.numpy)
        case Kind.SIGNED | Kind.UNSIGNED if type.dtype.bits == 64:
            return rng.integers(0, 2, type.shape).astype(type.dtype.numpy)
        case Kind.SIGNED:
            return rng.integers(-8, 9, type.shape).astype(type.dtype.numpy)
        case Kind.UNSIGNED:
            return rng.integers(0, 17, type.shape).astype(type.dtype.numpy)


def packed(packing: TensorExpr | None, array: Array) -> Array:
    """An input as a kernel reads it."""
    if packing is None:
        return array
    with _one_thread():
        return evaluate(packing, [array.reshape(-1)])


def expected_results(task: Task, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a task by its meaning, stage by stage."""
    operands = list(inputs)
    with _one_thread():
        for stage in task.stages:
            operands.append(evaluate(stage, operands))
    return tuple(operands[len(task.inputs) + position] for position in task.outputs)


def _one_thread() -> Any:
    """While it is entered, products of matrices keep to one thread: compilers are on the other
    cores, and threads that wait for each other beside them take ten times as long."""
    return _pools().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def tolerance(task: Task, result: Array) -> Tolerance:
    """How close a kernel has to come to a result of the task.

    Sums may be taken in another order and convolutions filtered, whose error is in proportion to
    typical elements, not to the one at hand. A wrong index gives an error of their size.
    """
    terms = [term for stage in task.stages for term in walk(stage.body)]
    floats = any(term.dtype.is_float for term in terms)
    if result.dtype == np.bool_:
        sums = any(isinstance(term, Reduce) and term.dtype.is_float for term in terms)
        return Tolerance(0.0, 0.0, int(result.size * SHARE_DIFFERENT) + 1 if sums else 0)
    if result.dtype.kind in "iu":
        # A float that is rounded to a whole number may be rounded to the next one.
        return Tolerance(1.0 if floats else 0.0, 0.0)
    narrowest = max((_precision(term.dtype) for term in terms if term.dtype.is_float), default=0.0)
    relative = max(2e3 * float(np.finfo(np.float32).eps), 8 * narrowest)
    if all(term.dtype.bits == 64 for term in terms if term.dtype.is_float):
        relative = 2e4 * float(np.finfo(np.float64).eps)
    return Tolerance(relative * _typical(result), relative)


def _precision(dtype: DType) -> float:
    """The unit in the last place of 1."""
    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype.numpy).eps)


def _typical(result: Array) -> float:
    """The magnitude that nine of ten finite elements do not exceed."""
    magnitudes: Any = np.abs(result.astype(np.float64)).reshape(-1)
    finite = magnitudes[np.isfinite(magnitudes)]
    if finite.size == 0:
        return 0.0
    place = min(finite.size - 1, int(0.9 * finite.size))
    return float(np.partition(finite, place)[place])
