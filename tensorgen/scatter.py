"""Scattered stages: updates at positions that are themselves data, told from the result's side.

    out[.., i, ..] = x[.., i, ..] + sum(k) position[k] == i ? updates[k, ..] : 0
    out[.., i, ..] = last >= 0 ? updates[last, ..] : x[.., i, ..]
                     where last = max(k) position[k] == i ? k : -1

Index notation has no write, so each element asks all updates whether they are meant for it. Loops
copy x and then go over the updates once, in their order.

Folds of 16-bit floats are none: they would be rounded after each update.

What it does not: print the loops (`lower_scatter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.conditions import conjuncts
from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Fold,
    Reduce,
    Select,
    const,
    free_axes,
    neutral_element,
    substitute,
    walk,
)
from tensorgen.flat import flat_index
from tensorgen.simplify import simplify
from tensorgen.types import int64


@dataclass(frozen=True, slots=True)
class Place:
    """Where an update goes along an axis of the result; nowhere if that is outside the axis."""

    axis: Axis
    position: Expr


@dataclass(frozen=True, slots=True)
class Scatter:
    """A copy of `current`, and for each value of `updates` a write.

    `conditions` says where and when it is made; each one has a value only where those before it
    hold. With a `fold` the value is folded into what is there. `axis` is the outermost of those
    along which places are data.
    """

    axis: Axis
    current: Expr
    updates: tuple[Axis, ...]
    conditions: tuple[Place | Expr, ...]
    value: Expr
    fold: Fold | None


def scatter(axes: Sequence[Axis], body: Expr) -> Scatter | None:
    """The scattered stage that the body of a stage with those axes is; None if it is none."""
    match body:
        case Cast(arg=arg) if body.dtype.is_half:
            found = scatter(axes, arg)
            return None if found is None or found.fold is not None else found
        case Select(condition=Apply(op=op, args=(Const(value=0), Reduce() as last))) if (
            op.name == "le" and last.fold is Fold.MAX and last.dtype == int64
        ):
            number = flat_index(last.axes, tuple(axis.extent for axis in last.axes))
            value = simplify(substitute(body.then, lambda t: number if t == last else None))
            written = _written(last.body, const(-1, int64))
            if simplify(written[1]) != number:
                return None
            return _scatter(axes, body.otherwise, last, written[0], value, None)
        case Apply(op=op, args=(current, Reduce() as folded) | (Reduce() as folded, current)) if (
            op.name == folded.fold.value and not folded.dtype.is_half
        ):
            conditions, value = _written(folded.body, neutral_element(folded.fold, folded.dtype))
            return _scatter(axes, current, folded, conditions, value, folded.fold)
        case _:
            return None


def _written(term: Expr, neutral: Const) -> tuple[tuple[Expr, ...], Expr]:
    """The conditions under which a term is not neutral, and what it is then."""
    conditions: tuple[Expr, ...] = ()
    while isinstance(term, Select) and term.otherwise == neutral:
        conditions += conjuncts(term.condition)
        term = term.then
    return conditions, term


def _scatter(
    axes: Sequence[Axis],
    current: Expr,
    folded: Reduce,
    conditions: Sequence[Expr],
    value: Expr,
    fold: Fold | None,
) -> Scatter | None:
    """The scatter of a value under those conditions; None if they do not say where it goes."""
    places: set[Axis] = set()
    steps: list[Place | Expr] = []
    for condition in conditions:
        match condition:
            case Apply(op=op, args=(place, Axis() as axis) | (Axis() as axis, place)) if (
                op.name == "eq" and axis in axes and axis not in places
            ):
                places.add(axis)
                steps.append(Place(axis, place))
            case _:
                steps.append(condition)
    read = (value, *(step.position if isinstance(step, Place) else step for step in steps))
    if not places or any(free_axes(term) & places for term in read):
        return None
    if any(isinstance(inner, Reduce) for term in (current, *read) for inner in walk(term)):
        return None
    first = next(axis for axis in axes if axis in places)
    return Scatter(first, current, folded.axes, tuple(steps), value, fold)
