"""The part of the compiler's header of vector intrinsics that a text uses.

What it does: asks the compiler what its header says, once, and cuts out of that the types, the
constants and those functions and macros that a text calls. The whole header takes gcc longer to
read than several kernels take to compile. What it does not: define an intrinsic; the definitions
are those of the compiler, so that the code is the same. Whoever compiles with a part must be ready
to compile with the whole: other compilers write other headers.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorgen.build import Compiler, default_flags
from tensorgen.target import Target

HEADER = "immintrin.h"

_SECONDS = 60.0
_NAME = re.compile(r"\b_mm\w+")
_TYPE = re.compile(r"^typedef\s[^;{}]*;", re.MULTILINE)
_CONSTANT = re.compile(r"^#define (?:_MM_|_CMP_)\w+.*$", re.MULTILINE)
_MACRO = re.compile(r"^#define (_mm\w+).*$", re.MULTILINE)
_ENUM = re.compile(r"^(?:typedef )?enum\b[^{;]*\{[^}]*\}[^;]*;", re.MULTILINE)
_FUNCTION = re.compile(
    r"^extern __inline[^;{}]*?\b(_mm\w+)\s*\([^;{}]*\)\s*\{.*?^\}", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """Types and constants of a header, and its functions and macros by name, in their order."""

    common: str
    definitions: Mapping[str, str]

    def part_for(self, text: str) -> str:
        """A header with what the text uses, callees first."""
        needed: set[str] = set()
        pending = list(_names(text))
        while pending:
            name = pending.pop()
            if name not in needed and name in self.definitions:
                needed.add(name)
                pending += _names(self.definitions[name])
        used = "\n".join(body for name, body in self.definitions.items() if name in needed)
        return f"#pragma GCC system_header\n{self.common}\n{used}\n"


def _names(text: str) -> Iterator[str]:
    return (match[0] for match in _NAME.finditer(text))


def intrinsics_of(compiler: Compiler, target: Target) -> Intrinsics | None:
    """The compiler's header for a target, taken apart; None if it is not written as gcc's is."""
    if target.architecture != "x86_64":
        return None
    flags = (*default_flags(strict=False, openmp=False), *target.compiler_flags)
    command = (*compiler.command, *flags, "-E", "-P", "-dD", "-x", "c", "-")
    try:
        answer = subprocess.run(
            command, input=f"#include <{HEADER}>\n", capture_output=True, text=True, check=True,
            timeout=_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    text = answer.stdout
    functions = {match[1]: match[0] for match in _FUNCTION.finditer(text)}
    if not functions:
        return None
    macros = {match[1]: match[0] for match in _MACRO.finditer(text)}
    outside = _FUNCTION.sub("", text)
    vectors = [m[0] for m in _TYPE.finditer(outside) if re.search(r"__m\w+|__v\d", m[0])]
    common = [*(m[0] for m in _ENUM.finditer(outside) if "_MM_" in m[0]), *vectors]
    common += [match[0] for match in _CONSTANT.finditer(outside)]
    return Intrinsics("\n".join(common), functions | macros)
