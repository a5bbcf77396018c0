"""Statements on vector registers in a line, and which register of the machine each one is in.

What it does: lays loops and conditions around statements on vectors out as steps, one behind the
other, in which every declared register has a number of its own; finds loads that instructions can
do themselves; and gives registers of the machine away by where the declared ones are first and last
needed. What it does not: know any instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from heapq import heappop, heappush
from math import isnan
from typing import assert_never

from tensorgen.expr import Apply, Axis, Const, Expr, Load
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Declare,
    Fill,
    For,
    If,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    Register,
    Space,
    Stmt,
    Store,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.simplify import affine
from tensorgen.tune.assembly_page import NoAssembly
from tensorgen.types import float32


class Mark(Enum):
    """What a step is."""

    DO = "do"
    LOOP = "loop"
    IF = "if"
    ELSE = "else"
    END = "end"  # of a loop or a condition


@dataclass(frozen=True, slots=True)
class SpreadStore:
    """`buffer[index + l * apart] = register[l]` for the first `count` lanes: what a loop over lanes
    stores that lie apart."""

    buffer: Buffer
    index: Expr
    register: Register
    count: int
    apart: int


Plain = (
    Fill | VectorLoad | VectorStore | SpreadStore | MultiplyAdd | VectorApply | Alternate | Prefetch
)
"""Statements without others inside."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement, or where one with others inside begins or ends: the registers that it reads, in
    the order of its operands, the one that it writes, `spare` ones, and those of its `masks`. One
    that is `long` writes its result before it has read everything. A loop's turns go on `by` so
    many; of an axis that no loop is over, `known` has the position and the value."""

    mark: Mark
    statement: Stmt | SpreadStore
    reads: tuple[int, ...] = ()
    written: int | None = None
    spare: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()
    long: bool = False
    by: int = 1
    known: tuple[int, int] | None = None


LaneMask = tuple[int, range]
"""A number of lanes, and those of them that are read or written."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What an instruction takes besides the registers that its statement names: so many `spare`
    ones, and `masks` that stay in theirs, by the lanes that they stand for; and whether it is
    `long`."""

    spare: int = 0
    masks: tuple[LaneMask, ...] = ()
    long: bool = False


NOTHING = Needs()


@dataclass(frozen=True, slots=True)
class Steps:
    """Statements in a line. `ends` has the end of each block by its begin, `masks` the register of
    each mask; `arrays` are local ones."""

    line: tuple[Step, ...]
    ends: Mapping[int, int]
    masks: Mapping[LaneMask, int]
    arrays: tuple[Buffer, ...]


def steps_of(body: Sequence[Stmt], lanes: int, needs: Callable[[Plain], Needs]) -> Steps:
    """A body in a line. Loops over lanes are in vectors of so many. Raises NoAssembly for
    statements of other kinds."""
    writer = _Line(lanes, needs)
    writer.block(body)
    line = _with_registers_renamed(writer.line, writer.number)
    return Steps(tuple(line), writer.ends, writer.masks, tuple(writer.arrays))


def _with_registers_renamed(line: Sequence[Step], number: Callable[[], int]) -> list[Step]:
    """Steps in which a register that no block reads from outside has another number whenever it is
    written: what it had before does not matter."""
    outside = _read_before_written(line)
    names: dict[int, int] = {}
    found = []
    for step in line:
        reads = tuple(names.get(register, register) for register in step.reads)
        written = step.written
        if written is not None and written not in outside and written not in step.reads[2:]:
            names[written] = number()
        written = None if written is None else names.get(written, written)
        found.append(replace(step, reads=reads, written=written))
    return found


_MOST_UNROLLED = 4
"""Vectors of a loop over lanes that are written one behind the other, as compilers have them."""


@dataclass(slots=True)
class _Line:
    """The state of laying out."""

    lanes: int
    needs: Callable[[Plain], Needs]
    line: list[Step] = field(default_factory=list)
    arrays: list[Buffer] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    masks: dict[LaneMask, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def block(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        numbers = self.numbers
        match statement:
            case MultiplyAdd(target=target, left=left, right=right):
                written = numbers[target.name]
                self.do(statement, (numbers[left.name], numbers[right.name], written), written)
            case VectorLoad(register=register) | Fill(register=register):
                self.do(statement, (), numbers[register.name])
            case VectorApply(target=target, left=left, right=right):
                self.do(statement, (numbers[left.name], numbers[right.name]), numbers[target.name])
            case VectorStore(register=register):
                self.do(statement, (numbers[register.name],), None)
            case Alternate(target=target, low=low, high=high):
                self.do(statement, (numbers[low.name], numbers[high.name]), numbers[target.name])
            case Prefetch():
                self.do(statement, (), None)
            case Declare(registers=registers, body=body):
                outer = dict(numbers)
                numbers |= {register.name: self.number() for register in registers}
                self.block(body)
                self.numbers = outer
            case For(body=body, kind=LoopKind.SERIAL | LoopKind.ROLLED):
                begin = self._begin(Mark.LOOP, statement)
                self.block(body)
                self._end(begin, statement)
            case If(body=body, otherwise=otherwise):
                begin = self._begin(Mark.IF, statement)
                self.block(body)
                if otherwise:
                    self._end(begin, statement)
                    begin = self._begin(Mark.ELSE, statement)
                    self.block(otherwise)
                self._end(begin, statement)
            case For(kind=LoopKind.SIMD):
                self._over_lanes(statement)
            case Allocate(buffer=buffer, body=body) if buffer.space is Space.STACK:
                self.arrays.append(buffer)
                self.block(body)
            case _:
                raise NoAssembly

    def _over_lanes(self, loop: For) -> None:
        """A loop whose turns are lanes: whole vectors, and one that is a part of one."""
        whole, rest = divmod(loop.axis.extent, self.lanes)
        if whole > _MOST_UNROLLED:
            begin = self._begin(Mark.LOOP, loop, self.lanes)
            self._stores(loop, self.lanes, None)
            self._end(begin, loop)
        else:
            for vector in range(whole):
                self._stores(loop, self.lanes, vector * self.lanes)
        if rest:
            self._stores(loop, rest, whole * self.lanes)

    def _stores(self, loop: For, count: int, value: int | None) -> None:
        """The stores of so many lanes, from a known value of the loop's axis on or from that which
        it has."""
        known = None if value is None else (loop.axis.position, value)
        lanes = _Lanes(self, loop.axis, Register("lanes", float32, self.lanes), count, known)
        for store in loop.body:
            if not isinstance(store, Store) or store.streamed:
                raise NoAssembly
            lanes.store(store)

    def _begin(self, mark: Mark, statement: Stmt, by: int = 1) -> int:
        self.line.append(Step(mark, statement, by=by))
        return len(self.line) - 1

    def _end(self, begin: int, statement: Stmt) -> None:
        self.ends[begin] = len(self.line)
        self.line.append(Step(Mark.END, statement))

    def number(self) -> int:
        """A register."""
        self.count += 1
        return self.count - 1

    def do(
        self,
        statement: Plain,
        reads: tuple[int, ...],
        written: int | None,
        known: tuple[int, int] | None = None,
    ) -> None:
        """A statement that reads and writes these registers."""
        needs = self.needs(statement)
        if needs is NOTHING:
            self.line.append(Step(Mark.DO, statement, reads, written, known=known))
            return
        for mask in needs.masks:
            if mask not in self.masks:
                self.masks[mask] = self.number()
        self.line.append(
            Step(
                Mark.DO,
                statement,
                reads,
                written,
                tuple(self.number() for _ in range(needs.spare)),
                tuple(self.masks[mask] for mask in needs.masks),
                needs.long,
                known=known,
            )
        )


@dataclass(slots=True)
class _Lanes:
    """The turns of a loop over lanes, at once: a `register` for each of its terms."""

    line: _Line
    axis: Axis
    register: Register
    count: int
    known: tuple[int, int] | None
    done: dict[bytes, int] = field(default_factory=dict)

    def store(self, store: Store) -> None:
        """Those of one store; those behind it see what it has stored."""
        place = store.buffer.at(store.index)
        apart = self._apart(store.index)
        value = self._value(store.value)
        where = store.buffer, store.index, self.register, self.count
        written = VectorStore(*where) if apart == 1 else SpreadStore(*where, apart)
        self.line.do(written, (value,), None, self.known)
        self.done = {place.digest: value}

    def _value(self, term: Expr) -> int:
        """The register of a term."""
        if term.digest in self.done:
            return self.done[term.digest]
        statement: Plain
        reads: tuple[int, ...] = ()
        match term:
            case Load(operand=operand, type=kind, indices=(index,)) if self._goes_on(index):
                buffer = Buffer(operand, "lanes", kind.dtype, kind.size, Space.INPUT)
                statement = VectorLoad(self.register, buffer, index, self.count)
            case Load() | Const():
                statement = Fill(self.register, term)
            case Apply(args=(left, right)):
                operation, left, right = _without_nan(term.op.name, left, right)
                reads = self._value(left), self._value(right)
                statement = VectorApply(operation, self.register, self.register, self.register)
            case _:
                raise NoAssembly
        found = self.line.number()
        self.line.do(statement, reads, found, self.known)
        self.done[term.digest] = found
        return found

    def _goes_on(self, index: Expr) -> bool:
        """Whether turns read elements one behind the other, and not the same one. Raises NoAssembly
        for any other order."""
        if self.axis.extent == 1:
            return False
        step = affine(index).step(self.axis)
        if step not in (0, 1):
            raise NoAssembly
        return step == 1

    def _apart(self, index: Expr) -> int:
        """How far the elements of turns are apart. Raises NoAssembly if only the caller knows."""
        if self.axis.extent == 1:
            return 1
        step = affine(index).step(self.axis)
        if not step:
            raise NoAssembly
        return step


def _without_nan(operation: str, left: Expr, right: Expr) -> tuple[str, Expr, Expr]:
    """A limit with a number as the operation that takes one for granted on its right; others as
    they are."""
    if operation in ("max", "min"):
        for value, number in ((left, right), (right, left)):
            if isinstance(number, Const) and not isnan(number.value):
                return f"{operation}_number", value, number
    return operation, left, right


def steps_in_front(
    steps: Steps, same: Callable[[int, int], bool], value: Callable[[int], object]
) -> dict[int, tuple[tuple[int, ...], ...]]:
    """By the begins of loops the steps in them that fill registers anew in each turn with what they
    have already, those together that fill them with the same `value`. `same` tells of a step and a
    loop that it does so. What conditions are around stays where it is."""
    outside = _read_before_written(steps.line)
    writes = Counter(step.written for step in steps.line)
    found: dict[int, dict[object, list[int]]] = {}
    around: list[int | None] = []
    for number, step in enumerate(steps.line):
        match step.mark:
            case Mark.LOOP:
                around.append(number)
            case Mark.IF | Mark.ELSE:
                around.append(None)
            case Mark.END:
                around.pop()
            case Mark.DO if isinstance(step.statement, Fill) and writes[step.written] == 1:
                outermost = None
                for loop in reversed(around):
                    if loop is None or step.written in outside or not same(number, loop):
                        break
                    outermost = loop
                if outermost is not None:
                    alike = found.setdefault(outermost, {})
                    alike.setdefault(value(number), []).append(number)
            case Mark.DO:
                pass
            case _:
                assert_never(step.mark)
    return {loop: tuple(map(tuple, alike.values())) for loop, alike in found.items()}


def loads_inside(
    steps: Steps, apart: Set[int], folds: Callable[[Plain, Plain], Sequence[int]]
) -> dict[int, tuple[int, int]]:
    """Which steps do a load themselves: by the number of such a step the place of the load among
    what it reads, and the number of the step that loads, which is nothing more. `folds` says at
    which of these places a statement can do another's load; those `apart` are left as they are."""
    found: dict[int, tuple[int, int]] = {}
    # The load of each register whose readers are not all known, and these, with the place.
    loads: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    outside = _read_before_written(steps.line)

    def settle(register: int) -> None:
        load, readers = loads.pop(register)
        if len(readers) == 1:
            ((reader, place),) = readers
            does = folds(_plain(steps.line[reader].statement), _plain(steps.line[load].statement))
            if reader not in found and place in does:
                found[reader] = place, load

    for number, step in enumerate(steps.line):
        if step.mark is not Mark.DO:
            for register in tuple(loads):
                settle(register)
            continue
        if loads:
            for place, register in enumerate(step.reads):
                if register in loads:
                    loads[register][1].append((number, place))
            if isinstance(step.statement, VectorStore | SpreadStore):
                # Who reads behind a store may read what it wrote.
                for register in [r for r, (_, readers) in loads.items() if not readers]:
                    del loads[register]
        written = step.written
        if written is not None:
            if written in loads:
                settle(written)
            if _is_load(step.statement) and written not in outside and number not in apart:
                loads[written] = number, []
    for register in tuple(loads):
        settle(register)
    return found


def _plain(statement: Stmt | SpreadStore) -> Plain:
    assert isinstance(statement, Plain), "a step that does something"
    return statement


def _is_load(statement: Stmt | SpreadStore) -> bool:
    match statement:
        case VectorLoad(kept=kept):
            return not kept
        case Fill(value=Load()):
            return True
        case _:
            return False


def _read_before_written(line: Sequence[Step]) -> set[int]:
    """Registers that somebody reads who has not seen them written since a block began or ended."""
    found: set[int] = set()
    written: set[int] = set()
    for step in line:
        if step.mark is not Mark.DO:
            written.clear()
            continue
        for register in step.reads:
            if register not in written:
                found.add(register)
        if step.written is not None:
            written.add(step.written)
    return found


def given_registers(
    steps: Steps, inside: Mapping[int, tuple[int, int]], count: int, *, masks: bool
) -> dict[int, int] | None:
    """The machine's register of each declared one, of so many; None if there are not enough. Loads
    that are `inside` other steps need none. Without `masks` these are in none."""
    lives = _Lives(masks)
    loads = {load for _, load in inside.values()}
    for number, step in enumerate(steps.line):
        if number not in loads:
            lives.add(number, step, inside[number][0] if number in inside else None)
    free = list(range(count))
    taken: list[tuple[int, int]] = []  # until when, and which
    found: dict[int, int] = {}
    for register, first in sorted(lives.first.items(), key=lambda pair: pair[1]):
        while taken and taken[0][0] < first:
            heappush(free, heappop(taken)[1])
        if not free:
            return None
        found[register] = heappop(free)
        heappush(taken, (lives.last[register], found[register]))
    return found


@dataclass(slots=True)
class _Lives:
    """From where to where registers are needed: an even number where a step reads, the odd one
    behind it where it writes."""

    with_masks: bool
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    # Of each loop around, the function first: where it begins, and of the registers that it uses
    # whether they have to last from one turn to the next: it reads what it has not written, or may
    # not have.
    loops: list[tuple[int, dict[int, bool]]] = field(default_factory=lambda: [(0, {})])
    blocks: list[Mark] = field(default_factory=list)
    conditions: int = 0

    def add(self, number: int, step: Step, inside: int | None) -> None:
        """The next step. What it reads at the place `inside`, it loads itself."""
        place = 2 * number
        match step.mark:
            case Mark.DO:
                end = place + 1 if step.long else place
                for position, register in enumerate(step.reads):
                    if position != inside:
                        self._use(register, place, end, lasts=True)
                if step.written is not None:
                    self._use(step.written, place + 1, place + 1, lasts=self.conditions > 0)
                for register in step.spare:
                    self._use(register, place, place + 1, lasts=False)
                if self.with_masks:
                    for register in step.masks:
                        # Loaded in front of everything.
                        self._use(register, 0, place, lasts=True)
            case Mark.LOOP:
                self.loops.append((place, {}))
                self.blocks.append(step.mark)
            case Mark.IF | Mark.ELSE:
                self.conditions += 1
                self.blocks.append(step.mark)
            case Mark.END if self.blocks.pop() is Mark.LOOP:
                begin, used = self.loops.pop()
                for register, lasts in used.items():
                    if lasts:
                        self.first[register] = min(self.first[register], begin)
                        self.last[register] = place
                    self.loops[-1][1].setdefault(register, lasts)
            case Mark.END:
                self.conditions -= 1
            case _:
                assert_never(step.mark)

    def _use(self, register: int, begin: int, end: int, *, lasts: bool) -> None:
        self.first[register] = min(self.first.get(register, begin), begin)
        self.last[register] = end
        self.loops[-1][1].setdefault(register, lasts)
