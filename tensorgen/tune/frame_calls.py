"""What is beside frames in assembly: C that calls them, and the rest of their files.

What it does: writes the C that calls a frame again and again, and tells it what a team knows, for a
library that is compiled once; and puts frames into one file, with functions that have one of them
called by its number. What it does not: write a frame (`frame_assembly`), build or load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorgen.module_spec import Kernel
from tensorgen.tune.assembly_page import export_lines, file_text

FIRST_PART = "tasor_first_part"
NEXT_PART = "tasor_next_part"
"""Functions that say which iterations of a loop a thread makes: in a place of `PART_WORDS`, whose
first two words are where they begin and end, of so many in all."""

PART_WORDS = 3

THREAD_NUMBER = "tasor_thread_number"
WAIT_FOR_TEAM = "tasor_wait_for_team"

_CALLS = "tasor_calls"
_TEAM = "_by_team"
_TO_END = "_to_end"

_OF_TEAM = f"""
typedef char part_of_loop_is_as_long[
    sizeof(part_of_loop) == {PART_WORDS} * sizeof(ptrdiff_t) ? 1 : -1];

void {FIRST_PART}(part_of_loop *part, ptrdiff_t count);
void {FIRST_PART}(part_of_loop *part, ptrdiff_t count)
{{
    *part = first_part(count);
}}

void {NEXT_PART}(part_of_loop *part, ptrdiff_t count);
void {NEXT_PART}(part_of_loop *part, ptrdiff_t count)
{{
    *part = next_part(*part, count);
}}

ptrdiff_t {THREAD_NUMBER}(void);
ptrdiff_t {THREAD_NUMBER}(void)
{{
    return TASOR_THREAD;
}}

void {WAIT_FOR_TEAM}(void);
void {WAIT_FOR_TEAM}(void)
{{
    TASOR_WAIT_FOR_TEAM;
}}
"""


def frame_calls_text(threads: int, *, team: bool) -> str:
    """The C behind what a file of kernels begins with: functions that make so many calls of a
    frame, on one of several sets of operands after the other, each set of the same width."""
    # The next call reads and writes the same memory: those that end openly are waited for.
    begin, wait = f"    TASOR_TEAM({threads})\n", "        TASOR_WAIT_FOR_TEAM;\n"
    return "".join(
        (
            "\ntypedef void frame(void **operands);\n",
            _OF_TEAM if team else "",
            _calls("", "", ""),
            _calls(_TEAM, begin, ""),
            _calls(_TEAM + _TO_END, begin, wait),
        )
    )


def _calls(kind: str, begin: str, end: str) -> str:
    head = f"void {_CALLS}{kind}(frame *call, void **operands, long width, long sets, long calls)"
    return (
        f"\n{head};\n{head}\n{{\n{begin}    for (long n = 0; n < calls; n++) {{\n"
        f"        call(operands + n % sets * width);\n{end}    }}\n}}\n"
    )


def frames_text(kernels: Sequence[Kernel], callers: Mapping[str, Kernel]) -> str:
    """A file of frames, by their numbers. `callers` are the functions that have one of them called,
    `(long number, void **operands, long sets, long calls)`, each with a frame of its kind."""
    lines = [
        *(kernel.text for kernel in kernels),
        "\t.balign 8",
        ".Lframes:",
        *(
            f"\t.long {kernel.name} - .Lframes\n\t.long {len(kernel.parameters)}"
            for kernel in kernels
        ),
    ]
    for name, kernel in callers.items():
        kind = (_TEAM if kernel.parallel else "") + (_TO_END if kernel.open_end else "")
        lines += [
            *export_lines(name),
            f"{name}:",
            "\tmov r8, rcx",
            "\tmov rcx, rdx",
            "\tlea rax, [rip + .Lframes]",
            "\tmovsxd rdx, dword ptr [rax + rdi * 8 + 4]",
            "\tmovsxd rdi, dword ptr [rax + rdi * 8]",
            "\tadd rdi, rax",
            f"\tjmp {_CALLS}{kind}@PLT",
        ]
    return file_text(lines)
