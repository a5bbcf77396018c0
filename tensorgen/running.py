"""Running folds: a result each of whose elements folds all those up to its own position.

    out[.., i, ..] = f(fold(k) k <= i ? x[.., k, ..] : neutral)

Cumulative sums and products look so, inclusive or exclusive, in either direction. Index notation
folds anew for each position; a loop carries the total along and is done in one pass.

What it does not: print the loop (`lower_running`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.expr import (
    Apply,
    Axis,
    Expr,
    Reduce,
    Select,
    free_axes,
    neutral_element,
    walk,
)
from tensorgen.simplify import affine


@dataclass(frozen=True, slots=True)
class RunningFold:
    """A fold over the positions up to that of `axis`.

    `total` is the fold as it stands in the body, and `element` what it folds at the position that
    `total.axes` counts. `reverse` folds the positions behind it instead; an `exclusive` fold leaves
    its own position out.
    """

    axis: Axis
    total: Reduce
    element: Expr
    reverse: bool
    exclusive: bool


def running_fold(axes: Sequence[Axis], body: Expr) -> RunningFold | None:
    """The one fold in the body of a stage with those axes, if it is a running one."""
    folds = [term for term in walk(body) if isinstance(term, Reduce)]
    if len(folds) != 1 or len(folds[0].axes) != 1:
        return None
    (total,) = folds
    (position,) = total.axes
    match total.body:
        case Select(condition=Apply(op=op, args=(left, right)), then=element, otherwise=otherwise):
            if op.name not in ("lt", "le") or otherwise != neutral_element(
                total.fold, otherwise.dtype
            ):
                return None
        case _:
            return None
    # left < right  <=>  0 < distance
    distance = affine(right).plus(affine(left).scaled(-1))
    step = -distance.coefficient(position)
    for axis in axes:
        if (
            axis.extent == position.extent
            and abs(step) == 1
            and distance.terms == affine((axis - position) * step).terms
            and axis not in free_axes(element)
        ):
            least = distance.constant - (1 if op.name == "lt" else 0)
            if least in (0, -1):
                return RunningFold(axis, total, element, step < 0, least == -1)
    return None
