"""Lowering of a prologue: slab by slab in front of its reader, or element by element inside it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tensorgen.contraction import SPLIT_BASE, split_axes
from tensorgen.expr import Axis, Expr, Load, const, map_children
from tensorgen.flat import FlatStage, flat_index, index_terms, merge_axes
from tensorgen.lane_choices import shared_choices
from tensorgen.loop import (
    Allocate,
    Buffer,
    For,
    LoopKind,
    Numbers,
    Space,
    Stmt,
    Store,
    nested,
)
from tensorgen.lower_loops import StageLowering, pieces, replace_axes, spans
from tensorgen.lower_transpose import transposed
from tensorgen.prologue import Prologue, Slab
from tensorgen.schedule import Lanes, Loops
from tensorgen.simplify import affine, simplify
from tensorgen.types import int64

CHUNK = 2048
"""Length of the pieces that a one-dimensional copy is cut into for the threads, in elements."""


def slab_loops(
    slab: Slab,
    inputs: Sequence[Buffer],
    target: Buffer,
    values: Mapping[Axis, Expr],
    numbers: Numbers,
    *,
    lanes: int,
    parallel: bool,
) -> tuple[Stmt, ...]:
    """Statements that make a slab in `target`; `values` are those of the axes that stand still.
    Where neighbours in the slab are none in the stage, blocks of `lanes` are transposed."""
    stage = slab.prologue.stage
    axes = tuple(
        Axis(axis.position, extent, axis.name)
        for axis, extent in zip(stage.axes, slab.shape, strict=True)
    )
    places: dict[Axis, Expr] = {
        old: simplify(new + replace_axes(origin.expr, values))
        for old, new, origin in zip(stage.axes, axes, slab.origin, strict=True)
    }
    value = _over_buffers(replace_axes(stage.body, places), inputs)
    place = _place(axes, slab.strides)
    split, parts = split_axes(tuple(index_terms(value)), axes, itertools.count(SPLIT_BASE))
    value, place = simplify(value, parts), simplify(place, parts)
    flat = FlatStage(tuple(axis for axis in split if axis.extent != 1), place, value)
    if slab.turned is not None:
        turned = TurnedSlab(flat, axes[slab.turned], inputs, target, numbers, lanes)
        return turned.in_blocks().loops(parallel=parallel)
    flat = merge_axes(flat)
    shared = max(len(flat.axes) - 1, 1) if parallel else 0
    loops = Loops(Lanes.OUTPUT, CHUNK, 0, shared)
    return StageLowering(numbers, loops).lower(flat, target, shared)


def _place(axes: Sequence[Axis], strides: Sequence[int]) -> Expr:
    """The place of an element whose steps along the axes are so far apart."""
    total: Expr = const(0, int64)
    for axis, stride in zip(axes, strides, strict=True):
        total = total + axis * stride
    return simplify(total)


@dataclass(frozen=True, slots=True)
class TurnedSlab:
    """A slab whose neighbours, along the axis `row`, lie across the rows of its stage: `stage` is
    made in `target` by transposing blocks of `lanes` rows and columns."""

    stage: FlatStage
    row: Axis
    inputs: Sequence[Buffer]
    target: Buffer
    numbers: Numbers
    lanes: int

    def in_blocks(self) -> TurnedSlab:
        """The same with a loop over blocks of rows outside that over columns, if they go round."""
        count, rest = divmod(self.row.extent, self.lanes)
        if rest or count == 1 or self.lanes == 1:
            return self
        row = Axis(self.row.position, self.lanes, self.row.name)
        block = self.numbers.axis(f"{self.row.name}_o", count)
        *outer, column = (axis for axis in self.stage.axes if axis != self.row)
        here: dict[Axis, Expr] = {self.row: block * self.lanes + row}
        index, body = simplify(self.stage.index, here), simplify(self.stage.body, here)
        return replace(self, stage=FlatStage((*outer, block, row, column), index, body), row=row)

    def loops(self, *, parallel: bool) -> tuple[Stmt, ...]:
        """The loops over the other axes, and blocks in them."""
        *outer, column = (axis for axis in self.stage.axes if axis != self.row)
        loops = {axis: self.numbers.axis(axis.name, axis.extent) for axis in outer}
        value, place = (simplify(e, dict(loops)) for e in (self.stage.body, self.stage.index))
        statements: list[Stmt] = []
        for first, last in pieces(value, column, 1):
            reached = self.numbers.axis(column.name, last - first)
            there: dict[Axis, Expr] = {column: simplify(reached + first)}
            store = Store(self.target, simplify(place, there), simplify(value, there))
            made = partial(self._copied, reached)
            statements += shared_choices((reached, self.row), store, made)
        kind = LoopKind.PARALLEL if parallel else LoopKind.SERIAL
        return nested(tuple(loops.values()), tuple(statements), kind)

    def _copied(self, column: Axis, store: Store) -> tuple[Stmt, ...]:
        """All rows and columns of a store: in blocks if it copies more than one column."""
        match store.value:
            case Load(operand=number, indices=(index,)) if column.extent > 1:
                (source,) = (buffer for buffer in self.inputs if buffer.number == number)
                if affine(index).coefficient(column) == 1:
                    return self._transposed(source, index, store.index, self.row, column)
                return self._gathered(source, index, store.index, column)
            case _:
                lane = self.numbers.axis(self.row.name, self.row.extent)
                moved: dict[Axis, Expr] = {self.row: lane}
                index, value = (simplify(e, moved) for e in (store.index, store.value))
                stored = For(lane, (Store(store.buffer, index, value),), LoopKind.SIMD)
                return nested((column,), (stored,), LoopKind.SERIAL)

    def _gathered(self, source: Buffer, index: Expr, place: Expr, column: Axis) -> tuple[Stmt, ...]:
        """Rows with gaps: what is used of as many as a block has goes side by side first, unless it
        is one."""
        statements: tuple[Stmt, ...] = ()
        for span in spans(self.row.extent, self.lanes):
            block = self.numbers.axis(f"{self.row.name}_o", span.blocks)
            loops = (block,) if span.blocks > 1 else ()
            start = block * span.length if loops else const(span.start, int64)
            row = self.numbers.axis(self.row.name, span.length)
            lane = self.numbers.axis(column.name, column.extent)
            if span.length == 1:
                alone: dict[Axis, Expr] = {self.row: simplify(start), column: lane}
                element = source.at(simplify(index, alone))
                store = Store(self.target, simplify(place, alone), element)
                statements += nested((*loops, lane), (store,), LoopKind.SERIAL)
                continue
            line = self.numbers.buffer(
                "line", self.target.dtype, span.length * column.extent, Space.STACK
            )
            here: dict[Axis, Expr] = {self.row: simplify(start + row)}
            element = source.at(simplify(index, {**here, column: lane}))
            store = Store(line, simplify(row * column.extent + lane), element)
            copied = For(row, (For(lane, (store,), LoopKind.SIMD),))
            across = self.numbers.axis(self.row.name, span.length)
            turned = self._transposed(
                line,
                simplify(across * column.extent + column),
                simplify(place, {self.row: simplify(start + across)}),
                across,
                column,
            )
            statements += nested(loops, (Allocate(line, (copied, *turned)),), LoopKind.SERIAL)
        return statements

    def _transposed(
        self, source: Buffer, index: Expr, place: Expr, row: Axis, column: Axis
    ) -> tuple[Stmt, ...]:
        blocks = transposed(
            source, index, self.target, place, row, column, self.lanes, self.numbers
        )
        return tuple(blocks)


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
