"""Attention to test on, as tasks, and what it is in float64."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from tensorgen.expr import (
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    apply,
    compute,
    const,
    reduce,
    reduce_sum,
)
from tensorgen.task import Task
from tensorgen.types import Array, DType, Shape, TensorType, float32


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes and forms of attention.

    `batch` are the outer axes, `width` the columns of the values; 0 leaves the values out, so that
    the softmax is the result. With `interleaved`, the axis of rows lies outside the last batch axis
    in every operand (sequence, heads, depth); `key_columns` lays the keys down transposed. `mask`
    is one for all batches ("shared"), one each ("own"), or none (""); `divided` scales the scores
    by the root of the depth. `merged` stores the result with the batch axes behind the rows.
    """

    batch: Shape
    rows: int
    keys: int
    depth: int
    width: int
    interleaved: bool = False
    key_columns: bool = False
    mask: str = ""
    divided: bool = True
    merged: bool = False
    dtype: DType = float32

    def operand(self, length: int, depth: int, *, columns: bool = False) -> Shape:
        """The shape of an operand with so many rows."""
        if self.interleaved and self.batch:
            *outer, heads = self.batch
            return (*outer, length, heads, depth)
        return (*self.batch, depth, length) if columns else (*self.batch, length, depth)

    def at(
        self, b: tuple[Expr, ...], i: Expr, d: Expr, *, columns: bool = False
    ) -> tuple[Expr, ...]:
        """The indices of an element of an operand."""
        if self.interleaved and self.batch:
            return (*b[:-1], i, b[-1], d)
        return (*b, d, i) if columns else (*b, i, d)

    @property
    def key_at_columns(self) -> bool:
        return self.key_columns and not (self.interleaved and bool(self.batch))

    @property
    def inputs(self) -> tuple[TensorType, ...]:
        """Queries, keys, then values and mask where there are any."""
        shapes = [
            self.operand(self.rows, self.depth),
            self.operand(self.keys, self.depth, columns=self.key_at_columns),
        ]
        if self.width:
            shapes.append(self.operand(self.keys, self.width))
        if self.mask:
            own = self.batch if self.mask == "own" else (1,) * len(self.batch)
            shapes.append((*own, self.rows, self.keys))
        return tuple(TensorType(self.dtype, shape) for shape in shapes)

    def task(self) -> Task:
        """Scores, scale and mask, the four stages of a softmax, and what the rows weigh."""
        inputs = [Tensor(n, type) for n, type in enumerate(self.inputs)]
        q, k = inputs[:2]
        rank, count = len(self.batch), len(inputs)
        scores_type = TensorType(self.dtype, (*self.batch, self.rows, self.keys))
        row_type = TensorType(self.dtype, (*self.batch, self.rows, 1))
        stages: list[TensorExpr] = []

        def add(shape: Shape, body: object) -> int:
            stages.append(compute(shape, body))  # type: ignore[arg-type]
            return count + len(stages) - 1

        def score(*axes: Expr) -> Expr:
            b, i, j = axes[:rank], axes[-2], axes[-1]
            return reduce_sum(
                self.depth,
                lambda d: q[self.at(b, i, d)] * k[self.at(b, j, d, columns=self.key_at_columns)],
            )

        scores = Tensor(add(scores_type.shape, score), scores_type)
        if self.divided or self.mask:

            def adjusted(*axes: Expr) -> Expr:
                value: Expr = scores[axes]
                if self.divided:
                    value = apply("div", value, const(sqrt(self.depth), self.dtype))
                if not self.mask:
                    return value
                zeros = (const(0, axes[0].dtype),) * rank
                own = axes[:rank] if self.mask == "own" else zeros
                return value + inputs[-1][(*own, axes[-2], axes[-1])]

            scores = Tensor(add(scores_type.shape, adjusted), scores_type)

        def zero(axes: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return (*axes[:-1], const(0, axes[0].dtype))

        def over(fold: Fold, x: Tensor) -> Tensor:
            body = lambda *axes: reduce(fold, self.keys, lambda j: x[(*axes[:-1], j)])  # noqa: E731
            return Tensor(add(row_type.shape, body), row_type)

        top = over(Fold.MAX, scores)
        power = Tensor(
            add(scores_type.shape, lambda *a: apply("exp", scores[a] - top[zero(a)])), scores_type
        )
        total = over(Fold.SUM, power)
        weights = Tensor(add(scores_type.shape, lambda *a: power[a] / total[zero(a)]), scores_type)
        if self.width:
            v = inputs[2]

            def weigh(*axes: Expr) -> Expr:
                b, i, e = axes[:rank], axes[-2], axes[-1]
                return reduce_sum(self.keys, lambda j: weights[(*b, i, j)] * v[self.at(b, j, e)])

            mixed_type = TensorType(self.dtype, (*self.batch, self.rows, self.width))
            mixed = Tensor(add(mixed_type.shape, weigh), mixed_type)
            if self.merged and self.batch:
                shape = (*self.batch[:-1], self.rows, self.batch[-1], self.width)
                add(shape, lambda *a: mixed[(*a[:-3], a[-2], a[-3], a[-1])])
        types = self.inputs
        return Task(types, tuple(stages), (len(stages) - 1,), (False,) * len(types))

    def expected(self, arrays: list[Array]) -> Array:
        """The result in float64, rounded at the end."""
        x = [array.astype(np.float64) for array in arrays]
        mask = x.pop() if self.mask else np.zeros(())
        if self.interleaved and self.batch:
            x = [np.moveaxis(array, -2, -3) for array in x]
        keys = x[1] if self.key_at_columns else np.swapaxes(x[1], -1, -2)
        scores = x[0] @ keys
        with np.errstate(all="ignore"):
            scores = scores / (sqrt(self.depth) if self.divided else 1.0) + mask
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            result = powers / powers.sum(axis=-1, keepdims=True)
            if self.width:
                result = result @ x[2]
        if self.width and self.merged and self.batch:
            result = np.moveaxis(result, -2, -3)
        rounded: Array = result.astype(self.dtype.numpy)
        return rounded

    def arrays(self, seed: int = 0) -> list[Array]:
        """Inputs as of a network; a mask forbids some keys, and all of them to every fifth row."""
        rng = np.random.default_rng(seed)
        found = [rng.standard_normal(t.shape).astype(self.dtype.numpy) for t in self.inputs]
        if self.mask:
            found[-1][rng.random(found[-1].shape) < 0.4] = -np.inf
            found[-1][..., 4::5, :] = -np.inf
        return found
