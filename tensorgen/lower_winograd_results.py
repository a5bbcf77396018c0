"""The results of a convolution under minimal filtering: products transformed back, and stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from tensorgen.expr import Axis, Expr, Load, all_of, const, free_axes
from tensorgen.loop import Allocate, Buffer, LoopKind, Space, Stmt, Store
from tensorgen.lower_epilogue import along_lanes, epilogue_value
from tensorgen.lower_loops import replace_axes
from tensorgen.lower_transpose import stored_across
from tensorgen.lower_winograd_frame import (
    Block,
    Buffers,
    Chunk,
    Counter,
    Frame,
    nested_counters,
    where,
)
from tensorgen.lower_winograd_transform import transform
from tensorgen.simplify import affine, simplify
from tensorgen.types import int64
from tensorgen.winograd import coordinates


def transform_back(frame: Frame, buffers: Buffers, block: Block, chunk: Chunk) -> tuple[Stmt, ...]:
    """A^T (…) A for the rows of a chunk, through the epilogue into the result."""
    numbers, lanes = frame.numbers, frame.schedule.lanes
    outer, inner = frame.grids
    row = frame.counter("m", chunk.rows)
    vector = frame.counter("vector", frame.schedule.vectors)
    lane = frame.counter("lane", lanes)
    tile = numbers.buffer("tile", frame.dtype, outer.results * inner.results * lanes, Space.STACK)

    def product(line: int, column: int) -> Expr:
        place = (line * inner.points + column) * frame.schedule.chunk + row
        return place * frame.width + vector * lanes

    def made(line: int, column: int) -> Expr:
        return const((line * inner.results + column) * lanes, int64)

    filtered = transform(
        buffers.products, product, tile, made, outer.filter.outputs, inner.filter.outputs, lanes
    )
    feature = simplify((chunk.features * frame.schedule.vectors + vector) * lanes + lane)
    body = (
        filtered,
        *_stored_tile(frame, buffers, block, tile, simplify(chunk.first + row), feature, lane),
    )
    allocated: tuple[Stmt, ...] = (Allocate(tile, body),)
    vectors = nested_counters((vector,), allocated, LoopKind.SERIAL)
    existing = where(frame.has_row(block, chunk, row), vectors)
    return nested_counters((row,), existing, LoopKind.SERIAL)


def _stored_tile(
    frame: Frame,
    buffers: Buffers,
    block: Block,
    tile: Buffer,
    row: Expr,
    feature: Expr,
    lane: Counter,
) -> tuple[Stmt, ...]:
    """The results of one tile and one vector of features, those that exist."""
    form = frame.form
    outer, inner = frame.grids
    line = frame.counter("line", outer.results)
    column = frame.counter("column", inner.results)
    deep = form.window.output.extent if form.window else 1
    z, strip, across = coordinates(row, (deep, block.strips, inner.count), exists=True)
    number = simplify(block.first + strip)
    *images, down = coordinates(number, frame.strip_extents, exists=True)
    values = dict(block.values)
    values.update(zip(() if form.window else form.images, images, strict=True))
    if form.window:
        values[form.window.output] = z
    extents = [axis.extent for axis in form.features]
    values.update(zip(form.features, coordinates(feature, extents, exists=True), strict=True))
    conditions: list[Expr] = [feature < frame.features]
    for grid, number, part in ((outer, down, line), (inner, across, column)):
        if grid.window:
            place = grid.result(number, part)
            values[grid.window.output] = place
            conditions.append(place < grid.extent)
    element = tile.at(simplify((line * inner.results + column) * frame.schedule.lanes + lane))
    index = replace_axes(frame.contraction.result, values)
    value = epilogue_value(frame.contraction, buffers.inputs, buffers.output, values, element)
    before: Expr = element
    if isinstance(lane, Axis) and frame.features % frame.width == 0:
        fixed = [axis for axis in (line, column) if isinstance(axis, Axis)]
        before, value = along_lanes(value, element, lane, fixed)
    first: tuple[Stmt, ...] = ()
    if before != element:
        lanes = nested_counters((lane,), (Store(tile, element.indices[0], before),), LoopKind.SIMD)
        first = nested_counters((line, column), lanes, LoopKind.SERIAL)
    store = Store(buffers.output, index, value)
    stores = _stores(frame, tile, element, store, all_of(conditions), (line, column, lane))
    return (*first, *stores)


def _stores(
    frame: Frame,
    tile: Buffer,
    element: Load,
    store: Store,
    condition: Expr,
    axes: tuple[Counter, Counter, Counter],
) -> tuple[Stmt, ...]:
    """`store` for every element of a tile that meets the condition.

    `axes` are the tile's lines, columns and lanes. Where neighbouring columns are neighbours in the
    result, tiles that lie inside it are transposed in registers.
    """
    line, column, lane = axes
    exists = simplify(condition)
    statements = where(exists, (store,))
    place = affine(store.index)
    contiguous = place.coefficient(lane) == 1
    if contiguous and isinstance(lane, Axis) and lane not in free_axes(exists):
        vectors = nested_counters((lane,), (store,), LoopKind.SIMD)
        return nested_counters((line, column), where(exists, vectors), LoopKind.SERIAL)
    if not (
        frame.schedule.turned
        and isinstance(lane, Axis)
        and isinstance(column, Axis)
        and not contiguous
        and place.coefficient(column) == 1
    ):
        order = axes if contiguous else (lane, line, column)
        return nested_counters(order, statements, LoopKind.ROLLED)
    _, inner = frame.grids
    result = nested_counters((lane, column), statements, LoopKind.ROLLED)
    # Tiles at the right edge have fewer columns, and the last vector may have fewer features. Where
    # taps are apart, so are the columns of a tile, and edges differ.
    cut = inner.extent if inner.phases == 1 else column.extent
    for columns, lanes in product(
        _lengths(cut, column.extent), _lengths(frame.features, lane.extent)
    ):
        parts = {
            column: frame.numbers.axis(column.name, columns),
            lane: frame.numbers.axis(lane.name, lanes),
        }
        read, written = replace_axes(element, parts), _replaced(store, parts)
        assert isinstance(read, Load)
        turned = stored_across(
            read, tile, written, parts[column], parts[lane], frame.schedule.lanes, frame.numbers
        )
        last = {axis: const(part.extent - 1, int64) for axis, part in parts.items()}
        inside = replace_axes(condition, last)
        result = where(inside, tuple(turned), result)
    return nested_counters((line,), result, LoopKind.SERIAL)


def _lengths(extent: int, length: int) -> tuple[int, ...]:
    """How long the pieces of an extent are, ascending; one element is not worth a transposition."""
    rest = extent % length
    return (rest, length) if rest > 1 else (length,)


def _replaced(store: Store, values: Mapping[Axis, Axis]) -> Store:
    """The store at other values of some axes."""
    return replace(
        store,
        index=replace_axes(store.index, values),
        value=replace_axes(store.value, values),
    )
