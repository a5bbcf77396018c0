"""The C functions that candidates call and do not contain: compiled once, as one library.

What it does: says which functions of an instruction set take arrays and numbers alone (they
transpose blocks, or compute the softmax of short rows), and writes a file with them for other
libraries to call. The library of a model has them inlined; to compile them anew for each candidate
took as long as its loops. What it does not: build or load that file.
"""

from __future__ import annotations

import re

from tensorgen.c_functions import ON_ARRAYS, definitions
from tensorgen.dialects import vector_dialect
from tensorgen.module_build import ISA_SUPPORT
from tensorgen.target import Isa
from tensorgen.types import float32

_FUNCTION = re.compile(r"\btasor_(?=\w+\()")
_PARAMETER = re.compile(r"(\w+)(?=[,)])")


def functions_apart(isa: Isa) -> tuple[str, ...]:
    """The names of those functions, sorted, by their widest vectors: none for an instruction set
    whose vectors no function is written in."""
    dialect = vector_dialect(isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    texts = {name: definitions([name]) for name in ON_ARRAYS}
    return tuple(sorted(name for name, text in texts.items() if _widest(text) == dialect.type))


def apart_source(isa: Isa) -> str:
    """The C text of them all: each calls one that is inlined, as it is in the library of a model,
    where no other library can take its place."""
    names = functions_apart(isa)
    inlined = _FUNCTION.sub("inlined_", definitions(names))
    exported = "\n".join(_exported(ON_ARRAYS[name].declaration) for name in names)
    includes = (ISA_SUPPORT[isa].header, "math.h", "stddef.h", "stdint.h", "string.h")
    head = "".join(f"#include <{header}>\n" for header in includes)
    return f"{head}\n{inlined}\n{exported}"


def _widest(text: str) -> str:
    vectors: list[str] = re.findall(r"__m\d+\b", text)
    return max(vectors, key=lambda vector: int(vector.removeprefix("__m")))


def _exported(declaration: str) -> str:
    head = declaration.rstrip(";\n")
    name, _, parameters = head.removeprefix("void ").partition("(")
    arguments = ", ".join(_PARAMETER.findall(f"({parameters}"))
    return f"{head};\n{head}\n{{\n    {_FUNCTION.sub('inlined_', name + '(')}{arguments});\n}}\n"
