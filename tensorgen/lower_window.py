"""Lowering of windows over planes: tiles of rows in vector registers, every tap written out.

A tile is some rows of the result by one vector of columns. Its taps are read where they lie in the
plane, without a padded copy: which lanes and rows of a tile's taps are inside is known here, so
what is outside is left out of the loads, and tiles that differ in it are written separately. Each
vector that is loaded serves all rows of the tile that need it.

A convolution takes one column of the window after the other, with that column's weights in
registers; a fold without weights combines the taps of a row of the plane first, which the rows of
the result share. Either way the order in which an element is summed depends on the window alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tensorgen.expr import (
    Axis,
    Cast,
    Expr,
    Load,
    Tensor,
    TensorExpr,
    all_of,
    compute,
    const,
    free_axes,
    neutral_element,
    substitute,
)
from tensorgen.flat import flat_index
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Declare,
    Fill,
    For,
    If,
    LoopKernel,
    LoopKind,
    MultiplyAdd,
    Numbers,
    Register,
    Space,
    Stmt,
    Store,
    VectorApply,
    VectorLoad,
    VectorStore,
    nested,
    statements,
)
from tensorgen.lower_loops import Span, replace_axes, spans
from tensorgen.parameters import parameter_buffers
from tensorgen.schedule import ColumnRun, ScheduleError, WindowTile
from tensorgen.simplify import Shifted, affine, simplify
from tensorgen.task import Task
from tensorgen.types import TensorType, int64
from tensorgen.vector_epilogue import VectorEpilogue, stays_in_registers
from tensorgen.widen import widen
from tensorgen.window import NO_AXIS, Window, window_of

Inside = tuple[tuple[bool, ...], ...]
"""For each row of a tile and each row of the window, whether the tap is inside the plane."""

Lanes = tuple[range, ...]
"""For each column of the window, the lanes whose tap is inside the plane."""


def lower_window_tile(
    task: Task, schedule: WindowTile
) -> tuple[LoopKernel, tuple[TensorExpr | None, ...]]:
    """The loops of a window under a tile, and the packing of its inputs. Raises ScheduleError if
    the task is no window."""
    window = window_of(task)
    if window is None:
        raise ScheduleError("window_tile: expected a window, got " + str(task)[:200])
    numbers = Numbers()
    inputs, (output,) = parameter_buffers(task, numbers)
    packing: list[TensorExpr | None] = [None] * len(inputs)
    if window.weighs_columns:
        assert window.weight is not None
        position = window.weight.operand
        packing[position], window = _with_packed_weights(window, task.inputs[position])
    outer = tuple(numbers.axis(axis.name, axis.extent) for axis in window.outer)
    axes: dict[Axis, Expr] = dict(zip(window.outer, outer, strict=True))
    axes[NO_AXIS] = const(0, int64)
    lowering = _WindowLowering(schedule, window, numbers, inputs, output, axes)
    if schedule.parallel > len(outer):
        blocks, body = lowering.row_blocks()
        outer = (*outer, blocks)
    else:
        body = lowering.plane()
    shared = min(schedule.parallel, len(outer))
    body = nested(outer[shared:], body, LoopKind.SERIAL)
    body = nested(outer[:shared], body, LoopKind.PARALLEL)
    return LoopKernel(inputs, (output,), (), body), tuple(packing)


def _with_packed_weights(window: Window, type: TensorType) -> tuple[TensorExpr, Window]:
    """The weights with those of neighbouring columns next to each other, and the window on them."""
    assert window.weight is not None
    index = window.weight.indices[0]
    column = window.columns.output
    axes = (*sorted(free_axes(index) - {column}, key=lambda a: a.position), column)
    source = Tensor(0, TensorType(type.dtype, (type.size,)))
    packed = compute(
        tuple(axis.extent for axis in axes),
        lambda *indices: source[replace_axes(index, dict(zip(axes, indices, strict=True)))],
    )
    place = flat_index(axes, packed.type.shape)
    weight = Load(window.weight.operand, TensorType(type.dtype, (packed.type.size,)), (place,))
    return packed, replace(window, weight=weight)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Where a tile lies and which of its taps are inside: `count` of its `lanes` are stored."""

    row: Expr
    column: Expr
    lanes: int
    count: int
    inside: Inside
    taken: Lanes


@dataclass(frozen=True, slots=True)
class _Taps:
    """The registers of one tap: where it is used, and the two vectors it is taken from."""

    target: Register
    low: Register
    high: Register


@dataclass(frozen=True, slots=True)
class _WindowLowering:
    schedule: WindowTile
    window: Window
    numbers: Numbers
    inputs: tuple[Buffer, ...]
    output: Buffer
    axes: dict[Axis, Expr]

    def plane(self) -> tuple[Stmt, ...]:
        """All tiles of one plane."""
        result: list[Stmt] = []
        for span, inside in self._row_spans():
            row, loops = self._position("r", span)
            result.extend(nested(loops, self._row_of_tiles(row, inside), LoopKind.SERIAL))
        return tuple(result)

    def row_blocks(self) -> tuple[Axis, tuple[Stmt, ...]]:
        """A loop over all rows of tiles of a plane, and its body, which looks where it is: threads
        share one loop, not several."""
        rows = list(self._row_spans())
        loop = self.numbers.axis("r_o", sum(span.blocks for span, _ in rows))
        body: tuple[Stmt, ...] = ()
        first = loop.extent
        for span, inside in reversed(rows):
            last, first = first, first - span.blocks
            row = simplify((loop - first) * span.length + span.start)
            tiles = self._row_of_tiles(row, inside)
            body = (If(loop < last, tiles, body),) if body else tiles
        return loop, body

    def _row_of_tiles(self, row: Expr, inside: Inside) -> tuple[Stmt, ...]:
        """The tiles of a row, at all columns."""
        tiles: list[Stmt] = []
        for run in self.schedule.columns:
            for part, taken in self._column_spans(run):
                column, across = self._position("c", part)
                tile = _Tile(row, column, run.lanes, run.count, inside, taken)
                tiles.extend(nested(across, self._tile(tile), LoopKind.SERIAL))
        return tuple(tiles)

    def _position(self, name: str, span: Span) -> tuple[Expr, tuple[Axis, ...]]:
        """The first element of a block, and the loop over the blocks if there are several."""
        if span.blocks == 1:
            return const(span.start, int64), ()
        loop = self.numbers.axis(f"{name}_o", span.blocks)
        return simplify(loop * span.length + span.start), (loop,)

    def _row_spans(self) -> Iterator[tuple[Span, Inside]]:
        """Runs of row blocks whose taps are inside alike."""
        rows = self.window.rows
        blocks = [
            (start, length)
            for span in spans(rows.output.extent, self.schedule.rows)
            for start, length in _blocks(span)
        ]
        patterns = [
            tuple(
                tuple(rows.holds(start + r, k) for k in range(rows.kernel.extent))
                for r in range(length)
            )
            for start, length in blocks
        ]
        for pattern, group in groupby(zip(blocks, patterns, strict=True), key=lambda b: b[1]):
            starts = [block for block, _ in group]
            yield Span(starts[0][0], len(starts), starts[0][1]), pattern

    def _column_spans(self, run: ColumnRun) -> Iterator[tuple[Span, Lanes]]:
        """Parts of a run of vectors whose lanes are inside alike."""
        columns = self.window.columns
        starts = [run.start + vector * run.lanes for vector in range(run.vectors)]

        def taken(start: int) -> Lanes:
            return tuple(
                _interval([columns.holds(start + lane, k) for lane in range(run.count)])
                for k in range(columns.kernel.extent)
            )

        for lanes, group in groupby(starts, key=taken):
            first, *others = group
            yield Span(first, 1 + len(others), run.lanes), lanes

    # One tile

    def _tile(self, tile: _Tile) -> tuple[Stmt, ...]:
        window, lanes = self.window, tile.lanes
        accumulators = tuple(
            Register(f"acc_{r}", window.dtype, lanes) for r in range(len(tile.inside))
        )
        start = neutral_element(window.fold, window.dtype)
        fills = tuple(Fill(register, start) for register in accumulators)
        depth = tuple(self.numbers.axis(axis.name, axis.extent) for axis in window.depth)
        point = {**self.axes, **dict(zip(window.depth, depth, strict=True))}
        if window.weight is None:
            taps, used = self._fold_taps(tile, accumulators, point)
        else:
            taps, used = self._weighted_taps(tile, window.weight, accumulators, point)
        finish, values = self._finish(tile, accumulators)
        if window.guards:
            zero = const(0, int64)
            inside = (zero <= replace_axes(form.expr, point) for form in window.guards)
            taps = (If(simplify(all_of(tuple(inside))), taps),)
        body = (*fills, *nested(depth, taps, LoopKind.ROLLED), *finish)
        # Where no tap is inside, none is loaded.
        written = _written(body)
        needed = tuple(r for r in (*accumulators, *used, *values) if r in written)
        return (Declare(needed, body),)

    def _weighted_taps(
        self,
        tile: _Tile,
        weight: Load,
        accumulators: Sequence[Register],
        point: dict[Axis, Expr],
    ) -> tuple[tuple[Stmt, ...], tuple[Register, ...]]:
        """The sum of taps times weights, one group of columns of the window after the other."""
        window, taps = self.window, self._registers(tile)
        first = self._first_tap(tile, point)
        weight_at = self._weights_at(tile, weight, point)
        kernel_rows = window.rows.kernel.extent
        weights: dict[tuple[int, int], Register] = {}
        steps: list[Stmt] = []
        for group in _column_groups(window):
            taken = [column for column in group if tile.taken[column]]
            needed = sorted({k for row in tile.inside for k, inside in enumerate(row) if inside})
            for position, column in enumerate(taken):
                for k in needed:
                    name = f"weight_{position * kernel_rows + k}"
                    weights[position, k] = Register(name, window.dtype, tile.lanes)
                    steps.append(
                        self._weight(tile, weight, weights[position, k], weight_at(k, column))
                    )
            for pairs in self._plane_rows(tile):
                shared = len(pairs) > 1
                loaded = self._taps(tile, taps, pairs[0], group, first, shared=shared)
                for position, load in enumerate(loaded):
                    steps.extend(load)
                    steps.extend(
                        MultiplyAdd(accumulators[r], taps.target, weights[position, k])
                        for r, k in pairs
                    )
        registers = dict.fromkeys((*weights.values(), taps.target, taps.low, taps.high))
        return tuple(steps), tuple(registers)

    def _weights_at(
        self, tile: _Tile, weight: Load, point: dict[Axis, Expr]
    ) -> Callable[[int, int], Expr]:
        """Where the weight of a tap in a row and a column of the window is, for the first element
        of a tile."""
        window, zero = self.window, const(0, int64)
        place = {**point, **self._cell(tile, zero, zero)}
        rows, columns = window.rows.kernel, window.columns.kernel

        def index(k: int, column: int) -> Expr:
            tap = {rows: const(k, int64), columns: const(column, int64)}
            return replace_axes(weight.indices[0], {**place, **tap})

        form = affine(weight.indices[0])
        down, across = form.step(rows), form.step(columns)
        if down is None or across is None:
            return index
        first = Shifted.of(index(0, 0))
        return lambda k, column: first.by(k * down + column * across)

    def _weight(self, tile: _Tile, weight: Load, register: Register, index: Expr) -> Stmt:
        """Bring the weights of one tap into a register: one for all columns, or one for each."""
        buffer = self.inputs[weight.operand]
        if self.window.weighs_columns:
            return VectorLoad(register, buffer, index, tile.count)
        return Fill(register, buffer.at(index))

    def _fold_taps(
        self, tile: _Tile, accumulators: Sequence[Register], point: dict[Axis, Expr]
    ) -> tuple[tuple[Stmt, ...], tuple[Register, ...]]:
        """The fold of the taps, one row of the plane after the other."""
        window, taps = self.window, self._registers(tile)
        first = self._first_tap(tile, point)
        row = Register("row", window.dtype, tile.lanes)
        operation = window.fold.value
        steps: list[Stmt] = []
        columns = sum(1 for taken in tile.taken if taken)
        for pairs in self._plane_rows(tile):
            begun = False
            for group in _column_groups(window):
                shared = columns == 1 and len(pairs) > 1
                into = taps if begun else replace(taps, target=row)
                for load in self._taps(tile, into, pairs[0], group, first, shared=shared):
                    if begun:
                        steps.extend(_into(load, taps.target))
                        steps.append(VectorApply(operation, row, row, taps.target))
                    else:
                        steps.extend(load)
                    begun = True
            if columns:
                steps.extend(
                    VectorApply(operation, accumulators[r], accumulators[r], row) for r, _ in pairs
                )
        return tuple(steps), (row, taps.target, taps.low, taps.high)

    def _registers(self, tile: _Tile) -> _Taps:
        names = ("taps", "low", "high")
        return _Taps(*(Register(name, self.window.dtype, tile.lanes) for name in names))

    def _plane_rows(self, tile: _Tile) -> list[list[tuple[int, int]]]:
        """The taps by the row of the plane that they read, top down: (row of the tile, row of the
        window)."""
        rows = self.window.rows
        groups: dict[int, list[tuple[int, int]]] = {}
        for r, inside in enumerate(tile.inside):
            for k, holds in enumerate(inside):
                if holds:
                    groups.setdefault(r * rows.step + k * rows.tap, []).append((r, k))
        return [groups[distance] for distance in sorted(groups)]

    def _taps(
        self,
        tile: _Tile,
        taps: _Taps,
        pair: tuple[int, int],
        group: Sequence[int],
        first: Shifted,
        *,
        shared: bool,
    ) -> Iterator[tuple[Stmt, ...]]:
        """For each column of a group of which some lane is inside, what brings its taps into
        `taps.target`; `shared` tells that several statements use them."""
        if self.window.columns.step == 1 or tile.lanes == 1:
            for column in group:
                taken = tile.taken[column]
                if taken:
                    kept = shared and len(taken) == tile.lanes
                    yield (self._load(first, taps.target, pair, column, 0, taken, kept),)
            return
        even, odd = _neighbours(self.window, group)
        positions = [2 * lane for lane in tile.taken[even]]
        if odd is not None:
            positions += [2 * lane + 1 for lane in tile.taken[odd]]
        loads: list[Stmt] = []
        for register, start in ((taps.low, 0), (taps.high, tile.lanes)):
            own = [p - start for p in positions if start <= p < start + tile.lanes]
            part = range(min(own, default=0), max(own, default=-1) + 1)
            if part:
                loads.append(self._load(first, register, pair, even, start, part, True))
            else:
                loads.append(Fill(register, const(self.window.outside, self.window.dtype)))
        for column in group:
            if tile.taken[column]:
                yield (*loads, Alternate(taps.target, taps.low, taps.high, column == odd))
                loads = []

    def _first_tap(self, tile: _Tile, point: dict[Axis, Expr]) -> Shifted:
        """Where the first tap of the tile's first element is, and the others from there."""
        window, zero = self.window, const(0, int64)
        place = {**point, window.rows.kernel: zero, window.columns.kernel: zero}
        return Shifted.of(replace_axes(window.index, place | self._cell(tile, zero, zero)))

    def _load(
        self,
        first: Shifted,
        target: Register,
        pair: tuple[int, int],
        column: int,
        start: int,
        part: range,
        kept: bool,
    ) -> VectorLoad:
        """Elements `part` of a vector of a row of the plane, `start` elements behind a tap of the
        tile's first column."""
        window, (r, k) = self.window, pair
        row = r * window.rows.step + k * window.rows.tap
        index = first.by(row + column * window.columns.tap + start)
        buffer = self.inputs[window.operand]
        return VectorLoad(target, buffer, index, len(part), part.start, window.outside, kept)

    def _cell(self, tile: _Tile, row: Expr, lane: Expr) -> dict[Axis, Expr]:
        """The result's position for a row and a lane of a tile."""
        values: dict[Axis, Expr] = {self.window.columns.output: simplify(tile.column + lane)}
        if self.window.rows.output != NO_AXIS:
            values[self.window.rows.output] = simplify(tile.row + row)
        return values

    # The epilogue

    def _finish(
        self, tile: _Tile, accumulators: Sequence[Register]
    ) -> tuple[tuple[Stmt, ...], tuple[Register, ...]]:
        """Bring the accumulators through the epilogue into the result."""
        if not stays_in_registers(self.window, self.output):
            return self._finish_elements(tile, accumulators), ()
        zero = const(0, int64)
        epilogue = VectorEpilogue(self.window, self.inputs, tile.lanes, tile.count)
        for r, register in enumerate(accumulators):
            place = {**self.axes, **self._cell(tile, const(r, int64), zero)}
            value = epilogue.value(self.window.epilogue, register, place)
            index = replace_axes(self.window.result, place)
            epilogue.statements.append(VectorStore(self.output, index, value, tile.count))
        return tuple(epilogue.statements), tuple(epilogue.registers)

    def _finish_elements(self, tile: _Tile, accumulators: Sequence[Register]) -> tuple[Stmt, ...]:
        """The epilogue element by element, from a small array."""
        window, lanes = self.window, tile.lanes
        size = len(accumulators) * lanes
        cells = self.numbers.buffer("tile", window.dtype, size, Space.STACK)
        stores = tuple(
            VectorStore(cells, const(r * lanes, int64), register, lanes)
            for r, register in enumerate(accumulators)
        )
        across = self.numbers.axis("i", len(accumulators))
        along = self.numbers.axis("lane", tile.count)
        place = {**self.axes, **self._cell(tile, across, along)}
        element = cells.at(simplify(across * lanes + along))
        value = substitute(
            replace_axes(window.epilogue, place),
            lambda term: self._element(term, element),
        )
        value = widen(value)
        if self.output.dtype.is_half:
            value = Cast(value, self.output.dtype)
        store = Store(self.output, replace_axes(window.result, place), value)
        body: tuple[Stmt, ...] = (For(along, (store,), LoopKind.SIMD),)
        return (Allocate(cells, (*stores, *nested((across,), body, LoopKind.SERIAL))),)

    def _element(self, term: Expr, element: Load) -> Expr | None:
        """A load of the epilogue as a load of its buffer, the fold as `element`."""
        if not isinstance(term, Load):
            return None
        if term.operand == self.window.window_operand:
            return element
        return self.inputs[term.operand].at(term.indices[0])


def _column_groups(window: Window) -> tuple[tuple[int, ...], ...]:
    """The columns of the window whose taps are loaded together: at stride 2, neighbours. The same
    on every target, since they are the order of sums."""
    extent = window.columns.kernel.extent
    size = 2 if window.columns.step == 2 and window.columns.tap == 1 else 1
    return tuple(tuple(range(c, min(c + size, extent))) for c in range(0, extent, size))


def _neighbours(window: Window, group: Sequence[int]) -> tuple[int, int | None]:
    """The columns of the window that are the even and the odd elements of what is loaded for a
    group. A column that is left over comes with the one before it."""
    if len(group) == 2:
        return group[0], group[1]
    if window.columns.tap == 1 and group[0] > 0:
        return group[0] - 1, group[0]
    return group[0], None


def _into(load: tuple[Stmt, ...], target: Register) -> tuple[Stmt, ...]:
    """The statements of a load, the last of which defines `target`."""
    *before, last = load
    match last:
        case VectorLoad():
            return (*before, replace(last, register=target))
        case Alternate():
            return (*before, replace(last, target=target))
        case _:
            raise AssertionError("a tap is loaded or taken from two vectors")


def _written(body: tuple[Stmt, ...]) -> frozenset[Register]:
    """The registers that some statement writes."""
    return frozenset(
        statement.register if isinstance(statement, Fill | VectorLoad) else statement.target
        for statement in statements(body)
        if isinstance(statement, Fill | VectorLoad | VectorApply | Alternate)
    )


def _blocks(span: Span) -> Iterator[tuple[int, int]]:
    """Start and length of each block of a span."""
    for block in range(span.blocks):
        yield span.start + block * span.length, span.length


def _interval(holds: Sequence[bool]) -> range:
    """The positions that hold; linear conditions leave no gaps between them."""
    positions = [position for position, held in enumerate(holds) if held]
    if not positions:
        return range(0)
    assert all(holds[positions[0] : positions[-1] + 1]), "conditions are linear"
    return range(positions[0], positions[-1] + 1)
