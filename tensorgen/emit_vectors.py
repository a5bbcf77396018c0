"""The C text of vector loads and operations, from the templates of a dialect.

What it does not: print statements or know the buffers' names; `emit` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tensorgen.dialects import VectorDialect
from tensorgen.loop import Register, VectorLoad

_FUNCTION = re.compile(r"\btasor_\w+(?=\()")


def mask_text(lanes: Iterable[int]) -> str:
    """The mask that has a bit for each of these lanes."""
    return f"0x{sum(1 << lane for lane in lanes):X}"


def pointer_before(pointer: str, load: VectorLoad) -> str:
    """A pointer to where lane 0 would lie before the buffer, from one to the first lane that is
    read: C lets no pointer arithmetic lead there."""
    c_type, distance = load.buffer.dtype.c_name, load.first
    bytes_before = f"sizeof({c_type})" if distance == 1 else f"{distance} * sizeof({c_type})"
    return f"(const {c_type} *)((uintptr_t)({pointer}) - {bytes_before})"


def loaded_text(dialect: VectorDialect, pointer: str, load: VectorLoad) -> str | None:
    """The vector that is loaded; None if the instruction set cannot leave lanes out."""
    if load.count == dialect.lanes:
        return dialect.load.format(p=pointer)
    template = dialect.load_partial or dialect.load_signed
    if template is None:
        return None
    read = range(load.first, load.first + load.count)
    signs = ", ".join("-1" if lane in read else "0" for lane in range(dialect.lanes))
    text = template.format(p=pointer, m=mask_text(read), s=signs)
    if load.outside == 0:
        return text
    if dialect.choose is None:
        return None
    outside = {float("inf"): "INFINITY", float("-inf"): "-INFINITY"}.get(load.outside)
    value = outside if outside is not None else repr(load.outside)
    return dialect.choose.format(x=value, m=mask_text(read), s=signs, v=text)


def applied_text(dialect: VectorDialect, operation: str, left: Register, right: Register) -> str:
    """The vector `operation(left, right)`."""
    template = dialect.operation(operation)
    assert template is not None, f"no vector instruction for {operation}"
    return template.format(a=left.name, b=right.name)


def functions_in(text: str) -> frozenset[str]:
    """The C functions of ours that a text calls."""
    return frozenset(_FUNCTION.findall(text))
