"""The C printer: Loop IR in, the text of one C function out. It decides nothing.

Differences between instruction sets stand in `dialects`, functions that generated code calls in
`c_functions`. The body of a function is printed by `emit_statements`, its vector statements by
`emit_vectors`, the terms in both by `emit_terms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from tensorgen.emit_page import head_lines
from tensorgen.emit_statements import Statements
from tensorgen.lane_vectors import STREAM_FENCE, STREAM_FUNCTION
from tensorgen.loop import LoopKernel, Space, has_parallel_loop
from tensorgen.module_spec import Kernel, Parameter
from tensorgen.module_text import comment_text
from tensorgen.scratch import scratch_layout


@dataclass(frozen=True, slots=True)
class Spelling:
    """What the printer is told besides the loops."""

    isa: str
    strict: bool
    in_place: bool = False


def emit_kernel(
    kernel: LoopKernel, name: str, spelling: Spelling, expression: str, schedule: str
) -> Kernel:
    """The C function of a kernel, with its comment.

    With `in_place`, results may share storage with inputs of the same type, so no pointer is
    declared `restrict`.
    """
    parallel = has_parallel_loop(kernel.body)
    apart = scratch_layout(kernel, 1).apart
    printer = Statements(spelling.isa, spelling.strict, parallel, apart)
    names = tuple(printer.parameter(buffer) for buffer in kernel.parameters)
    printer.block(kernel.body, last=True)
    if not printer.terms.functions.isdisjoint(STREAM_FUNCTION.values()):
        printer.page.line(STREAM_FENCE)
    parameters = tuple(
        Parameter(text, buffer.dtype, buffer.space is not Space.INPUT)
        for text, buffer in zip(names, kernel.parameters, strict=True)
    )
    qualifier = "" if spelling.in_place else "restrict "
    declared = ", ".join(
        f"{parameter.c_type}{qualifier}{parameter.name}" for parameter in parameters
    )
    unused = (
        f"    (void){text};"
        for text, buffer in zip(names, kernel.parameters, strict=True)
        if buffer.number not in printer.terms.used
    )
    lines = [
        "/* " + "\n * ".join(_comment("expr", expression) + _comment("schedule", schedule)) + " */",
        *head_lines(f"static void {name}({declared})"),
        "{",
        *unused,
        *printer.vectors.constant_lines(),
        *printer.page.lines,
        "}",
    ]
    functions = tuple(sorted(printer.terms.functions))
    made = tuple(function for _, function in sorted(printer.terms.made.items()))
    text = "\n".join(lines) + "\n"
    return Kernel(
        name, text, parameters, functions, schedule, expression, parallel, printer.open_end, made
    )


def _comment(label: str, text: str) -> list[str]:
    limited = text if len(text) <= 1500 else text[:1497] + "..."
    lines: list[str] = []
    for part in wrap(f"{label}: {limited}", 94, subsequent_indent="  ", break_long_words=False):
        lines.extend(comment_text(piece) for piece in _pieces(part, 180))
    return lines


def _pieces(text: str, length: int) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]
