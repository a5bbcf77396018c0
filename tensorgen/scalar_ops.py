"""The scalar operators of the expression language: one record each.

A record gives arity, admitted arithmetic, result type and the numpy meaning. The C spelling stands
in `dialects`, the algebra in `simplify`. Nothing here knows tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tensorgen.types import Array, DType, Kind, boolean

FLOATS = frozenset({Kind.FLOAT})
INTEGERS = frozenset({Kind.SIGNED, Kind.UNSIGNED})
NUMBERS = FLOATS | INTEGERS
BITS = INTEGERS | {Kind.BOOL}
ANY = NUMBERS | {Kind.BOOL}
BOOLS = frozenset({Kind.BOOL})


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One scalar operator.

    `numpy` maps arrays of one dtype (the operand type) to an array; for `predicate` operators the
    result is bool, for all others it is the operand type.
    """

    name: str
    arity: int
    kinds: frozenset[Kind]
    numpy: Callable[..., Any]
    predicate: bool = False
    symbol: str = ""
    precedence: int = 0

    def result(self, operand: DType) -> DType:
        """The result type for operands of that type."""
        return boolean if self.predicate else operand

    def __reduce__(self) -> tuple[Callable[[str], ScalarOp], tuple[str]]:
        """Pickled by its name: meanings that are closures cannot be, and another process has its
        own."""
        return scalar_op_named, (self.name,)


def _truncating_divide(x: Any, y: Any) -> Any:
    """C division: exact for floats, toward zero for integers."""
    if np.issubdtype(np.asarray(x).dtype, np.integer):
        quotient = np.floor_divide(x, y)
        inexact = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
        return (quotient + inexact).astype(np.asarray(x).dtype)
    return np.divide(x, y)


def _power(x: Any, y: Any) -> Any:
    """Power that wraps for integers; a negative exponent of an integer truncates toward zero."""
    if not np.issubdtype(np.asarray(x).dtype, np.integer):
        return np.power(x, y)
    positive = np.power(x, np.maximum(y, 0))
    reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    # int64 and uint64 would meet in float64.
    return np.where(y < 0, reciprocal.astype(positive.dtype), positive)


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a special function of a 16-bit float in float32, rounding once at the end."""

    def wrapped(x: Any) -> Any:
        dtype = np.asarray(x).dtype
        narrow = dtype.itemsize == 2
        return function(np.asarray(x).astype(np.float32) if narrow else x).astype(dtype)

    return wrapped


def _shift(left: bool) -> Callable[..., Any]:
    """Shift whose count of at least the width gives zero (or all sign bits), as ONNX expects."""

    def shifted(x: Any, y: Any) -> Any:
        width = np.asarray(x).dtype.itemsize * 8
        count = np.minimum(y, width - 1).astype(np.asarray(x).dtype)
        moved = np.left_shift(x, count) if left else np.right_shift(x, count)
        return np.where(y >= width, np.zeros_like(moved), moved)

    return shifted


def _unary(name: str, kinds: frozenset[Kind], numpy: Callable[..., Any], **more: Any) -> ScalarOp:
    return ScalarOp(name, 1, kinds, numpy, **more)


def _binary(name: str, kinds: frozenset[Kind], numpy: Callable[..., Any], **more: Any) -> ScalarOp:
    return ScalarOp(name, 2, kinds, numpy, **more)


SCALAR_OPS: tuple[ScalarOp, ...] = (
    # arithmetic; integers wrap modulo 2**bits
    _unary("neg", NUMBERS, np.negative),
    _unary("abs", NUMBERS, np.abs),
    _unary("sign", NUMBERS, np.sign),
    _binary("add", NUMBERS, np.add, symbol="+", precedence=12),
    _binary("sub", NUMBERS, np.subtract, symbol="-", precedence=12),
    _binary("mul", NUMBERS, np.multiply, symbol="*", precedence=13),
    _binary("div", NUMBERS, _truncating_divide, symbol="/", precedence=13),
    _binary("floordiv", INTEGERS, np.floor_divide),
    _binary("mod", NUMBERS, np.mod),  # the sign of the divisor
    _binary("fmod", NUMBERS, np.fmod),  # the sign of the dividend
    _binary("pow", NUMBERS, _power),
    _binary("max", NUMBERS, np.maximum),  # NaN if either is NaN
    _binary("min", NUMBERS, np.minimum),
    # rounding
    _unary("floor", FLOATS, np.floor),
    _unary("ceil", FLOATS, np.ceil),
    _unary("trunc", FLOATS, np.trunc),
    _unary("round", FLOATS, np.rint),  # halves to even
    # transcendental
    _unary("sqrt", FLOATS, np.sqrt),
    _unary("exp", FLOATS, np.exp),
    _unary("log", FLOATS, np.log),
    _unary("sin", FLOATS, np.sin),
    _unary("cos", FLOATS, np.cos),
    _unary("tan", FLOATS, np.tan),
    _unary("asin", FLOATS, np.arcsin),
    _unary("acos", FLOATS, np.arccos),
    _unary("atan", FLOATS, np.arctan),
    _unary("sinh", FLOATS, np.sinh),
    _unary("cosh", FLOATS, np.cosh),
    _unary("tanh", FLOATS, np.tanh),
    _unary("asinh", FLOATS, np.arcsinh),
    _unary("acosh", FLOATS, np.arccosh),
    _unary("atanh", FLOATS, np.arctanh),
    _unary("erf", FLOATS, _in_float32(special.erf)),
    _unary("sigmoid", FLOATS, _in_float32(special.expit)),
    # predicates and logic
    _unary("isnan", FLOATS, np.isnan, predicate=True),
    _binary("eq", ANY, np.equal, predicate=True, symbol="==", precedence=9),
    _binary("ne", ANY, np.not_equal, predicate=True, symbol="!=", precedence=9),
    _binary("lt", NUMBERS, np.less, predicate=True, symbol="<", precedence=10),
    _binary("le", NUMBERS, np.less_equal, predicate=True, symbol="<=", precedence=10),
    _binary("and", BOOLS, np.logical_and, symbol="&&", precedence=5),
    _binary("or", BOOLS, np.logical_or, symbol="||", precedence=4),
    _unary("not", BOOLS, np.logical_not),
    # bits
    _unary("bitnot", BITS, np.invert),
    _binary("bitand", BITS, np.bitwise_and, symbol="&", precedence=8),
    _binary("bitor", BITS, np.bitwise_or, symbol="|", precedence=6),
    _binary("bitxor", BITS, np.bitwise_xor, symbol="^", precedence=7),
    _binary("shl", INTEGERS, _shift(left=True)),
    _binary("shr", INTEGERS, _shift(left=False)),
)

SCALAR_OP = {op.name: op for op in SCALAR_OPS}

QUOTIENT = ScalarOp("quotient", 3, FLOATS, lambda x, y, reciprocal: np.divide(x, y))
"""x / y for loops that divide by the same y often, given 1 / y, for the y of `quotient_divisors`.

Lowering makes it; no operator does.
"""


def _reciprocal_rest(y: Any, reciprocal: Any) -> Any:
    """What 1 / y is beyond its rounded value; only its first digits matter."""
    wide = np.longdouble
    rest = (1 - wide(y) * wide(reciprocal)) * wide(reciprocal)
    return np.asarray(rest).astype(np.asarray(y).dtype)


RECIPROCAL_REST = ScalarOp("reciprocal_rest", 2, FLOATS, _reciprocal_rest)
"""1 / y less `reciprocal`, which is 1 / y rounded, for a y that is NaN or from 1 to 2**64.

Lowering makes it; no operator does.
"""

RESCALED = ScalarOp("rescaled", 3, FLOATS, lambda x, factor, rest: x * factor + x * rest)
"""x times a factor that comes in two parts, of which the second is about the first one's rounding.

Lowering makes it; no operator does.
"""


def _normal_exp(x: Array) -> Array:
    powers = np.exp(x)
    return np.where(powers < np.finfo(x.dtype).tiny, x.dtype.type(0), powers)


EXP_NONPOSITIVE = ScalarOp("exp_nonpositive", 1, FLOATS, _normal_exp)
"""exp of an x that is NaN or at most 0; 0 where that is below the normal numbers.

Lowering makes it; no operator does.
"""

MAX_NUMBER = ScalarOp("max_number", 2, FLOATS, lambda x, y: np.where(y > x, y, x))
"""The greater of x and y, x if either is NaN: a maximum that need not propagate NaN from y.

Lowering makes it; no operator does.
"""


_LOWERED_OPS = (QUOTIENT, RECIPROCAL_REST, RESCALED, EXP_NONPOSITIVE, MAX_NUMBER)

_BY_NAME = {op.name: op for op in (*SCALAR_OPS, *_LOWERED_OPS)}


def scalar_op_named(name: str) -> ScalarOp:
    """The operator of that name, among those that lowering makes, too; KeyError for any other."""
    return _BY_NAME[name]


def quotient_divisors(dtype: DType) -> tuple[float, float]:
    """The least and the greatest divisor for which a quotient may be taken by its reciprocal."""
    most = 2.0 ** (24 if dtype.bits == 32 else 53)
    return 1 / most, most
