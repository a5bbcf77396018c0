"""Frames in assembly: loops around calls are so little that no compiler is needed for them.

What it does: writes a kernel of which calls of functions are left, statements on vectors that are
worth no call (`vector_assembly`), and what is around them, as a function in the assembly of x86-64
for the calling convention of System V, which an assembler is done with in a tenth of the time that
the compiler takes without any passes. Around calls every number is in memory, and every term is
computed where it stands, as that compiler does: a frame is little beside what it calls. What it
does not: anything else, which a compiler is better at (such a kernel has no assembly), and to
assemble it.

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
from tensorgen.expr import Axis, Const, Expr
from tensorgen.lane_vectors import (
    STREAM_FUNCTION,
    softmax_function,
    transpose_function,
    whole_transpose_function,
)
from tensorgen.loop import (
    Allocate,
    Buffer,
    Call,
    Declare,
    FilterTile,
    For,
    If,
    LoopKernel,
    LoopKind,
    Prefetch,
    SoftmaxRows,
    Space,
    Stmt,
    TransposeBlock,
    has_parallel_loop,
    is_hint,
    shared_as_one,
    statements,
)
from tensorgen.module_spec import Kernel, Parameter
from tensorgen.scratch import scratch_layout
from tensorgen.target import Isa
from tensorgen.tune.assembly_page import (
    ARGUMENT_REGISTERS,
    WORD,
    AssemblyPage,
    NoAssembly,
    address_of,
)
from tensorgen.tune.frame_calls import (
    FIRST_PART,
    NEXT_PART,
    PART_WORDS,
    THREAD_NUMBER,
    WAIT_FOR_TEAM,
)
from tensorgen.tune.part_assembly import AssembledFunction, assembled_part
from tensorgen.tune.vector_assembly import is_on_vectors, write_vectors

_MOST_IN_MEMORY = 64
"""Room for arguments."""

_STREAM_FUNCTIONS = frozenset(STREAM_FUNCTION.values())
"""C functions of ours behind which a kernel has to wait for its stores."""


@dataclass(frozen=True, slots=True)
class FrameTarget:
    """For whom frames are written: an instruction set, whether sums are as the model has them,
    whether a team of threads calls them, and which C functions of ours are there to be called."""

    isa: Isa
    strict: bool
    team: bool
    functions: frozenset[str]


@dataclass(frozen=True, slots=True)
class AssembledFrame:
    """A kernel as a function that takes the address of its operands' addresses, and those of the
    functions `made` for it that are assembly, too."""

    kernel: Kernel
    parts: tuple[AssembledFunction, ...]


def frame_kernel(kernel: LoopKernel, name: str, target: FrameTarget) -> AssembledFrame | None:
    """The kernel in assembly; None if it has something else than loops and conditions around
    calls, and around statements on vectors."""
    if not all(map(_may_be_frame, kernel.body)):
        return None
    parallel = has_parallel_loop(kernel.body)
    frame = _Frame(
        target,
        scratch_layout(kernel, 1).apart,
        parallel,
        AssemblyPage(name, arguments=_MOST_IN_MEMORY),
    )
    try:
        text = frame.text(kernel)
    except NoAssembly:
        return None
    parameters = tuple(
        Parameter(buffer.name, buffer.dtype, buffer.space is not Space.INPUT)
        for buffer in kernel.parameters
    )
    made = tuple(function for _, function in sorted(frame.made.items()))
    parts = tuple(part for _, part in sorted(frame.parts.items()))
    assembled = Kernel(name, text, parameters, (), "", "", parallel, frame.open_end, made)
    return AssembledFrame(assembled, parts)


def _may_be_frame(statement: Stmt) -> bool:
    """Whether there is nothing inside that no frame has: most other kernels are told by that."""
    match statement:
        case For(kind=LoopKind.SIMD) if is_on_vectors(statement):
            return True
        case For(body=body) | Declare(body=body) | Allocate(body=body):
            return all(map(_may_be_frame, body))
        case If(body=body, otherwise=otherwise):
            return all(map(_may_be_frame, body)) and all(map(_may_be_frame, otherwise))
        case Call() | FilterTile() | TransposeBlock() | SoftmaxRows():
            return True
        case _:
            return is_on_vectors(statement)


@dataclass(slots=True)
class _Frame:
    """The state of writing one function.

    Below the frame pointer there are words: addresses of buffers, loop variables, what is computed
    on the way. At the stack pointer there are arguments, and above them arrays. `together` and
    `open_end` are those of `emit_statements.Statements`.
    """

    target: FrameTarget
    apart: int
    together: bool
    _page: AssemblyPage
    shared: bool = False
    open_end: bool = False
    made: dict[str, CFunction] = field(default_factory=dict)
    parts: dict[str, AssembledFunction] = field(default_factory=dict)
    streams: bool = False
    _addresses: dict[int, str] = field(default_factory=dict)

    def text(self, kernel: LoopKernel) -> str:
        """The function. Raises NoAssembly."""
        with self._page.places(len(kernel.parameters)) as places:
            for number, (buffer, place) in enumerate(zip(kernel.parameters, places, strict=True)):
                self._page.line(f"mov rax, [rdi + {WORD * number}]")
                self._page.line(f"mov {place}, rax")
                self._addresses[buffer.number] = place
            self._block(kernel.body, last=True)
        if self.streams:
            self._page.line("sfence")
        return self._page.whole()

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
        others = self._page.label()
        self._called(THREAD_NUMBER)
        self._page.line("test rax, rax")
        self._page.line(f"jne {others}")
        self.together = False
        self._block(body)
        self.together = True
        self._page.at(others)
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
            case For() | Declare() if is_on_vectors(statement) and not is_hint(statement):
                self._vectors(statement)
            case For(axis=axis, body=body):
                with self._page.places() as (place,), self._counting(axis, place):
                    self._block(body)
            case If():
                self._if(statement)
            case Allocate():
                self._allocate(statement, last)
            case Call():
                self._call(statement)
            case TransposeBlock():
                self._transpose(statement)
            case SoftmaxRows():
                self._softmax(statement)
            case FilterTile():
                self._filter(statement)
            case Prefetch(buffer=buffer, index=index, later=later):
                self._address(buffer, index)
                self._page.line(f"prefetcht{1 if later else 0} [rax]")
            case _:
                raise NoAssembly

    @contextmanager
    def _counting(self, axis: Axis, place: str) -> Iterator[None]:
        """A loop in which the word at a place counts from 0 to below an axis's extent."""
        again, end = self._page.label(), self._page.label()
        self._page.axes[axis.position] = place
        self._page.line(f"mov {place}, 0")
        self._page.at(again)
        self._page.line(f"mov rax, {axis.extent}")
        self._page.line(f"cmp {place}, rax")
        self._page.line(f"jge {end}")
        yield
        self._page.line(f"inc {place}")
        self._page.line(f"jmp {again}")
        self._page.at(end)

    def _team_loop(self, loop: For, last: bool) -> None:
        """A loop, or nested ones as if they were one, of which each thread has iterations."""
        axes, body = shared_as_one(loop)
        turn = Axis(axes[0].position, prod(axis.extent for axis in axes), "turn")
        outer = self.together, self.shared
        self.together, self.shared = False, True
        with self._page.places(1 + len(axes)) as (place, *places), self._turns(turn, place):
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
        with self._page.places(PART_WORDS) as part:
            # The words of an array go up.
            begin, end = part[-1], part[-2]
            parts, again, done = (self._page.label() for _ in range(3))
            self._page.line(f"lea rdi, {address_of(begin)}")
            self._page.line(f"mov rsi, {turn.extent}")
            self._called(FIRST_PART)
            self._page.at(parts)
            self._page.line(f"mov rax, {begin}")
            self._page.line(f"cmp rax, {end}")
            self._page.line(f"jge {done}")
            self._page.line(f"mov {place}, rax")
            self._page.at(again)
            yield
            self._page.line(f"inc {place}")
            self._page.line(f"mov rax, {place}")
            self._page.line(f"cmp rax, {end}")
            self._page.line(f"jl {again}")
            self._page.line(f"lea rdi, {address_of(begin)}")
            self._page.line(f"mov rsi, {turn.extent}")
            self._called(NEXT_PART)
            self._page.line(f"jmp {parts}")
            self._page.at(done)

    def _axes_of_turn(
        self, turn: str, count: int, axes: Sequence[Axis], places: Sequence[str]
    ) -> None:
        """Where a turn of nested loops is along each of them."""
        below = count
        self._page.line(f"mov rax, {turn}")
        for axis, place in zip(axes, places, strict=True):
            below //= axis.extent
            # What is left of the axis before is in rax.
            if axis.extent == 1:
                self._page.line(f"mov {place}, 0")
            elif below == 1:
                self._page.line(f"mov {place}, rax")
            else:
                self._page.line(f"mov rcx, {below}")
                self._page.line("cqo")
                self._page.line("idiv rcx")
                self._page.line(f"mov {place}, rax")
                self._page.line("mov rax, rdx")
            self._page.axes[axis.position] = place

    def _if(self, statement: If) -> None:
        otherwise, end = self._page.label(), self._page.label()
        self._page.jump_unless(statement.condition, otherwise)
        self._block(statement.body)
        self._page.line(f"jmp {end}")
        self._page.at(otherwise)
        self._block(statement.otherwise)
        self._page.at(end)

    def _allocate(self, statement: Allocate, last: bool) -> None:
        buffer = statement.buffer
        if buffer.space is Space.STACK:
            with self._page.arrays((buffer,)) as addresses:
                self._addresses |= addresses
                self._block(statement.body, last)
        elif buffer.space is Space.SCRATCH and self.shared and self.target.team:
            all_of_it = self._addresses[buffer.number]
            with self._page.places() as (place,):
                self._called(THREAD_NUMBER)
                self._page.line(f"imul rax, rax, {self.apart}")
                self._page.line(f"add rax, {all_of_it}")
                self._page.line(f"mov {place}, rax")
                self._addresses[buffer.number] = place
                self._block(statement.body, last)
            self._addresses[buffer.number] = all_of_it
        elif buffer.space in (Space.SCRATCH, Space.SHARED):
            self._block(statement.body, last)
        else:
            raise NoAssembly

    def _vectors(self, statement: For | Declare) -> None:
        """What is done in registers where it stands, if that is too little for a function."""
        if self.target.strict:
            raise NoAssembly
        own = {s.axis.position for s in statements((statement,)) if isinstance(s, For)}
        with self._page.own_words():
            numbers = self._page.axes.keys() - own
            addresses = self._addresses.__getitem__
            write_vectors(
                self._page, self.target.isa, (statement,), addresses, numbers, {}, frozenset()
            )

    # Calls

    def _call(self, call: Call) -> None:
        part = None if self.target.strict else assembled_part(call.function, self.target.isa)
        if part is not None:
            self.parts[part.name] = part
            self._call_with(part.name, (*call.arrays, *call.numbers))
            return
        function = function_text(call.function, self.target.isa, self.target.strict)
        self.streams |= not _STREAM_FUNCTIONS.isdisjoint(function.requires)
        self.made[function.name] = function
        self._call_with(function.name, (*call.arrays, *call.numbers))

    def _transpose(self, block: TransposeBlock) -> None:
        whole = whole_transpose_function(self.target.isa, block)
        rows, columns = ((), ()) if whole else ((block.rows,), (block.columns,))
        self._call_on_rows(
            whole or transpose_function(self.target.isa, block), block, rows, columns
        )

    def _softmax(self, rows: SoftmaxRows) -> None:
        function, width = softmax_function(self.target.isa, rows) or (None, 0)
        self._call_on_rows(None if self.target.strict else function, rows, (rows.rows,), (width,))

    def _call_on_rows(
        self,
        function: str | None,
        rows: TransposeBlock | SoftmaxRows,
        count: tuple[int, ...],
        width: tuple[int, ...],
    ) -> None:
        """The call of a function of ours that takes rows from one place to another."""
        if function not in self.target.functions:
            raise NoAssembly
        source, target = (rows.source, rows.index), (rows.target, rows.target_index)
        self._call_with(function, (source, rows.step, *count, target, rows.target_step, *width))

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
        in_memory = arguments[len(ARGUMENT_REGISTERS) :]
        if len(in_memory) > _MOST_IN_MEMORY:
            raise NoAssembly
        for number, argument in enumerate(in_memory):
            self._argument(argument)
            self._page.line(f"mov [rsp + {WORD * number}], rax")
        # To compute one takes the registers of others, unless it is there already.
        first = arguments[: len(ARGUMENT_REGISTERS)]
        with self._page.places(len(first)) as places:
            for argument, place in zip(first, places, strict=True):
                if self._ready(argument) is None:
                    self._argument(argument)
                    self._page.line(f"mov {place}, rax")
            for argument, place, register in zip(first, places, ARGUMENT_REGISTERS, strict=False):
                self._page.line(f"mov {register}, {self._ready(argument) or place}")
        self._called(function)

    def _called(self, function: str) -> None:
        self._page.line(f"call {function}@PLT")

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
                return self._page.leaf(argument)

    def _argument(self, argument: tuple[Buffer, Expr] | Expr | int) -> None:
        match argument:
            case (buffer, index):
                self._address(buffer, index)
            case int():
                self._page.line(f"mov rax, {argument}")
            case _:
                self._page.value(argument)

    # Terms

    def _address(self, buffer: Buffer, index: Expr) -> None:
        """The address of an element, in rax."""
        size = buffer.dtype.bytes
        if isinstance(index, Const):
            offset, inside = int(index.value) * size, "rcx"
        else:
            self._page.value(index)
            offset, inside = 0, f"rcx + rax * {size}"
        if not -(2**31) <= offset < 2**31 or size not in (1, 2, 4, 8):
            raise NoAssembly
        self._page.line(f"mov rcx, {self._addresses[buffer.number]}")
        self._page.line(f"lea rax, [{inside} + {offset}]")
