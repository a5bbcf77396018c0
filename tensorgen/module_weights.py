"""The constants of a library: one block of memory, kept in one of three ways.

What it does: lays the constants out one after the other, each at a multiple of 64 bytes, and gives
the block as C source, as assembler source beside a binary file, or as a binary file that says what
it is. What it does not: choose or pack the constants.

How to keep them was chosen by measuring, with gcc 12 and clang 14: the assembler's `.incbin` takes
one to two seconds for 400 MB, and linking two more. As C source, one MiB of floats takes 0.6 and
1.3 seconds, and some 200 times its size in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorgen.module_spec import ARENA_ALIGN, Module, WeightMode
from tensorgen.types import Array, Kind, TensorType, dtype_of, type_of

FILE_MAGIC = b"TASORW01"
FILE_HEADER_BYTES = 64

LARGEST_IN_C = 2**20
LARGEST_IN_OBJECT = 2**31 - 2**26
"""Code as compilers make it by default reaches 2 GiB around it; some of that is for the rest."""


def default_weights(total_bytes: int) -> WeightMode:
    """How to keep constants of that size: portable C source while it compiles in a second or so,
    then an object file, and a file of its own for what the linker could not place."""
    if total_bytes < LARGEST_IN_C:
        return "c"
    return "object" if total_bytes < LARGEST_IN_OBJECT else "file"


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """Where each constant lies in the block, in bytes from its start, and how large the block is.

    In the mode "file" the block starts with a header of 64 bytes: the magic "TASORW01", the number
    of bytes behind the header (little-endian, 8 bytes), their SHA-256, and zeros.
    """

    types: tuple[TensorType, ...]
    offsets: tuple[int, ...]
    bytes: int
    has_header: bool


def weight_layout(module: Module) -> WeightLayout:
    """The layout of the module's constants."""
    has_header = module.weights == "file"
    position = FILE_HEADER_BYTES if has_header else 0
    types = tuple(map(type_of, module.constants))
    offsets = []
    for tensor in types:
        offsets.append(position)
        position += _aligned(stored_elements(tensor) * tensor.dtype.bytes)
    return WeightLayout(types, tuple(offsets), position, has_header)


def stored_elements(tensor: TensorType) -> int:
    """Elements that a constant takes up: C has no arrays of size zero."""
    return max(1, tensor.size)


def _aligned(size: int) -> int:
    return -(-size // ARENA_ALIGN) * ARENA_ALIGN


def stored_values(constant: Array) -> Array:
    """The constant as it is kept: flat, never empty, with one bit pattern for all NaN.

    C can spell a NaN but not its payload, so every way to keep the constants drops the payload.
    """
    flat = np.ascontiguousarray(constant).reshape(-1)
    if flat.size == 0:
        return np.zeros(1, flat.dtype)
    dtype = dtype_of(flat)
    if dtype.kind is Kind.FLOAT and not dtype.is_half:
        unordered = np.isnan(flat)
        if unordered.any():
            return np.where(unordered, flat.dtype.type(np.nan), flat)
    return flat


def weight_block(constants: Sequence[Array], layout: WeightLayout) -> bytes:
    """The block as it lies in the memory of a little-endian machine."""
    block = np.zeros(layout.bytes, np.uint8)
    for constant, offset in zip(constants, layout.offsets, strict=True):
        values = stored_values(constant)
        patterns = values.view(f"u{values.dtype.itemsize}")
        raw = patterns.astype(patterns.dtype.newbyteorder("<"), copy=False).view(np.uint8)
        block[offset : offset + raw.size] = raw
    if layout.has_header:
        block[:FILE_HEADER_BYTES] = np.frombuffer(_file_header(block), np.uint8)
    return block.tobytes()


def _file_header(block: Array) -> bytes:
    content = np.ascontiguousarray(block[FILE_HEADER_BYTES:])
    digest = hashlib.sha256(content.data).digest()
    header = FILE_MAGIC + content.size.to_bytes(8, "little") + digest
    return header.ljust(FILE_HEADER_BYTES, b"\0")
