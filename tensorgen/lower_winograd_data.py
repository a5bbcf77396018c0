"""The data of a convolution under minimal filtering: relaid along the lanes, and transformed."""

from __future__ import annotations

from collections.abc import Mapping

from tensorgen.expr import Axis, Const, Expr, Load, Select, all_of, const, select
from tensorgen.lane_choices import shared_choices
from tensorgen.loop import Allocate, Buffer, LoopKind, Space, Stmt, Store
from tensorgen.lower_loops import pieces, replace_axes
from tensorgen.lower_prologue import prologue_element
from tensorgen.lower_transpose import transposed
from tensorgen.lower_winograd_frame import (
    Block,
    Buffers,
    Counter,
    Frame,
    combination,
    nested_counters,
    vector_loop,
)
from tensorgen.simplify import affine, simplify
from tensorgen.types import int64
from tensorgen.winograd import coordinates


def transform_data(frame: Frame, buffers: Buffers, block: Block) -> tuple[Stmt, ...]:
    """B^T d B for every tile of a block of strips."""
    lanes = frame.schedule.lanes
    window = frame.form.window
    deep = frame.counter("z", window.positions if window else 1)
    row = frame.counter("strip", block.strips)
    group = frame.counter("c_o", -(-frame.channels // lanes))
    inner, outer = frame.grids[1], frame.grids[0]
    tile = frame.counter("tile", inner.count)
    number = (deep * block.strips + row) * inner.count + tile
    lane = frame.counter("lane", lanes)
    columns = frame.numbers.buffer(
        "columns", frame.dtype, outer.points * inner.points * lanes, Space.STACK
    )
    column = frame.counter("column", inner.points)
    position = inner.position(tile, column)
    down: list[Stmt] = []
    for i, weights in enumerate(outer.filter.inputs):
        elements = [
            buffers.strip.at(simplify((position + k * frame.strip_width) * lanes + lane))
            for k in range(outer.points)
        ]
        index = simplify((column + i * inner.points) * lanes + lane)
        down.append(Store(columns, index, combination(weights, elements)))
    line = frame.counter("line", outer.points)
    across: list[Stmt] = []
    for j, weights in enumerate(inner.filter.inputs):
        elements = [
            columns.at(simplify((line * inner.points + k) * lanes + lane))
            for k in range(inner.points)
        ]
        point = line * inner.points + j
        index = simplify(
            (point * frame.transformed_rows + number) * frame.pitch + group * lanes + lane
        )
        across.append(Store(buffers.transformed, index, combination(weights, elements)))
    passes = (*vector_loop(column, lane, down), *vector_loop(line, lane, across))
    tiles = nested_counters((tile,), (Allocate(columns, passes),), LoopKind.SERIAL)
    relaid = _relaid(frame, buffers, block, deep, row, group)
    body = (Allocate(buffers.strip, (*relaid, *tiles)),)
    return nested_counters((deep, row, group), body, frame.shared(False))


def _relaid(
    frame: Frame, buffers: Buffers, block: Block, deep: Counter, row: Counter, group: Counter
) -> tuple[Stmt, ...]:
    """Copy the data of one strip, channels along the lanes, zero where there is none."""
    lanes, form = frame.schedule.lanes, frame.form
    outer, inner = frame.grids
    lane = frame.counter("lane", lanes)
    line = frame.counter("line", outer.points)
    channel = simplify(group * lanes + lane)
    *images, tile = coordinates(simplify(block.first + row), frame.strip_extents)
    values = dict(block.values)
    values.update(zip(() if form.window else form.images, images, strict=True))
    values.update(
        zip(form.channels, coordinates(channel, [a.extent for a in form.channels]), strict=True)
    )
    if form.window:
        values |= {form.window.output: deep, form.window.tap: const(0, int64)}
    height = outer.position(tile, line)
    inside = [channel < frame.channels]
    if outer.window:
        values |= {outer.window.output: height, outer.window.tap: const(0, int64)}
        inside.append(height < outer.positions)
    assert inner.window is not None
    across = frame.numbers.axis("w", frame.strip_width)
    values |= {inner.window.output: across, inner.window.tap: const(0, int64)}
    inside.append(across < inner.positions)
    element = _datum(frame, buffers.inputs, values)
    zero = const(0, frame.dtype)
    if isinstance(element, Select) and element.otherwise == zero:
        inside.append(element.condition)
        element = element.then
    value = simplify(select(all_of(inside), element, zero))
    position = (line * frame.strip_width + across) * lanes + lane
    statements: list[Stmt] = []
    for first, last in pieces(value, across, 1):
        reached = frame.counter("w", last - first)
        place = {across: simplify(reached + first)}
        store = Store(buffers.strip, replace_axes(position, place), replace_axes(value, place))
        statements += _copied(frame, buffers.inputs, store, reached, lane)
    return nested_counters((line,), tuple(statements), LoopKind.ROLLED)


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
            case _:
                chosen = shared_choices(axes[:1], inner, along)
                return nested_counters((lane,), chosen, LoopKind.ROLLED)

    return shared_choices(axes, store, over_both)
