"""Statements on vectors in assembly: what names its registers already has little left to compile.

What it does: writes loops, conditions and statements on vectors as the assembly of x86-64 into a
function, by a plan (`vector_plan`). Statements name as many registers as there are, and an
instruction stands for nearly each of them; a compiler took ten times as long to come to the same.
Loops over lanes that store terms are written as vectors, too. What it does not: anything else.

The meaning of every statement is that of `emit_statements`, which prints the same as C.

Streams begin in words of memory. A loop holds registers for those that it moves, an innermost one
for whatever it uses, and for its variable, as long as there are any: loops inside come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tensorgen.expr import Apply, Axis, Expr, Load, free_axes
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
from tensorgen.simplify import Affine, affine
from tensorgen.target import Isa
from tensorgen.tune.assembly_page import AssemblyPage, NoAssembly
from tensorgen.tune.streams import ELEMENT_BYTES, Multiple, checked
from tensorgen.tune.vector_plan import VectorPlan, planned
from tensorgen.tune.vector_steps import (
    Mark,
    Plain,
    SpreadStore,
    Step,
    Steps,
)
from tensorgen.tune.x86_vectors import (
    Constants,
    VectorInstructions,
    mask_registers,
    vector,
)

_FREE = ("rsi", "rdi", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14", "r15")
"""Registers for streams, distances and loop variables: terms are computed in the others."""

_AT_ONCE = 2
"""Registers that an address takes."""


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


def write_vectors(
    page: AssemblyPage,
    isa: Isa,
    body: Sequence[Stmt],
    arrays: Callable[[int], str],
    numbers: Set[int],
    counts: Mapping[int, int],
    alike: Set[int],
) -> None:
    """Writes a body into a page. `arrays` gives the words that have the addresses of buffers;
    `numbers` are the positions of axes that the page knows, and `counts` has that of the number
    that says how often a loop runs, by the loop's axis, if that is not its extent. Buffers that are
    `alike` may have elements in common. Raises NoAssembly."""
    plan = planned(isa, body, numbers, alike)
    constants = Constants(page.label)
    masks = mask_registers(isa, plan.steps.masks, plan.given)
    instructions = VectorInstructions(isa, constants, masks)
    writer = _Vectors(page, plan, instructions, numbers, counts)
    with page.arrays(plan.steps.arrays) as local:
        writer.write(lambda number: local.get(number) or arrays(number))
    page.behind += constants.lines()
    page.in_vectors = True


@dataclass(slots=True)
class _Vectors:
    """The state of writing.

    Keys are the numbers of streams, and the axes of numbers that say how far rows are apart. Their
    `_operands` have addresses and bytes: words, or registers that loops have `_held` for them; what
    is in a word is also in a register that is `_near` for the rest of a block. `_sums` are words
    that have sums of numbers.
    """

    page: AssemblyPage
    plan: VectorPlan
    instructions: VectorInstructions
    numbers: Set[int]
    counts: Mapping[int, int]
    _valued: frozenset[int] = field(init=False)
    _operands: dict[int, str] = field(default_factory=dict)
    _multiples: dict[Multiple, str] = field(default_factory=dict)
    _sums: dict[Affine, str] = field(default_factory=dict)
    _uses: dict[int, Counter[int]] = field(default_factory=dict)
    _held: tuple[str, ...] = ()
    _near: dict[int, str] = field(default_factory=dict)

    @property
    def steps(self) -> Steps:
        """Those of the plan."""
        return self.plan.steps

    def write(self, arrays: Callable[[int], str]) -> None:
        """Everything. Raises NoAssembly."""
        self._valued = frozenset(
            axis.position
            for step in self.steps.line
            if isinstance(step.statement, If)
            for axis in free_axes(step.statement.condition)
        )
        self._begin_streams(arrays)
        self._begin_conditions()
        for line in self.instructions.masks_loaded():
            self.page.line(line)
        self._block(0, len(self.steps.line))

    def _begin_streams(self, arrays: Callable[[int], str]) -> None:
        """The words in which streams begin, and in which are distances and steps, in bytes."""
        for number, stream in enumerate(self.plan.streams.streams):
            word = arrays(stream.array)
            if stream.begin:
                self.page.line(f"mov rax, {word}")
                for position, factor in stream.begin:
                    argument = self.page.axes[position]
                    self.page.line(f"imul rcx, {argument}, {checked(factor * ELEMENT_BYTES)}")
                    self.page.line("add rax, rcx")
                (word,) = self.page.words(1)
                self.page.line(f"mov {word}, rax")
            self._operands[number] = word
            for _, steps in stream.moves:
                for step in steps:
                    self._multiple(step)
        for place in self.plan.streams.places.values():
            if place.rows and place.apart not in self._operands:
                self._operands[place.apart] = self._multiple((place.apart, 1))

    def _begin_conditions(self) -> None:
        """The words that have what numbers add to both sides of comparisons."""
        for step in self.steps.line:
            if step.mark is not Mark.IF or not isinstance(step.statement, If):
                continue
            for difference in _differences(step.statement.condition) or ():
                fixed = self._fixed(difference)
                if fixed.terms and fixed not in self._sums:
                    (word,) = self.page.words(1)
                    self.page.line(f"mov {word}, {checked(fixed.constant)}")
                    for atom, factor in fixed.terms:
                        assert isinstance(atom, Axis), "differences are sums of axes"
                        number = self.page.axes[atom.position]
                        self.page.line(f"imul rax, {number}, {checked(factor)}")
                        self.page.line(f"add {word}, rax")
                    self._sums[fixed] = word

    def _fixed(self, difference: Affine) -> Affine:
        """What numbers and the constant add to it: no loop changes them."""
        return Affine(
            tuple(
                (atom, factor)
                for atom, factor in difference.terms
                if isinstance(atom, Axis) and atom.position in self.numbers
            ),
            difference.constant,
        )

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
        """Steps in their order. Nothing is near where a block begins or ends."""
        self._near.clear()
        number = begin
        while number < end:
            step = self.steps.line[number]
            match step.mark:
                case Mark.DO:
                    if number not in self.plan.elsewhere:
                        self._do(number)
                case Mark.LOOP:
                    self._loop(number, step.statement)
                    number = self.steps.ends[number]
                case Mark.IF:
                    number = self._if(number, step.statement)
                case _:
                    raise AssertionError("blocks nest")
            number += 1
        self._near.clear()

    def _do(self, number: int) -> None:
        # To find an address may take a line in front of the instruction's.
        for line in self._instructions(number, self.steps.line[number]):
            self.page.line(line)

    def _if(self, begin: int, statement: Stmt | SpreadStore) -> int:
        """A condition with both of its blocks; returns where it ends."""
        assert isinstance(statement, If), "a condition"
        end = self.steps.ends[begin]
        otherwise = self.page.label()
        self._jump_unless(statement.condition, otherwise)
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

    def _jump_unless(self, condition: Expr, label: str) -> None:
        """Go on at a label where a condition does not hold. Raises NoAssembly."""
        differences = _differences(condition)
        if differences is None:
            self.page.jump_unless(condition, label)
            return
        for difference in differences:
            fixed = self._fixed(difference)
            self.page.line(f"mov rax, {self._sums.get(fixed) or checked(fixed.constant)}")
            for atom, factor in difference.terms:
                if isinstance(atom, Axis) and atom.position not in self.numbers:
                    variable = self.page.axes[atom.position]
                    if factor not in (1, -1):
                        self.page.line(f"imul rcx, {variable}, {checked(factor)}")
                        variable, factor = "rcx", 1
                    self.page.line(f"{'add' if factor == 1 else 'sub'} rax, {variable}")
            self.page.line("test rax, rax")
            self.page.line(f"js {label}")

    def _loop(self, begin: int, statement: Stmt | SpreadStore) -> None:
        assert isinstance(statement, For), "a loop"
        axis, by, end = statement.axis, self.steps.line[begin].by, self.steps.ends[begin]
        number = self.counts.get(axis.position)
        stop = str(axis.extent // by) if number is None else self.page.axes[number]
        if number is None and axis.extent == 0:
            raise NoAssembly
        for first, *_ in self.plan.in_front.get(begin, ()):
            self._do(first)
        before = dict(self._operands), self._held
        variable = self._begin_loop(begin, end)
        down = axis.position not in self._valued
        again, behind = self.page.label(), self.page.label()
        self.page.axes[axis.position] = variable
        if number is not None:
            self.page.line(f"cmp {stop}, 0")
            self.page.line(f"jle {behind}")
            self.page.line(f"mov rax, {stop}")
            stop = "rax"
        self.page.line(f"mov {variable}, {stop if down else 0}")
        if self._is_innermost(begin, end):
            self.page.line(".p2align 4")
        self.page.at(again)
        self._block(begin + 1, end)
        for stream, multiples in self._moved(begin, end).items():
            for position, factor in multiples:
                self._move(self._operands[stream], (position, factor * by))
        if down:
            self.page.line(f"dec {variable}")
            self.page.line(f"jne {again}")
        else:
            self.page.line(f"inc {variable}")
            if number is not None:
                self.page.line(f"mov rax, {self.page.axes[number]}")
            self.page.line(f"cmp {variable}, {stop}")
            self.page.line(f"jl {again}")
        self.page.at(behind)
        self._operands, self._held = before

    def _begin_loop(self, begin: int, end: int) -> str:
        """Has the loop at a step hold registers for what it moves, and in an innermost one for
        whatever it uses, those first that are used most; all of it that moves is in operands of its
        own. Returns the one of its variable."""
        moved = self._moved(begin, end)
        used = self._used(begin, end)
        free = [register for register in _FREE if register not in self._held]
        if self._is_innermost(begin, end):
            wanted = [key for key, _ in used.most_common() if key in moved or self._in_word(key)]
            room = len(free)
            if 1 + len(wanted) > room:
                room -= _AT_ONCE
        else:
            wanted = [key for key, _ in used.most_common() if key in moved]
            room = len(free) - self._needed_inside(begin, end)
        given = free[: max(room, 0)]
        variable = given.pop(0) if given else self.page.words(1)[0]
        held = [variable] if "[" not in variable else []
        for key in wanted:
            if given:
                place = given.pop(0)
                held.append(place)
                self.page.line(f"mov {place}, {self._operands[key]}")
            elif key in moved:
                (place,) = self.page.words(1)
                self.page.line(f"mov rax, {self._operands[key]}")
                self.page.line(f"mov {place}, rax")
            else:
                continue
            self._operands[key] = place
        for register in held:
            self.page.changes(register)
        self._held = (*self._held, *held)
        return variable

    def _needed_inside(self, begin: int, end: int) -> int:
        """Registers that a block needs for itself, or for the loops in it."""
        most, number = _AT_ONCE, begin + 1
        while number < end:
            if self.steps.line[number].mark is Mark.LOOP:
                inner = self.steps.ends[number]
                if self._is_innermost(number, inner):
                    needed = 1 + len(self._used(number, inner))
                else:
                    own = 1 + len(self._moved(number, inner))
                    needed = own + self._needed_inside(number, inner)
                most = max(most, needed)
                number = inner
            number += 1
        return most

    def _is_innermost(self, begin: int, end: int) -> bool:
        return all(self.steps.line[n].mark is not Mark.LOOP for n in range(begin + 1, end))

    def _moved(self, begin: int, end: int) -> dict[int, tuple[Multiple, ...]]:
        """The streams that a turn of the loop at a step moves, and how far."""
        loop = self.steps.line[begin].statement
        assert isinstance(loop, For), "a loop"
        return {
            key: step
            for key in self._used(begin, end)
            if key < len(self.plan.streams.streams)
            and (step := self.plan.streams.streams[key].step(loop.axis.position))
        }

    def _in_word(self, key: int) -> bool:
        return "[" in self._operands[key]

    def _used(self, begin: int, end: int) -> Counter[int]:
        """How often streams and distances are used in a block."""
        if begin not in self._uses:
            found = self._uses[begin] = Counter()
            for number in range(begin, end):
                place = self.plan.streams.places.get(number)
                # What is done in front of a loop, or of one around it, needs no address in it.
                in_front = self.plan.loop_behind.get(number, end) <= begin
                if place is not None and not in_front:
                    found[place.stream] += 1
                    if place.rows:
                        found[place.apart] += 1
        return self._uses[begin]

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
        place = self.plan.streams.places[number]
        base = self._near_register(place.stream)
        offset = checked(place.behind + behind)
        if not place.rows:
            return f"[{base} + {offset}]"
        row = self._near_register(place.apart, beside=base)
        return f"[{base} + {row} * {place.rows} + {offset}]"

    def _near_register(self, key: int, beside: str = "") -> str:
        """The register that has a stream or a distance: it stays there in a block while there is
        room, or in the whole loop."""
        if not self._in_word(key):
            return self._operands[key]
        if key not in self._near:
            used = {*self._held, *self._near.values()}
            if len(used) == len(_FREE):
                oldest = next(k for k, register in self._near.items() if register != beside)
                used.remove(self._near.pop(oldest))
            register = next(register for register in _FREE if register not in used)
            self.page.changes(register)
            self.page.line(f"mov {register}, {self._operands[key]}")
            self._near[key] = register
        return self._near[key]

    # Statements

    def _instructions(self, number: int, step: Step) -> Iterator[str]:
        given = self.plan.given
        match step.statement:
            case MultiplyAdd(target=target) as statement:
                assert step.written is not None, "sums are written"
                operands = self._both(number, step, target.lanes)
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
                operands = self._both(number, step, target.lanes)
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

    def _both(self, number: int, step: Step, lanes: int) -> list[str]:
        """The two operands of a step, one of which it may load itself."""
        place, load = self.plan.inside.get(number, (None, 0))
        found = []
        for position, register in enumerate(step.reads[:2]):
            if position == place:
                statement = self.steps.line[load].statement
                assert isinstance(statement, Plain), "a load"
                found.append(self.instructions.memory_operand(statement, self._address(load)))
            else:
                found.append(vector(self.plan.given[register], lanes))
        return found


def _differences(condition: Expr) -> list[Affine] | None:
    """Sums of axes none of which is negative where a condition holds, and only there; None if it is
    another kind of condition."""
    match condition:
        case Apply(args=(left, right)) if condition.op.name == "and":
            both = _differences(left), _differences(right)
            return None if both[0] is None or both[1] is None else both[0] + both[1]
        case Apply(args=(left, right)) if condition.op.name in ("lt", "le"):
            found = affine(right).plus(affine(left).scaled(-1))
            if not all(isinstance(atom, Axis) for atom, _ in found.terms):
                return None
            return [Affine(found.terms, found.constant - (condition.op.name == "lt"))]
        case _:
            return None
