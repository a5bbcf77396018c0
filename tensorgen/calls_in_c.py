"""A library called again and again by a loop in C, to time it without Python's share of a call.

What it does: builds a loop for a function of so many pointers and binds it to a loaded library and
to arrays. What it does not: look at a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cffi

from tensorgen.build import build_library
from tensorgen.library import Library, RunError
from tensorgen.target import host_target
from tensorgen.types import Array


def repeated_calls(
    library: Library,
    arrays: Sequence[Array],
    outputs: Sequence[Array],
    cache: Path | None = None,
) -> Callable[[int], None]:
    """A function that calls the library so many times on these arrays, which it keeps.

    It stops at a call that is refused. `cache` as for `build_library`. Raises errors as
    `Library.addresses` and `build_library`; when it is called, RunError if the library refused.
    """
    function, leading, arena_bytes, tensors = library.addresses(arrays, outputs)
    ffi: Any = cffi.FFI()
    ffi.cdef("int repeated_calls(void *, long, void **, size_t, void **);")
    path = build_library(
        {"repeated_calls.c": _source(len(leading), len(tensors))}, target=host_target(), cache=cache
    )
    # A function does not keep the library mapped that it comes from.
    loops: Any = ffi.dlopen(str(path))
    first, second = (
        ffi.new("void *[]", [ffi.cast("void *", int(address)) for address in addresses])
        for addresses in (leading, tensors)
    )
    run, kept = ffi.cast("void *", function), (*arrays, *outputs)

    def repeat(calls: int) -> None:
        status = loops.repeated_calls(run, calls, first, arena_bytes, second)
        if status != 0:
            # The arrays are asked, too: their addresses are good for as long as they are there.
            raise RunError(
                f"{library.name}_run: expected status 0 from every call on {len(kept)} arrays, got "
                f"{status}; pass separate, aligned arrays that nobody writes to meanwhile"
            )

    return repeat


def _source(leading: int, tensors: int) -> str:
    """The loop around a function of `leading` pointers, the last of them to the arena, then the
    arena's size, then pointers to so many tensors."""
    types = ", ".join(["void *"] * leading + ["size_t"] + ["void *"] * tensors)
    given = ", ".join(
        [f"leading[{number}]" for number in range(leading)]
        + ["arena_bytes"]
        + [f"tensors[{number}]" for number in range(tensors)]
    )
    return f"""#include <stddef.h>

typedef int run_function({types});

int repeated_calls(run_function *run, long calls, void **leading, size_t arena_bytes,
                   void **tensors);

int repeated_calls(run_function *run, long calls, void **leading, size_t arena_bytes,
                   void **tensors)
{{
    int status = 0;

    (void)tensors;
    for (long call = 0; call < calls && status == 0; call++) {{
        status = run({given});
    }}
    return status;
}}
"""
