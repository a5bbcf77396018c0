"""Lowering of a stage to a loop nest: elementwise loops, windows, reductions.

Vector lanes are written as inner loops of constant length over independent elements, which every
compiler turns into vector code. Reductions keep an array of lane accumulators, folded in a fixed
order at the end: the same sum on every target, whatever its vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod

from tensorgen.expr import (
    Apply,
    Axis,
    Expr,
    Fold,
    Load,
    Reduce,
    apply,
    const,
    free_axes,
    map_children,
    neutral_element,
    walk,
)
from tensorgen.flat import FlatStage
from tensorgen.lane_choices import lane_choices
from tensorgen.lane_quotients import lane_quotients, lane_shares
from tensorgen.lane_repeats import lane_repeats
from tensorgen.loop import (
    Allocate,
    Buffer,
    FoldLanes,
    For,
    LoopKind,
    Numbers,
    Prefetch,
    Space,
    Stmt,
    Store,
    nested,
)
from tensorgen.partial_sums import partial_sums
from tensorgen.scalar_ops import MAX_NUMBER
from tensorgen.schedule import Lanes, Loops
from tensorgen.simplify import affine, simplify
from tensorgen.target import LINE_BYTES
from tensorgen.types import int64


def replace_axes(expr: Expr, values: Mapping[Axis, Expr]) -> Expr:
    """The term with axes replaced, simplified."""
    return simplify(expr, values) if values else expr


@dataclass(frozen=True, slots=True)
class Span:
    """A part of an axis: `blocks` blocks of `length` elements from `start`."""

    start: int
    blocks: int
    length: int


def spans(extent: int, tile: int) -> tuple[Span, ...]:
    """An axis cut into full tiles and, behind them, what is left."""
    blocks, rest = divmod(extent, tile)
    parts = []
    if blocks:
        parts.append(Span(0, blocks, tile))
    if rest:
        parts.append(Span(blocks * tile, 1, rest))
    return tuple(parts)


MOST_CUTS = 8
"""An axis is not cut into more pieces than this for the sake of conditions on it."""


LEAST_CUT = 8
"""A shorter axis is not cut: the pieces would be mostly loop control."""


def switch_points(body: Expr, axis: Axis) -> tuple[int, ...]:
    """The positions on an axis where a comparison of it with a constant changes its outcome."""
    points: set[int] = set()
    for term in walk(body):
        match term:
            case Apply(op=op, args=(left, right)) if left.dtype == int64 and op.name in (
                "lt",
                "le",
            ):
                difference = affine(right).plus(affine(left).scaled(-1))
                if [atom for atom, _ in difference.terms] != [axis]:
                    continue
                # left < right  <=>  0 < slope * axis + constant;  left <= right  <=>  0 <= …
                slope = difference.terms[0][1]
                least = difference.constant - (1 if op.name == "lt" else 0)
                # The condition is slope * axis + least >= 0.
                points.add(-(least // slope) if slope > 0 else least // -slope + 1)
            case _:
                pass
    return tuple(sorted(point for point in points if 0 < point < axis.extent))


def pieces(body: Expr, axis: Axis, least: int = LEAST_CUT) -> tuple[tuple[int, int], ...]:
    """First and last of the pieces of an axis on which no condition on it alone changes; the axis
    as a whole if it is shorter than `least` or the pieces are too many."""
    cuts = [0, *switch_points(body, axis), axis.extent]
    if len(cuts) - 2 > MOST_CUTS or axis.extent < least:
        return ((0, axis.extent),)
    return tuple(pairwise(cuts))


@dataclass(frozen=True, slots=True)
class Joined:
    """A stage that is computed element by element where the next one, a reduction, reads it."""

    buffer: Buffer
    stage: FlatStage

    def stores(self, value: Expr) -> tuple[Store, ...]:
        """The stores of those of its elements that a value reads."""
        (axis,) = self.stage.axes
        return tuple(
            Store(self.buffer, index, replace_axes(self.stage.body, {axis: position}))
            for index, position in self._elements(value)
        )

    def positions(self, value: Expr) -> tuple[Expr, ...]:
        """Where along its axis those elements are."""
        return tuple(simplify(position) for _, position in self._elements(value))

    def _elements(self, value: Expr) -> Iterator[tuple[Expr, Expr]]:
        """The index in the buffer and the position of each."""
        (axis,) = self.stage.axes
        first = simplify(self.stage.index - axis)
        for term in walk(value):
            if isinstance(term, Load) and term.operand == self.buffer.number:
                for index in term.indices:
                    yield index, index - first


@dataclass(frozen=True, slots=True)
class RowResult:
    """What a later stage stores for each element of a row, at the `index` of one along the axis."""

    buffer: Buffer
    axis: Axis
    index: Expr

    def asked(self, position: Expr, lane: Axis) -> tuple[Prefetch, ...]:
        """One for each line of the results where the lanes are at a position."""
        index = replace_axes(self.index, {self.axis: position})
        return _lines(self.buffer, index, lane) if _in_order(index, lane) else ()


@dataclass(frozen=True, slots=True)
class NextRow:
    """What loops ask the caches for: elements of some buffers, by number, where they are one step
    of an axis further on, and the `results` of this row. These lie where nobody has read, and a
    core has room for only so many stores that wait for their line."""

    axis: Axis
    buffers: Mapping[int, Buffer]
    results: tuple[RowResult, ...] = ()

    def asked(self, values: Sequence[Expr], lane: Axis) -> tuple[Prefetch, ...]:
        """One for each line of what the lanes of the terms read, lane after lane, in the buffers,
        and which is somewhere else there."""
        elements = {
            (term.operand, term.indices[0])
            for value in values
            for term in walk(value)
            if isinstance(term, Load) and term.operand in self.buffers
        }
        return tuple(
            line
            for number, index in sorted(elements, key=lambda e: (e[0], e[1].digest))
            if self.axis in free_axes(index) and _in_order(index, lane)
            for line in _lines(
                self.buffers[number], replace_axes(index, {self.axis: self.axis + 1}), lane
            )
        )


def _lines(buffer: Buffer, index: Expr, lane: Axis) -> tuple[Prefetch, ...]:
    """One for each line of the elements at the lanes, which are neighbours."""
    first = replace_axes(index, {lane: const(0, int64)})
    return tuple(
        Prefetch(buffer, simplify(first + place))
        for place in range(0, lane.extent, LINE_BYTES // buffer.dtype.bytes)
    )


def _in_order(index: Expr, lane: Axis) -> bool:
    """Whether neighbours along an axis are neighbours in memory."""
    others = affine(index).plus(affine(lane).scaled(-1))
    return not any(lane in free_axes(atom) for atom, _ in others.terms)


@dataclass(frozen=True, slots=True)
class StageLowering:
    """Everything needed to lower the body of one stage."""

    numbers: Numbers
    schedule: Loops
    joined: Joined | None = None
    next_row: NextRow | None = None

    def lower(self, stage: FlatStage, output: Buffer, parallel: int) -> tuple[Stmt, ...]:
        """Statements that compute the stage into `output`; its loads already name buffers."""
        stage = _unroll_windows(stage, self.schedule.unroll)
        lanes = self.schedule.tile if self.schedule.lanes is Lanes.REDUCTION else 1
        stage = replace(stage, body=partial_sums(stage.body, self.numbers, lanes))
        if any(axis.extent == 0 for axis in stage.axes):
            return ()
        if self.schedule.lanes is Lanes.OUTPUT and stage.axes:
            return self._over_output(stage, output, parallel)
        renamed, loops = self._rename(stage.axes)
        statements = self._element(
            replace_axes(stage.body, renamed), replace_axes(stage.index, renamed), output
        )
        return _nest(loops, statements, parallel)

    def _rename(self, axes: Sequence[Axis]) -> tuple[dict[Axis, Expr], tuple[Axis, ...]]:
        loops = tuple(self.numbers.axis(axis.name, axis.extent) for axis in axes)
        return dict(zip(axes, loops, strict=True)), loops

    def _over_output(self, stage: FlatStage, output: Buffer, parallel: int) -> tuple[Stmt, ...]:
        """Lanes along the innermost output axis."""
        *outer, inner = stage.axes
        reducing = any(isinstance(term, Reduce) for term in walk(stage.body))
        tile = min(self.schedule.tile, inner.extent)
        if not reducing and outer:
            tile = inner.extent
        renamed, loops = self._rename(outer)
        result: list[Stmt] = []
        for span in self._output_spans(stage, tile):
            lane = self.numbers.axis(
                f"{inner.name}_i" if span.blocks > 1 else inner.name, span.length
            )
            position: Expr = lane + span.start
            blocks: tuple[Axis, ...] = ()
            if span.blocks > 1:
                blocks = (self.numbers.axis(f"{inner.name}_o", span.blocks),)
                position = position + blocks[0] * span.length
            values = {**renamed, inner: position}
            body = replace_axes(stage.body, values)
            index = replace_axes(stage.index, values)
            lanes = self._lane_statements(body, index, output, lane)
            result.extend(_nest(blocks, lanes, parallel if not outer else 0))
        return _nest(loops, tuple(result), parallel)

    def _output_spans(self, stage: FlatStage, tile: int) -> tuple[Span, ...]:
        """The innermost axis cut where a condition on it alone changes, then into tiles."""
        return tuple(
            replace(span, start=span.start + first)
            for first, last in pieces(stage.body, stage.axes[-1])
            for span in spans(last - first, min(tile, last - first))
        )

    def _lane_statements(
        self, body: Expr, index: Expr, output: Buffer, lane: Axis
    ) -> tuple[Stmt, ...]:
        """All lanes of one tile: accumulators first, then the stores."""
        accumulators: list[Buffer] = []
        before: list[Stmt] = []

        def reduce_lanes(term: Expr) -> tuple[list[Stmt], Expr]:
            statements: list[Stmt] = []

            def visit(inner: Expr) -> Expr:
                if not isinstance(inner, Reduce):
                    return map_children(inner, visit)
                buffer = self.numbers.buffer("acc", inner.dtype, lane.extent, Space.STACK)
                accumulators.append(buffer)
                renamed, loops = self._rename(inner.axes)
                nested_statements, value = reduce_lanes(replace_axes(inner.body, renamed))
                start = neutral_element(inner.fold, inner.dtype)
                statements.append(_simd(lane, Store(buffer, lane, start)))
                step = Store(buffer, lane, apply(inner.fold.value, buffer.at(lane), value))
                statements.extend(
                    nested(loops, (*nested_statements, _simd(lane, step)), LoopKind.SERIAL)
                )
                return buffer.at(lane)

            return statements, visit(term)

        before, value = reduce_lanes(body)

        def over_lanes(store: Store) -> tuple[Stmt, ...]:
            if before:
                return (_simd(lane, store),)
            if not self.schedule.reciprocals:
                return (lane_repeats(lane, store, self.numbers),)
            divided = lane_shares if self.schedule.softmax else lane_quotients
            return divided(lane, store, self.numbers)

        store = Store(output, index, value, streamed=self.schedule.streamed)
        stores = lane_choices(lane, store, over_lanes)
        statements: tuple[Stmt, ...] = (*before, *stores)
        for buffer in reversed(accumulators):
            statements = (Allocate(buffer, statements),)
        return statements

    def _element(self, body: Expr, index: Expr, output: Buffer) -> tuple[Stmt, ...]:
        """One output element: scalar or lane accumulators for its reductions, then the store."""
        scalars: list[Buffer] = []
        statements, value = self._reduce_element(body, scalars)
        result: tuple[Stmt, ...] = (*statements, Store(output, index, value))
        for buffer in reversed(scalars):
            result = (Allocate(buffer, result),)
        return result

    def _reduce_element(self, term: Expr, scalars: list[Buffer]) -> tuple[list[Stmt], Expr]:
        statements: list[Stmt] = []
        zero = const(0, int64)

        def visit(inner: Expr) -> Expr:
            if not isinstance(inner, Reduce):
                return map_children(inner, visit)
            total = self.numbers.buffer("total", inner.dtype, 1, Space.SCALAR)
            scalars.append(total)
            nested_reduction = any(isinstance(t, Reduce) for t in walk(inner.body))
            extent = inner.axes[-1].extent if inner.axes else 1
            use_lanes = self.schedule.lanes is Lanes.REDUCTION and not nested_reduction
            if use_lanes and extent >= 2 * self.schedule.tile:
                statements.extend(self._lane_reduction(inner, total))
            else:
                renamed, loops = self._rename(inner.axes)
                before, value = self._reduce_element(replace_axes(inner.body, renamed), scalars)
                start = neutral_element(inner.fold, inner.dtype)
                statements.append(Store(total, zero, start))
                step = self._folded(inner.fold, total.at(zero), value)
                body = (*before, *self._joined_stores(value), Store(total, zero, step))
                statements.extend(nested(loops, body, LoopKind.SERIAL))
            return total.at(zero)

        return statements, visit(term)

    def _folded(self, fold: Fold, total: Expr, value: Expr) -> Expr:
        """One more value folded into a total."""
        if self.schedule.softmax and fold is Fold.MAX:
            return Apply(MAX_NUMBER, (total, value))
        return apply(fold.value, total, value)

    def _joined_stores(self, value: Expr) -> tuple[Store, ...]:
        return () if self.joined is None else self.joined.stores(value)

    def _lane_reduction(self, term: Reduce, total: Buffer) -> list[Stmt]:
        """Fold the innermost reduction axis into lane accumulators, then those into `total`."""
        tile = self.schedule.tile
        *outer, inner = term.axes
        buffer = self.numbers.buffer("acc", term.dtype, tile, Space.STACK)
        lane = self.numbers.axis("lane", tile)
        start = neutral_element(term.fold, term.dtype)
        steps: list[Stmt] = [_simd(lane, Store(buffer, lane, start))]
        renamed, loops = self._rename(outer)
        inside: list[Stmt] = []
        for span in spans(inner.extent, tile):
            part = self.numbers.axis(f"{inner.name}_i", span.length)
            position: Expr = part + span.start
            blocks: tuple[Axis, ...] = ()
            if span.blocks > 1:
                block = self.numbers.axis(f"{inner.name}_o", span.blocks)
                blocks = (block,)
                position = position + block * span.length
            value = replace_axes(term.body, {**renamed, inner: position})
            update = self._folded(term.fold, buffer.at(part), value)
            stores = (*self._joined_stores(value), Store(buffer, part, update))
            asked = self._asked([store.value for store in stores], value, part)
            inside.extend(nested(blocks, (*asked, _simd(part, *stores)), LoopKind.SERIAL))
        steps.extend(nested(loops, tuple(inside), LoopKind.SERIAL))
        steps.append(FoldLanes(total, buffer, term.fold, self._halving(buffer, total, term.fold)))
        return [Allocate(buffer, tuple(steps))]

    def _asked(self, values: Sequence[Expr], value: Expr, lane: Axis) -> tuple[Prefetch, ...]:
        """What is asked for while a value is folded, and what it reads of the stage before is
        stored: `values` are all that are computed."""
        if self.next_row is None:
            return ()
        asked = self.next_row.asked(values, lane)
        if self.joined is not None:
            for position in dict.fromkeys(self.joined.positions(value)):
                for result in self.next_row.results:
                    asked += result.asked(position, lane)
        return asked

    def _halving(self, lanes: Buffer, total: Buffer, fold: Fold) -> tuple[Stmt, ...]:
        """Lanes folded in pairs: the last steps depend on each other only five deep for 32."""
        steps: list[Stmt] = []
        left = lanes.size
        while left > 1:
            kept = (left + 1) // 2
            part = self.numbers.axis("lane", left - kept)
            pair = apply(fold.value, lanes.at(part), lanes.at(part + kept))
            steps.append(_simd(part, Store(lanes, part, pair)))
            left = kept
        steps.append(Store(total, const(0, int64), lanes.at(const(0, int64))))
        return tuple(steps)


def _simd(axis: Axis, *statements: Stmt) -> Stmt:
    return For(axis, statements, LoopKind.SIMD)


def _nest(loops: tuple[Axis, ...], body: tuple[Stmt, ...], parallel: int) -> tuple[Stmt, ...]:
    """Loops around `body`, the outermost `parallel` of them shared by the threads."""
    shared = min(parallel, len(loops))
    inner = nested(loops[shared:], body, LoopKind.SERIAL)
    return nested(loops[:shared], inner, LoopKind.PARALLEL)


def _unroll_windows(stage: FlatStage, limit: int) -> FlatStage:
    """Write out every reduction over at most `limit` elements, in order."""
    if not limit:
        return stage

    def unroll(term: Expr) -> Expr:
        inner = map_children(term, unroll)
        if not isinstance(inner, Reduce):
            return inner
        size = prod(axis.extent for axis in inner.axes)
        if not 0 < size <= limit:
            return inner
        result: Expr | None = None
        for values in product(*(range(axis.extent) for axis in inner.axes)):
            point = dict(zip(inner.axes, (const(v, int64) for v in values), strict=True))
            element = replace_axes(inner.body, dict(point))
            result = element if result is None else apply(inner.fold.value, result, element)
        assert result is not None
        return result

    return FlatStage(stage.axes, stage.index, unroll(stage.body))
