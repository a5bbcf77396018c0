"""Choices that are the same for all lanes, made once before the loop over the lanes.

What it does: takes the part of a choice's condition that does not depend on the lane out of the
loop, so that what remains is a plain copy or a plain fill (padding, for one). Compilers may not
read ahead of a condition, so they vectorize neither as long as it stands inside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from tensorgen.conditions import conjuncts
from tensorgen.expr import (
    Axis,
    Expr,
    Select,
    all_of,
    const,
    free_axes,
    select,
)
from tensorgen.loop import If, Stmt, Store
from tensorgen.simplify import simplify
from tensorgen.types import int64

Leaf = Callable[[Store], tuple[Stmt, ...]]
"""Makes the loop over the lanes around a store."""


def lane_choices(lane: Axis, store: Store, leaf: Leaf) -> tuple[Stmt, ...]:
    """A store for every lane, under the conditions that do not depend on the lane."""

    def over_lanes(inner: Store) -> tuple[Stmt, ...]:
        if lane.extent > 1:
            return leaf(inner)
        return (Store(inner.buffer, _at_zero(inner.index, lane), _at_zero(inner.value, lane)),)

    return shared_choices((lane,), store, over_lanes)


def shared_choices(axes: Collection[Axis], store: Store, leaf: Leaf) -> tuple[Stmt, ...]:
    """What `leaf` makes of a store, under the conditions that depend on none of the axes."""
    value = store.value
    if isinstance(value, Select):
        parts = conjuncts(value.condition)
        shared = [part for part in parts if free_axes(part).isdisjoint(axes)]
        if shared:
            own = [part for part in parts if part not in shared]
            chosen = select(all_of(own), value.then, value.otherwise) if own else value.then
            return (
                If(
                    all_of(shared),
                    shared_choices(axes, replace(store, value=chosen), leaf),
                    shared_choices(axes, replace(store, value=value.otherwise), leaf),
                ),
            )
    return leaf(store)


def _at_zero(term: Expr, axis: Axis) -> Expr:
    return simplify(term, {axis: const(0, int64)})
