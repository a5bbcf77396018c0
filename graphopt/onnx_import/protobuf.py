"""ONNX tensors and types as numpy arrays and tensor types, from untrusted bytes.

Knows the 13 element types of `tensorgen.types`; every other is refused by name. External data is
read only from regular files inside the model's folder and only within their length.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from graphopt.onnx_import.errors import ModelError, UnsupportedOperator, printable, quoted
from graphopt.onnx_import.narrow import BY_NUMBER, NarrowType
from tensorgen.types import MAX_ELEMENTS, Array, DType, Shape, boolean, dtype_named, uint8

_NAMES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT64: "uint64",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.BOOL: "bool",
}
_NUMBERS = {name: number for number, name in _NAMES.items()}


def element_type(number: int, place: str) -> DType:
    """The element type that ONNX numbers so; UnsupportedOperator naming any other."""
    if number not in _NAMES:
        known = number in onnx.TensorProto.DataType.values()
        got = onnx.TensorProto.DataType.Name(number).lower() if known else f"number {number}"
        raise UnsupportedOperator(
            f"{place}: expected one of the element types {', '.join(sorted(_NUMBERS))}, got {got}"
        )
    return dtype_named(_NAMES[number])


def item_type(declared: onnx.TypeProto) -> onnx.TypeProto.Tensor | None:
    """The type of a tensor, of a sequence's items, or of an optional one of these, if it is one."""
    for kind in ("optional_type", "sequence_type"):
        if declared.HasField(kind):
            declared = getattr(declared, kind).elem_type
    return declared.tensor_type if declared.HasField("tensor_type") else None


def is_sequence(declared: onnx.TypeProto) -> bool:
    """Whether the type is that of a sequence, or of an optional one."""
    inner = declared.optional_type.elem_type if declared.HasField("optional_type") else declared
    return bool(inner.HasField("sequence_type"))


def element_number(dtype: DType) -> int:
    """The number by which ONNX knows an element type."""
    return _NUMBERS[dtype.name]


def _checked_shape(dims: list[int], place: str) -> Shape:
    shape = tuple(int(size) for size in dims)
    if any(size < 0 for size in shape):
        raise ModelError(f"{place}: expected sizes of at least 0, got {list(shape)}")
    if prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"{place}: expected at most 2**40 elements, got {list(shape)}")
    return shape


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Decodes tensors of one model. `folder` is where its external data lies; None if unknown."""

    folder: Path | None

    def read(self, tensor: onnx.TensorProto) -> Array:
        """The tensor's content, of a narrow type as numpy has it.

        ModelError if its declared type and its data do not agree.
        """
        place = f"tensor {quoted(tensor.name)}"
        shape = _checked_shape(list(tensor.dims), place)
        if tensor.HasField("segment"):
            raise ModelError(f"{place}: expected a whole tensor, got a segment")
        narrow = BY_NUMBER.get(tensor.data_type)
        if narrow is not None:
            return self._narrow(tensor, narrow, shape, place)
        dtype = element_type(tensor.data_type, place)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            flat = self._external(tensor, dtype, prod(shape), place)
        elif tensor.HasField("raw_data"):
            flat = _from_bytes(tensor.raw_data, dtype, prod(shape), place)
        else:
            flat = _from_fields(tensor, dtype, prod(shape), place)
        if dtype == boolean:
            flat = flat.view(np.uint8) != 0
        return flat.reshape(shape)

    def _narrow(
        self, tensor: onnx.TensorProto, narrow: NarrowType, shape: Shape, place: str
    ) -> Array:
        """Elements of less than a byte are packed, the first in the lowest bits."""
        count = -(-prod(shape) * narrow.encoding.bits // 8)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data = self._external(tensor, uint8, count, place)
        elif tensor.HasField("raw_data"):
            data = _from_bytes(tensor.raw_data, uint8, count, place)
        else:
            numbers = np.array(tensor.int32_data, dtype=np.int64)
            if len(numbers) != count or np.any((numbers < 0) | (numbers > 255)):
                raise ModelError(
                    f"{place}: expected {count} bytes in int32_data, got {len(numbers)} numbers"
                )
            data = numbers.astype(np.uint8)
        whole = onnx.TensorProto(
            dims=shape, data_type=tensor.data_type, raw_data=np.asarray(data).tobytes()
        )
        return numpy_helper.to_array(whole)

    def read_sparse(self, tensor: onnx.SparseTensorProto) -> Array:
        """A sparse tensor, made dense."""
        place = f"sparse tensor {quoted(tensor.values.name)}"
        shape = _checked_shape(list(tensor.dims), place)
        values, indices = self.read(tensor.values), self.read(tensor.indices)
        if prod(shape) * values.itemsize > 2**31:
            raise ModelError(f"{place}: expected at most 2 GiB when dense, got {list(shape)}")
        linear = indices.ndim == 1 and indices.shape == values.shape
        coordinates = indices.ndim == 2 and indices.shape == (values.size, len(shape))
        if values.ndim != 1 or indices.dtype != np.int64 or not (linear or coordinates):
            raise ModelError(
                f"{place}: expected one int64 index or coordinate per value, "
                f"got {values.shape} values and {indices.shape} indices"
            )
        limits = np.array(shape if coordinates else [prod(shape)], dtype=np.int64)
        rows = indices.astype(np.int64).reshape(values.size, len(limits))
        if np.any((rows < 0) | (rows >= limits)):
            raise ModelError(f"{place}: expected indices within {list(shape)}, got one outside")
        dense = np.zeros(shape, values.dtype)
        where = tuple(rows.T) if coordinates else np.unravel_index(rows[:, 0], shape)
        dense[where] = values
        return dense

    def _external(self, tensor: onnx.TensorProto, dtype: DType, size: int, place: str) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._inside(entries.get("location", ""), place)
        offset = _count(entries.get("offset", "0"), "offset", place)
        needed = size * dtype.bytes
        length = _count(entries.get("length", str(needed)), "length", place)
        if length != needed:
            raise ModelError(
                f"{place}: expected {needed} bytes of external data, got length {length}"
            )
        available = path.stat().st_size
        if offset + needed > available:
            raise ModelError(
                f"{place}: expected bytes {offset} … {offset + needed} of {quoted(path.name)}, "
                f"got a file of {available} bytes"
            )
        stored = dtype.numpy.newbyteorder("<") if dtype.name != "bfloat16" else dtype.numpy
        array: Array = np.fromfile(path, dtype=stored, count=size, offset=offset)
        return array.astype(dtype.numpy, copy=False)

    def _inside(self, location: str, place: str) -> Path:
        if self.folder is None:
            raise ModelError(
                f"{place}: expected data inside the model, got external data; "
                "give the model as a path"
            )
        root = self.folder.resolve()
        advice = "external data must be a file inside the model's folder"
        if not location or "\0" in location or Path(location).is_absolute():
            raise ModelError(
                f"{place}: expected a relative location, got {quoted(location)}; {advice}"
            )
        path = (root / location).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            raise ModelError(
                f"{place}: expected a file inside the model's folder, "
                f"got {quoted(location)}; {advice}"
            )
        return path


def _count(text: str, purpose: str, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelError(f"{place}: expected {purpose} as a number of bytes, got {quoted(text)}")
    return int(text)


def _from_bytes(data: bytes, dtype: DType, size: int, place: str) -> Array:
    if len(data) != size * dtype.bytes:
        raise ModelError(
            f"{place}: expected {size * dtype.bytes} bytes for {size} elements of {dtype.name}, "
            f"got {len(data)}"
        )
    if dtype.name == "bfloat16":
        return np.frombuffer(data, dtype="<u2").astype(np.uint16).view(dtype.numpy)
    return np.frombuffer(data, dtype=dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False)


def _from_fields(tensor: onnx.TensorProto, dtype: DType, size: int, place: str) -> Array:
    """Data in the typed fields: `float_data`, `int32_data` and so on."""
    field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    count = len(getattr(tensor, field))
    if count != size:
        raise ModelError(f"{place}: expected {size} elements in {field}, got {count}")
    try:
        array: Array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(f"{place}: expected {dtype.name} values, got {printable(error)}") from None
    return array.reshape(-1).astype(dtype.numpy, copy=False)
