"""Element types and tensor types.

What it does: names the element types that Tasor computes with, and ties each to its numpy and C
spelling. What it does not: know layouts, devices or symbolic sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""An array of any element type."""
Shape = tuple[int, ...]

MAX_ELEMENTS = 2**40
"""No tensor may declare more elements than this; larger declarations are refused as absurd."""


class ShapeError(ValueError):
    """A user's tensors do not fit together. The message is one line: place, expected, got."""


class Kind(Enum):
    """The arithmetic that an element type follows."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"

    # Each is itself alone. An Enum is looked up by its name, in Python: every term would do it.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class DType:
    """One element type: its name, arithmetic, width in bits and C spelling.

    float16 and bfloat16 are stored as 16-bit patterns in C (`uint16_t`) and computed in float32:
    one rounding to nearest-even per stored value.
    """

    name: str
    kind: Kind
    bits: int
    c_name: str

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype that holds the same values."""
        return np.dtype(ml_dtypes.bfloat16) if self.name == "bfloat16" else np.dtype(self.name)

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_half(self) -> bool:
        """True for the 16-bit floats, which C computes in float32."""
        return self.kind is Kind.FLOAT and self.bits == 16

    @property
    def computed(self) -> DType:
        """The type that C code computes this type's values in."""
        return float32 if self.is_half else self

    def __repr__(self) -> str:
        return self.name


float64 = DType("float64", Kind.FLOAT, 64, "double")
float32 = DType("float32", Kind.FLOAT, 32, "float")
float16 = DType("float16", Kind.FLOAT, 16, "uint16_t")
bfloat16 = DType("bfloat16", Kind.FLOAT, 16, "uint16_t")
int64 = DType("int64", Kind.SIGNED, 64, "int64_t")
int32 = DType("int32", Kind.SIGNED, 32, "int32_t")
int16 = DType("int16", Kind.SIGNED, 16, "int16_t")
int8 = DType("int8", Kind.SIGNED, 8, "int8_t")
uint64 = DType("uint64", Kind.UNSIGNED, 64, "uint64_t")
uint32 = DType("uint32", Kind.UNSIGNED, 32, "uint32_t")
uint16 = DType("uint16", Kind.UNSIGNED, 16, "uint16_t")
uint8 = DType("uint8", Kind.UNSIGNED, 8, "uint8_t")
boolean = DType("bool", Kind.BOOL, 8, "uint8_t")

DTYPES: tuple[DType, ...] = (
    float64, float32, float16, bfloat16,
    int64, int32, int16, int8,
    uint64, uint32, uint16, uint8, boolean,
)  # fmt: skip

_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES}


def dtype_named(name: str) -> DType:
    """The element type of that name; KeyError for any other."""
    return _BY_NAME[name]


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if dtype.kind is Kind.UNSIGNED:
        return 0, (1 << dtype.bits) - 1
    half = 1 << (dtype.bits - 1)
    return -half, half - 1


def dtype_of(array: Array | np.generic) -> DType:
    """The element type of a numpy array; KeyError if Tasor has none for it."""
    return _BY_NUMPY[array.dtype]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and static shape of a tensor, row-major and contiguous."""

    dtype: DType
    shape: Shape

    def __post_init__(self) -> None:
        if any(size < 0 for size in self.shape):
            raise ShapeError(f"tensor type: expected sizes of at least 0, got {self.shape}")
        if prod(self.shape) > MAX_ELEMENTS:
            raise ShapeError(
                f"tensor type: expected at most 2**40 elements, got shape {self.shape}"
            )

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


def row_major_strides(shape: Shape) -> tuple[int, ...]:
    """Element strides of a contiguous row-major tensor of that shape."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def type_of(array: Array) -> TensorType:
    """The tensor type of a numpy array."""
    return TensorType(dtype_of(array), tuple(int(size) for size in array.shape))
