"""Lowering of a transposition to blocks that fit the vector registers."""

from __future__ import annotations

from collections.abc import Iterator

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
from tensorgen.types import int64


def transposed(
    source: Buffer,
    index: Expr,
    target: Buffer,
    place: Expr,
    row: Axis,
    column: Axis,
    lanes: int,
    numbers: Numbers,
) -> Iterator[Stmt]:
    """`target[place] = source[index]` for all rows and columns, in blocks of at most `lanes` each.

    A step along the columns is one element of the source, one along the rows one of the target.
    """
    step, target_step = affine(index).coefficient(row), affine(place).coefficient(column)
    assert affine(index).coefficient(column) == 1
    assert affine(place).coefficient(row) == 1
    for down in spans(row.extent, lanes):
        for across in spans(column.extent, lanes):
            first, top = block_start(row, down, numbers)
            second, left = block_start(column, across, numbers)
            corner: dict[Axis, Expr] = {row: top, column: left}
            i, j = numbers.axis(row.name, down.length), numbers.axis(column.name, across.length)
            inside: dict[Axis, Expr] = {row: simplify(top + i), column: simplify(left + j)}
            element = source.at(replace_axes(index, inside))
            store = Store(target, replace_axes(place, inside), element)
            block = TransposeBlock(
                target,
                replace_axes(place, corner),
                target_step,
                source,
                replace_axes(index, corner),
                step,
                down.length,
                across.length,
                lanes,
                # One element after the other: compilers build slow shuffles or gathers.
                (For(j, (For(i, (store,)),), LoopKind.ROLLED),),
            )
            yield from nested((*first, *second), (block,), LoopKind.SERIAL)


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
