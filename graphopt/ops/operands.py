"""What type rules ask of their operands, said one way; and how oracles hold 16-bit floats.

Each check raises ShapeError with one line: operator, expected, got.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgen.types import Array, DType, Kind, ShapeError, TensorType, dtype_of, int32, int64

NUMBERS = frozenset({Kind.FLOAT, Kind.SIGNED, Kind.UNSIGNED})
INDEX_TYPES = (int32, int64)


def require_one_dtype(op: str, *types: TensorType) -> DType:
    """The element type that all operands share, of which there must be one."""
    if not types:
        raise ShapeError(f"{op}: expected at least one operand, got none")
    if any(type.dtype != types[0].dtype for type in types):
        names = ", ".join(type.dtype.name for type in types)
        raise ShapeError(f"{op}: expected operands of one element type, got {names}")
    return types[0].dtype


def require_numbers(op: str, *types: TensorType) -> DType:
    """The element type that all operands share, which must be one to calculate with."""
    dtype = require_one_dtype(op, *types)
    if dtype.kind not in NUMBERS:
        raise ShapeError(f"{op}: expected numbers, got {dtype.name}; cast first")
    return dtype


def require_indices(op: str, indices: TensorType) -> None:
    """Indices are int32 or int64."""
    if indices.dtype not in INDEX_TYPES:
        raise ShapeError(f"{op}: expected int32 or int64 indices, got {indices.dtype.name}")


def require_rank(op: str, what: str, type: TensorType, rank: int) -> None:
    """`type` has exactly that rank."""
    if type.rank != rank:
        raise ShapeError(f"{op}: expected {what} of rank {rank}, got {type}")


def require_axis(op: str, axis: int, rank: int) -> None:
    """`axis` counts from the front and exists."""
    if not 0 <= axis < rank:
        raise ShapeError(f"{op}: expected an axis in 0..{rank - 1}, got {axis}")


def require_flag(op: str, what: str, value: bool) -> None:
    """A parameter is true or false: a rule may give any parameter to any operator."""
    if not isinstance(value, bool):
        raise ShapeError(f"{op}: expected {what} to be true or false, got {value}")


def require_length(op: str, what: str, values: tuple[int, ...], length: int) -> None:
    """A parameter has one value for each of `length` axes."""
    if len(values) != length:
        raise ShapeError(f"{op}: expected {length} {what}, got {list(values)}")


def require_at_least(op: str, what: str, values: tuple[int, ...], least: int) -> None:
    """Every value of a parameter is at least `least`."""
    if any(value < least for value in values):
        raise ShapeError(f"{op}: expected {what} of at least {least}, got {list(values)}")


def computed(array: Array) -> Any:
    """The array in the type that its values are computed in: float32 for the 16-bit floats."""
    return array.astype(dtype_of(array).computed.numpy, copy=False)


def lowest(dtype: np.dtype[Any]) -> Any:
    """The neutral element of a maximum."""
    return -np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min


def highest(dtype: np.dtype[Any]) -> Any:
    """The neutral element of a minimum."""
    return np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max
