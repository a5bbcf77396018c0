"""Where a model's bytes go: constants inside the message or in a file beside it, files whole.

A protobuf message holds less than 2 GiB. Larger models keep their constants in one more file, named
after the graph's content: until the new model is in place, the old one still finds its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import ml_dtypes
import numpy as np
import onnx

from graphopt.onnx_export.errors import ExportError
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.protobuf import element_number
from tensorgen.types import Array, type_of

ALIGNMENT = 4096
"""External tensors begin at multiples of a page, so that runtimes can map them."""

LEAST_EXTERNAL_BYTES = 1024
"""Smaller tensors stay inside: shapes and axes are read without running the model."""


def inline_tensor(name: str, array: Array) -> onnx.TensorProto:
    """A constant inside the message."""
    tensor = _declared(name, array)
    tensor.raw_data = _little_endian(array).tobytes()
    return tensor


def _declared(name: str, array: Array) -> onnx.TensorProto:
    type = type_of(array)
    return onnx.TensorProto(name=name, data_type=element_number(type.dtype), dims=type.shape)


def _little_endian(array: Array) -> Array:
    bits = array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
    result: Array = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
    return result


class ExternalFile:
    """Appends constants to a file; `location` is the name that the model calls it by."""

    def __init__(self, file: BinaryIO, location: str) -> None:
        self._file = file
        self._location = location
        self._size = 0

    def tensor(self, name: str, array: Array) -> onnx.TensorProto:
        """A constant whose content is in the file, unless it is small."""
        if array.nbytes < LEAST_EXTERNAL_BYTES:
            return inline_tensor(name, array)
        gap = -self._size % ALIGNMENT
        self._file.write(bytes(gap))
        self._file.write(_little_endian(array).reshape(-1).view(np.uint8).data)
        tensor = _declared(name, array)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entries = {
            "location": self._location,
            "offset": str(self._size + gap),
            "length": str(array.nbytes),
        }
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        self._size += gap + array.nbytes
        return tensor


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` at the end, if nothing is raised until then.

    ExportError if the system refuses.
    """
    if not path.name:
        raise ExportError(f"model {quoted(str(path))}: expected the name of a file, got none")
    partial = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.partial")
    try:
        try:
            with partial.open("xb") as file:
                yield file
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror if error.strerror else type(error).__name__
        raise ExportError(
            f"model {quoted(str(path))}: expected a place that can be written, got {reason}; "
            "choose another place"
        ) from None
