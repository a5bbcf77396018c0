"""Packing at run time: one tile of a vector factor copied into a panel, zero-filled.

A tile lies in the panel as reduction, lane. Where the factor has neighbours along the lanes, rows
of lanes are copied; where it has them along the innermost reduction axis, square blocks are
transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorgen.expr import Axis, Expr, const
from tensorgen.flat import flat_index
from tensorgen.loop import (
    Buffer,
    For,
    LoopKind,
    Numbers,
    Stmt,
    Store,
    nested,
)
from tensorgen.lower_transpose import transposed
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
        across = self._step(self.reduction[-1]) if self.reduction else 0
        statements: tuple[Stmt, ...]
        if self._lane_step() == 1:
            statements = self._copied(0, self.length, lanes_inside=True)
        elif across == 1 and self.block > 1 and min(depth, self.length) > 1:
            statements = self._transposed()
        else:
            statements = self._copied(0, self.length, lanes_inside=False)
        if self.width > self.length:
            statements += self._copied(self.length, self.width - self.length, lanes_inside=True)
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

    def _copied(self, start: int, count: int, *, lanes_inside: bool) -> tuple[Stmt, ...]:
        """`count` lanes from `start`, element by element; lanes not in use become zero."""
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in self.reduction)
        point: dict[Axis, Expr] = dict(zip(self.reduction, loops, strict=True))
        loop = self.numbers.axis("lane", count)
        lane = simplify(loop + start)
        zero: Expr = const(0, self.panel.dtype)
        value = self.source.at(self.element(point, lane)) if start < self.length else zero
        store: tuple[Stmt, ...] = (Store(self.panel, self._place(point, lane), value),)
        if lanes_inside:
            return nested(loops, (For(loop, store, LoopKind.SIMD),), LoopKind.SERIAL)
        return nested((loop, *loops), store, LoopKind.SERIAL)

    def _transposed(self) -> tuple[Stmt, ...]:
        """All lanes in use, in square blocks."""
        *outer, last = self.reduction
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in outer)
        lane = self.numbers.axis("lane", self.length)
        step = self.numbers.axis(last.name, last.extent)
        point: dict[Axis, Expr] = {**dict(zip(outer, loops, strict=True)), last: step}
        blocks = transposed(
            self.source, self.element(point, lane), self.panel, self._place(point, lane),
            lane, step, self.block, self.numbers, copies_rows=True,
        )  # fmt: skip
        return nested(loops, tuple(blocks), LoopKind.SERIAL)
