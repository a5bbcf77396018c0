"""Conditions that leave one run of an axis, whose place other axes move and whose length they do
not: an image inside its padding, as the phases of a transposed convolution see it.

What it does not: cut an axis where the run lies still (`lower_loops.pieces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.conditions import nonnegative
from tensorgen.expr import Axis, Expr, free_axes
from tensorgen.simplify import Affine


@dataclass(frozen=True, slots=True)
class MovingRun:
    """`length` elements of an axis from `first` on, all of them elements that the axis has, and the
    conditions that tell nothing about it."""

    first: Affine
    length: int
    others: tuple[Expr, ...]

    @property
    def firsts(self) -> tuple[int, int]:
        """The first and the last place at which it begins."""
        return self.first.bounds


def moving_run(conditions: Sequence[Expr], axis: Axis) -> MovingRun | None:
    """The elements of an axis that meet all conditions, as a run that other axes move; None if they
    are none, or are not always all on the axis."""
    others = tuple(part for part in conditions if axis not in free_axes(part))
    limits = [_limit(part, axis) for part in conditions if axis in free_axes(part)]
    match limits:
        case [(1, first), (-1, last)] | [(-1, last), (1, first)]:
            length = last.plus(first.scaled(-1)).plus(Affine((), 1))
        case _:
            return None
    if not first.terms or length.terms or length.constant < 1:
        return None
    low, high = first.bounds
    if low < 0 or high + length.constant > axis.extent:
        return None
    return MovingRun(first, length.constant, others)


def _limit(condition: Expr, axis: Axis) -> tuple[int, Affine] | None:
    """(1, the least element of an axis that meets a comparison) or (-1, the last one)."""
    form = nonnegative(condition)
    slope = None if form is None else form.step(axis)
    if form is None or slope not in (1, -1):
        return None
    rest = Affine(tuple(term for term in form.terms if term[0] != axis), form.constant)
    return slope, rest.scaled(-slope)
