"""Rankings: a result whose element p is the one that p others precede, as top-k writes it.

    out[.., p, ..] = max(k) rank(k) == p ? x[.., k, ..] : lowest
    rank(k) = sum(r) x[.., r, ..] precedes x[.., k, ..] ? 1 : 0

An element precedes smaller ones (or larger ones) and equal ones behind it. The result holds either
the elements or their positions. Index notation counts the rank of each element anew; a loop inserts
one element after the other into the sorted result.

What it does not: print the loop (`lower_ranking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Expr,
    Fold,
    Reduce,
    Select,
    apply,
    const,
    free_axes,
    substitute,
)
from tensorgen.types import int64


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first elements in sorted order, or their positions.

    `axis` is that of the result, `position` that of the operand, `element` the element there.
    """

    axis: Axis
    position: Axis
    element: Expr
    largest: bool
    positions: bool

    def at(self, place: Expr) -> Expr:
        """The element at another position."""
        return replaced(self.element, self.position, place)

    def precedes(self, first: Expr, second: Expr) -> Expr:
        """Whether one value comes before another, which is not so if they are equal."""
        return second < first if self.largest else first < second


def ranking(axes: Sequence[Axis], body: Expr) -> Ranking | None:
    """The ranking that the body of a stage with those axes is; None if it is none."""
    match body:
        case Cast(arg=arg):
            return ranking(axes, arg) if body.dtype.is_half else None
        case Reduce(
            fold=Fold.MAX,
            axes=(position,),
            body=Select(
                condition=Apply(
                    args=(Reduce(fold=Fold.SUM, axes=(other,)) as rank, Axis() as axis)
                ) as chosen,
                then=result,
            ),
        ) if chosen.op.name == "eq" and axis in axes and other.extent == position.extent:
            for element in _elements(rank, position):
                for largest in (True, False):
                    positions = result == position
                    found = Ranking(axis, position, element, largest, positions)
                    if rank == _rank(found, other) and (positions or result == element):
                        return found if axis not in free_axes(element) else None
            return None
        case _:
            return None


def replaced(term: Expr, axis: Axis, value: Expr) -> Expr:
    """The term with a value in the place of an axis."""
    return substitute(term, lambda inner: value if inner == axis else None)


def _elements(rank: Reduce, position: Axis) -> tuple[Expr, ...]:
    """What the rank compares, at `position`; nothing if it does not compare."""
    match rank.body:
        case Select(condition=Apply(args=(Apply(args=comparison), _))):
            return tuple(term for term in comparison if position in free_axes(term))
        case _:
            return ()


def _rank(found: Ranking, other: Axis) -> Reduce:
    """The rank as it is written for such a ranking."""
    mine, theirs = found.element, found.at(other)
    tied = apply("and", theirs.equals(mine), other < found.position)
    before = apply("or", found.precedes(theirs, mine), tied)
    return Reduce(Fold.SUM, (other,), Select(before, const(1, int64), const(0, int64)))
