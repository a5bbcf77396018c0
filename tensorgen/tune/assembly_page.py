"""What functions in the assembly of x86-64 have in common: lines, labels, words of memory, terms.

What it does: holds the lines of one function, gives away the words below its frame pointer, and
computes integer terms of loop variables in `rax`, each where it stands, as compilers without any
passes do. What it does not: know any statement of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tensorgen.expr import Apply, Axis, Const, Expr
from tensorgen.loop import Buffer
from tensorgen.simplify import bounds

WORD = 8
"""Bytes of an index or an address."""

ALIGNED = 64
"""Arrays begin at so many bytes, as they do in C."""

ARGUMENT_REGISTERS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
"""Where a function has its first arguments by the convention of System V; the others are in memory,
the first one lowest."""

SAVED_REGISTERS = ("rbx", "r12", "r13", "r14", "r15")
"""Those of a function's caller, besides the frame pointer."""

_INFIX = {"add": "add", "sub": "sub", "and": "and", "or": "or"}
_COMPARED = {"lt": "setl", "le": "setle", "eq": "sete"}
_LIMITED = {"min": "cmovg", "max": "cmovl"}
_DIVIDED = {"floordiv": "rax", "div": "rax", "mod": "rdx"}
"""Where a quotient of numbers that are not negative is, and what is left."""


class NoAssembly(Exception):
    """There is something that is left to a compiler."""


@dataclass(slots=True)
class AssemblyPage:
    """A function's lines so far. `axes` are the operands that have the values of loop variables,
    `behind` are lines behind the function, and `in_vectors` tells that it has used vectors. At the
    stack pointer is room for so many `arguments` of calls, and above for arrays.

    Terms are computed in rax, and take rcx and rdx besides.
    """

    name: str
    lines: list[str] = field(default_factory=list)
    axes: dict[int, str] = field(default_factory=dict)
    behind: list[str] = field(default_factory=list)
    in_vectors: bool = False
    arguments: int = 0
    _array_bytes: int = 0
    _most_array_bytes: int = 0
    _labels: int = 0
    # The first words have the caller's registers.
    _words: int = len(SAVED_REGISTERS)
    _most_words: int = len(SAVED_REGISTERS)
    _saved: dict[str, str] = field(default_factory=dict)

    def whole(self) -> str:
        """The function."""
        words = WORD * self._most_words + ALIGNED
        arrays = WORD * self.arguments + self._most_array_bytes
        return "\n".join(
            (
                f"{self.name}:",
                "\tpush rbp",
                "\tmov rbp, rsp",
                f"\tsub rsp, {words + arrays}",
                f"\tand rsp, -{ALIGNED}",
                *(f"\tmov {place}, {register}" for register, place in self._saved.items()),
                *self.lines,
                *(f"\tmov {register}, {place}" for register, place in self._saved.items()),
                *(("\tvzeroupper",) if self.in_vectors else ()),
                "\tleave",
                "\tret",
                *self.behind,
                "",
            )
        )

    def changes(self, register: str) -> None:
        """A register that may be the caller's is written."""
        if register in SAVED_REGISTERS and register not in self._saved:
            place = 1 + SAVED_REGISTERS.index(register)
            self._saved[register] = f"qword ptr [rbp - {WORD * place}]"

    def line(self, text: str) -> None:
        """An instruction."""
        self.lines.append(f"\t{text}")

    def label(self) -> str:
        """A new one, which other functions do not have."""
        self._labels += 1
        return f".L{self.name}_{self._labels}"

    def at(self, label: str) -> None:
        """A label is here."""
        self.lines.append(f"{label}:")

    def words(self, count: int) -> list[str]:
        """Words that are free from here on, each one below the one in front of it."""
        first = self._words + 1
        self._words += count
        self._most_words = max(self._most_words, self._words)
        return [f"qword ptr [rbp - {WORD * n}]" for n in range(first, first + count)]

    @contextmanager
    def own_words(self) -> Iterator[None]:
        """Words that were taken in the block are free behind it."""
        before = self._words
        yield
        self._words = before

    @contextmanager
    def places(self, count: int = 1) -> Iterator[list[str]]:
        """Words that are free in the block."""
        with self.own_words():
            yield self.words(count)

    @contextmanager
    def arrays(self, buffers: Iterable[Buffer]) -> Iterator[dict[int, str]]:
        """Local arrays in the block, by their numbers: the words that have their addresses."""
        before, found = self._array_bytes, dict[int, str]()
        with self.own_words():
            for buffer in buffers:
                (found[buffer.number],) = self.words(1)
                self.line(f"lea rax, [rsp + {WORD * self.arguments + self._array_bytes}]")
                self.line(f"mov {found[buffer.number]}, rax")
                self._array_bytes += -(-buffer.size * buffer.dtype.bytes // ALIGNED) * ALIGNED
                self._most_array_bytes = max(self._most_array_bytes, self._array_bytes)
            yield found
        self._array_bytes = before

    def leaf(self, term: Expr) -> str | None:
        """A small number or the operand of a loop variable; None for any other term."""
        match term:
            case Const(value=value) if -(2**31) <= value < 2**31:
                return str(int(value))
            case Axis(position=position):
                return self.axes[position]
            case _:
                return None

    def value(self, term: Expr) -> None:
        """The value of a term, in rax; 0 or 1 of a condition. Raises NoAssembly."""
        leaf = self.leaf(term)
        if leaf is not None:
            self.line(f"mov rax, {leaf}")
            return
        match term:
            case Const(value=value):
                self.line(f"movabs rax, {int(value)}")
            case Apply(args=(left, right)):
                leaf = self.leaf(right)
                if leaf is not None:
                    self.value(left)
                    self._applied(term, leaf)
                    return
                with self.places() as (place,):
                    self.value(right)
                    self.line(f"mov {place}, rax")
                    self.value(left)
                    self._applied(term, place)
            case _:
                raise NoAssembly

    def jump_unless(self, condition: Expr, label: str) -> None:
        """Go on at a label where a condition does not hold. Raises NoAssembly."""
        self.value(condition)
        self.line("test rax, rax")
        self.line(f"je {label}")

    def _applied(self, term: Apply, right: str) -> None:
        """What is in rax, and an operand that is a small number, a word or a register."""
        name = term.op.name
        if name in _INFIX:
            self.line(f"{_INFIX[name]} rax, {right}")
        elif name == "mul":
            is_number = right.lstrip("-").isdigit()
            self.line(f"imul rax, rax, {right}" if is_number else f"imul rax, {right}")
        elif name in _COMPARED:
            self.line(f"cmp rax, {right}")
            self.line(f"{_COMPARED[name]} al")
            self.line("movzx eax, al")
        elif name in _LIMITED:
            self.line(f"mov rcx, {right}")
            self.line("cmp rax, rcx")
            self.line(f"{_LIMITED[name]} rax, rcx")
        elif name in _DIVIDED and right.isdigit() and int(right).bit_count() == 1:
            if bounds(term.args[0])[0] < 0:
                raise NoAssembly
            divisor = int(right)
            quotient = f"shr rax, {divisor.bit_length() - 1}"
            self.line(quotient if _DIVIDED[name] == "rax" else f"and rax, {divisor - 1}")
        elif name in _DIVIDED and bounds(term.args[0])[0] >= 0 and bounds(term.args[1])[0] > 0:
            self.line(f"mov rcx, {right}")
            self.line("cqo")
            self.line("idiv rcx")
            if _DIVIDED[name] != "rax":
                self.line(f"mov rax, {_DIVIDED[name]}")
        else:
            raise NoAssembly


def file_text(lines: Iterable[str]) -> str:
    """A file of functions and of what is beside them."""
    head = ("\t.intel_syntax noprefix", "\t.text")
    return "\n".join((*head, *lines, '\t.section .note.GNU-stack, "", @progbits', ""))


def export_lines(name: str) -> tuple[str, ...]:
    """What stands in front of a function that other libraries call."""
    return f"\t.globl {name}", f"\t.type {name}, @function"


def address_of(place: str) -> str:
    """The brackets of a word in memory."""
    return place.removeprefix("qword ptr ")
