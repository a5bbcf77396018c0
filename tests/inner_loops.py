"""The assembly that compilers make of kernels, and its innermost loops."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorgen.module import module_files, source_flags
from tensorgen.module_build import base_flags
from tensorgen.target import Target
from tests.compiled_kernels import Case, kernels_module

_COMMENT = re.compile(r"#(?![-\d])|@|//")
"""What starts a comment in any of the assemblers; before a number, # is Arm's immediate."""


def assemblies_of(
    cases: Sequence[Case],
    target: Target,
    compiler: str,
    folder: Path,
    *flags: str,
    threads: int = 1,
    in_place: bool = False,
) -> list[str]:
    """The assembly of each case's kernel, all compiled at once, for so many threads, with their
    library's flags and these; perhaps with results `in_place` of operands."""
    module = kernels_module(cases, target, threads=threads, in_place=in_place)
    for name, content in module_files(module).items():
        (folder / name).write_bytes(content)
    source = "cases_kernels.c"
    every = (*base_flags(module), *source_flags(module)[source], *flags)
    subprocess.run([compiler, *every, "-S", "-o", "made.s", source], cwd=folder, check=True)
    text = (folder / "made.s").read_text()
    functions = {
        found["name"]: found["text"]
        for found in re.finditer(
            r"^(?P<name>\w+):(?P<text>.*?)^\s*\.size\s+(?P=name),", text, re.DOTALL | re.MULTILINE
        )
    }
    return [functions[kernel.name] for kernel in module.kernels]


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
