"""Long float sums as sums of partial sums, so that their rounding grows slowly.

Adding n values one after the other rounds n times; in blocks of b it rounds n/b + b times, and
blocks of blocks less again (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition,
section 4.2). It shows where large sums are subtracted later, as in a variance written as
mean(x * x) - mean(x) * mean(x). The blocks depend on the sizes alone, so that sums are the same on
every target.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorgen.expr import Axis, Expr, Fold, Reduce, map_children
from tensorgen.loop import Numbers
from tensorgen.simplify import simplify

BLOCK = 32
"""Values added in a row, unless there are at most twice as many in all."""


def partial_sums(term: Expr, numbers: Numbers, lanes: int = 1) -> Expr:
    """The term with long float sums nested, so that none adds more than 2 * BLOCK values in a row.

    A sum over an innermost axis of 2 * `lanes` or more has `lanes` accumulators, which share its
    values.
    """
    inner = map_children(term, lambda child: partial_sums(child, numbers, lanes))
    match inner:
        case Reduce(fold=Fold.SUM, axes=axes, body=body) if axes and inner.dtype.is_float:
            return _nested(axes, body, numbers, lanes if axes[-1].extent >= 2 * lanes else 1)
        case _:
            return inner


def _nested(axes: Sequence[Axis], body: Expr, numbers: Numbers, lanes: int) -> Expr:
    """One level of blocks: the innermost axes as far as they fit, and a part of the next one."""
    most = BLOCK * lanes
    if prod(axis.extent for axis in axes) <= 2 * most:
        return Reduce(Fold.SUM, tuple(axes), body)
    whole = len(axes)
    length = 1
    while length * axes[whole - 1].extent <= most:
        whole -= 1
        length *= axes[whole].extent
    outer, cut, inside = axes[: whole - 1], axes[whole - 1], axes[whole:]
    step = most // length
    if step < 2:
        block = Reduce(Fold.SUM, tuple(inside), body)
        return _nested((*outer, cut), block, numbers, 1)
    # Blocks of equal length, whole rows of accumulators.
    unit = 1 if inside else lanes
    step = -(-cut.extent // (-(-cut.extent // step) * unit)) * unit

    def part(start: int, extent: int) -> Expr:
        """The sum over `extent` positions of the axis that is cut, from `start`."""
        blocks = numbers.axis(f"{cut.name}_o", extent // step)
        within = numbers.axis(f"{cut.name}_i", min(step, extent))
        position = within + start if extent <= step else within + blocks * step
        moved = simplify(body, {cut: position})
        block = Reduce(Fold.SUM, (within, *inside), moved)
        return block if extent <= step else _nested((blocks,), block, numbers, 1)

    rest = cut.extent % step
    total = part(0, cut.extent - rest)
    if rest:
        total = total + part(cut.extent - rest, rest)
    return _nested(outer, total, numbers, 1) if outer else total
