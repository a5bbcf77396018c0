"""Lowering of rankings: each element in turn is inserted into the result, which stays sorted.

An element that the last one of the result precedes costs one comparison. Of n elements in random
order about k * log(n / k) are inserted into a result of k, each by k comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorgen.expr import Axis, Expr, cast, const, maximum, minimum
from tensorgen.flat import FlatStage
from tensorgen.loop import (
    Allocate,
    Buffer,
    For,
    If,
    LoopKind,
    Numbers,
    Space,
    Stmt,
    Store,
    nested,
)
from tensorgen.lower_loops import replace_axes
from tensorgen.ranking import Ranking, ranking
from tensorgen.schedule import Loops, ScheduleError
from tensorgen.types import int64

_FIRST = const(0, int64)


def lower_ranking(
    stage: FlatStage, output: Buffer, schedule: Loops, numbers: Numbers
) -> tuple[Stmt, ...]:
    """Statements that compute the stage into `output`; its loads already name buffers."""
    found = ranking(stage.axes, stage.body)
    if found is None:
        raise ScheduleError(f"ranking: expected the first elements in order, got {stage.body}")
    if any(axis.extent == 0 for axis in stage.axes):
        return ()
    around = tuple(axis for axis in stage.axes if axis != found.axis)
    loops = tuple(numbers.axis(axis.name, axis.extent) for axis in around)
    values: dict[Axis, Expr] = dict(zip(around, loops, strict=True))
    body = _Insertion(stage, found, output, values, numbers).statements()
    shared = min(schedule.parallel, len(loops))
    rest = nested(loops[shared:], body, LoopKind.SERIAL)
    return nested(loops[:shared], rest, LoopKind.PARALLEL)


@dataclass(frozen=True)
class _Insertion:
    """Sorting the elements along one axis, the other axes having their values."""

    stage: FlatStage
    ranking: Ranking
    output: Buffer
    values: dict[Axis, Expr]
    numbers: Numbers

    def statements(self) -> tuple[Stmt, ...]:
        """The first elements fill the result; each of the others displaces the last, or is left."""
        count, total = self.ranking.axis.extent, self.ranking.position.extent
        name, dtype = self.ranking.position.name, self.ranking.element.dtype
        new = self.numbers.buffer("element", dtype, 1, Space.SCALAR)
        filling = self.numbers.axis(name, count)
        body: list[Stmt] = [
            For(filling, (self._read(new, filling), *self._insert(new, filling, filling)))
        ]
        if total > count:
            left = self.numbers.axis(name, total - count)
            position = left + count
            last = const(count - 1, int64)
            ahead = self.ranking.precedes(new.at(_FIRST), self._ranked(last))
            insertion = If(ahead, self._insert(new, position, last))
            body.append(For(left, (self._read(new, position), insertion)))
        return (Allocate(new, tuple(body)),)

    def _read(self, new: Buffer, position: Expr) -> Stmt:
        return Store(new, _FIRST, replace_axes(self.ranking.at(position), self.values))

    def _slot(self, place: Expr) -> Expr:
        """Where the result of that rank lies."""
        return replace_axes(self.stage.index, {**self.values, self.ranking.axis: place})

    def _ranked(self, place: Expr) -> Expr:
        """The element that has that rank so far."""
        held = self.output.at(self._slot(place))
        if not self.ranking.positions:
            return cast(held, self.ranking.element.dtype)
        # The range of what the result holds is known to nobody who reads it.
        position = minimum(maximum(held, 0), self.ranking.position.extent - 1)
        return replace_axes(self.ranking.at(position), self.values)

    def _insert(self, new: Buffer, position: Expr, last: Expr) -> tuple[Stmt, ...]:
        """Put the new element on rank `last`, and before all those that it precedes."""
        count = self.ranking.axis.extent
        result = position if self.ranking.positions else cast(new.at(_FIRST), self.output.dtype)
        put = Store(self.output, self._slot(last), result)
        if count == 1:
            return (put,)
        step = self.numbers.axis(self.ranking.axis.name, count - 1)
        before = count - 2 - step
        ahead = self.ranking.precedes(new.at(_FIRST), self._ranked(before))
        moved = Store(self.output, self._slot(before + 1), self.output.at(self._slot(before)))
        body: Stmt = If(ahead, (moved, Store(self.output, self._slot(before), result)))
        if last != const(count - 1, int64):
            # Nothing is in the ranks behind the new element yet.
            body = If(before < last, (body,))
        return (put, For(step, (body,)))
