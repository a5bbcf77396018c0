"""The assembly that compilers make of kernels, and its innermost loops."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tensorgen.module import module_files, source_flags
from tensorgen.module_build import base_flags
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tests.compiled_kernels import Case, kernels_module

_COMMENT = re.compile(r"#(?![-\d])|@|//")
"""What starts a comment in any of the assemblers; before a number, # is Arm's immediate."""


def assembly_of(
    task: Task, schedule: Schedule, target: Target, compiler: str, folder: Path, *flags: str
) -> str:
    """The assembly of the task's kernel under a schedule, with its library's flags and these."""
    module = kernels_module([Case.of(task, schedule)], target)
    for name, content in module_files(module).items():
        (folder / name).write_bytes(content)
    source = "cases_kernels.c"
    every = (*base_flags(module), *source_flags(module)[source], *flags)
    subprocess.run([compiler, *every, "-S", "-o", "made.s", source], cwd=folder, check=True)
    return (folder / "made.s").read_text()


def instruction(line: str) -> str:
    """A line of assembly without its comment."""
    return _COMMENT.split(line)[0].strip()


def inner_loops(text: str) -> Iterator[list[str]]:
    """The lines of each loop without a label inside, its branch last, comments kept."""
    body: list[str] = []
    label = ""
    for line in map(str.strip, text.splitlines()):
        code = instruction(line)
        if found := re.fullmatch(r"(\.L\w+):", code):
            label, body = found[1], []
        elif code and not code.startswith("."):
            body.append(line)
            if label and re.fullmatch(rf"\w[\w.]*\s+(?:\w+,\s*)?{re.escape(label)}", code):
                yield list(body)
