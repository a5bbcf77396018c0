"""Lane loops in which neighbours read the same element, as where an image is enlarged.

A read at `lane / 2` is no read of a vector: compilers gather it, one element after the other. The
same loop over pairs of lanes reads a vector in order and stores each element twice, which they do
with a shuffle (thirteen times as fast with 8 lanes, seven times with 16).
"""

from __future__ import annotations

from dataclasses import replace

from tensorgen.expr import Apply, Axis, Const, Expr, free_axes, walk
from tensorgen.loop import For, LoopKind, Numbers, Stmt, Store
from tensorgen.simplify import simplify

MOST_REPEATS = 4
"""Strides of stores that compilers make shuffles for."""


def lane_repeats(lane: Axis, store: Store, numbers: Numbers) -> Stmt:
    """The loop over `lane` around `store`, over groups of lanes that read the same elements."""
    match _divisors(store.value, lane):
        case (Const(value=int(times)),) if 1 < times <= MOST_REPEATS and lane.extent % times == 0:
            group = numbers.axis(lane.name, lane.extent // times)
            stores = tuple(_at(store, lane, group * times + place) for place in range(times))
            if not any(_divisors(part.value, group) for part in stores):
                return For(group, stores, LoopKind.SIMD)
        case _:
            pass
    return For(lane, (store,), LoopKind.SIMD)


def _divisors(value: Expr, lane: Axis) -> tuple[Expr, ...]:
    """What terms of the lane are divided by, as integers."""
    return tuple(
        dict.fromkeys(
            term.args[1]
            for term in walk(value)
            if isinstance(term, Apply)
            and term.op.name in ("floordiv", "mod")
            and lane in free_axes(term.args[0])
        )
    )


def _at(store: Store, lane: Axis, place: Expr) -> Store:
    """The store at a place along the lanes."""

    def moved(term: Expr) -> Expr:
        return simplify(term, {lane: place})

    return replace(store, index=moved(store.index), value=moved(store.value))
