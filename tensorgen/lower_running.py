"""Lowering of running folds: one pass along the axis, the total carried from element to element."""

from __future__ import annotations

from tensorgen.expr import Axis, Expr, apply, const, neutral_element, substitute
from tensorgen.flat import FlatStage
from tensorgen.loop import Allocate, Buffer, For, LoopKind, Numbers, Space, Stmt, Store, nested
from tensorgen.lower_loops import Span, replace_axes, spans
from tensorgen.running import RunningFold, running_fold
from tensorgen.schedule import Loops, ScheduleError
from tensorgen.types import int64


def lower_running(
    stage: FlatStage, output: Buffer, schedule: Loops, numbers: Numbers
) -> tuple[Stmt, ...]:
    """Statements that compute the stage into `output`; its loads already name buffers.

    Where the axis is not the innermost one, `schedule.tile` totals are carried at once, one for
    each lane. The order of each fold is that of the positions.
    """
    fold = running_fold(stage.axes, stage.body)
    if fold is None:
        raise ScheduleError(f"running: expected a fold of all earlier elements, got {stage.body}")
    if any(axis.extent == 0 for axis in stage.axes):
        return ()
    place = stage.axes.index(fold.axis)
    outer, inner = stage.axes[:place], stage.axes[place + 1 :]
    loops = tuple(numbers.axis(axis.name, axis.extent) for axis in (*outer, *inner[:-1]))
    values: dict[Axis, Expr] = dict(zip((*outer, *inner[:-1]), loops, strict=True))
    body: list[Stmt] = []
    if inner:
        lanes = inner[-1]
        for span in spans(lanes.extent, min(schedule.tile, lanes.extent)):
            lane = numbers.axis(f"{lanes.name}_i" if span.blocks > 1 else lanes.name, span.length)
            blocks, first = _block(lanes, span, numbers)
            statements = _pass(stage, fold, output, {**values, lanes: first + lane}, lane, numbers)
            body += nested(blocks, statements, LoopKind.SERIAL)
    else:
        body += _pass(stage, fold, output, values, None, numbers)
    shared = min(schedule.parallel, len(outer))
    rest = nested(loops[shared:], tuple(body), LoopKind.SERIAL)
    return nested(loops[:shared], rest, LoopKind.PARALLEL)


def _block(axis: Axis, span: Span, numbers: Numbers) -> tuple[tuple[Axis, ...], Expr]:
    """The loop over the blocks of a span, if there are several, and where a block begins."""
    if span.blocks == 1:
        return (), const(span.start, int64)
    loop = numbers.axis(f"{axis.name}_o", span.blocks)
    return (loop,), loop * span.length + span.start


def _pass(
    stage: FlatStage,
    fold: RunningFold,
    output: Buffer,
    values: dict[Axis, Expr],
    lane: Axis | None,
    numbers: Numbers,
) -> tuple[Stmt, ...]:
    """One pass along the axis, the other axes having their values; all lanes in step."""
    count = fold.axis.extent
    space = Space.SCALAR if lane is None else Space.STACK
    totals = numbers.buffer("total", fold.total.dtype, lane.extent if lane else 1, space)
    total = totals.at(const(0, int64) if lane is None else lane)
    (folded,) = fold.total.axes

    def at(step: Expr) -> Expr:
        return count - 1 - step if fold.reverse else step

    def each_lane(store: Store) -> Stmt:
        return store if lane is None else For(lane, (store,), LoopKind.SIMD)

    def added(step: Expr) -> Stmt:
        element = replace_axes(fold.element, {**values, folded: at(step)})
        value = apply(fold.total.fold.value, total, element)
        return each_lane(Store(totals, total.indices[0], value))

    def stored(step: Expr) -> Stmt:
        body = substitute(stage.body, lambda term: total if term == fold.total else None)
        place = {**values, fold.axis: at(step)}
        return each_lane(Store(output, replace_axes(stage.index, place), replace_axes(body, place)))

    start = neutral_element(fold.total.fold, fold.total.dtype)
    steps: list[Stmt] = [each_lane(Store(totals, total.indices[0], start))]
    # What an exclusive fold would add at the last position is never asked for: it may not exist.
    turns = count - 1 if fold.exclusive else count
    if turns:
        step = numbers.axis(fold.axis.name, turns)
        both = (stored(step), added(step)) if fold.exclusive else (added(step), stored(step))
        steps.append(For(step, both))
    if fold.exclusive:
        steps.append(stored(const(count - 1, int64)))
    return (Allocate(totals, tuple(steps)),)
