"""Elementwise operators as ONNX: one operator each where there is one, else a short composition.

What ONNX leaves open stays open: the value of a float cast to an integer type that cannot hold it
(Tasor saturates), an integer power that exceeds its type (Tasor wraps).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from graphopt.graph import Constant, Node
from graphopt.onnx_export.parameters import text
from graphopt.onnx_export.term import Exporter, Term, call, cast, elementwise
from graphopt.onnx_export.widening import BFLOAT16, MODULAR, SHORT, Widening, computed_in
from graphopt.onnx_import.protobuf import element_number
from graphopt.terms import scalar
from tensorgen.types import (
    DType,
    Kind,
    boolean,
    dtype_named,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

BITCAST_OPSET = 26

Build = Callable[..., Term]
"""(Terms…) -> Term"""

_NEGATED: Widening = {**BFLOAT16, uint8: int32, uint16: int32, uint32: int64, uint64: int64}
"""ONNX negates no unsigned type; the residue of the signed one is the same."""

_SELECTED: Widening = {**SHORT, boolean: uint8, uint64: int64}


def _built(build: Build, widening: Widening = BFLOAT16) -> Exporter:
    def export(node: Node, *operands: Term) -> Term:
        return build(*operands)

    return computed_in(widening, export)


def _plain(op_type: str, widening: Widening = BFLOAT16) -> Exporter:
    """One ONNX operator with a result of its operands' element type."""
    return _built(lambda *operands: elementwise(op_type, *operands), widening)


def _predicate(op_type: str) -> Exporter:
    return _built(lambda *operands: _test(op_type, *operands))


def _test(op_type: str, *operands: Term) -> Term:
    return elementwise(op_type, *operands, dtype=boolean)


def _not(x: Term) -> Term:
    return elementwise("Not", x)


def _differ(x: Term, y: Term) -> Term:
    return elementwise("Xor", x, y) if x.type.dtype == boolean else _not(_test("Equal", x, y))


def _like(value: float, x: Term) -> Constant:
    return scalar(value, x.type.dtype)


# Division


def _trunc(x: Term) -> Term:
    return elementwise("Mul", elementwise("Sign", x), elementwise("Floor", elementwise("Abs", x)))


def _signs_differ(remainder: Term, y: Term) -> Term:
    """Whether a remainder is not zero and has the other sign than the divisor."""
    zero = _like(0, y)
    opposite = elementwise("Xor", _test("Less", remainder, zero), _test("Less", y, zero))
    return elementwise("And", _not(_test("Equal", remainder, zero)), opposite)


def _floordiv(x: Term, y: Term) -> Term:
    quotient = elementwise("Div", x, y)
    dtype = x.type.dtype
    if dtype.kind is Kind.UNSIGNED:
        return quotient
    product = elementwise("Mul", quotient, y)
    inexact = _signs_differ(elementwise("Sub", x, product), y)
    return elementwise("Sub", quotient, cast(inexact, dtype))


def _mod(x: Term, y: Term) -> Term:
    """The divisor's sign. Before opset 28 ONNX gives floats the dividend's sign only."""
    if not x.type.dtype.is_float:
        return elementwise("Mod", x, y, fmod=0)
    remainder = elementwise("Mod", x, y, fmod=1)
    moved = elementwise("Add", remainder, y)
    return elementwise("Where", _signs_differ(remainder, y), moved, remainder, dtype=x.type.dtype)


def _fmod(x: Term, y: Term) -> Term:
    """The dividend's sign. Runtimes may compute `Mod` in double: too narrow for 64 bits."""
    if x.type.dtype in (int64, uint64):
        quotient = elementwise("Div", x, y)
        return elementwise("Sub", x, elementwise("Mul", quotient, y))
    return elementwise("Mod", x, y, fmod=1)


def _power(x: Term, y: Term) -> Term:
    """Integers to negative powers, which ONNX leaves open, are 1 / x ** -y toward zero."""
    dtype = x.type.dtype
    known = isinstance(y, Constant) and not bool(np.any(y.array < np.zeros((), y.array.dtype)))
    if dtype.kind is not Kind.SIGNED or known:
        return elementwise("Pow", x, y)
    zero, one, minus_one, two = (_like(value, x) for value in (0, 1, -1, 2))
    power = elementwise("Pow", x, elementwise("Max", y, zero))
    even = _test("Equal", elementwise("Mod", y, two, fmod=0), zero)
    alternating = _select(even, one, minus_one)
    other = _select(_test("Equal", x, minus_one), alternating, zero)
    reciprocal = _select(_test("Equal", x, one), one, other)
    return _select(_test("Less", y, zero), reciprocal, power)


# Bits


def _bits(op_type: str, logical: str) -> Exporter:
    def build(*operands: Term) -> Term:
        return elementwise(logical if operands[0].type.dtype == boolean else op_type, *operands)

    return _built(build)


_SHIFTED: Mapping[int, DType] = {8: uint32, 16: uint32, 32: uint32, 64: uint64}
"""The type to shift in, by width: `BitShift` is for unsigned types, and rarely for 16 bits."""


def _shift(direction: str) -> Exporter:
    def build(x: Term, y: Term) -> Term:
        dtype = x.type.dtype
        wide = dtype if dtype in (uint8, uint32, uint64) else _SHIFTED[dtype.bits]
        count, small = _bounded_count(y, dtype.bits)
        negative: Term | None = None
        if direction == "RIGHT" and dtype.kind is Kind.SIGNED:
            # Arithmetic: what is negative is complemented, shifted, and complemented again.
            negative = _test("Less", x, _like(0, x))
            x = _select(negative, elementwise("BitwiseNot", x), x)
        shifted = elementwise("BitShift", cast(x, wide), cast(count, wide), direction=direction)
        result = cast(shifted, dtype)
        if negative is not None:
            result = _select(negative, elementwise("BitwiseNot", result), result)
        return result if small is None else _select(small, result, _like(0, result))

    return _built(build)


def _bounded_count(y: Term, width: int) -> tuple[Term, Term | None]:
    """A count below the width, and where it was; None if it always was.

    Shifts by the width or more give zero, which ONNX leaves open.
    """
    if isinstance(y, Constant) and bool(np.all(y.array < np.asarray(width, y.array.dtype))):
        return y, None
    last = _like(width - 1, y)
    small = _test("LessOrEqual", y, last)
    return _select(small, y, last), small


# Choice and conversion


def _select(condition: Term, x: Term, y: Term) -> Term:
    dtype = x.type.dtype
    wide = _SELECTED.get(dtype, dtype)
    chosen = elementwise("Where", condition, cast(x, wide), cast(y, wide), dtype=wide)
    return cast(chosen, dtype)


def _where(node: Node, condition: Term, x: Term, y: Term) -> Term:
    return _select(condition, x, y)


def _cast(node: Node, x: Term) -> Term:
    to = element_number(node.type.dtype)
    return elementwise("Cast", x, dtype=node.type.dtype, to=to)


def _bitcast(node: Node, x: Term) -> Term:
    """Between integers of one width, a cast that keeps the residue keeps the bits."""
    dtype = dtype_named(text(node, "to"))
    if not dtype.is_float and not x.type.dtype.is_float:
        return _cast(node, x)
    to = element_number(dtype)
    return call("BitCast", x, type=node.type, opset=BITCAST_OPSET, to=to)


TABLE: Mapping[str, Exporter] = {
    "neg": _plain("Neg", _NEGATED),
    "abs": _plain("Abs"),
    "sign": _plain("Sign"),
    "add": _plain("Add"),
    "sub": _plain("Sub"),
    "mul": _plain("Mul"),
    "div": _plain("Div"),
    "floordiv": _built(_floordiv),
    "mod": _built(_mod),
    "fmod": _built(_fmod),
    "pow": _built(_power, MODULAR),
    "max": _plain("Max", SHORT),
    "min": _plain("Min", SHORT),
    "floor": _plain("Floor"),
    "ceil": _plain("Ceil"),
    "trunc": _built(_trunc),
    "round": _plain("Round"),
    "sqrt": _plain("Sqrt"),
    "exp": _plain("Exp"),
    "log": _plain("Log"),
    "sin": _plain("Sin"),
    "cos": _plain("Cos"),
    "tan": _plain("Tan"),
    "asin": _plain("Asin"),
    "acos": _plain("Acos"),
    "atan": _plain("Atan"),
    "sinh": _plain("Sinh"),
    "cosh": _plain("Cosh"),
    "tanh": _plain("Tanh"),
    "asinh": _plain("Asinh"),
    "acosh": _plain("Acosh"),
    "atanh": _plain("Atanh"),
    "erf": _plain("Erf"),
    "sigmoid": _plain("Sigmoid"),
    "isnan": _predicate("IsNaN"),
    "eq": _predicate("Equal"),
    "ne": _built(_differ),
    "lt": _predicate("Less"),
    "le": _predicate("LessOrEqual"),
    "and": _plain("And"),
    "or": _plain("Or"),
    "not": _plain("Not"),
    "bitnot": _bits("BitwiseNot", "Not"),
    "bitand": _bits("BitwiseAnd", "And"),
    "bitor": _bits("BitwiseOr", "Or"),
    "bitxor": _bits("BitwiseXor", "Xor"),
    "shl": _shift("LEFT"),
    "shr": _shift("RIGHT"),
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
}
