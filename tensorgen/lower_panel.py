"""Packing at run time: one tile of a vector factor copied into a panel, zero-filled.

A tile lies in the panel as reduction, lane. Where the factor has neighbours along the lanes, rows
of lanes are copied; where it has them along the innermost reduction axis, square blocks are
transposed, and what does not fill a block goes element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from tensorgen.expr import Axis, Expr, const
from tensorgen.flat import flat_index
from tensorgen.loop import (
    Buffer,
    For,
    LoopKind,
    Numbers,
    Stmt,
    Store,
    TransposeBlock,
    nested,
)
from tensorgen.lower_loops import Span
from tensorgen.simplify import affine, simplify
from tensorgen.types import int64


@dataclass(frozen=True, slots=True)
class PanelTile:
    """One tile to pack: `length` of its `width` lanes are in use, at `first` it begins in `panel`.

    `element` gives the flat index in `source` at a point of the `reduction` and a lane; blocks of
    `block` lanes are transposed.
    """

    numbers: Numbers
    panel: Buffer
    first: Expr
    reduction: tuple[Axis, ...]
    width: int
    length: int
    source: Buffer
    element: Callable[[Mapping[Axis, Expr], Expr], Expr]
    block: int

    def pack(self) -> tuple[Stmt, ...]:
        """The loops that fill the tile."""
        depth = self.reduction[-1].extent if self.reduction else 1
        whole = Span(0, 1, depth)
        statements: tuple[Stmt, ...] = ()
        across = self._step(self.reduction[-1]) if self.reduction else 0
        if self._lane_step() == 1:
            statements += self._copied(Span(0, 1, self.length), whole, lanes_inside=True)
        elif across == 1 and 1 < self.block <= min(depth, self.length):
            statements += self._transposed()
        else:
            statements += self._copied(Span(0, 1, self.length), whole, lanes_inside=False)
        if self.width > self.length:
            zeros = Span(self.length, 1, self.width - self.length)
            statements += self._copied(zeros, whole, lanes_inside=True)
        return statements

    def _lane_step(self) -> int:
        lane = self.numbers.axis("lane", self.width)
        point: dict[Axis, Expr] = {axis: axis for axis in self.reduction}
        return affine(self.element(point, lane)).coefficient(lane)

    def _step(self, axis: Axis) -> int:
        point: dict[Axis, Expr] = {axis: axis for axis in self.reduction}
        return affine(self.element(point, const(0, int64))).coefficient(axis)

    def _place(self, point: Mapping[Axis, Expr], lane: Expr) -> Expr:
        """The flat index in the panel."""
        extents = tuple(axis.extent for axis in self.reduction)
        row = flat_index([point[axis] for axis in self.reduction], extents)
        return simplify(self.first + row * self.width + lane)

    def _copied(self, lanes: Span, inner: Span, *, lanes_inside: bool) -> tuple[Stmt, ...]:
        """A span of lanes at a span of the innermost reduction axis, element by element; lanes not
        in use become zero."""
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in self.reduction)
        point: dict[Axis, Expr] = dict(zip(self.reduction, loops, strict=True))
        if loops:
            last = self.reduction[-1]
            loops = (*loops[:-1], self.numbers.axis(last.name, inner.length))
            point[last] = simplify(loops[-1] + inner.start)
        loop = self.numbers.axis("lane", lanes.length)
        lane = simplify(loop + lanes.start)
        used = lanes.start < self.length
        zero: Expr = const(0, self.panel.dtype)
        value = self.source.at(self.element(point, lane)) if used else zero
        store: tuple[Stmt, ...] = (Store(self.panel, self._place(point, lane), value),)
        if lanes_inside:
            return nested(loops, (For(loop, store, LoopKind.SIMD),), LoopKind.SERIAL)
        return nested((loop, *loops), store, LoopKind.SERIAL)

    def _transposed(self) -> tuple[Stmt, ...]:
        """All lanes in use, in square blocks, and what is left beside them."""
        *outer, last = self.reduction
        statements: tuple[Stmt, ...] = ()
        cuts = (_cut(self.length, self.block), _cut(last.extent, self.block))
        for lanes, inner in product(*cuts):
            if lanes.length < self.block or inner.length < self.block:
                statements += self._copied(
                    Span(lanes.start, 1, lanes.blocks * lanes.length),
                    Span(inner.start, 1, inner.blocks * inner.length),
                    lanes_inside=False,
                )
                continue
            loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in outer)
            lane = self.numbers.axis("lane_o", lanes.blocks)
            step = self.numbers.axis(f"{last.name}_o", inner.blocks)
            point: dict[Axis, Expr] = dict(zip(outer, loops, strict=True))
            point[last] = simplify(step * self.block)
            block = self._block(point, last, simplify(lane * self.block))
            around = tuple(axis for axis in (*loops, lane, step) if axis.extent > 1)
            statements += nested(around, (block,), LoopKind.SERIAL)
        return statements

    def _block(self, point: Mapping[Axis, Expr], last: Axis, lane: Expr) -> Stmt:
        """One square block, from a point of the reduction and a lane."""
        i = self.numbers.axis("lane", self.block)
        j = self.numbers.axis(last.name, self.block)
        inside = {**point, last: simplify(point[last] + j)}
        element = self.element(inside, simplify(lane + i))
        place = self._place(inside, simplify(lane + i))
        body = nested((i, j), (Store(self.panel, place, self.source.at(element)),), LoopKind.SERIAL)
        return TransposeBlock(
            self.panel,
            self._place(point, lane),
            self.width,
            self.source,
            self.element(point, lane),
            self._lane_step(),
            self.block,
            self.block,
            self.block,
            body,
        )


def _cut(extent: int, block: int) -> tuple[Span, ...]:
    """Whole blocks, and what is left behind them."""
    blocks, rest = divmod(extent, block)
    whole = Span(0, blocks, block)
    return (whole, Span(blocks * block, 1, rest)) if rest else (whole,)
