"""A part of a kernel as a function of its own, which kernels of other sizes and tasks share.

What it does: makes of some statements a function, and of what they were for in their kernel a call
of it. The function is told where the arrays begin that it reads and writes, how far its loops go in
them, how often they run, and what conditions depend on besides: parts that differ in that alone are
the same function. What it does not: choose parts, print functions or change what a kernel does.

What folds lanes, transposes without sums or calls something else stays where it is, and so does
what has to do with variables around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from tensorgen.expr import (
    Axis,
    Const,
    Expr,
    Load,
    const,
    free_axes,
    loads,
    map_children,
    substitute,
)
from tensorgen.loop import (
    FIRST_LOOP,
    Allocate,
    Alternate,
    Buffer,
    Call,
    Declare,
    Fill,
    For,
    If,
    LoopFunction,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    Space,
    Stmt,
    Store,
    TransposeBlock,
    TransposeSums,
    VectorApply,
    VectorLoad,
    VectorStore,
    statements,
)
from tensorgen.simplify import Affine, affine, simplify
from tensorgen.types import int64

MOST_ROWS_APART = 14
"""Rows that may lie as far apart as the caller says. More need more addresses than there are
registers for; they are as far apart as they are in a function of their own."""

_MOST_LOCALS = 1 << 10
"""Arrays of a function's own have so many numbers, below those of its parameters."""

_FIRST_HINT = FIRST_LOOP << 1
"""Loops over hints are numbered from here, behind those of kernels."""

_UNKNOWN = 1 << 20
"""The size of arrays, and the extent of loops and numbers, in a function. Sums of products of two
of them are still known to be indices."""


def outlined(
    part: tuple[Stmt, ...], buffers: Mapping[int, Buffer], *, sizes: bool = True
) -> Call | None:
    """The call that does what a part of a kernel with these buffers does; None if that stays where
    it is. Without `sizes` the caller gives none: only where arrays begin, and what conditions
    depend on.
    """
    try:
        return _Outline(buffers, sizes).call(_with_hints_in_loops(part))
    except _Unfit:
        return None


def _with_hints_in_loops(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Loops over hints in the place of hints, so that functions do not differ in how many there
    are; but for those between multiply-adds, where a loop would take longer than they do."""
    between = any(isinstance(statement, MultiplyAdd) for statement in body)
    found: list[Stmt] = []
    for hints, group in groupby(body, lambda s: isinstance(s, Prefetch) and not between):
        if hints:
            found.extend(_hint_loops([s for s in group if isinstance(s, Prefetch)]))
            continue
        for statement in group:
            if isinstance(statement, For | Declare):
                statement = replace(statement, body=_with_hints_in_loops(statement.body))
            found.append(statement)
    return tuple(found)


def _hint_loops(hints: list[Prefetch]) -> Iterator[Stmt]:
    """Hints in loops, as many as there are runs of equal steps in one buffer."""
    while hints:
        first, count, step = hints[0], 1, 0
        for last, hint in pairwise(hints):
            distance = affine(hint.index).plus(affine(last.index).scaled(-1))
            alike = (hint.buffer, hint.later) == (first.buffer, first.later)
            if not alike or distance.terms or (step and distance.constant != step):
                break
            count, step = count + 1, distance.constant
        hints = hints[count:]
        axis = Axis(_FIRST_HINT + len(hints), count, "hint")
        yield For(axis, (replace(first, index=first.index + axis * (step or 1)),), LoopKind.ROLLED)


class _Unfit(Exception):
    """A part cannot be a function."""


@dataclass(frozen=True, slots=True)
class _Access:
    """What the indices of a buffer have in common that differ by a constant: multiples of what does
    not change in a part, of its loops, and of terms in which both occur. Hints are by themselves.
    """

    buffer: Buffer
    hint: bool
    fixed: tuple[tuple[Expr, int], ...]
    steps: tuple[tuple[Axis, int], ...]
    mixed: tuple[tuple[Expr, int], ...]


@dataclass(slots=True)
class _Array:
    """A parameter of a function. For its caller it begins at an index of a buffer; in the function
    an index is what loops have moved it by, and the place of its offset."""

    buffer: Buffer
    begin: Expr
    moving: Expr | None
    places: dict[int, Expr | None]

    def at(self, offset: int) -> Expr:
        """The index for an offset."""
        return _sum(self.moving, self.places[offset])


@dataclass(slots=True)
class _Outline:
    """A function in the making: its loops, and its numbers with what the caller gives for them.
    Loops that are `written_out` are those of what functions of the library are for: they tell
    nothing about the places that these are given.
    """

    buffers: Mapping[int, Buffer]
    sizes: bool
    in_lanes: frozenset[Axis] = frozenset()
    lanes: int = 0
    locals: dict[Buffer, Buffer] = field(default_factory=dict)
    loops: dict[Axis, Axis] = field(default_factory=dict)
    counted: list[Axis] = field(default_factory=list)
    written_out: set[Axis] = field(default_factory=set)
    numbers: dict[Axis, Expr] = field(default_factory=dict)
    known: dict[Expr, Axis] = field(default_factory=dict)
    seen: dict[tuple[int, bool, bytes], tuple[_Access, int, Affine]] = field(default_factory=dict)
    offsets: dict[_Access, set[int]] = field(default_factory=dict)
    arrays: dict[_Access, _Array] = field(default_factory=dict)

    def call(self, part: tuple[Stmt, ...]) -> Call:
        """The call in the place of a part. Raises _Unfit."""
        inside = tuple(statements(part))
        self.in_lanes = frozenset(
            s.axis for s in inside if isinstance(s, For) and s.kind is LoopKind.SIMD
        )
        self._note(part)
        written = {s.buffer for s in inside if isinstance(s, VectorStore | Store)}
        ways = Counter(access.buffer for access in self.offsets if not access.hint)
        counts = tuple(
            (self.loops[loop], self._number("count", const(loop.extent, int64)))
            for loop in self.counted
        )
        for access, offsets in self.offsets.items():
            space = Space.OUTPUT if access.buffer in written else Space.INPUT
            self.arrays[access] = self._array(access, sorted(offsets), space)
        body = self._moved(part)
        return Call(
            LoopFunction(
                tuple(array.buffer for array in self.arrays.values()),
                frozenset(
                    array.buffer
                    for access, array in self.arrays.items()
                    if access.buffer in written and ways[access.buffer] > 1
                ),
                tuple(self.numbers),
                counts,
                body,
            ),
            tuple((access.buffer, array.begin) for access, array in self.arrays.items()),
            tuple(self.numbers.values()),
            part,
        )

    def _axis(self, name: str, extent: int) -> Axis:
        return Axis(FIRST_LOOP + len(self.loops) + len(self.numbers), extent, name)

    def _number(self, name: str, value: Expr) -> Axis:
        number = self._axis(f"{name}_{len(self.numbers)}", _UNKNOWN)
        self.numbers[number] = value
        return number

    # What a part consists of

    def _note(self, body: Sequence[Stmt]) -> None:
        """Notes loops, and what is read and written. Raises _Unfit."""
        for statement in body:
            match statement:
                case For(axis=axis, kind=kind) if kind is not LoopKind.PARALLEL:
                    # Loops over lanes become vectors by their length, which all loops over the
                    # same axis have in common.
                    if axis not in self.loops:
                        counted = self.sizes and axis not in self.in_lanes
                        extent = _UNKNOWN if counted else axis.extent
                        self.loops[axis] = self._axis(f"i_{len(self.loops)}", extent)
                        if counted:
                            self.counted.append(axis)
                    self._note(statement.body)
                case If(condition=condition):
                    self._note_loads(condition)
                    self._note(statement.body)
                    self._note(statement.otherwise)
                case Allocate(buffer=buffer) if buffer.space is Space.STACK:
                    number = len(self.locals) - _MOST_LOCALS
                    self.locals[buffer] = replace(buffer, number=number)
                    self._note(statement.body)
                case Declare(registers=registers):
                    self.lanes = registers[0].lanes
                    self._note(statement.body)
                case Fill(value=value):
                    self._note_loads(value)
                case Store(buffer=buffer, index=index, value=value):
                    self._note_access(buffer, index)
                    self._note_loads(value)
                case VectorLoad(buffer=buffer):
                    self._note_access(buffer, _first_read(statement))
                case VectorStore(buffer=buffer, index=index):
                    self._note_access(buffer, index)
                case Prefetch(buffer=buffer, index=index):
                    self._note_access(buffer, index, hint=True)
                case TransposeSums(block=block, rows=rows, rows_index=rows_index):
                    self._note_access(block.source, block.index)
                    self._note_access(block.target, block.target_index)
                    self._note_access(rows, rows_index)
                    self._note_written_out(statement.body)
                case MultiplyAdd() | VectorApply() | Alternate():
                    pass
                case _:
                    raise _Unfit

    def _note_written_out(self, body: Sequence[Stmt]) -> None:
        """Notes what a function of the library does, as loops, with the loops themselves."""
        for loop in statements(tuple(body)):
            if isinstance(loop, For) and loop.axis not in self.loops:
                self.loops[loop.axis] = self._axis(f"i_{len(self.loops)}", loop.axis.extent)
                self.written_out.add(loop.axis)
        for statement in body:
            inside = statement.body if isinstance(statement, TransposeBlock) else (statement,)
            self._note(inside)

    def _note_loads(self, value: Expr) -> None:
        for load in loads(value):
            self._note_access(self.buffers[load.operand], load.indices[0])

    def _note_access(self, buffer: Buffer, index: Expr, hint: bool = False) -> None:
        if buffer in self.locals:
            return
        if buffer.space is Space.SCALAR:
            raise _Unfit
        access, offset, _ = self._access(buffer, index, hint)
        self.offsets.setdefault(access, set()).add(offset)

    def _access(self, buffer: Buffer, index: Expr, hint: bool) -> tuple[_Access, int, Affine]:
        """An access, the constant in its index, and what loops add that are written out."""
        key = buffer.number, hint, index.digest
        if key not in self.seen:
            form = affine(index)
            within = tuple(pair for pair in form.terms if pair[0] in self.written_out)
            terms = tuple(pair for pair in form.terms if pair not in within)
            access = _Access(buffer, hint, *self._parts(Affine(terms, form.constant)))
            self.seen[key] = access, form.constant, Affine(within, 0)
        return self.seen[key]

    def _parts(
        self, form: Affine
    ) -> tuple[
        tuple[tuple[Expr, int], ...], tuple[tuple[Axis, int], ...], tuple[tuple[Expr, int], ...]
    ]:
        """The terms of a sum that do not change in the part, its loops, and what has both."""
        fixed, steps, mixed = [], [], []
        for atom, factor in form.terms:
            if isinstance(atom, Axis) and atom in self.loops:
                steps.append((atom, factor))
            elif free_axes(atom) & self.loops.keys():
                mixed.append((atom, factor))
            else:
                fixed.append((atom, factor))
        return tuple(fixed), tuple(steps), tuple(mixed)

    # What a function consists of

    def _array(self, access: _Access, offsets: Sequence[int], space: Space) -> _Array:
        """The parameter for an access at these offsets."""
        first, number = offsets[0], len(self.arrays)
        begin = Affine(access.fixed, first)
        at, moving = begin.expr, list[Expr]()
        if access.hint or begin.bounds[0] < 0:
            # No pointer goes where a hint may point to, or before an array.
            moving.append(self._number("begin", at))
            at = const(0, int64)
        for loop, step in access.steps:
            if (step == 1 and not access.hint) or loop not in self.counted:
                moving.append(_times(self.loops[loop], step))
            else:
                moving.append(self.loops[loop] * self._number("step", const(step, int64)))
        moving += (_times(self._term(atom), factor) for atom, factor in access.mixed)
        places: dict[int, Expr | None] = {
            o: const(o - first, int64) if o > first else None for o in offsets
        }
        rows = _rows_apart([o - first for o in offsets], self.lanes) if self.sizes else None
        if rows is not None:
            together, apart = rows
            row = self._number("apart", const(apart, int64))
            places = {
                o: _row(row, n // together, (o - first) % apart) for n, o in enumerate(offsets)
            }
        dtype = access.buffer.dtype
        return _Array(
            Buffer(number, f"array_{number}", dtype, _UNKNOWN, space),
            at,
            _sum(*moving) if moving else None,
            places,
        )

    def _moved(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The statements of a part as they are in the function."""
        return tuple(map(self._in_function, body))

    def _in_function(self, statement: Stmt) -> Stmt:
        match statement:
            case For(axis=axis):
                return replace(statement, axis=self.loops[axis], body=self._moved(statement.body))
            case If(condition=condition):
                return replace(
                    statement,
                    condition=self._term(condition),
                    body=self._moved(statement.body),
                    otherwise=self._moved(statement.otherwise),
                )
            case Declare():
                return replace(statement, body=self._moved(statement.body))
            case Allocate(buffer=buffer):
                return Allocate(self.locals[buffer], self._moved(statement.body))
            case Fill(value=value):
                return replace(statement, value=self._term(value))
            case Store(buffer=buffer, index=index, value=value):
                array, place = self._place(buffer, index)
                return replace(statement, buffer=array, index=place, value=self._term(value))
            case VectorLoad(buffer=buffer, first=first):
                array, place = self._place(buffer, _first_read(statement))
                index = simplify(place - first) if first else place
                return replace(statement, buffer=array, index=index)
            case TransposeSums(block=block, rows=rows, rows_index=rows_index):
                array, place = self._place(rows, rows_index)
                body = self._moved(statement.body)
                block = self._block_in_function(block)
                return replace(statement, block=block, rows=array, rows_index=place, body=body)
            case TransposeBlock():
                return self._block_in_function(statement)
            case VectorStore() | Prefetch():
                hint = isinstance(statement, Prefetch)
                array, place = self._place(statement.buffer, statement.index, hint)
                return replace(statement, buffer=array, index=place)
            case _:
                return statement

    def _block_in_function(self, block: TransposeBlock) -> TransposeBlock:
        source, index = self._place(block.source, block.index)
        target, target_index = self._place(block.target, block.target_index)
        return replace(
            block, source=source, index=index, target=target, target_index=target_index,
            body=self._moved(block.body),
        )  # fmt: skip

    def _place(self, buffer: Buffer, index: Expr, hint: bool = False) -> tuple[Buffer, Expr]:
        if buffer in self.locals:
            return self.locals[buffer], self._term(index)
        access, offset, within = self._access(buffer, index, hint)
        array = self.arrays[access]
        place = array.at(offset)
        return array.buffer, _sum(place, self._term(within.expr)) if within.terms else place

    def _term(self, term: Expr) -> Expr:
        """A value or a condition as it is in the function. Raises _Unfit."""
        return substitute(term, self._replacement)

    def _replacement(self, term: Expr) -> Expr | None:
        if isinstance(term, Load):
            array, place = self._place(self.buffers[term.operand], term.indices[0])
            return array.at(place)
        if term.dtype != int64 or isinstance(term, Const):
            return None
        if loads(term):
            raise _Unfit
        form = affine(term)
        fixed, steps, mixed = self._parts(form)
        terms = [_times(self.loops[loop], factor) for loop, factor in steps]
        if fixed:
            terms.append(self._fixed(Affine(fixed, 0)))
        # Of a term with both, what has both inside: a quotient, say.
        terms += (_times(map_children(atom, self._term), factor) for atom, factor in mixed)
        return _sum(*terms, const(form.constant, int64) if form.constant else None)

    def _fixed(self, form: Affine) -> Expr:
        """What does not change in the part: a number that the caller gives. None is negative."""
        low, high = form.bounds
        if low < 0 < high:
            raise _Unfit
        value = form.expr if low >= 0 else form.scaled(-1).expr
        if value not in self.known:
            self.known[value] = self._number("fixed", value)
        return _times(self.known[value], 1 if low >= 0 else -1)


def _first_read(load: VectorLoad) -> Expr:
    """The index of the first lane that is read: that of lane 0 may be before the array."""
    return load.index + load.first if load.first else load.index


def _times(term: Expr, factor: int) -> Expr:
    return term if factor == 1 else term * factor


def _sum(*terms: Expr | None) -> Expr:
    """The sum of those that there are; zero of none."""
    found: Expr | None = None
    for term in terms:
        if term is not None:
            found = term if found is None else found + term
    return const(0, int64) if found is None else found


def _row(apart: Expr, number: int, offset: int) -> Expr:
    """An offset in a row."""
    row = _times(apart, number) if number else None
    return _sum(row, const(offset, int64) if offset or row is None else None)


def _rows_apart(offsets: Sequence[int], lanes: int) -> tuple[int, int] | None:
    """Of offsets from 0 on that are rows of vectors: how many vectors in a row, and from a row to
    the next. None if a function is better off with the offsets."""
    count = len(offsets)
    together = next((n for n, offset in enumerate(offsets) if offset != n * lanes), count)
    if together == count or count % together or count > together * MOST_ROWS_APART:
        return None
    apart = offsets[together]
    rows = [n // together * apart + n % together * lanes for n in range(count)]
    return (together, apart) if apart > 1 and rows == list(offsets) else None
