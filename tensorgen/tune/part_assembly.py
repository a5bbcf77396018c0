"""Parts of kernels in assembly: functions whose arrays and numbers the caller gives.

What it does: writes functions of loops, conditions and statements on vectors (`vector_assembly`) in
the assembly of x86-64, for the calling convention of System V, and puts them into one file. What it
does not: functions that have anything else (these have no assembly), and to assemble it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tensorgen.c_function import CFunction
from tensorgen.digest import content_digest
from tensorgen.expr import Axis
from tensorgen.loop import Buffer, LoopFunction
from tensorgen.target import Isa
from tensorgen.tune.assembly_page import (
    ARGUMENT_REGISTERS,
    WORD,
    AssemblyPage,
    NoAssembly,
    export_lines,
    file_text,
)
from tensorgen.tune.vector_assembly import is_on_vectors, write_vectors

_NAME = "tasor_part"
"""What a function is called until its text is known."""

_ABOVE_FRAME = 2
"""Words between the frame pointer and the arguments in memory."""


@dataclass(frozen=True, slots=True)
class AssembledFunction:
    """A function in assembly, named by its text."""

    name: str
    text: str


MadeFunction = CFunction | AssembledFunction
"""A function that candidates call, in C or in assembly."""


@lru_cache(maxsize=256)
def assembled_part(function: LoopFunction, isa: Isa) -> AssembledFunction | None:
    """The assembly of a function; None if it has something that is left to a compiler."""
    if not all(map(is_on_vectors, function.body)):
        return None
    page = AssemblyPage(_NAME)
    arrays = _arguments(page, function)
    counts = {loop.position: number.position for loop, number in function.counts}
    numbers = frozenset(page.axes)
    alike = frozenset(array.number for array in function.alike)
    try:
        write_vectors(page, isa, function.body, arrays.__getitem__, numbers, counts, alike)
    except NoAssembly:
        return None
    text = page.whole()
    name = f"{_NAME}_{content_digest(isa, text).hex()[:16]}"
    return AssembledFunction(name, text.replace(_NAME, name))


def _arguments(page: AssemblyPage, function: LoopFunction) -> dict[int, str]:
    """The words of arrays, by their numbers. Each argument has one, unless it is in memory
    already."""
    arrays: dict[int, str] = {}
    names: list[Buffer | Axis] = [*function.arrays, *function.numbers]
    for place, name in enumerate(names):
        if place < len(ARGUMENT_REGISTERS):
            (word,) = page.words(1)
            page.line(f"mov {word}, {ARGUMENT_REGISTERS[place]}")
        else:
            above = _ABOVE_FRAME + place - len(ARGUMENT_REGISTERS)
            word = f"qword ptr [rbp + {WORD * above}]"
        if isinstance(name, Buffer):
            arrays[name.number] = word
        else:
            page.axes[name.position] = word
    return arrays


def parts_text(functions: Sequence[AssembledFunction]) -> str:
    """A file of functions, for others to call."""
    lines: list[str] = []
    for function in functions:
        lines += [*export_lines(function.name), "\t.p2align 4", function.text]
    return file_text(lines)
