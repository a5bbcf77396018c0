"""Lowering of a prologue: slab by slab in front of its reader, or element by element inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorgen.expr import Axis, Expr, Load, map_children
from tensorgen.flat import FlatStage, flat_index, merge_axes
from tensorgen.loop import Buffer, Numbers, Stmt
from tensorgen.lower_loops import StageLowering, replace_axes
from tensorgen.prologue import Prologue, Slab
from tensorgen.schedule import Lanes, Loops
from tensorgen.simplify import simplify

CHUNK = 2048
"""Length of the pieces that a one-dimensional copy is cut into for the threads, in elements."""


def slab_loops(
    slab: Slab,
    inputs: Sequence[Buffer],
    target: Buffer,
    values: Mapping[Axis, Expr],
    numbers: Numbers,
    *,
    parallel: bool,
) -> tuple[Stmt, ...]:
    """Statements that make a slab in `target`; `values` are those of the axes that stand still."""
    stage = slab.prologue.stage
    axes = tuple(
        Axis(axis.position, extent, axis.name)
        for axis, extent in zip(stage.axes, slab.shape, strict=True)
    )
    places: dict[Axis, Expr] = {
        old: simplify(new + replace_axes(origin.expr, values))
        for old, new, origin in zip(stage.axes, axes, slab.origin, strict=True)
    }
    flat = merge_axes(
        FlatStage(
            tuple(axis for axis in axes if axis.extent != 1),
            flat_index(axes, slab.shape),
            _over_buffers(replace_axes(stage.body, places), inputs),
        )
    )
    shared = max(len(flat.axes) - 1, 1) if parallel else 0
    loops = Loops(Lanes.OUTPUT, CHUNK, 0, shared)
    return StageLowering(numbers, loops).lower(flat, target, shared)


def prologue_element(
    prologue: Prologue, inputs: Sequence[Buffer], values: Mapping[Axis, Expr]
) -> Expr:
    """What the factor reads at a point of the contraction's axes, computed where it is read."""
    places = {
        axis: replace_axes(index.expr, values)
        for axis, index in zip(prologue.stage.axes, prologue.indices, strict=True)
    }
    return _over_buffers(replace_axes(prologue.stage.body, places), inputs)


def _over_buffers(value: Expr, inputs: Sequence[Buffer]) -> Expr:
    """The value with its loads from the kernel's buffers."""

    def localise(term: Expr) -> Expr:
        inner = map_children(term, localise)
        if isinstance(inner, Load):
            return inputs[inner.operand].at(flat_index(inner.indices, inner.type.shape))
        return inner

    return localise(value)
