"""Statements on vectors in assembly: what names its registers already has little left to compile.

What it does: writes loops, conditions and statements on vectors as the assembly of x86-64 into a
function. Statements name as many registers as there are, and an instruction stands for nearly each
of them; a compiler took ten times as long to come to the same. What it does not: elements that are
stored by terms, and anything else that is not on vectors.

The meaning of every statement is that of `emit_statements`, which prints the same as C.

Where a stream begins (`streams`) is a word in memory, one for each loop that it moves along; in
innermost loops, where the time is spent, it is a register, as are the distances of rows and the
loop's variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from tensorgen.expr import Load, free_axes
from tensorgen.loop import (
    Allocate,
    Alternate,
    Declare,
    Fill,
    For,
    If,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    Space,
    Stmt,
    Store,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.target import Isa
from tensorgen.tune.assembly_page import AssemblyPage, NoAssembly
from tensorgen.tune.streams import ELEMENT_BYTES, Access, Multiple, Streams, checked, streams_of
from tensorgen.tune.vector_steps import (
    Mark,
    Plain,
    SpreadStore,
    Step,
    Steps,
    given_registers,
    loads_inside,
    steps_of,
)
from tensorgen.tune.x86_vectors import (
    Constants,
    VectorInstructions,
    folds,
    has_vectors,
    mask_registers,
    needs_of,
    register_count,
    vector,
    widest,
)

_FREE = ("rsi", "rdi", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14", "r15")
"""Registers for streams, distances and loop variables: terms are computed in the others."""

_AT_ONCE = 2
"""Registers that an address takes."""

_VARIABLE = -1
"""The key of an innermost loop's variable."""


def is_on_vectors(statement: Stmt) -> bool:
    """Whether a statement, and whatever is in it, is one on vectors, or a loop over lanes that
    stores, or a loop, a condition or a local array around such."""
    match statement:
        case For(body=body, kind=LoopKind.SIMD):
            return all(isinstance(inside, Store) for inside in body)
        case For(body=body, kind=LoopKind.SERIAL | LoopKind.ROLLED):
            return all(map(is_on_vectors, body))
        case Allocate(buffer=buffer, body=body):
            return buffer.space is Space.STACK and all(map(is_on_vectors, body))
        case If(body=body, otherwise=otherwise):
            return all(map(is_on_vectors, body)) and all(map(is_on_vectors, otherwise))
        case Declare(body=body):
            return all(map(is_on_vectors, body))
        case _:
            return isinstance(statement, Plain)


def is_hint(statement: Stmt) -> bool:
    """Whether a statement is, or has in it, nothing but hints."""
    return isinstance(statement, Prefetch) or (
        isinstance(statement, For) and all(map(is_hint, statement.body))
    )


def write_vectors(
    page: AssemblyPage,
    isa: Isa,
    body: Sequence[Stmt],
    arrays: Callable[[int], str],
    numbers: Set[int],
    counts: Mapping[int, int],
) -> None:
    """Writes a body into a page. `arrays` gives the words that have the addresses of buffers;
    `numbers` are the positions of axes that the page knows, and `counts` has that of the number
    that says how often a loop runs, by the loop's axis, if that is not its extent. Raises
    NoAssembly."""
    if not has_vectors(isa):
        raise NoAssembly
    steps = steps_of(body, widest(isa), partial(needs_of, isa))
    inside = loads_inside(steps, partial(folds, isa))
    given = _given(isa, steps, inside)
    accesses = {
        number: access
        for number, step in enumerate(steps.line)
        if step.mark is Mark.DO and (access := _access(step)) is not None
    }
    constants = Constants(page.label)
    instructions = VectorInstructions(isa, constants, mask_registers(isa, steps.masks, given))
    streams = streams_of(accesses, numbers)
    writer = _Vectors(page, steps, inside, given, instructions, streams, counts)
    with page.arrays(steps.arrays) as local:
        writer.write(lambda number: local.get(number) or arrays(number))
    page.behind += constants.lines()
    page.in_vectors = True


def _given(isa: Isa, steps: Steps, inside: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Vector registers; those of masks only if there are enough. Raises NoAssembly."""
    count = register_count(isa)
    given = None
    if isa == "avx2" and steps.masks:
        given = given_registers(steps, inside, count, masks=True)
    if given is None:
        given = given_registers(steps, inside, count, masks=False)
    if given is None:
        raise NoAssembly
    return given


@dataclass(slots=True)
class _Vectors:
    """The state of writing.

    Keys are the numbers of streams, and the axes of numbers that say how far rows are apart. Their
    `_words` have addresses and bytes. `_pinned` are in registers in all of a loop, and others are
    `_near` in a block.
    """

    page: AssemblyPage
    steps: Steps
    inside: Mapping[int, tuple[int, int]]
    given: Mapping[int, int]
    instructions: VectorInstructions
    streams: Streams
    counts: Mapping[int, int]
    _loads: frozenset[int] = field(init=False)
    _valued: frozenset[int] = field(init=False)
    _words: dict[int, str] = field(default_factory=dict)
    _multiples: dict[Multiple, str] = field(default_factory=dict)
    _pinned: dict[int, str] = field(default_factory=dict)
    _near: dict[int, str] = field(default_factory=dict)

    def write(self, arrays: Callable[[int], str]) -> None:
        """Everything. Raises NoAssembly."""
        self._loads = frozenset(load for _, load in self.inside.values())
        self._valued = frozenset(
            axis.position
            for step in self.steps.line
            if isinstance(step.statement, If)
            for axis in free_axes(step.statement.condition)
        )
        self._begin_streams(arrays)
        for line in self.instructions.masks_loaded():
            self.page.line(line)
        self._block(0, len(self.steps.line))

    def _begin_streams(self, arrays: Callable[[int], str]) -> None:
        """The words in which streams begin, and in which are distances and steps, in bytes."""
        for number, stream in enumerate(self.streams.streams):
            word = arrays(stream.array)
            if stream.begin:
                self.page.line(f"mov rax, {word}")
                for position, factor in stream.begin:
                    argument = self.page.axes[position]
                    self.page.line(f"imul rcx, {argument}, {checked(factor * ELEMENT_BYTES)}")
                    self.page.line("add rax, rcx")
                (word,) = self.page.words(1)
                self.page.line(f"mov {word}, rax")
            self._words[number] = word
            for _, steps in stream.moves:
                for step in steps:
                    self._multiple(step)
        for place in self.streams.places.values():
            if place.rows and place.apart not in self._words:
                self._words[place.apart] = self._multiple((place.apart, 1))

    def _multiple(self, multiple: Multiple) -> str:
        """So many elements in bytes: a number, or the word that has it."""
        position, factor = multiple
        size = checked(factor * ELEMENT_BYTES)
        if position is None:
            return str(size)
        if multiple not in self._multiples:
            (word,) = self.page.words(1)
            self.page.line(f"imul rax, {self.page.axes[position]}, {size}")
            self.page.line(f"mov {word}, rax")
            self._multiples[multiple] = word
        return self._multiples[multiple]

    # Steps

    def _block(self, begin: int, end: int) -> None:
        self._near.clear()
        number = begin
        while number < end:
            step = self.steps.line[number]
            match step.mark:
                case Mark.DO:
                    if number not in self._loads:
                        # To find an address may take a line in front of the instruction's.
                        for line in self._instructions(number, step):
                            self.page.line(line)
                case Mark.LOOP:
                    self._loop(number, step.statement)
                    number = self.steps.ends[number]
                    self._near.clear()
                case Mark.IF:
                    number = self._if(number, step.statement)
                    self._near.clear()
                case _:
                    raise AssertionError("blocks nest")
            number += 1
        self._near.clear()

    def _if(self, begin: int, statement: Stmt | SpreadStore) -> int:
        """A condition with both of its blocks; returns where it ends."""
        assert isinstance(statement, If), "a condition"
        end = self.steps.ends[begin]
        otherwise = self.page.label()
        self.page.jump_unless(statement.condition, otherwise)
        self._block(begin + 1, end)
        if end + 1 in self.steps.ends and self.steps.line[end + 1].mark is Mark.ELSE:
            behind, begin = self.page.label(), end + 1
            end = self.steps.ends[begin]
            self.page.line(f"jmp {behind}")
            self.page.at(otherwise)
            self._block(begin + 1, end)
            otherwise = behind
        self.page.at(otherwise)
        return end

    def _loop(self, begin: int, statement: Stmt | SpreadStore) -> None:
        assert isinstance(statement, For), "a loop"
        axis, end = statement.axis, self.steps.ends[begin]
        number = self.counts.get(axis.position)
        by = self.steps.line[begin].by
        stop = str(axis.extent // by) if number is None else self.page.axes[number]
        if number is None and axis.extent == 0:
            raise NoAssembly
        innermost = not any(self.steps.line[n].mark is Mark.LOOP for n in range(begin + 1, end))
        used = self._used(begin, end)
        steps = {
            key: step
            for key in used
            if key < len(self.streams.streams)
            and (step := self.streams.streams[key].step(axis.position))
        }
        words = dict(self._words)
        if innermost:
            self._pin(used)
        for stream in steps:
            if stream not in self._pinned:
                self.page.line(f"mov rax, {self._words[stream]}")
                (self._words[stream],) = self.page.words(1)
                self.page.line(f"mov {self._words[stream]}, rax")
        again, behind = self.page.label(), self.page.label()
        if innermost:
            variable = self._register(set(self._pinned.values()))
            self._pinned[_VARIABLE] = variable
        else:
            (variable,) = self.page.words(1)
        down = innermost and axis.position not in self._valued
        self.page.axes[axis.position] = variable
        if down:
            self.page.line(f"mov {variable}, {stop}")
            if number is not None:
                self.page.line(f"test {variable}, {variable}")
                self.page.line(f"jle {behind}")
        else:
            self.page.line(f"mov {variable}, 0")
            if number is not None:
                self.page.line(f"cmp {stop}, 0")
                self.page.line(f"jle {behind}")
        if innermost:
            self.page.line(".p2align 4")
        self.page.at(again)
        self._block(begin + 1, end)
        for stream, multiples in steps.items():
            for multiple in multiples:
                place = self._pinned.get(stream) or self._words[stream]
                self._move(place, (multiple[0], multiple[1] * by))
        if down:
            self.page.line(f"dec {variable}")
            self.page.line(f"jne {again}")
        else:
            self.page.line(f"inc {variable}")
            if number is not None:
                self.page.line(f"mov rax, {stop}")
            self.page.line(f"cmp {variable}, {stop if number is None else 'rax'}")
            self.page.line(f"jl {again}")
        self.page.at(behind)
        self._pinned.clear()
        self._words = words

    def _used(self, begin: int, end: int) -> Counter[int]:
        """How often streams and distances are used between two steps."""
        found: Counter[int] = Counter()
        for number in range(begin, end):
            place = self.streams.places.get(number)
            if place is not None:
                found[place.stream] += 1
                if place.rows:
                    found[place.apart] += 1
        return found

    def _pin(self, used: Counter[int]) -> None:
        """Registers for an innermost loop, to those first that are used most; the loop's variable
        has one, and what is left must be enough for an address."""
        room = len(_FREE) - 1
        if len(used) > room:
            room -= _AT_ONCE
        for key, _ in used.most_common(room):
            register = self._register(set(self._pinned.values()))
            self.page.line(f"mov {register}, {self._words[key]}")
            self._pinned[key] = register

    def _register(self, used: Set[str]) -> str:
        """One that nobody else uses."""
        register = next(register for register in _FREE if register not in used)
        self.page.changes(register)
        return register

    def _move(self, operand: str, step: Multiple) -> None:
        """A stream, in a register or a word, goes on by a step."""
        multiple = self._multiple(step)
        if "[" in operand and "[" in multiple:
            self.page.line(f"mov rax, {multiple}")
            multiple = "rax"
        self.page.line(f"add {operand}, {multiple}")

    # Addresses

    def _address(self, number: int, behind: int = 0) -> str:
        """The address of a step's element, so many bytes behind it."""
        place = self.streams.places[number]
        base = self._near_register(place.stream)
        offset = checked(place.behind + behind)
        if not place.rows:
            return f"[{base} + {offset}]"
        row = self._near_register(place.apart, beside=base)
        return f"[{base} + {row} * {place.rows} + {offset}]"

    def _near_register(self, key: int, beside: str = "") -> str:
        """The register that has a stream or a distance: it stays there in a block while there is
        room, or in the whole loop."""
        if key in self._pinned:
            return self._pinned[key]
        if key not in self._near:
            used = {*self._pinned.values(), *self._near.values()}
            if len(used) == len(_FREE):
                oldest = next(k for k, register in self._near.items() if register != beside)
                used.remove(self._near.pop(oldest))
            register = self._register(used)
            self.page.line(f"mov {register}, {self._words[key]}")
            self._near[key] = register
        return self._near[key]

    # Statements

    def _instructions(self, number: int, step: Step) -> Iterator[str]:
        given = self.given
        match step.statement:
            case MultiplyAdd(target=target) as statement:
                assert step.written is not None, "sums are written"
                operands = self._operands(number, step, target.lanes)
                yield self.instructions.multiplied(statement, given[step.written], operands)
            case VectorLoad() as statement:
                assert step.written is not None, "loads write"
                address = self._address(number)
                yield from self.instructions.loaded(statement, given[step.written], address)
            case Fill() as statement:
                assert step.written is not None, "loads write"
                place = self._address(number) if isinstance(statement.value, Load) else None
                yield from self.instructions.filled(statement, given[step.written], place)
            case VectorApply(target=target) as statement:
                assert step.written is not None, "results are written"
                operands = self._operands(number, step, target.lanes)
                spare = [given[register] for register in step.spare]
                yield from self.instructions.applied(
                    statement, given[step.written], operands, spare
                )
            case VectorStore() as statement:
                yield from self.instructions.stored(
                    statement,
                    given[step.reads[0]],
                    [given[register] for register in step.spare],
                    lambda behind: self._address(number, behind),
                )
            case SpreadStore() as statement:
                yield from self.instructions.spread(
                    statement,
                    given[step.reads[0]],
                    [given[register] for register in step.spare],
                    lambda behind: self._address(number, behind),
                )
            case Alternate() as statement:
                assert step.written is not None, "results are written"
                both = [given[register] for register in step.reads]
                spare = [given[register] for register in step.spare]
                yield from self.instructions.alternated(statement, given[step.written], both, spare)
            case Prefetch(later=later):
                yield f"prefetcht{1 if later else 0} {self._address(number)}"
            case _:
                raise AssertionError("steps are on vectors")

    def _operands(self, number: int, step: Step, lanes: int) -> list[str]:
        """The two operands of a step, one of which it may load itself."""
        place, load = self.inside.get(number, (None, 0))
        found = []
        for position, register in enumerate(step.reads[:2]):
            if position == place:
                statement = self.steps.line[load].statement
                assert isinstance(statement, Plain), "a load"
                found.append(self.instructions.memory_operand(statement, self._address(load)))
            else:
                found.append(vector(self.given[register], lanes))
        return found


def _access(step: Step) -> Access | None:
    """What a step reads or writes in an array."""
    match step.statement:
        case VectorLoad(buffer=buffer, index=index) | VectorStore(buffer=buffer, index=index):
            return Access(buffer.number, index, step.known)
        case Fill(value=Load(operand=operand, indices=(index,))):
            return Access(operand, index, step.known)
        case SpreadStore(buffer=buffer, index=index) | Prefetch(buffer=buffer, index=index):
            return Access(buffer.number, index, step.known)
        case _:
            return None
