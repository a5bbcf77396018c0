"""Statements on vector registers in a line, whatever is around them.

What it does: lays loops and conditions around statements on vectors out as steps, one behind the
other, in which every declared register has a number of its own, and a new one whenever it is
written; loops over lanes become the same steps. What it does not: leave any out (`vector_loads`),
give away registers of the machine (`vector_registers`), or know any instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import isnan

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
    outside = read_before_written(line)
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


def read_before_written(line: Sequence[Step]) -> set[int]:
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
