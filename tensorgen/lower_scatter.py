"""Lowering of scattered stages: a copy, then the updates in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorgen.expr import (
    Axis,
    Expr,
    all_of,
    apply,
    cast,
    const,
    free_axes,
    maximum,
    minimum,
)
from tensorgen.flat import FlatStage
from tensorgen.loop import (
    Allocate,
    Buffer,
    If,
    LoopKind,
    Numbers,
    Space,
    Stmt,
    Store,
    nested,
)
from tensorgen.lower_loops import replace_axes
from tensorgen.scatter import Place, Scatter, scatter
from tensorgen.schedule import Loops, ScheduleError
from tensorgen.types import int64

_FIRST = const(0, int64)


def lower_scatter(
    stage: FlatStage, output: Buffer, schedule: Loops, numbers: Numbers
) -> tuple[Stmt, ...]:
    """Statements that compute the stage into `output`; its loads already name buffers.

    Axes outside those of the places come first, and threads share them: what one iteration writes
    no other one does.
    """
    found = scatter(stage.axes, stage.body)
    if found is None:
        raise ScheduleError(f"scatter: expected updates where data says, got {stage.body}")
    if any(axis.extent == 0 for axis in stage.axes):
        return ()
    depth = stage.axes.index(found.axis)
    values, loops = _loops(stage.axes[:depth], numbers)
    body = (
        *_copied(stage, found, output, values, depth, numbers),
        *_updated(stage, found, output, values, depth, numbers),
    )
    shared = min(schedule.parallel, depth)
    rest = nested(loops[shared:], body, LoopKind.SERIAL)
    return nested(loops[:shared], rest, LoopKind.PARALLEL)


def _loops(axes: Sequence[Axis], numbers: Numbers) -> tuple[dict[Axis, Expr], tuple[Axis, ...]]:
    loops = tuple(numbers.axis(axis.name, axis.extent) for axis in axes)
    return dict(zip(axes, loops, strict=True)), loops


def _in_lanes(loops: tuple[Axis, ...], store: Store) -> tuple[Stmt, ...]:
    """Loops around a store whose iterations do not depend on each other."""
    return nested(loops[:-1], nested(loops[-1:], (store,), LoopKind.SIMD), LoopKind.SERIAL)


def _copied(
    stage: FlatStage,
    found: Scatter,
    output: Buffer,
    values: Mapping[Axis, Expr],
    depth: int,
    numbers: Numbers,
) -> tuple[Stmt, ...]:
    """The result without any update, at all axes from `depth`."""
    own, loops = _loops(stage.axes[depth:], numbers)
    at = {**values, **own}
    current = cast(replace_axes(found.current, at), output.dtype)
    return _in_lanes(loops, Store(output, replace_axes(stage.index, at), current))


def _updated(
    stage: FlatStage,
    found: Scatter,
    output: Buffer,
    values: Mapping[Axis, Expr],
    depth: int,
    numbers: Numbers,
) -> tuple[Stmt, ...]:
    """All updates, one after the other."""
    steps, updates = _loops(found.updates, numbers)
    places = {step.axis for step in found.conditions if isinstance(step, Place)}
    beside = [axis for axis in stage.axes[depth:] if axis not in places]
    own, loops = _loops(beside, numbers)
    at = {**values, **steps, **own}
    targets = {
        axis: numbers.buffer(f"{axis.name}_place", int64, 1, Space.SCALAR)
        for axis in stage.axes
        if axis in places
    }
    written = dict(at)
    for axis, target in targets.items():
        # Conditions have made sure of the range; the printer does not know.
        written[axis] = minimum(maximum(target.at(_FIRST), 0), axis.extent - 1)
    index, value = replace_axes(stage.index, written), replace_axes(found.value, at)
    if found.fold is not None:
        value = apply(found.fold.value, output.at(index), value)
    store = Store(output, index, cast(value, output.dtype))
    asked = [step.position if isinstance(step, Place) else step for step in found.conditions]
    # One place for all elements beside each other, or one for each.
    same = not any(free_axes(term) & set(beside) for term in asked)
    body: tuple[Stmt, ...] = _in_lanes(loops, store) if same else (store,)
    for step in reversed(found.conditions):
        if isinstance(step, Place):
            target = targets[step.axis]
            reached = target.at(_FIRST)
            inside = all_of([const(0, int64) <= reached, reached < step.axis.extent])
            place = Store(target, _FIRST, replace_axes(step.position, at))
            body = (Allocate(target, (place, If(inside, body))),)
        else:
            body = (If(replace_axes(step, at), body),)
    return nested((*updates, *(() if same else loops)), body, LoopKind.SERIAL)
