"""The data of a convolution under minimal filtering: relaid along the lanes, and transformed."""

from __future__ import annotations

from collections.abc import Mapping

from tensorgen.conditions import conjuncts
from tensorgen.expr import Axis, Const, Expr, Load, Select, all_of, const, select
from tensorgen.lane_choices import shared_choices
from tensorgen.loop import Allocate, Buffer, LoopKind, Stmt, Store
from tensorgen.lower_loops import pieces, replace_axes
from tensorgen.lower_prologue import prologue_element
from tensorgen.lower_transpose import transposed
from tensorgen.lower_winograd_frame import (
    Block,
    Buffers,
    Counter,
    Frame,
    nested_counters,
    where,
)
from tensorgen.lower_winograd_transform import transform
from tensorgen.moving_edges import moving_run
from tensorgen.simplify import affine, simplify
from tensorgen.types import int64
from tensorgen.winograd import FilterGrid, Parts, coordinates


def transform_data(frame: Frame, buffers: Buffers, block: Block) -> tuple[Stmt, ...]:
    """B^T d B for every tile of a block of strips, and each pair of parts."""
    lanes = frame.schedule.lanes
    window = frame.form.window
    deep = frame.counter("z", window.positions if window else 1)
    row = frame.counter("strip", block.strips)
    group = frame.counter("c_o", frame.channel_places // lanes)
    outer, inner = frame.grids
    tile = frame.counter("tile", inner.count)
    slot = window.slot(deep) if window else deep
    number = (slot * block.strips + row) * inner.count + tile
    transformed: list[Stmt] = []
    for down in _parts(frame, outer):
        for across in _parts(frame, inner):
            transformed += _transformed(frame, buffers, down, across, tile, group, number)
    folded = frame.schedule.folded
    relaid = _relaid(frame, buffers, block, deep, row, const(0, int64) if folded else group)
    counters = (tile, group) if folded else (tile,)
    tiles = nested_counters(counters, tuple(transformed), LoopKind.SERIAL)
    body = where(frame.has_strip(block, row), (Allocate(buffers.strip, (*relaid, *tiles)),))
    strips = (deep, row) if folded else (deep, row, group)
    return nested_counters(strips, body, frame.shared(False))


def _parts(frame: Frame, grid: FilterGrid) -> tuple[Parts, ...]:
    """The parts of an axis by loops; those along the lanes are one."""
    return (Parts(0, 1, grid.points),) if frame.schedule.folded else grid.parts


def _transformed(
    frame: Frame, buffers: Buffers, down: Parts, across: Parts, tile: Counter,
    group: Counter, number: Expr,
) -> tuple[Stmt, ...]:  # fmt: skip
    """One tile of the strip, for pairs of parts that have the same points."""
    lanes = frame.schedule.lanes
    outer, inner = frame.grids
    below, beside = frame.counter("p", down.count), frame.counter("q", across.count)
    first, second = simplify(below + down.first), simplify(beside + across.first)
    start = (second * frame.loops[0] + first) * frame.channel_places

    def element(line: int, column: int) -> Expr:
        position = inner.element(tile, inner.in_part(second, column))
        place = frame.strip_index(outer.in_part(first, line), position)
        return place + group * lanes if frame.schedule.folded else place

    def at_point(line: int, column: int) -> Expr:
        place = (line * inner.points + column) * frame.transformed_rows + number
        return place * frame.pitch + start + group * lanes

    made = transform(
        buffers.strip,
        element,
        buffers.transformed,
        at_point,
        down.inputs(outer.filter),
        across.inputs(inner.filter),
        lanes,
    )
    return nested_counters((below, beside), (made,), LoopKind.SERIAL)


def _relaid(
    frame: Frame, buffers: Buffers, block: Block, deep: Counter, row: Counter, group: Counter
) -> tuple[Stmt, ...]:
    """Copy the data of one strip, channels along the lanes, zero where there is none."""
    form, folded = frame.form, frame.schedule.folded
    lanes = frame.channels if folded else frame.schedule.lanes
    outer, inner = frame.grids
    lane = frame.counter("lane", lanes)
    line = frame.counter("line", frame.strip_lines)
    channel = simplify(group * lanes + lane)
    number = simplify(block.first + row)
    *images, tile = coordinates(number, frame.strip_extents, exists=True)
    values = dict(block.values)
    values.update(zip(() if form.window else form.images, images, strict=True))
    values.update(
        zip(form.channels, coordinates(channel, [a.extent for a in form.channels]), strict=True)
    )
    if form.window:
        values |= form.window.at(deep)
    height = outer.element(tile, line)
    inside = [channel < frame.channels]
    if outer.window:
        values |= outer.window.at(height)
        inside.append(height < outer.positions)
    assert inner.window is not None
    across = frame.numbers.axis("w", frame.strip_width)
    values |= inner.window.at(across)
    inside.append(across < inner.positions)
    element = _datum(frame, buffers.inputs, values)
    zero = const(0, frame.dtype)
    if isinstance(element, Select) and element.otherwise == zero:
        inside.append(element.condition)
        element = element.then
    position = frame.strip_index(line, across) + lane
    statements: list[Stmt] = []

    def copy(value: Expr, first: Expr, length: int) -> None:
        reached = frame.counter("w", length)
        place = {across: simplify(reached + first)}
        store = Store(buffers.strip, replace_axes(position, place), replace_axes(value, place))
        statements.extend(_copied(frame, buffers.inputs, store, reached, lane))

    run = moving_run(conjuncts(simplify(all_of(inside))), across)
    if run is None:
        value = simplify(select(all_of(inside), element, zero))
        for first, last in pieces(value, across, 1):
            copy(value, const(first, int64), last - first)
    else:
        # Zeros wherever the run does not always lie, and then the run.
        low, high = run.firsts
        for first, last in ((0, high), (low + run.length, across.extent)):
            if first < last:
                copy(zero, const(first, int64), last - first)
        value = simplify(select(all_of(run.others), element, zero))
        copy(value, run.first.expr, run.length)
    return (
        *nested_counters((line,), tuple(statements), LoopKind.ROLLED),
        *_filled_beyond(frame, buffers),
    )


def _filled_beyond(frame: Frame, buffers: Buffers) -> tuple[Stmt, ...]:
    """Zeros where the last vector of a strip reaches beyond it."""
    if not frame.schedule.folded or not frame.beyond:
        return ()
    lane = frame.counter("lane", frame.beyond)
    place = simplify(lane + (frame.strip_size - frame.beyond))
    store = Store(buffers.strip, place, const(0, frame.dtype))
    return nested_counters((lane,), (store,), LoopKind.SIMD)


def _datum(frame: Frame, inputs: tuple[Buffer, ...], values: Mapping[Axis, Expr]) -> Expr:
    """What the data is at a point of the contraction's axes; a prologue is computed there."""
    contraction, data = frame.contraction, frame.form.data
    if contraction.prologue is not None:
        return prologue_element(contraction.prologue, inputs, values)
    index = replace_axes(contraction.factors[data].expr, values)
    return inputs[contraction.operands[data]].at(index)


def _copied(
    frame: Frame, inputs: tuple[Buffer, ...], store: Store, reached: Counter, lane: Counter
) -> tuple[Stmt, ...]:
    """Loops that store, under the conditions that they do not change."""
    axes = tuple(axis for axis in (reached, lane) if isinstance(axis, Axis))

    def along(inner: Store) -> tuple[Stmt, ...]:
        return nested_counters((reached,), (inner,), LoopKind.ROLLED)

    def over_both(inner: Store) -> tuple[Stmt, ...]:
        match inner.value:
            case Const():
                filled = nested_counters((lane,), (inner,), LoopKind.SIMD)
                return nested_counters((reached,), filled, LoopKind.SERIAL)
            case Load(operand=number, indices=(index,)) if (
                frame.schedule.turned
                and isinstance(reached, Axis)
                and isinstance(lane, Axis)
                and affine(index).coefficient(reached) == 1
            ):
                (source,) = (buffer for buffer in inputs if buffer.number == number)
                lanes, target = frame.schedule.lanes, inner.buffer
                blocks = transposed(
                    source, index, target, inner.index, lane, reached, lanes, frame.numbers
                )
                return tuple(blocks)
            case Load(indices=(index,)) if (
                isinstance(lane, Axis) and affine(index).coefficient(lane) == 1
            ):
                vectors = nested_counters((lane,), (inner,), LoopKind.SIMD)
                return nested_counters((reached,), vectors, LoopKind.SERIAL)
            case Select(then=Load(indices=(index,))) if (
                isinstance(lane, Axis) and affine(index).coefficient(lane) == 1
            ):
                return nested_counters((reached, lane), (inner,), LoopKind.ROLLED)
            case _:
                chosen = shared_choices(axes[:1], inner, along)
                return nested_counters((lane,), chosen, LoopKind.ROLLED)

    return shared_choices(axes, store, over_both)
