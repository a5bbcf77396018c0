"""Lowering of a transposition to blocks that fit the vector registers.

A block reads a line of the cache of each of its rows, and two where rows begin inside a line: the
second one is the next block's first. Caches tell their sets by the place of a line in its page, so
that rows whole pages apart share one, which has lost these lines before the next block reads them.
Who packs such rows copies them side by side first; where they are lines of an image, which a core
reads ahead of its needs, that does not pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorgen.expr import Axis, Expr, Load, const, substitute
from tensorgen.loop import (
    Allocate,
    Buffer,
    For,
    LoopKind,
    Numbers,
    Space,
    Stmt,
    Store,
    TransposeBlock,
    nested,
)
from tensorgen.lower_loops import Span, replace_axes, spans
from tensorgen.simplify import affine, simplify
from tensorgen.target import LINE_BYTES, PAGE_BYTES
from tensorgen.types import int64

COPIED_BYTES = 16 << 10
"""Rows are copied if they leave room for other things in a first-level cache."""


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows as blocks read them: in `buffer`, at `index` in terms of the axes of rows and columns.
    If they are `copied` there, these loops do."""

    buffer: Buffer
    index: Expr
    copied: For | None = None

    def around(self, blocks: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The blocks, behind the copy that they read."""
        if self.copied is None:
            return blocks
        return (Allocate(self.buffer, (self.copied, *blocks)),)


def side_by_side(
    source: Buffer, index: Expr, row: Axis, column: Axis, numbers: Numbers
) -> RowsRead:
    """All rows and columns copied, if the lines of the rows meet in a set; else where they are."""
    element = source.dtype.bytes
    size = row.extent * column.extent
    apart = affine(index).coefficient(row) * element
    fits = column.extent * element > LINE_BYTES and size * element <= COPIED_BYTES
    if row.extent == 1 or apart % PAGE_BYTES or not fits:
        return RowsRead(source, index)
    buffer = numbers.buffer("side_by_side", source.dtype, size, Space.STACK)
    i, j = numbers.axis(row.name, row.extent), numbers.axis(column.name, column.extent)
    original = source.at(replace_axes(index, {row: i, column: j}))
    store = Store(buffer, simplify(i * column.extent + j), original)
    copied = For(i, (For(j, (store,), LoopKind.SIMD),))
    return RowsRead(buffer, simplify(row * column.extent + column), copied)


def transposed(
    source: Buffer,
    index: Expr,
    target: Buffer,
    place: Expr,
    row: Axis,
    column: Axis,
    lanes: int,
    numbers: Numbers,
    *,
    copies_rows: bool = False,
) -> Iterator[Stmt]:
    """`target[place] = source[index]` for all rows and columns, in blocks of at most `lanes` each.

    A step along the columns is one element of the source, one along the rows one of the target.
    With `copies_rows`, rows whose lines meet in a set of the cache are copied side by side first.
    """
    target_step = affine(place).coefficient(column)
    assert affine(index).coefficient(column) == 1
    assert affine(place).coefficient(row) == 1
    for down in spans(row.extent, lanes):
        first, top = block_start(row, down, numbers)
        line = numbers.axis(row.name, down.length)
        rows = RowsRead(source, replace_axes(index, {row: simplify(top + line)}))
        if copies_rows:
            rows = side_by_side(source, rows.index, line, column, numbers)
        blocks: tuple[Stmt, ...] = ()
        for across in spans(column.extent, lanes):
            second, left = block_start(column, across, numbers)
            j = numbers.axis(column.name, across.length)
            inside: dict[Axis, Expr] = {column: simplify(left + j)}
            element = rows.buffer.at(replace_axes(rows.index, inside))
            here = replace_axes(place, {row: simplify(top + line), **inside})
            block = TransposeBlock(
                target,
                replace_axes(place, {row: top, column: left}),
                target_step,
                rows.buffer,
                replace_axes(rows.index, {line: const(0, int64), column: left}),
                affine(rows.index).coefficient(line),
                down.length,
                across.length,
                lanes,
                # One element after the other: compilers build slow shuffles or gathers.
                (For(j, (For(line, (Store(target, here, element),)),), LoopKind.ROLLED),),
            )
            blocks += nested(second, (block,), LoopKind.SERIAL)
        yield from nested(first, rows.around(blocks), LoopKind.SERIAL)


def stored_across(
    element: Load, tile: Buffer, store: Store, row: Axis, column: Axis, lanes: int, numbers: Numbers
) -> tuple[Stmt, ...]:
    """`store` for every `element` of a tile whose columns are lanes, rows of the result together.

    What the store computes of an element is computed on the transposed tile, where rows are in step
    with the result.
    """
    index = element.indices[0]
    if store.value == element:
        blocks = transposed(tile, index, store.buffer, store.index, row, column, lanes, numbers)
        return tuple(blocks)
    rows = numbers.buffer("rows", tile.dtype, row.extent * column.extent, Space.STACK)
    place = simplify(column * row.extent + row)
    blocks = transposed(tile, index, rows, place, row, column, lanes, numbers)
    value = substitute(store.value, lambda t: rows.at(place) if t == element else None)
    last = Store(store.buffer, store.index, value)
    loop = For(column, (For(row, (last,), LoopKind.SIMD),))
    return (Allocate(rows, (*blocks, loop)),)


def block_start(axis: Axis, span: Span, numbers: Numbers) -> tuple[tuple[Axis, ...], Expr]:
    """The loop over the blocks of a span, if there are several, and where a block begins."""
    if span.blocks == 1:
        return (), const(span.start, int64)
    loop = numbers.axis(f"{axis.name}_o", span.blocks)
    return (loop,), simplify(loop * span.length + span.start)
