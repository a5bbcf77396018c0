"""Choices that are the same for all lanes, made once before the loop over the lanes.

What it does: takes the part of a choice's condition that does not depend on the lane out of the
loop, so that what remains is a plain copy or a plain fill (padding, for one). Compilers may not
read ahead of a condition, so they vectorize neither as long as it stands inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tensorgen.expr import (
    Apply,
    Axis,
    Expr,
    Select,
    all_of,
    const,
    free_axes,
    select,
    substitute,
)
from tensorgen.loop import If, Stmt, Store
from tensorgen.simplify import simplify
from tensorgen.types import int64

Leaf = Callable[[Store], tuple[Stmt, ...]]
"""Makes the loop over the lanes around a store."""


def lane_choices(lane: Axis, store: Store, leaf: Leaf) -> tuple[Stmt, ...]:
    """A store for every lane, under the conditions that do not depend on the lane."""
    value = store.value
    if isinstance(value, Select):
        shared = [part for part in _conjuncts(value.condition) if lane not in free_axes(part)]
        if shared:
            own = [part for part in _conjuncts(value.condition) if part not in shared]
            chosen = select(all_of(own), value.then, value.otherwise) if own else value.then
            return (
                If(
                    all_of(shared),
                    lane_choices(lane, replace(store, value=chosen), leaf),
                    lane_choices(lane, replace(store, value=value.otherwise), leaf),
                ),
            )
    if lane.extent == 1:
        return (Store(store.buffer, _at_zero(store.index, lane), _at_zero(value, lane)),)
    return leaf(store)


def _at_zero(term: Expr, axis: Axis) -> Expr:
    return simplify(substitute(term, lambda t: const(0, int64) if t == axis else None))


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    match condition:
        case Apply(op=op, args=(left, right)) if op.name == "and":
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield condition
