"""The record of one C function that generated code may call, and how its text is put together.

What it does: holds name, text, needs and error bound of a function; reads the name and the needs
from the text, so that they cannot disagree with it; prints literals and polynomials. What it does
not: hold any function; those stand in `c_functions_*`, the table of all of them in `c_functions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import Template
from textwrap import wrap

import numpy as np

_NAME = re.compile(r"\btasor_\w+(?=\()")
_BRANCH = re.compile(r"\b(if|for|while) \(")
_ON_ARRAYS = re.compile(
    r"^(?:TASOR_INLINE|static inline|static) (?P<head>void \w+\((?P<parameters>[^{]*)\))\n\{",
    re.MULTILINE,
)
_VECTOR = "__m"

INLINE_MACRO = """\
#ifndef TASOR_INLINE
#if defined(__GNUC__)
#define TASOR_INLINE static inline __attribute__((always_inline))
#else
#define TASOR_INLINE static inline
#endif
#endif
"""
"""How functions without branches are declared.

A call that is not inlined keeps its loop scalar, and compilers stop inlining in kernels with many
calls. For small code, compile with `-DTASOR_INLINE="static inline"`.
"""


@dataclass(frozen=True, slots=True)
class CFunction:
    """One self-contained C99 inline function.

    `text` is its definition with a comment above it and may use the macro of `INLINE_MACRO`;
    `requires` are the functions it calls. `ulp` is the greatest distance from the exact result in
    units in the last place of the result type, with and without contraction into fused
    multiply-adds; 0 for an exact function; None where there is no such measure (integers, bit
    patterns, predicates, parts of other functions).
    """

    name: str
    text: str
    requires: tuple[str, ...]
    ulp: float | None
    doc: str

    @property
    def declaration(self) -> str:
        """The declaration of a function that takes arrays and numbers and returns nothing. Calls of
        those cost little beside what they do, and may go to another library; "" for others."""
        found = _ON_ARRAYS.search(self.text)
        if found is None or _VECTOR in found["parameters"]:
            return ""
        return f"{found['head']};\n"


def c_function(text: str, doc: str, ulp: float | None = None, /, **parts: str) -> CFunction:
    """The record of the function that `text` defines, after `parts` replaced its `$name`s.

    A `static inline` function without branches is declared by the macro of `INLINE_MACRO`.
    """
    body = Template(text.strip("\n")).substitute(parts)
    if _BRANCH.search(body) is None:
        body = body.replace("static inline", "TASOR_INLINE", 1)
    name, *called = _NAME.findall(body)
    requires = tuple(dict.fromkeys(other for other in called if other != name))
    bound = "" if ulp is None else " Exact." if ulp == 0 else f" Within {ulp:g} ulp."
    comment = "\n".join(wrap(f"/* {doc}{bound} */", 100, subsequent_indent=" * "))
    return CFunction(name, f"{comment}\n{body}\n", requires, ulp, doc)


def float_literal(value: float, c_type: str) -> str:
    """The shortest C literal that reads back as the value rounded to `c_type`."""
    if c_type == "double":
        return repr(float(value))
    return f"{np.float32(value)!s}f"


def polynomial(c_type: str, name: str, variable: str, coefficients: Sequence[float]) -> str:
    """C statements that set `name` to the polynomial, by Horner's rule; constant term first."""
    *rest, first = (float_literal(value, c_type) for value in coefficients)
    lines = [f"    {c_type} {name} = {first};"]
    lines += (f"    {name} = {name} * {variable} + {value};" for value in reversed(rest))
    return "\n".join(lines).lstrip().replace("+ -", "- ")


def initializer(values: Iterable[str]) -> str:
    """The inside of a C array initializer, wrapped into lines."""
    return "\n".join(wrap(", ".join(values), 92, initial_indent=" " * 8, subsequent_indent=" " * 8))
