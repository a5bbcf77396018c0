"""Softmax among the stages of a task, recognised from its indices.

`m[o] = max(k) x[f(o, k)]`, `e[p] = exp(x[p] - m[g(p)])`, `s[o] = sum(k) e[f(o, k)]`, and in a later
stage `e[p] / s[g(p)]`. Where nothing else reads m, e and s, three things are known of it. A NaN in
x reaches its quotients through the sum, so the maximum need not propagate it. What exp is taken of
is at most 0, or NaN, since x[p] is among the elements of its own maximum. The sum is at least 1, or
NaN, and finite. The last stage divides nothing else.

What it does not: change anything; `Loops.softmax` and `RowStages.softmax_held` tell the lowering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorgen.expr import (
    Apply,
    Axis,
    Expr,
    Fold,
    Load,
    Reduce,
    TensorExpr,
    const,
    loads,
    map_children,
    substitute,
    walk,
)
from tensorgen.simplify import simplify
from tensorgen.task import Task

SOFTMAX_STAGES = 4
"""Maximum, powers, sum, quotients."""


def softmax_stages(task: Task, positions: Sequence[int]) -> frozenset[int]:
    """Those of the stages at `positions` that make up a softmax: maximum, powers, sum, quotients.
    Empty if there is none."""
    for position in positions:
        found = _softmax(task, position)
        if found is not None and found <= set(positions):
            return found
    return frozenset()


def ends_in_softmax(task: Task, positions: Sequence[int]) -> bool:
    """True if the last of the stages at `positions` are a softmax, whose quotients stay as they are
    and are of the type of what it is taken of."""
    last = positions[-SOFTMAX_STAGES:]
    if softmax_stages(task, last) != set(last):
        return False
    powers, quotients = task.stages[last[1]], task.stages[last[-1]]
    types = {load.type.dtype for load in loads(powers.body)} | {quotients.type.dtype}
    match quotients.body:
        case Apply(op=op, args=(Load(), Load())):
            return op.name == "div" and len(types) == 1
        case _:
            return False


def _softmax(task: Task, powers: int) -> frozenset[int] | None:
    """The stages of a softmax whose powers are the stage at a position; None if they are not."""
    count, stages = len(task.inputs), task.stages
    match stages[powers].body:
        case Apply(op=op, args=(Apply(op=inner, args=(Load() as x, Load() as m)),)) if (
            op.name == "exp" and inner.name == "sub" and m.operand >= count
        ):
            pass
        case _:
            return None
    maximum, e = m.operand - count, count + powers
    total = next((n for n in _readers(task, e) if isinstance(stages[n].body, Reduce)), None)
    if total is None or _readers(task, m.operand) != [powers]:
        return None
    quotients = [n for n in _readers(task, e) if n != total]
    if len(quotients) != 1 or _readers(task, count + total) != quotients:
        return None
    (last,) = quotients
    axes = stages[powers].axes
    power, sum_there = Load(e, stages[powers].type, axes), Load(count + total, m.type, m.indices)
    if (
        not _equal(x.indices, axes)
        or stages[last].axes != axes
        or not _same_elements(stages[maximum], x.operand, stages[total], e)
        or not _has_own(stages[maximum], m.indices, axes)
        or not _divided_only(stages[last].body, power, sum_there)
        or {maximum, powers, total} & set(task.outputs)
    ):
        return None
    return frozenset({maximum, powers, total, last})


def _readers(task: Task, operand: int) -> list[int]:
    """The positions of the stages that read an operand."""
    return [
        position
        for position, stage in enumerate(task.stages)
        if any(load.operand == operand for load in loads(stage.body))
    ]


def _equal(left: Sequence[Expr], right: Sequence[Expr]) -> bool:
    return list(map(simplify, left)) == list(map(simplify, right))


def _same_elements(maximum: TensorExpr, x: int, total: TensorExpr, e: int) -> bool:
    """True if one stage is the greatest and one the sum of the same elements of two operands."""
    match maximum.body, total.body:
        case (
            Reduce(fold=Fold.MAX, axes=first, body=Load(operand=of_maximum) as left),
            Reduce(fold=Fold.SUM, axes=second, body=Load(operand=of_total) as right),
        ):
            return (
                (of_maximum, of_total) == (x, e)
                and (maximum.axes, first) == (total.axes, second)
                and _equal(left.indices, right.indices)
            )
        case _:
            return False


def _has_own(maximum: TensorExpr, place: Sequence[Expr], axes: Sequence[Axis]) -> bool:
    """True if the element at `axes` is among those whose maximum is at `place`."""
    body = maximum.body
    assert isinstance(body, Reduce)
    assert isinstance(body.body, Load)
    values: dict[Axis, Expr] = dict(zip(maximum.axes, place, strict=True))
    reduced = [axis for axis in body.axes if axis.extent != 1]
    if len(reduced) > 1:
        return False
    return any(
        _equal(
            [_replaced(i, {**values, **dict.fromkeys(reduced, own)}) for i in body.body.indices],
            axes,
        )
        for own in axes
        if all(axis.extent == own.extent for axis in reduced)
    )


def _replaced(index: Expr, values: Mapping[Axis, Expr]) -> Expr:
    return substitute(index, lambda t: values.get(t) if isinstance(t, Axis) else None)


def _divided_only(body: Expr, power: Load, total: Load) -> bool:
    """True if a term reads the powers and their sum in quotients of the two only, and has no other
    quotients."""

    def without(term: Expr) -> Expr:
        match term:
            case Apply(op=op, args=(Load() as left, Load() as right)) if (
                op.name == "div"
                and (left.operand, right.operand) == (power.operand, total.operand)
                and _equal(left.indices, power.indices)
                and _equal(right.indices, total.indices)
            ):
                return const(1, term.dtype)
            case _:
                return map_children(term, without)

    rest = without(body)
    return not {load.operand for load in loads(rest)} & {power.operand, total.operand} and not any(
        isinstance(term, Apply) and term.op.name == "div" for term in walk(rest)
    )
