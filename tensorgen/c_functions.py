"""The C functions that generated code may call: self-contained C99, no libm transcendentals.

What it does: the table of all of them, the text of those that a module needs, and the function
that computes a scalar operator or a conversion in a given element type. What it does not: emit
calls, or operators that C spells itself (`+` on floats, comparisons).

The text needs <math.h>, <stdint.h> and <string.h>, IEEE 754 floats evaluated in their own type,
round to nearest, and a compiler that keeps to them (no -ffast-math). It has no undefined behaviour
for any operand. Converting an out-of-range unsigned value to a signed type is left by C to the
compiler; all that are known to us wrap. Without contraction into fused multiply-adds
(-ffp-contract=off) the results are the same bits on every target; the bounds hold either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from tensorgen.c_function import INLINE_MACRO, CFunction
from tensorgen.c_functions_arithmetic import ARITHMETIC
from tensorgen.c_functions_conversion import CONVERSION
from tensorgen.c_functions_exponential import EXPONENTIAL
from tensorgen.c_functions_integer import INTEGER, INTEGER_SUFFIX
from tensorgen.c_functions_logarithmic import LOGARITHMIC
from tensorgen.c_functions_softmax import SOFTMAX
from tensorgen.c_functions_transpose import TRANSPOSE
from tensorgen.c_functions_trigonometric import TRIGONOMETRIC
from tensorgen.c_functions_vectors import VECTOR_FUNCTIONS
from tensorgen.types import bfloat16, boolean, dtype_named, float16, float32, float64

__all__ = ["C_FUNCTIONS", "CFunction", "c_cast_for", "c_function_for", "definitions"]

_TABLE = (*ARITHMETIC, *INTEGER, *CONVERSION, *EXPONENTIAL, *LOGARITHMIC, *TRIGONOMETRIC)

C_FUNCTIONS: Mapping[str, CFunction] = MappingProxyType(
    {function.name: function for function in _TABLE}
)
"""Every function on single values by its C name."""

_ALL = {
    **C_FUNCTIONS,
    **{function.name: function for function in (*VECTOR_FUNCTIONS, *TRANSPOSE, *SOFTMAX)},
}

ON_ARRAYS: Mapping[str, CFunction] = MappingProxyType(
    {name: function for name, function in _ALL.items() if function.declaration}
)
"""The functions that may be defined elsewhere, in another library: see `CFunction.declaration`."""

_SUFFIX = {
    **INTEGER_SUFFIX,
    float16: "f16",
    bfloat16: "bf16",
    float32: "f32",
    float64: "f64",
}


def definitions(names: Iterable[str], elsewhere: Set[str] = frozenset()) -> str:
    """The C text of the named functions and of all that they call, callees first.

    Those that are defined `elsewhere` are only declared. The order is the same for every order of
    `names`; no names give no text. KeyError for a name that is not in the table.
    """
    wanted: set[str] = set()
    pending = sorted(names)
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending.extend(() if name in elsewhere else _ALL[name].requires)
    placed: dict[str, CFunction] = {}

    def place(function: CFunction) -> None:
        for name in function.requires:
            if name in wanted and name not in placed:
                place(_ALL[name])
        placed[function.name] = function

    for name, function in _ALL.items():
        if name in wanted and name not in placed:
            place(function)
    if not placed:
        return ""
    texts = (
        function.text if name not in elsewhere else function.declaration
        for name, function in placed.items()
    )
    return "\n".join((INLINE_MACRO, *texts))


def c_function_for(op: str, dtype_name: str) -> str | None:
    """The C function of a scalar operator on that element type; None if there is none.

    16-bit floats take the functions of float32, in which they are computed.
    """
    dtype = dtype_named(dtype_name)
    if dtype is boolean:
        return None
    name = f"tasor_{op}_{_SUFFIX[dtype.computed]}"
    return name if name in C_FUNCTIONS else None


def c_cast_for(source_name: str, target_name: str) -> str | None:
    """The C function that converts between two element types; None if a C cast or `!= 0` does.

    From a 16-bit float: its pattern to float; go on from float32. To a 16-bit float: from float
    or double to its pattern; come from float64 for integers.
    """
    source, target = dtype_named(source_name), dtype_named(target_name)
    if boolean in (source, target):
        return None
    name = f"tasor_{_SUFFIX[target]}_from_{_SUFFIX[source]}"
    return name if name in C_FUNCTIONS else None
