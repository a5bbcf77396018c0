"""Many kernels as one C file, with functions that call one of them again and again.

What it does: lowers and prints candidates as a library's kernels are, and puts them into one file
to be compiled as those are; and likewise the functions that they call and do not contain. What it
does not: compile, or choose what runs.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from tensorgen.c_function import CFunction
from tensorgen.c_functions import definitions
from tensorgen.emit import Spelling, emit_kernel
from tensorgen.lower import Lowered, lower
from tensorgen.module import kernels_files, source_flags
from tensorgen.module_spec import ARENA_ALIGN, Arena, Call, Kernel, Module
from tensorgen.ports import Port
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.frame_assembly import FrameTarget, frame_kernel
from tensorgen.tune.frame_calls import frame_calls_text, frames_text
from tensorgen.tune.part_assembly import AssembledFunction, MadeFunction, parts_text
from tensorgen.tune.parts_apart import is_frame, with_parts_apart
from tensorgen.types import TensorType, float32

_NAME = "timed"
_PLACEHOLDER = "tasor_timed_kernel"
"""The name that a kernel is printed under, so that equal kernels have equal text."""

_IDLE = Kernel(
    "idle",
    "static void idle(void)\n{\n    TASOR_TEAM_FOR(turn, 0) {\n        (void)turn;\n    }\n}\n",
    (), (), "", "", parallel=True,
)  # fmt: skip
"""A file has what teams need if one of its kernels is for a team."""


@dataclass(frozen=True, slots=True, eq=False)
class PrintedKernel:
    """A task under a schedule, lowered and printed. `kernel` has a name that is to be replaced; a
    `frame` is loops around calls, which may be `assembly`, and so may some of its `parts`."""

    lowered: Lowered
    kernel: Kernel
    frame: bool
    assembly: bool = False
    parts: tuple[AssembledFunction, ...] = ()

    @property
    def functions(self) -> tuple[MadeFunction, ...]:
        """What was made for it, to be called."""
        return (*self.kernel.made, *self.parts)

    @property
    def text(self) -> str:
        """The text: kernels with the same one do the same in the same time."""
        return self.kernel.text

    @property
    def in_vectors(self) -> bool:
        """Whether compilers are to make vectors of none of its loops: these are vectors already."""
        return "_mm" in self.text and "TASOR_SIMD" not in self.text


@dataclass(frozen=True, slots=True)
class CandidateFile:
    """A C file of candidates and its headers, with the flags for it. They are called by number, by
    the function that `function_name` tells:
    `(long number, void **operands, long sets, long calls)`."""

    sources: dict[str, str | bytes]
    source_flags: dict[str, tuple[str, ...]]


def printed_kernel(
    task: Task,
    schedule: Schedule,
    target: Target,
    *,
    strict: bool,
    apart: bool = False,
    frames: FrameTarget | None = None,
) -> PrintedKernel:
    """The kernel of a task under a schedule, its parts set `apart` or not; in assembly if it is one
    of the `frames` that are wanted so, and in C otherwise. Raises ScheduleError if they do not
    fit."""
    lowered = lower(task, schedule, None if strict else target.isa)
    spelling = Spelling(target.isa, strict)
    loops = with_parts_apart(lowered.kernel, spelling) if apart else lowered.kernel
    if apart and frames is not None:
        assembled = frame_kernel(loops, _PLACEHOLDER, frames)
        if assembled is not None:
            return PrintedKernel(
                lowered, assembled.kernel, frame=True, assembly=True, parts=assembled.parts
            )
    kernel = emit_kernel(loops, _PLACEHOLDER, spelling, "", "")
    return PrintedKernel(lowered, kernel, frame=apart and is_frame(loops.body, spelling))


def function_name(kernel: Kernel) -> str:
    """The function that calls a kernel, and others that a team calls and waits for as it does."""
    return _NAME + ("_by_team" if kernel.parallel else "") + ("_to_end" if kernel.open_end else "")


def candidate_file(
    printed: Sequence[PrintedKernel],
    target: Target,
    threads: int,
    *,
    strict: bool,
    elsewhere: Set[str] = frozenset(),
) -> CandidateFile:
    """The file of some candidates, which only declares C functions that are defined `elsewhere`."""
    kernels = _named(printed)
    module = _module(kernels, target, threads, strict)
    alike: dict[str, list[int]] = {}
    for number, kernel in enumerate(kernels):
        alike.setdefault(function_name(kernel), []).append(number)
    calls = "\n".join(_calls(kernels, numbers, threads) for numbers in alike.values())
    return _file(module, f"{calls}\n", elsewhere)


def frames_file(printed: Sequence[PrintedKernel]) -> CandidateFile:
    """The file of some candidates that are assembly, which are called as those in C are."""
    kernels = _named(printed)
    callers = {function_name(kernel): kernel for kernel in kernels}
    return CandidateFile({f"{_NAME}_frames.s": frames_text(kernels, callers)}, {})


def frame_calls_file(target: Target, threads: int, *, strict: bool, team: bool) -> CandidateFile:
    """The C that calls frames, by teams of so many threads or by one."""
    module = _module((_IDLE,) if team else (), target, threads, strict)
    return _file(module, frame_calls_text(threads, team=team), frozenset())


def _named(printed: Sequence[PrintedKernel]) -> tuple[Kernel, ...]:
    """The kernels, by names of their own."""
    return tuple(
        replace(
            entry.kernel,
            name=f"kernel_{number}",
            text=entry.kernel.text.replace(_PLACEHOLDER, f"kernel_{number}"),
        )
        for number, entry in enumerate(printed)
    )


def functions_file(
    functions: Sequence[MadeFunction], target: Target, *, strict: bool
) -> CandidateFile:
    """The file of functions made for candidates, for these to call from their own libraries; and
    one of those that are assembly."""
    in_c = [function for function in functions if isinstance(function, CFunction)]
    assembled = [function for function in functions if isinstance(function, AssembledFunction)]
    file = CandidateFile({}, {})
    if in_c:
        needed = definitions(name for function in in_c for name in function.requires)
        exported = (
            f"{function.declaration}{function.text.replace('static void', 'void', 1)}"
            for function in in_c
        )
        behind = "\n".join((needed, *exported))
        file = _file(_module((), target, 1, strict), behind, frozenset())
    if assembled:
        parts = {f"{_NAME}_parts.s": parts_text(assembled)}
        file = replace(file, sources={**file.sources, **parts})
    return file


def _file(module: Module, behind: str, elsewhere: Set[str]) -> CandidateFile:
    name = f"{_NAME}_kernels.c"
    sources: dict[str, str | bytes] = {**kernels_files(module, behind, elsewhere)}
    return CandidateFile(sources, {name: source_flags(module)[name]})


def _module(kernels: tuple[Kernel, ...], target: Target, threads: int, strict: bool) -> Module:
    """A library of the kernels. Its steps would call them on nothing: they are not printed."""
    most = max((len(kernel.parameters) for kernel in kernels), default=1)
    return Module(
        name=_NAME,
        inputs=(),
        outputs=(Port("out", TensorType(float32, (1,))),),
        constants=(),
        kernels=kernels,
        calls=tuple(
            Call(
                kernel.name,
                tuple(Arena(ARENA_ALIGN * n) for n in range(len(kernel.parameters))),
                "",
            )
            for kernel in kernels
        ),
        arena_bytes=ARENA_ALIGN * most,
        target=target,
        threads=threads,
        strict=strict,
        weights="c",
        self_test=None,
        metadata={},
    )


def _calls(kernels: Sequence[Kernel], numbers: Sequence[int], threads: int) -> str:
    """The function that calls one of the kernels with these numbers, on one set of operands after
    the other. One for each would take the compiler as long as half a frame."""
    first = kernels[numbers[0]]
    name = f"void {function_name(first)}(long number, void **operands, long sets, long calls)"
    team = (f"    TASOR_TEAM({threads})",) if first.parallel else ()
    # The next call reads and writes the same memory.
    wait = ("        TASOR_WAIT_FOR_TEAM;",) if first.open_end else ()
    lines = (
        f"{name};",
        name,
        "{",
        *team,
        "    for (long n = 0; n < calls; n++) {",
        "        switch (number) {",
        *(line for number in numbers for line in _case(number, kernels[number])),
        "        }",
        *wait,
        "    }",
        "}",
    )
    return "\n".join(lines)


def _case(number: int, kernel: Kernel) -> tuple[str, ...]:
    arguments = ", ".join(
        f"({parameter.c_type})p[{position}]" for position, parameter in enumerate(kernel.parameters)
    )
    return (
        f"        case {number}: {{",
        f"            void **p = operands + n % sets * {len(kernel.parameters)};",
        f"            {kernel.name}({arguments});",
        "            break;",
        "        }",
    )
