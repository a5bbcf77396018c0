"""Reads across the lanes: transpositions, alone or with arithmetic around them.

What it does: finds the reads of a stage that move far along the innermost axis of the result and
one element at a time along another. What it does not: make loops (`lower_crossing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorgen.expr import Axis, Expr, Load, Reduce, Select, children, free_axes, walk
from tensorgen.simplify import affine

LEAST_SIDE = 4
"""Axes shorter than this make no blocks worth the name."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """`loads` go over neighbours in memory along `axis`, and not along the lanes."""

    axis: Axis
    loads: tuple[Load, ...]


def crossing(axes: Sequence[Axis], body: Expr) -> Crossing | None:
    """What a stage over `axes`, with flat loads, reads across its lanes; None if nothing.

    Where reads run along several axes, those along the one that most of them do. Reads that depend
    on a condition are none of them: there may be nothing to read where it does not hold.
    """
    if len(axes) < 2 or any(isinstance(term, Reduce) for term in walk(body)):
        return None
    *outer, lanes = axes
    found: dict[Axis, list[Load]] = {}
    for load in dict.fromkeys(_unconditional(body)):
        form = affine(load.indices[0])
        atoms = [atom for atom, _ in form.terms if not isinstance(atom, Axis)]
        if form.coefficient(lanes) in (0, 1) or any(lanes in free_axes(atom) for atom in atoms):
            continue
        for axis in outer:
            plain = not any(axis in free_axes(atom) for atom in atoms)
            if form.coefficient(axis) == 1 and plain and axis.extent >= LEAST_SIDE:
                found.setdefault(axis, []).append(load)
    if lanes.extent < LEAST_SIDE or not found:
        return None
    axis = max(found, key=lambda a: (len(found[a]), outer.index(a)))
    return Crossing(axis, tuple(found[axis]))


def _unconditional(term: Expr) -> Iterator[Load]:
    """The loads in a term that are made whatever its conditions say."""
    match term:
        case Load():
            yield term
        case Select():
            yield from _unconditional(term.condition)
        case _:
            for part in children(term):
                yield from _unconditional(part)
