"""Small tasks of every kind that is tuned."""

from __future__ import annotations

from tensorgen.expr import Fold, Tensor, apply, compute, const, reduce, reduce_sum
from tensorgen.task import Task
from tensorgen.types import TensorType, float32, int64
from tests.attention_tasks import AttentionShape
from tests.contraction_tasks import convolution, matmul, padded, with_epilogue
from tests.window_tasks import Spatial, window_task


def softmax(rows: int, columns: int) -> Task:
    """The four stages of a softmax of each row."""
    whole, row = TensorType(float32, (rows, columns)), TensorType(float32, (rows, 1))
    x, top, power, total = (Tensor(n, t) for n, t in enumerate((whole, row, whole, row)))
    zero = const(0, int64)
    stages = (
        compute((rows, 1), lambda i, _: reduce(Fold.MAX, columns, lambda j: x[i, j])),
        compute((rows, columns), lambda i, j: apply("exp", x[i, j] - top[i, zero])),
        compute((rows, 1), lambda i, _: reduce(Fold.SUM, columns, lambda j: power[i, j])),
        compute((rows, columns), lambda i, j: power[i, j] / total[i, zero]),
    )
    return Task((whole,), stages, (3,), (False,))


def row_sums(rows: int, columns: int) -> Task:
    """The sum of each row."""
    x = Tensor(0, TensorType(float32, (rows, columns)))
    stage = compute((rows,), lambda i: reduce_sum(columns, lambda j: x[i, j]))
    return Task((x.type,), (stage,), (0,), (False,))


def scaled(*shape: int) -> Task:
    """An elementwise stage."""
    x = Tensor(0, TensorType(float32, shape))
    stage = compute(shape, lambda *axes: x[axes] * 2.0 + 1.0)
    return Task((x.type,), (stage,), (0,), (False,))


def plane(size: int, kernel: int, stride: int = 1, pad: int = 0) -> tuple[Spatial, Spatial]:
    """Two alike axes of a window."""
    axis = Spatial(size, kernel, stride, pad, pad)
    return axis, axis


EXACT: dict[str, Task] = {
    "product": matmul((), 9, 35, 40, constant=(False, True)),
    "product of activations": matmul((2,), 7, 20, 36),
    "bias": with_epilogue(matmul((), 9, 35, 12, constant=(False, True)), "bias"),
    "transposed result": with_epilogue(matmul((), 9, 35, 12, constant=(False, True)), "transpose"),
    "strided": convolution((5, 5), (1, 1), channels=(8, 18), strides=(2, 2)),
    "depthwise": window_task(plane(7, 3, 1, 1), weighted=True),
    "pool": window_task(plane(9, 3, 2, 1)),
    "wide window": window_task(plane(19, 3, 2, 1), planes=(1, 2), weighted=True, epilogue="bias"),
    "sums": row_sums(5, 300),
    "elementwise": scaled(3000),
    "elementwise in rows": scaled(5, 70),
}
"""Tasks whose results on small whole numbers are exact in any order."""

ROUNDED: dict[str, Task] = {
    "attention": AttentionShape((2,), 11, 30, 8, 8).task(),
    "masked scores": AttentionShape((1, 2), 7, 20, 8, 0, mask="own").task(),
    "softmax": softmax(5, 150),
}
"""Tasks of which orders of sums can be told apart."""

CONVOLUTIONS: dict[str, Task] = {
    "3 x 3": padded(convolution((5, 6), (3, 3), channels=(4, 19)), (1, 1), (1, 1)),
    "3 x 3, stride 2": padded(
        convolution((4, 4), (3, 3), channels=(4, 17), strides=(2, 2)), (1, 1), (1, 1)
    ),
    "5 taps": convolution((12,), (5,), channels=(6, 20)),
}
"""Tasks that may be filtered with fewer products."""
