"""Frames in assembly: loops around calls are so little that no compiler is needed for them.

What it does: writes a kernel of which calls of functions are left, and what is around them, as a
function in the assembly of x86-64 for the calling convention of System V, which an assembler is
done with in a tenth of the time that the compiler takes without any passes. Every number is in
memory, and every term is computed where it stands, as that compiler does: a frame is little beside
what it calls. What it does not: stores of elements, vectors, or anything else that a compiler is
better at (such a kernel has no assembly), and to assemble it.

The meaning of every statement is that of `emit_statements`, which prints the same kernel as C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from math import prod

from tensorgen.c_function import CFunction
from tensorgen.c_functions_filter import filter_function
from tensorgen.emit_statements import function_text
from tensorgen.expr import Apply, Axis, Const, Expr
from tensorgen.lane_vectors import (
    STREAM_FUNCTION,
    transpose_function,
    whole_transpose_function,
)
from tensorgen.loop import (
    Allocate,
    Buffer,
    Call,
    FilterTile,
    For,
    If,
    LoopKernel,
    LoopKind,
    Prefetch,
    Space,
    Stmt,
    TransposeBlock,
    has_parallel_loop,
    shared_as_one,
)
from tensorgen.module_spec import Kernel, Parameter
from tensorgen.scratch import scratch_layout
from tensorgen.simplify import bounds
from tensorgen.tune.frame_calls import (
    FIRST_PART,
    NEXT_PART,
    PART_WORDS,
    THREAD_NUMBER,
    WAIT_FOR_TEAM,
)

WORD = 8
"""Bytes of an index or an address."""

ALIGNED = 64
"""Arrays begin at so many bytes, as they do in C."""

_IN_REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""Where a function has its first arguments; the others are in memory, the first one lowest."""

_MOST_IN_MEMORY = 64
"""Room for arguments."""

_INFIX = {"add": "add", "sub": "sub", "and": "and", "or": "or"}
_COMPARED = {"lt": "setl", "le": "setle", "eq": "sete"}
_LIMITED = {"min": "cmovg", "max": "cmovl"}
_DIVIDED = {"floordiv": "rax", "div": "rax", "mod": "rdx"}
"""Where a quotient of numbers that are not negative is, and what is left."""

_STREAM_FUNCTIONS = frozenset(STREAM_FUNCTION.values())
"""C functions of ours behind which a kernel has to wait for its stores."""


@dataclass(frozen=True, slots=True)
class FrameTarget:
    """For whom frames are written: an instruction set, whether sums are as the model has them,
    whether a team of threads calls them, and which C functions of ours are there to be called."""

    isa: str
    strict: bool
    team: bool
    functions: frozenset[str]


def frame_kernel(kernel: LoopKernel, name: str, target: FrameTarget) -> Kernel | None:
    """The kernel as a function that takes the address of its operands' addresses; None if it has
    something else than loops and conditions around calls."""
    parallel = has_parallel_loop(kernel.body)
    frame = _Frame(target, name, scratch_layout(kernel, 1).apart, together=parallel)
    try:
        text = frame.text(kernel)
    except _NoFrame:
        return None
    parameters = tuple(
        Parameter(buffer.name, buffer.dtype, buffer.space is not Space.INPUT)
        for buffer in kernel.parameters
    )
    made = tuple(function for _, function in sorted(frame.made.items()))
    return Kernel(name, text, parameters, (), "", "", parallel, frame.open_end, made)


class _NoFrame(Exception):
    """There is something that frames do not have."""


@dataclass(slots=True)
class _Frame:
    """The state of writing one function.

    Below the frame pointer there are words: addresses of buffers, loop variables, what is computed
    on the way. At the stack pointer there are arguments, and above them arrays. `together` and
    `open_end` are those of `emit_statements.Statements`.
    """

    target: FrameTarget
    name: str
    apart: int
    together: bool
    shared: bool = False
    open_end: bool = False
    lines: list[str] = field(default_factory=list)
    made: dict[str, CFunction] = field(default_factory=dict)
    streams: bool = False
    _labels: int = 0
    _words: int = 0
    _most_words: int = 0
    _array_bytes: int = 0
    _most_array_bytes: int = 0
    _axes: dict[int, str] = field(default_factory=dict)
    _addresses: dict[int, str] = field(default_factory=dict)
    _arrays: dict[int, int] = field(default_factory=dict)

    def text(self, kernel: LoopKernel) -> str:
        """The function. Raises _NoFrame."""
        with self._places(len(kernel.parameters)) as places:
            for number, (buffer, place) in enumerate(zip(kernel.parameters, places, strict=True)):
                self._line(f"mov rax, [rdi + {WORD * number}]")
                self._line(f"mov {place}, rax")
                self._addresses[buffer.number] = place
            self._block(kernel.body, last=True)
        if self.streams:
            self._line("sfence")
        words = WORD * self._most_words + ALIGNED
        arrays = WORD * _MOST_IN_MEMORY + self._most_array_bytes
        return "\n".join(
            (
                f"{self.name}:",
                "\tpush rbp",
                "\tmov rbp, rsp",
                f"\tsub rsp, {words + arrays}",
                f"\tand rsp, -{ALIGNED}",
                *self.lines,
                "\tleave",
                "\tret",
                "",
            )
        )

    def _line(self, text: str) -> None:
        self.lines.append(f"\t{text}")

    def _label(self) -> str:
        """A new one, which other functions do not have."""
        self._labels += 1
        return f".L{self.name}_{self._labels}"

    def _at(self, label: str) -> None:
        self.lines.append(f"{label}:")

    @contextmanager
    def _places(self, count: int = 1) -> Iterator[list[str]]:
        """Words that are free in the block, each one below the one in front of it."""
        first = self._words + 1
        self._words += count
        self._most_words = max(self._most_words, self._words)
        yield [f"qword ptr [rbp - {WORD * n}]" for n in range(first, first + count)]
        self._words -= count

    # Statements

    def _block(self, body: tuple[Stmt, ...], last: bool = False) -> None:
        """Statements in order. What no loop of a team is in, the first thread alone does, if they
        are `together`, and the others wait for it, but not behind the `last` of the function."""
        if not (self.together and self.target.team):
            for number, statement in enumerate(body, 1):
                self._statement(statement, last and number == len(body))
            return
        done = 0
        for parallel, run in groupby(body, lambda statement: has_parallel_loop((statement,))):
            statements = tuple(run)
            done += len(statements)
            ends = last and done == len(body)
            if parallel:
                for number, statement in enumerate(statements, 1):
                    self._statement(statement, ends and number == len(statements))
            else:
                self._on_first_thread(statements, ends)

    def _on_first_thread(self, body: tuple[Stmt, ...], last: bool) -> None:
        others = self._label()
        self._called(THREAD_NUMBER)
        self._line("test rax, rax")
        self._line(f"jne {others}")
        self.together = False
        self._block(body)
        self.together = True
        self._at(others)
        self._meet(last)

    def _meet(self, last: bool) -> None:
        """Threads wait for each other, but not behind the last statement."""
        if last:
            self.open_end = True
        elif self.target.team:
            self._called(WAIT_FOR_TEAM)

    def _statement(self, statement: Stmt, last: bool) -> None:
        match statement:
            case For(kind=LoopKind.PARALLEL):
                self._team_loop(statement, last)
            case For(axis=axis, body=body):
                with self._places() as (place,), self._counting(axis, place):
                    self._block(body)
            case If():
                self._if(statement)
            case Allocate():
                self._allocate(statement, last)
            case Call():
                self._call(statement)
            case TransposeBlock():
                self._transpose(statement)
            case FilterTile():
                self._filter(statement)
            case Prefetch(buffer=buffer, index=index, later=later):
                self._address(buffer, index)
                self._line(f"prefetcht{1 if later else 0} [rax]")
            case _:
                raise _NoFrame

    @contextmanager
    def _counting(self, axis: Axis, place: str) -> Iterator[None]:
        """A loop in which the word at a place counts from 0 to below an axis's extent."""
        again, end = self._label(), self._label()
        self._axes[axis.position] = place
        self._line(f"mov {place}, 0")
        self._at(again)
        self._line(f"mov rax, {axis.extent}")
        self._line(f"cmp {place}, rax")
        self._line(f"jge {end}")
        yield
        self._line(f"inc {place}")
        self._line(f"jmp {again}")
        self._at(end)

    def _team_loop(self, loop: For, last: bool) -> None:
        """A loop, or nested ones as if they were one, of which each thread has iterations."""
        axes, body = shared_as_one(loop)
        turn = Axis(axes[0].position, prod(axis.extent for axis in axes), "turn")
        outer = self.together, self.shared
        self.together, self.shared = False, True
        with self._places(1 + len(axes)) as (place, *places), self._turns(turn, place):
            self._axes_of_turn(place, turn.extent, axes, places)
            self._block(body)
        self.together, self.shared = outer
        self._meet(last)

    @contextmanager
    def _turns(self, turn: Axis, place: str) -> Iterator[None]:
        """A loop in which the word at a place is each of the iterations that a thread has."""
        if not self.target.team:
            with self._counting(turn, place):
                yield
            return
        with self._places(PART_WORDS) as part:
            # The words of an array go up.
            begin, end = part[-1], part[-2]
            parts, again, done = (self._label() for _ in range(3))
            self._line(f"lea rdi, {_address_of(begin)}")
            self._line(f"mov rsi, {turn.extent}")
            self._called(FIRST_PART)
            self._at(parts)
            self._line(f"mov rax, {begin}")
            self._line(f"cmp rax, {end}")
            self._line(f"jge {done}")
            self._line(f"mov {place}, rax")
            self._at(again)
            yield
            self._line(f"inc {place}")
            self._line(f"mov rax, {place}")
            self._line(f"cmp rax, {end}")
            self._line(f"jl {again}")
            self._line(f"lea rdi, {_address_of(begin)}")
            self._line(f"mov rsi, {turn.extent}")
            self._called(NEXT_PART)
            self._line(f"jmp {parts}")
            self._at(done)

    def _axes_of_turn(
        self, turn: str, count: int, axes: Sequence[Axis], places: Sequence[str]
    ) -> None:
        """Where a turn of nested loops is along each of them."""
        below = count
        self._line(f"mov rax, {turn}")
        for axis, place in zip(axes, places, strict=True):
            below //= axis.extent
            # What is left of the axis before is in rax.
            if axis.extent == 1:
                self._line(f"mov {place}, 0")
            elif below == 1:
                self._line(f"mov {place}, rax")
            else:
                self._line(f"mov rcx, {below}")
                self._line("cqo")
                self._line("idiv rcx")
                self._line(f"mov {place}, rax")
                self._line("mov rax, rdx")
            self._axes[axis.position] = place

    def _if(self, statement: If) -> None:
        otherwise, end = self._label(), self._label()
        self._value(statement.condition)
        self._line("test rax, rax")
        self._line(f"je {otherwise}")
        self._block(statement.body)
        self._line(f"jmp {end}")
        self._at(otherwise)
        self._block(statement.otherwise)
        self._at(end)

    def _allocate(self, statement: Allocate, last: bool) -> None:
        buffer = statement.buffer
        if buffer.space is Space.STACK:
            size = buffer.size * buffer.dtype.bytes
            self._arrays[buffer.number] = WORD * _MOST_IN_MEMORY + self._array_bytes
            taken = -(-size // ALIGNED) * ALIGNED
            self._array_bytes += taken
            self._most_array_bytes = max(self._most_array_bytes, self._array_bytes)
            self._block(statement.body, last)
            self._array_bytes -= taken
        elif buffer.space is Space.SCRATCH and self.shared and self.target.team:
            all_of_it = self._addresses[buffer.number]
            with self._places() as (place,):
                self._called(THREAD_NUMBER)
                self._line(f"imul rax, rax, {self.apart}")
                self._line(f"add rax, {all_of_it}")
                self._line(f"mov {place}, rax")
                self._addresses[buffer.number] = place
                self._block(statement.body, last)
            self._addresses[buffer.number] = all_of_it
        elif buffer.space in (Space.SCRATCH, Space.SHARED):
            self._block(statement.body, last)
        else:
            raise _NoFrame

    # Calls

    def _call(self, call: Call) -> None:
        function = function_text(call.function, self.target.isa, self.target.strict)
        self.streams |= not _STREAM_FUNCTIONS.isdisjoint(function.requires)
        self.made[function.name] = function
        self._call_with(function.name, (*call.arrays, *call.numbers))

    def _transpose(self, block: TransposeBlock) -> None:
        source, target = (block.source, block.index), (block.target, block.target_index)
        whole = whole_transpose_function(self.target.isa, block)
        function = whole or transpose_function(self.target.isa, block)
        if function is None or function not in self.target.functions:
            raise _NoFrame
        rows, columns = ((), ()) if whole else ((block.rows,), (block.columns,))
        arguments = (source, block.step, *rows, target, block.target_step, *columns)
        self._call_with(function, arguments)

    def _filter(self, tile: FilterTile) -> None:
        function = filter_function(tile.down, tile.across, tile.source.dtype.c_name, tile.lanes)
        self.made[function.name] = function
        self._call_with(
            function.name,
            (
                (tile.source, tile.index), tile.line, tile.column,
                (tile.target, tile.target_index), tile.target_line, tile.target_column,
            ),
        )  # fmt: skip

    def _call_with(
        self, function: str, arguments: Sequence[tuple[Buffer, Expr] | Expr | int]
    ) -> None:
        """The call of a function on addresses of elements, terms and numbers."""
        in_memory = arguments[len(_IN_REGISTERS) :]
        if len(in_memory) > _MOST_IN_MEMORY:
            raise _NoFrame
        for number, argument in enumerate(in_memory):
            self._argument(argument)
            self._line(f"mov [rsp + {WORD * number}], rax")
        # To compute one takes the registers of others, unless it is there already.
        first = arguments[: len(_IN_REGISTERS)]
        with self._places(len(first)) as places:
            for argument, place in zip(first, places, strict=True):
                if self._ready(argument) is None:
                    self._argument(argument)
                    self._line(f"mov {place}, rax")
            for argument, place, register in zip(first, places, _IN_REGISTERS, strict=False):
                self._line(f"mov {register}, {self._ready(argument) or place}")
        self._called(function)

    def _called(self, function: str) -> None:
        self._line(f"call {function}@PLT")

    def _ready(self, argument: tuple[Buffer, Expr] | Expr | int) -> str | None:
        """A number, or a word that has the value of an argument; None if it is to be computed."""
        match argument:
            case (buffer, Const(value=0)) if buffer.number in self._addresses:
                return self._addresses[buffer.number]
            case (_, _):
                return None
            case int():
                return str(argument)
            case _:
                return self._leaf(argument)

    def _argument(self, argument: tuple[Buffer, Expr] | Expr | int) -> None:
        match argument:
            case (buffer, index):
                self._address(buffer, index)
            case int():
                self._line(f"mov rax, {argument}")
            case _:
                self._value(argument)

    # Terms

    def _address(self, buffer: Buffer, index: Expr) -> None:
        """The address of an element, in rax."""
        size = buffer.dtype.bytes
        base = "rsp" if buffer.number in self._arrays else "rcx"
        offset = self._arrays.get(buffer.number, 0)
        if isinstance(index, Const):
            offset += int(index.value) * size
            inside = f"{base} + {offset}"
        else:
            self._value(index)
            inside = f"{base} + rax * {size} + {offset}"
        if not -(2**31) <= offset < 2**31 or size not in (1, 2, 4, 8):
            raise _NoFrame
        if base == "rcx":
            self._line(f"mov rcx, {self._addresses[buffer.number]}")
        self._line(f"lea rax, [{inside}]")

    def _leaf(self, term: Expr) -> str | None:
        """A small number or the word of a loop variable; None for any other term."""
        match term:
            case Const(value=value) if -(2**31) <= value < 2**31:
                return str(int(value))
            case Axis(position=position):
                return self._axes[position]
            case _:
                return None

    def _value(self, term: Expr) -> None:
        """The value of a term, in rax; 0 or 1 of a condition. Raises _NoFrame."""
        leaf = self._leaf(term)
        if leaf is not None:
            self._line(f"mov rax, {leaf}")
            return
        match term:
            case Const(value=value):
                self._line(f"movabs rax, {int(value)}")
            case Apply(args=(left, right)):
                leaf = self._leaf(right)
                if leaf is not None:
                    self._value(left)
                    self._applied(term, leaf)
                    return
                with self._places() as (place,):
                    self._value(right)
                    self._line(f"mov {place}, rax")
                    self._value(left)
                    self._applied(term, place)
            case _:
                raise _NoFrame

    def _applied(self, term: Apply, right: str) -> None:
        """What is in rax, and an operand that is a small number or a word."""
        name = term.op.name
        if name in _INFIX:
            self._line(f"{_INFIX[name]} rax, {right}")
        elif name == "mul":
            self._line(f"imul rax, {right}" if "[" in right else f"imul rax, rax, {right}")
        elif name in _COMPARED:
            self._line(f"cmp rax, {right}")
            self._line(f"{_COMPARED[name]} al")
            self._line("movzx eax, al")
        elif name in _LIMITED:
            self._line(f"mov rcx, {right}")
            self._line("cmp rax, rcx")
            self._line(f"{_LIMITED[name]} rax, rcx")
        elif name in _DIVIDED and bounds(term.args[0])[0] >= 0 and bounds(term.args[1])[0] > 0:
            self._line(f"mov rcx, {right}")
            self._line("cqo")
            self._line("idiv rcx")
            if _DIVIDED[name] != "rax":
                self._line(f"mov rax, {_DIVIDED[name]}")
        else:
            raise _NoFrame


def _address_of(place: str) -> str:
    return place.removeprefix("qword ptr ")
