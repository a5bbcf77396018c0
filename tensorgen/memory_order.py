"""Memory orders: in which order the elements of a tensor lie in memory, and tasks on such tensors.

Row-major order is what a type says. Convolutions read data well if channels are next to each other
instead, all of them or a block of them: a register tile then loads and stores whole vectors of
channels, and walks along a line of the cache while it sums over them. (Blocks of channels are
oneDNN's `nChw16c`; all of them is what frameworks call channels last.)

What it does not: choose the order of a value (`graphopt.orders`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tensorgen.composition import element_at
from tensorgen.contraction import contraction_of
from tensorgen.expr import (
    Expr,
    Load,
    Reduce,
    TensorExpr,
    canonical,
    compute,
    loads,
    substitute,
)
from tensorgen.flat import flat_index
from tensorgen.prologue import is_padding
from tensorgen.simplify import affine, simplify_tensor
from tensorgen.task import Task
from tensorgen.types import Shape, TensorType


@dataclass(frozen=True, slots=True)
class Together:
    """A memory order: `block` elements along `axis` lie next to each other, the rest is row-major.

    A tensor of shape [a, b, c] with axis 1 and block k is one of shape [a, b / k, c, k] in memory;
    `block` divides the extent of the axis.
    """

    axis: int
    block: int

    def stored(self, type: TensorType) -> TensorType:
        """The row-major type that a tensor of a type has in memory."""
        shape = type.shape
        count, rest = divmod(shape[self.axis], self.block)
        assert not rest, f"blocks of {self.block} of an axis of {shape[self.axis]}"
        blocks = () if count == 1 else (count,)
        outer = (*shape[: self.axis], *blocks, *shape[self.axis + 1 :])
        return TensorType(type.dtype, (*outer, self.block))

    def within(self, extent: int) -> Together:
        """The order of a tensor with `extent` elements along the axis that are read from one in
        this order: not all of them, where a split is absorbed."""
        return replace(self, block=extent if extent <= self.block else gcd(extent, self.block))

    def place(self, indices: Sequence[Expr], shape: Shape) -> tuple[Expr, ...]:
        """Where the element at some indices of a tensor is, in its stored type."""
        index = indices[self.axis]
        outer = list(indices)
        if shape[self.axis] == self.block:
            del outer[self.axis]
            return (*outer, index)
        outer[self.axis] = index // self.block
        return (*outer, index % self.block)

    def element(self, stored: Sequence[Expr], shape: Shape) -> tuple[Expr, ...]:
        """The indices of the element at some place of the stored type: the inverse of `place`."""
        *outer, inner = stored
        if shape[self.axis] == self.block:
            outer.insert(self.axis, inner)
        else:
            outer[self.axis] = outer[self.axis] * self.block + inner
        return tuple(outer)


def reordered(task: Task, orders: Mapping[int, Together]) -> Task:
    """The task with some operands (inputs, or stages after them) in another memory order.

    Sums over such an operand run through it as it lies: their axes are put in that order, which
    reassociates them. Padding in front of a contraction takes the order of what it pads, or of the
    part that it pads.
    """
    count = len(task.inputs)
    orders = dict(orders)
    if contraction_of(task) is not None and is_padding(task.stages[0]):
        padded = {load.operand for load in loads(task.stages[0].body)}
        shape = task.stages[0].type.shape
        for operand in padded & orders.keys():
            order = orders[operand]
            if order.axis < len(shape):
                orders[count] = order.within(shape[order.axis])
    inputs = tuple(
        orders[n].stored(type) if n in orders else type for n, type in enumerate(task.inputs)
    )
    stages = []
    for number, stage in enumerate(task.stages):
        made = _reading(stage, orders)
        if count + number in orders:
            made = _stored(made, orders[count + number])
        stages.append(simplify_tensor(made))
    return replace(task, inputs=inputs, stages=tuple(stages))


def _stored(expr: TensorExpr, order: Together) -> TensorExpr:
    """The tensor's elements as they lie in memory."""
    shape = expr.type.shape
    return compute(
        order.stored(expr.type).shape,
        lambda *axes: element_at(expr, order.element(axes, shape)),
    )


def _reading(stage: TensorExpr, orders: Mapping[int, Together]) -> TensorExpr:
    """The stage with loads of reordered operands, and its sums in their order."""

    def placed(term: Expr) -> Expr | None:
        if not (isinstance(term, Load) and term.operand in orders):
            return None
        order = orders[term.operand]
        indices = tuple(substitute(index, placed) for index in term.indices)
        return Load(term.operand, order.stored(term.type), order.place(indices, term.type.shape))

    def in_order(term: Expr) -> Expr | None:
        if not isinstance(term, Reduce):
            return None
        body = substitute(term.body, in_order)
        moved = [load for load in loads(body) if load.operand in orders]
        forms = [affine(flat_index(load.indices, load.type.shape)) for load in moved]
        strides = {
            axis: max((abs(form.coefficient(axis)) for form in forms), default=0)
            for axis in term.axes
        }
        axes = tuple(sorted(term.axes, key=lambda axis: -strides[axis])) if moved else term.axes
        return Reduce(term.fold, axes, body)

    return canonical(stage.axes, substitute(substitute(stage.body, placed), in_order))
