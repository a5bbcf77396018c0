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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    const,
    free_axes,
    neutral_element,
    substitute,
    walk,
)
from tensorgen.loop import (
    Allocate,
    Buffer,
    Declare,
    Fill,
    For,
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
from tensorgen.simplify import simplify, simplify_index
from tensorgen.task import Task
from tensorgen.types import int64
from tensorgen.widen import widen
from tensorgen.window import NO_AXIS, Window, window_of

VECTOR_OPERATIONS = frozenset({"add", "sub", "mul", "div", "max", "min"})
"""Operators that an epilogue may use to stay in registers."""

Inside = tuple[tuple[bool, ...], ...]
"""For each row of a tile and each row of the window, whether the tap is inside the plane."""

Lanes = tuple[range, ...]
"""For each column of the window, the lanes whose tap is inside the plane."""


def lower_window_tile(task: Task, schedule: WindowTile) -> LoopKernel:
    """The loops of a window under a tile. Raises ScheduleError if the task is no window."""
    window = window_of(task)
    if window is None:
        raise ScheduleError("window_tile: expected a window, got " + str(task)[:200])
    numbers = Numbers()
    inputs, (output,) = parameter_buffers(task, numbers)
    outer = tuple(numbers.axis(axis.name, axis.extent) for axis in window.outer)
    axes: dict[Axis, Expr] = dict(zip(window.outer, outer, strict=True))
    axes[NO_AXIS] = const(0, int64)
    body = _WindowLowering(schedule, window, numbers, inputs, output, axes).plane()
    shared = min(schedule.parallel, len(outer))
    body = nested(outer[shared:], body, LoopKind.SERIAL)
    return LoopKernel(inputs, (output,), (), nested(outer[:shared], body, LoopKind.PARALLEL))


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
        extent = self.window.rows.output.extent
        for span, inside in self._row_spans(extent):
            row, loops = self._position("r", span)
            tiles: list[Stmt] = []
            for run in self.schedule.columns:
                for part, taken in self._column_spans(run):
                    column, across = self._position("c", part)
                    tile = _Tile(row, column, run.lanes, run.count, inside, taken)
                    tiles.extend(nested(across, self._tile(tile), LoopKind.SERIAL))
            result.extend(nested(loops, tuple(tiles), LoopKind.SERIAL))
        return tuple(result)

    def _position(self, name: str, span: Span) -> tuple[Expr, tuple[Axis, ...]]:
        """The first element of a block, and the loop over the blocks if there are several."""
        if span.blocks == 1:
            return const(span.start, int64), ()
        loop = self.numbers.axis(f"{name}_o", span.blocks)
        return simplify(loop * span.length + span.start), (loop,)

    def _row_spans(self, extent: int) -> Iterator[tuple[Span, Inside]]:
        """Runs of row blocks whose taps are inside alike."""
        rows = self.window.rows
        blocks = [
            (start, length)
            for span in spans(extent, self.schedule.rows)
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
        """The sum of taps times weights, one column of the window after the other."""
        window, lanes = self.window, tile.lanes
        weights = [
            Register(f"weight_{k}", window.dtype, lanes) for k in range(window.rows.kernel.extent)
        ]
        taps = Register("taps", window.dtype, lanes)
        steps: list[Stmt] = []
        for column, taken in enumerate(tile.taken):
            needed = {k for row in tile.inside for k, inside in enumerate(row) if inside}
            if not taken:
                continue
            for k in sorted(needed):
                place = {**point, window.rows.kernel: const(k, int64)}
                place[window.columns.kernel] = const(column, int64)
                index = replace_axes(weight.indices[0], place)
                steps.append(Fill(weights[k], self.inputs[weight.operand].at(index)))
            for pairs in self._plane_rows(tile):
                load = self._load(tile, taps, pairs[0], column, taken, point)
                # Part of a vector is read once anyway.
                shared = len(pairs) > 1 and len(taken) == lanes
                steps.append(replace(load, kept=shared))
                steps.extend(MultiplyAdd(accumulators[r], taps, weights[k]) for r, k in pairs)
        return tuple(steps), (*weights, taps)

    def _fold_taps(
        self, tile: _Tile, accumulators: Sequence[Register], point: dict[Axis, Expr]
    ) -> tuple[tuple[Stmt, ...], tuple[Register, ...]]:
        """The fold of the taps, one row of the plane after the other."""
        window, lanes = self.window, tile.lanes
        taps = Register("taps", window.dtype, lanes)
        row = Register("row", window.dtype, lanes)
        operation = window.fold.value
        steps: list[Stmt] = []
        columns = [(column, taken) for column, taken in enumerate(tile.taken) if taken]
        for pairs in self._plane_rows(tile):
            for position, (column, taken) in enumerate(columns):
                target = taps if position else row
                load = self._load(tile, target, pairs[0], column, taken, point)
                shared = len(columns) == 1 and len(pairs) > 1 and len(taken) == lanes
                steps.append(replace(load, kept=shared))
                if position:
                    steps.append(VectorApply(operation, row, row, taps))
            if columns:
                steps.extend(
                    VectorApply(operation, accumulators[r], accumulators[r], row) for r, _ in pairs
                )
        return tuple(steps), (row, taps)

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

    def _load(
        self,
        tile: _Tile,
        target: Register,
        pair: tuple[int, int],
        column: int,
        taken: range,
        point: dict[Axis, Expr],
    ) -> VectorLoad:
        """The lanes of one tap that are inside the plane."""
        window, (r, k) = self.window, pair
        place = {
            **point,
            window.rows.kernel: const(k, int64),
            window.columns.kernel: const(column, int64),
            **self._cell(tile, const(r, int64), const(0, int64)),
        }
        index = replace_axes(window.index, place)
        return VectorLoad(
            target,
            self.inputs[window.operand],
            index,
            len(taken),
            taken.start,
            window.columns.step,
            window.outside,
        )

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
        if not _stays_in_registers(self.window, self.output):
            return self._finish_elements(tile, accumulators), ()
        zero = const(0, int64)
        epilogue = _VectorEpilogue(self.window, self.inputs, tile, {}, [], [])
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


@dataclass(frozen=True, slots=True)
class _VectorEpilogue:
    """The epilogue of one tile in registers: what all rows share is computed once."""

    window: Window
    inputs: tuple[Buffer, ...]
    tile: _Tile
    known: dict[Expr, Register]
    registers: list[Register]
    statements: list[Stmt]

    def value(self, term: Expr, accumulator: Register, place: dict[Axis, Expr]) -> Register:
        """The register that holds a term for one row of the tile."""
        if isinstance(term, Load) and term.operand == self.window.window_operand:
            return accumulator
        if _is_uniform(term, self.window):
            scalar = self._located(replace_axes(term, place))
            if scalar not in self.known:
                self.known[scalar] = self._register()
                self.statements.append(Fill(self.known[scalar], scalar))
            return self.known[scalar]
        match term:
            case Load(operand=operand, indices=(index,)):
                register = self._register()
                at, count = replace_axes(index, place), self.tile.count
                self.statements.append(VectorLoad(register, self.inputs[operand], at, count))
                return register
            case Apply(op=op, args=(left, right)):
                first = self.value(left, accumulator, place)
                second = self.value(right, accumulator, place)
                # What is not needed again is overwritten.
                target = accumulator if accumulator in (first, second) else self._register()
                name = _operation(op.name, right)
                self.statements.append(VectorApply(name, target, first, second))
                return target
            case _:
                raise AssertionError("the epilogue does not stay in registers")

    def _register(self) -> Register:
        name = f"value_{len(self.registers)}"
        register = Register(name, self.window.dtype, self.tile.lanes)
        self.registers.append(register)
        return register

    def _located(self, term: Expr) -> Expr:
        """The term over the kernel's buffers."""
        return substitute(
            term,
            lambda t: self.inputs[t.operand].at(t.indices[0]) if isinstance(t, Load) else None,
        )


def _written(body: tuple[Stmt, ...]) -> frozenset[Register]:
    """The registers that some statement writes."""
    return frozenset(
        statement.target if isinstance(statement, VectorApply) else statement.register
        for statement in statements(body)
        if isinstance(statement, Fill | VectorLoad | VectorApply)
    )


def _operation(name: str, right: Expr) -> str:
    """The vector operation: a bound that is no NaN needs no care."""
    known = isinstance(right, Const) and right.value == right.value
    return f"{name}_number" if known and name in ("max", "min") else name


def _is_uniform(term: Expr, window: Window) -> bool:
    """True if a term of the epilogue is the same in all lanes."""
    if window.columns.output in free_axes(term):
        return False
    return all(not isinstance(t, Load) or t.operand != window.window_operand for t in walk(term))


def _stays_in_registers(window: Window, output: Buffer) -> bool:
    """True if vector instructions compute the whole epilogue, which uses the fold once."""
    uses = 0

    def fits(term: Expr) -> bool:
        nonlocal uses
        if term.dtype != window.dtype:
            return False
        if isinstance(term, Load) and term.operand == window.window_operand:
            uses += 1
            return True
        if _is_uniform(term, window):
            return not any(isinstance(t, Reduce) for t in walk(term))
        match term:
            case Load(indices=(index,)):
                form = simplify_index(index)
                column = window.columns.output
                plain = all(
                    isinstance(a, Axis) or column not in free_axes(a) for a, _ in form.terms
                )
                return plain and form.coefficient(column) == 1
            case Apply(op=op, args=args):
                return op.name in VECTOR_OPERATIONS and all(map(fits, args))
            case _:
                return False

    return output.dtype == window.dtype and fits(window.epilogue) and uses == 1


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
