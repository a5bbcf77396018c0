"""What prologues cost: the ways to make one in front of tiles, in cycles.

What it does not: choose among them (`sketch_tiles`), or make them (`lower_prologue`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tensorgen.contraction import Roles
from tensorgen.machine import Core
from tensorgen.prologue import Prologue, Slab
from tensorgen.shares import busiest_share

COPY, FAR_COPY = 0.35, 0.7
"""Cycles to make one element of a prologue in the second-level cache, and beyond it."""

PRIVATE_COPY = 0.4
"""Cycles more for each element where several threads run and each makes its own."""

EXPOSED = 2 / 3
"""The share of the time in which weights arrive from beyond the second-level cache that no
arithmetic covers."""


def prologue_costs(
    roles: Roles, vectors_outer: bool, core: Core, threads: int, turned: bool
) -> Iterator[tuple[int, float, float]]:
    """The ways to make a prologue: inside how many loops, the cycles that it takes the busiest
    thread, and the share of the tiles that this thread has then. It may be `turned` by that."""
    contraction = roles.contraction
    prologue = contraction.prologue
    if prologue is None:
        yield 0, 0.0, 1.0
        return
    element = contraction.dtype.bytes
    weights = factor_bytes(roles, 1 - prologue.factor)
    moving = prologue.moved_by(roles.outer)
    for inside in range(len(moving) + 1):
        fixed = moving[:inside]
        size = Slab.of(prologue, fixed).size
        units = prod(axis.extent for axis in fixed)
        share = busiest_share(units, threads)
        near = size * element <= core.second_cache
        each = (COPY if near else FAR_COPY) + (core.dialect.turned_copy if turned else 0.0)
        if threads > 1 and not inside:
            crossing = 0.0
            if not _reads_its_own(prologue, roles, vectors_outer):
                crossing = core.crossing_cycles(size * element, threads)
            yield inside, size * each / threads + crossing + core.barrier, 1.0
            continue
        each += PRIVATE_COPY if threads > 1 else 0.0
        far = (units - 1) * core.far_cycles(weights) if core.passes_by(weights) else 0.0
        yield inside, (size * units * each + EXPOSED * far) * share, share


def _reads_its_own(prologue: Prologue, roles: Roles, vectors_outer: bool) -> bool:
    """Whether threads that share a prologue and then the tiles read about what they have made: the
    outermost loop over tiles goes through it in its order."""
    loops = (*roles.batch, *(roles.vectors if vectors_outer else roles.rows))
    outermost = next((axis for axis in loops if axis.extent > 1), None)
    return outermost is not None and prologue.parted_by(outermost)


def factor_bytes(roles: Roles, factor: int) -> int:
    """Bytes of all elements of a factor that the contraction reads. Where the steps of a window are
    guarded, they stay within those that the axes of the result lead to."""
    contraction = roles.contraction
    index = contraction.factors[factor]
    guarded = {axis for guard in contraction.guards for axis, _ in guard.terms}
    moving = [axis for axis in (*contraction.axes, *roles.reduction) if index.coefficient(axis)]
    if guarded.intersection(moving, contraction.axes):
        moving = [axis for axis in moving if axis not in guarded.intersection(roles.reduction)]
    return contraction.dtype.bytes * prod(axis.extent for axis in moving)
