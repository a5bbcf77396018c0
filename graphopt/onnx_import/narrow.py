"""Element types narrower than those that Tasor computes with: floats of 8 bits and fewer, integers
of 2 and 4 bits.

Such a tensor is held as `Encoded`: one byte for each element with its bit pattern in the low bits,
which is also how numpy (through ml_dtypes) keeps it, and how a library takes and gives it. It can
be decoded, encoded and moved around; ONNX defines no arithmetic on these types. Not covered: two
elements to a byte, as files have them; `protobuf` unpacks those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import onnx

from graphopt.graph import Constant, Value
from graphopt.ops import OP
from graphopt.terms import apply, bitcast, cast, scalar, tensor, with_scalar
from tensorgen.types import Array, DType, float32, int8, int32, uint8, uint32

_MANTISSA = 23
_BIAS = 127
_INFINITY = 0x7F800000
_SIGN = 0x80000000


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """Sign, exponent and `mantissa` bits; 2**`least` is the smallest normal number.

    `largest`, `beyond` and `nan` are the codes, without the sign, of the largest finite number, of
    what is larger, and of NaN. In a type without `signed_zero`, the code of a negative zero is NaN.
    """

    bits: int
    mantissa: int
    least: int
    largest: int
    beyond: int
    nan: int
    signed_zero: bool


@dataclass(frozen=True, slots=True)
class SmallInteger:
    """Two's complement, or no sign."""

    bits: int
    signed: bool

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value."""
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.signed else (0, 2 * half - 1)


@dataclass(frozen=True, slots=True)
class PowerOfTwo:
    """No sign and no mantissa: code c stands for 2**(c - 127), 255 for NaN."""

    bits: int = 8


Encoding = SmallFloat | SmallInteger | PowerOfTwo


@dataclass(frozen=True, slots=True)
class NarrowType:
    """One narrow element type: its number in ONNX and how its values are encoded."""

    number: int
    encoding: Encoding

    @property
    def name(self) -> str:
        """The name in ONNX, in lower case."""
        return str(onnx.TensorProto.DataType.Name(self.number)).lower()

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype, of one byte for each element."""
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(self.number))


ENCODINGS: Mapping[str, Encoding] = {
    "FLOAT8E4M3FN": SmallFloat(8, 3, -6, 0x7E, 0x7F, 0x7F, True),
    "FLOAT8E4M3FNUZ": SmallFloat(8, 3, -7, 0x7F, 0x80, 0x80, False),
    "FLOAT8E5M2": SmallFloat(8, 2, -14, 0x7B, 0x7C, 0x7E, True),
    "FLOAT8E5M2FNUZ": SmallFloat(8, 2, -15, 0x7F, 0x80, 0x80, False),
    "FLOAT8E8M0": PowerOfTwo(),
    # Neither infinity nor NaN: what is larger becomes the largest number, NaN becomes zero.
    "FLOAT6E2M3": SmallFloat(6, 3, 0, 0x1F, 0x1F, 0x0, True),
    "FLOAT6E3M2": SmallFloat(6, 2, -2, 0x1F, 0x1F, 0x0, True),
    "FLOAT4E2M1": SmallFloat(4, 1, 0, 0x7, 0x7, 0x0, True),
    "INT4": SmallInteger(4, True),
    "UINT4": SmallInteger(4, False),
    "INT2": SmallInteger(2, True),
    "UINT2": SmallInteger(2, False),
}
"""How each type that has a name in ONNX encodes its values."""

NARROW_TYPES: tuple[NarrowType, ...] = tuple(
    NarrowType(number, ENCODINGS[name])
    for name, number in onnx.TensorProto.DataType.items()
    if name in ENCODINGS
)
"""Those that the installed library knows."""

BY_NUMBER: Mapping[int, NarrowType] = {type.number: type for type in NARROW_TYPES}
BY_NUMPY: Mapping[np.dtype[np.generic], NarrowType] = {type.numpy: type for type in NARROW_TYPES}


@dataclass(frozen=True, slots=True)
class Encoded:
    """A tensor of a narrow element type, as the bytes (uint8) that encode its elements."""

    codes: Value
    type: NarrowType


def stored(array: Array) -> Array:
    """An array of a narrow type as bytes; any other as it is."""
    return array.view(np.uint8) if array.dtype in BY_NUMPY else array


def constant_of(array: Array) -> Constant | Encoded:
    """An array as an operand."""
    narrow = BY_NUMPY.get(array.dtype)
    return Constant(array) if narrow is None else Encoded(Constant(stored(array)), narrow)


# From codes to values


def decoded(x: Encoded, dtype: DType) -> Value:
    """The values; exact if the type holds them, else converted as `cast` does."""
    encoding = x.type.encoding
    match encoding:
        case SmallInteger(bits, signed):
            if not signed:
                return cast(x.codes, dtype)
            sign = 1 << (bits - 1)
            wide = cast(x.codes, int8)
            return cast(with_scalar("sub", with_scalar("bitxor", wide, sign), sign), dtype)
        case SmallFloat() | PowerOfTwo():
            table = np.arange(1 << encoding.bits, dtype=np.uint8).view(x.type.numpy)
            values = OP["gather"](tensor(table, float32), cast(x.codes, int32), axis=0)
            return cast(values, dtype)
        case _:
            assert_never(encoding)


# From values to codes


def encoded(x: Value, type: NarrowType, *, saturate: bool, rounding: str = "up") -> Encoded:
    """The values converted to a narrow type.

    To floats the nearest, ties to even; with `saturate`, what is beyond the largest number becomes
    that, else what the type has for it. To integers toward zero, then the low bits. `rounding` is
    up, down or nearest, for powers of two.
    """
    encoding = type.encoding
    match encoding:
        case SmallFloat():
            codes = _float_codes(cast(x, float32), encoding, saturate)
        case SmallInteger(bits, _):
            codes = with_scalar("bitand", cast(cast(x, int32), uint32), (1 << bits) - 1)
        case PowerOfTwo():
            codes = _exponents(cast(x, float32), saturate, rounding)
        case _:
            assert_never(encoding)
    return Encoded(cast(codes, uint8), type)


def saturated(x: Value, type: NarrowType) -> Encoded:
    """Whole numbers limited to the range of a narrow integer type and converted to it."""
    assert isinstance(type.encoding, SmallInteger)
    low, high = type.encoding.limits
    limited = with_scalar("min", with_scalar("max", x, low), high)
    return encoded(limited, type, saturate=True)


def _float_codes(x: Value, encoding: SmallFloat, saturate: bool) -> Value:
    """The codes, in uint32, of float32 values."""
    bits = bitcast(x, uint32)
    magnitude = with_scalar("min", with_scalar("bitand", bits, _SIGN - 1), _INFINITY)
    dropped = _MANTISSA - encoding.mantissa
    odd = with_scalar("bitand", with_scalar("shr", magnitude, dropped), 1)
    nearest = apply("add", with_scalar("add", magnitude, (1 << (dropped - 1)) - 1), odd)
    # The exponent of the smallest normal number is 1 in the narrow type.
    offset = (_BIAS + encoding.least - 1) << encoding.mantissa
    normal = with_scalar("sub", with_scalar("shr", nearest, dropped), offset)
    size = apply("abs", x)
    units = with_scalar("mul", size, 2.0 ** (encoding.mantissa - encoding.least))
    is_small = with_scalar("lt", size, 2.0**encoding.least)
    subnormal = cast(apply("round", units), uint32)
    code = apply("where", is_small, subnormal, normal)
    limit = encoding.largest if saturate else encoding.beyond
    is_beyond = apply("lt", scalar(encoding.largest, uint32), code)
    code = apply("where", is_beyond, scalar(limit, uint32), code)
    sign = 1 << (encoding.bits - 1)
    is_signed = apply("le", scalar(_SIGN, uint32), bits)
    if not encoding.signed_zero:
        has_sign = apply("and", apply("lt", scalar(0, uint32), code), with_scalar("lt", code, sign))
        is_signed = apply("and", is_signed, has_sign)
    code = apply("where", is_signed, with_scalar("bitor", code, sign), code)
    return apply("where", apply("isnan", x), scalar(encoding.nan, uint32), code)


def _exponents(x: Value, saturate: bool, rounding: str) -> Value:
    """The exponents, in uint32, of float32 values, whose sign does not count.

    As ONNX has it, infinity becomes NaN; a number too small becomes the smallest one.
    """
    bits = with_scalar("bitand", bitcast(x, uint32), _SIGN - 1)
    exponent = with_scalar("shr", bits, _MANTISSA)
    rest = with_scalar("bitand", bits, (1 << _MANTISSA) - 1)
    half = 1 << (_MANTISSA - 1)
    match rounding:
        case "up":
            is_up = apply("lt", scalar(0, uint32), rest)
        case "nearest":
            # A tie goes to the exponent above, but for the smallest one.
            is_tie = apply("and", with_scalar("eq", rest, half), with_scalar("ne", exponent, 0))
            is_up = apply("or", apply("lt", scalar(half, uint32), rest), is_tie)
        case _:
            is_up = apply("lt", rest, rest)
    if saturate:
        is_up = apply("and", is_up, with_scalar("ne", exponent, 0xFE))
    next_exponent = with_scalar("min", with_scalar("add", exponent, 1), 0xFF)
    return apply("where", is_up, next_exponent, exponent)
