"""Statements on vector registers, spelled by the templates of an instruction set's dialect.

Where an instruction set cannot leave out lanes of a load or a store, they go through an array.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import assert_never

from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.emit_page import LINE_LENGTH, Page
from tensorgen.emit_terms import Terms, literal_text
from tensorgen.expr import Expr
from tensorgen.loop import (
    Alternate,
    Fill,
    MultiplyAdd,
    Register,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.simplify import bounds, simplify

SPARE_REGISTERS = 2
"""So few registers of the machine are hardly any."""

_FUNCTION = re.compile(r"\btasor_\w+(?=\()")


VectorStatement = Fill | VectorLoad | VectorStore | MultiplyAdd | VectorApply | Alternate


@dataclass(slots=True)
class VectorStatements:
    """Prints the vector statements of one function; `constants` holds what stands before them.

    `strict` rounds products before they are added.
    """

    isa: str
    strict: bool
    page: Page
    terms: Terms
    constants: dict[str, str] = field(default_factory=dict)

    def declare(self, registers: Sequence[Register]) -> None:
        """The definitions of registers. Where these leave hardly any of the machine's, nothing else
        is to stay in one meanwhile."""
        most = min((self._dialect(register).registers for register in registers), default=0)
        if len(registers) + SPARE_REGISTERS >= most > 0:
            self.page.statement("TASOR_FREE_REGISTERS")
        for register in registers:
            assert self.page.fresh(register.name) == register.name, "registers nest"
            self.page.line(f"{self._dialect(register).type} {register.name};")

    def constant_lines(self) -> tuple[str, ...]:
        """The definitions of `constants`, for the first lines of the function."""
        return tuple(
            line
            for _, definition in sorted(self.constants.items())
            for line in wrap(
                definition, LINE_LENGTH, initial_indent="    ", subsequent_indent="        "
            )
        )

    def statement(self, statement: VectorStatement) -> None:
        """One statement, on as many lines as it takes."""
        match statement:
            case Fill(register=register, value=value):
                filled = self._dialect(register).fill.format(x=self.terms.text(value))
                self.page.statement(f"{register.name} = {filled}")
            case VectorLoad():
                self._load(statement)
            case VectorStore():
                self._store(statement)
            case MultiplyAdd(target=target, left=left, right=right):
                dialect = self._dialect(target)
                template = dialect.multiply_then_add if self.strict else dialect.multiply_add
                total = template.format(a=left.name, b=right.name, c=target.name)
                self.page.line(f"{target.name} = {total};")
            case VectorApply(operation=operation, target=target, left=left, right=right):
                applied = applied_text(self._dialect(target), operation, left, right)
                self.terms.functions.update(functions_in(applied))
                self.page.statement(f"{target.name} = {applied}")
            case Alternate():
                self._alternate(statement)
            case _:
                assert_never(statement)

    def _dialect(self, register: Register) -> VectorDialect:
        dialect = vector_dialect(self.isa, register.dtype, register.lanes)
        assert dialect is not None, f"no vectors of {register.lanes} {register.dtype}"
        return dialect

    def _load(self, load: VectorLoad) -> None:
        dialect, register = self._dialect(load.register), load.register.name
        if bounds(load.index)[0] < 0:
            pointer = pointer_before(self.terms.pointer(load.buffer, _start(load)), load)
        else:
            pointer = self.terms.pointer(load.buffer, load.index)
        text = loaded_text(dialect, pointer, load)
        if text is None:
            self._load_through_memory(load, dialect)
            return
        self.page.statement(f"{register} = {text}")
        if load.kept and dialect.lanes > 1:
            self.page.line(f"TASOR_KEEP({register});")

    def _load_through_memory(self, load: VectorLoad, dialect: VectorDialect) -> None:
        with self.page.braces():
            outside = literal_text(load.outside, load.buffer.dtype)
            values = "0" if load.outside == 0 else ", ".join([outside] * dialect.lanes)
            c_type = load.buffer.dtype.c_name
            self.page.statement(f"{c_type} part[{dialect.lanes}] = {{{values}}}")
            first = self.terms.pointer(load.buffer, _start(load))
            place = f"part + {load.first}" if load.first else "part"
            self.page.line(f"memcpy({place}, {first}, {load.count} * sizeof(part[0]));")
            self.page.line(f"{load.register.name} = {dialect.load.format(p='part')};")

    def _alternate(self, statement: Alternate) -> None:
        dialect, odd = self._dialect(statement.target), int(statement.odd)
        name = f"{('even', 'odd')[odd]}_{dialect.lanes}"
        if dialect.indices[odd]:
            self.constants[name] = dialect.indices[odd].format(i=name)
        low, high = statement.low.name, statement.high.name
        text = dialect.alternate[odd].format(a=low, b=high, i=name)
        self.page.statement(f"{statement.target.name} = {text}")

    def _store(self, store: VectorStore) -> None:
        dialect, count = self._dialect(store.register), store.count
        pointer, name = self.terms.pointer(store.buffer, store.index), store.register.name
        text = dialect.stored(pointer, name, count)
        if text is not None:
            self.terms.functions.update(functions_in(text))
            self.page.line(text)
            return
        with self.page.braces():
            self.page.line(f"{store.buffer.dtype.c_name} part[{dialect.lanes}];")
            self.page.line(dialect.store.format(p="part", v=name))
            self.page.line(f"memcpy({pointer}, part, {count} * sizeof(part[0]));")


def _start(load: VectorLoad) -> Expr:
    """Where the first lane that is read lies."""
    return simplify(load.index + load.first)


def mask_text(lanes: Iterable[int]) -> str:
    """The mask that has a bit for each of these lanes."""
    return f"0x{sum(1 << lane for lane in lanes):X}"


def pointer_before(pointer: str, load: VectorLoad) -> str:
    """A pointer to where lane 0 would lie before the buffer, from one to the first lane that is
    read: C lets no pointer arithmetic lead there."""
    c_type, distance = load.buffer.dtype.c_name, load.first
    bytes_before = f"sizeof({c_type})" if distance == 1 else f"{distance} * sizeof({c_type})"
    return f"(const {c_type} *)((uintptr_t)({pointer}) - {bytes_before})"


def loaded_text(dialect: VectorDialect, pointer: str, load: VectorLoad) -> str | None:
    """The vector that is loaded; None if the instruction set cannot leave lanes out."""
    if load.count == dialect.lanes:
        return dialect.load.format(p=pointer)
    template = dialect.load_partial or dialect.load_signed
    if template is None:
        return None
    read = range(load.first, load.first + load.count)
    signs = ", ".join("-1" if lane in read else "0" for lane in range(dialect.lanes))
    text = template.format(p=pointer, m=mask_text(read), s=signs)
    if load.outside == 0:
        return text
    if dialect.choose is None:
        return None
    outside = {float("inf"): "INFINITY", float("-inf"): "-INFINITY"}.get(load.outside)
    value = outside if outside is not None else repr(load.outside)
    return dialect.choose.format(x=value, m=mask_text(read), s=signs, v=text)


def applied_text(dialect: VectorDialect, operation: str, left: Register, right: Register) -> str:
    """The vector `operation(left, right)`."""
    template = dialect.operation(operation)
    assert template is not None, f"no vector instruction for {operation}"
    return template.format(a=left.name, b=right.name)


def functions_in(text: str) -> frozenset[str]:
    """The C functions of ours that a text calls."""
    return frozenset(_FUNCTION.findall(text))
