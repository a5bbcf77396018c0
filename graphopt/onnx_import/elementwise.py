"""Importers of elementwise operators: one or a few scalar operators each, with broadcasting.

The activations that ONNX defines through others are left to their bodies, save Relu, Clip and the
comparisons, each of which is a single scalar operator here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode, same_type
from graphopt.terms import apply, cast, reshape, scalar, with_scalar
from tensorgen.types import Kind, boolean, uint8

Build = Callable[[Value], Value]


def _lifted(name: str) -> Importer:
    """One scalar operator on all operands."""

    def importer(node: OnnxNode) -> tuple[Value, ...]:
        return (apply(name, *node.operands),)

    return importer


def _unary(build: Build) -> Importer:
    def importer(node: OnnxNode) -> tuple[Value, ...]:
        return (build(node.input(0)),)

    return importer


def _variadic(name: str) -> Importer:
    def importer(node: OnnxNode) -> tuple[Value, ...]:
        return (reduce(partial(apply, name), node.operands),)

    return importer


def _comparison(name: str, *, swapped: bool = False) -> Importer:
    """An order relation; false < true where the operands are booleans."""

    def importer(node: OnnxNode) -> tuple[Value, ...]:
        x, y = (_ordered(node.input(position)) for position in (0, 1))
        return (apply(name, y, x) if swapped else apply(name, x, y),)

    return importer


def _ordered(x: Value) -> Value:
    return cast(x, uint8) if x.type.dtype == boolean else x


def _mean(node: OnnxNode) -> tuple[Value, ...]:
    operands = node.operands
    total = reduce(partial(apply, "add"), operands)
    return (total if len(operands) == 1 else with_scalar("div", total, len(operands)),)


def _relu(x: Value) -> Value:
    return with_scalar("max", x, 0)


def _reciprocal(x: Value) -> Value:
    return apply("div", scalar(1, x.type.dtype), x)


def _absolute(x: Value) -> Value:
    return x if x.type.dtype.kind is Kind.UNSIGNED else apply("abs", x)


def _clip(node: OnnxNode) -> tuple[Value, ...]:
    """`min(max(x, low), high)`; bounds are attributes up to opset 10 and operands after."""
    result = node.input(0)
    for position, (name, operator) in enumerate((("min", "max"), ("max", "min")), start=1):
        bound = node.optional(position)
        if bound is not None:
            same_type(node, result, bound)
            if bound.type.size != 1:
                raise node.error(f"{name} as a scalar", bound.type)
            result = apply(operator, result, bound)
        elif node.has(name):
            result = with_scalar(operator, result, node.number(name))
    return (result,)


def _modulo(node: OnnxNode) -> tuple[Value, ...]:
    """The divisor's sign, or with `fmod` (which floats require) the dividend's."""
    x, y = node.input(0), node.input(1)
    if node.integer("fmod", 0) == 0 and x.type.dtype.is_float and node.version < 28:
        raise node.error("attribute fmod=1 for floats", "fmod=0")
    return (apply("fmod" if node.integer("fmod", 0) else "mod", x, y),)


def _power(node: OnnxNode) -> tuple[Value, ...]:
    """The result has the base's type, whatever the exponent's."""
    base, exponent = node.input(0), node.input(1)
    if base.type.dtype == exponent.type.dtype:
        return (apply("pow", base, exponent),)
    if exponent.type.dtype.is_float and base.type.dtype.is_integer:
        wide = exponent.type.dtype
        return (cast(apply("pow", cast(base, wide), exponent), base.type.dtype),)
    return (apply("pow", base, cast(exponent, base.type.dtype)),)


def _shift(node: OnnxNode) -> tuple[Value, ...]:
    """A count below zero or beyond the width shifts everything out; signs fill from the left."""
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.error("direction LEFT or RIGHT", quoted(direction))
    x, count = node.input(0), node.input(1)
    left, dtype = direction == "LEFT", same_type(node, x, count)
    if dtype.kind is Kind.SIGNED:
        # shr gives 0 from a count of the width on, where a negative x must give -1.
        most = scalar(dtype.bits if left else dtype.bits - 1, dtype)
        negative = apply("lt", count, scalar(0, dtype))
        count = apply("where", negative, most, apply("min", count, most))
    return (apply("shl" if left else "shr", x, count),)


def _is_infinite(node: OnnxNode) -> tuple[Value, ...]:
    """Which infinities count is given by two attributes."""
    x = node.input(0)
    positive, negative = node.integer("detect_positive", 1), node.integer("detect_negative", 1)
    if positive and negative:
        return (apply("eq", apply("abs", x), scalar(np.inf, x.type.dtype)),)
    if positive or negative:
        return (apply("eq", x, scalar(np.inf if positive else -np.inf, x.type.dtype)),)
    return (apply("lt", x, x),)


def _softplus(x: Value) -> Value:
    """max(x, 0) + log(1 + exp(-|x|)), which does not overflow as log(exp(x) + 1) does."""
    tail = apply("exp", apply("neg", apply("abs", x)))
    return apply("add", _relu(x), apply("log", with_scalar("add", tail, 1)))


def _parametric_relu(node: OnnxNode) -> tuple[Value, ...]:
    """x below zero times a slope; one slope per channel, as before opset 7, is understood too."""
    x, slope = node.input(0), node.input(1)
    channels = x.type.shape[1:2]
    if slope.type.shape == channels and x.type.shape[-1:] != channels:
        slope = reshape(slope, (*channels, *((1,) * (x.type.rank - 2))))
    negative = apply("lt", x, scalar(0, same_type(node, x, slope)))
    return (apply("where", negative, apply("mul", x, slope), x),)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "Abs"): _unary(_absolute),
    ("", "Acos"): _lifted("acos"),
    ("", "Acosh"): _lifted("acosh"),
    ("", "Add"): _lifted("add"),
    ("", "And"): _lifted("and"),
    ("", "Asin"): _lifted("asin"),
    ("", "Asinh"): _lifted("asinh"),
    ("", "Atan"): _lifted("atan"),
    ("", "Atanh"): _lifted("atanh"),
    ("", "BitShift"): _shift,
    ("", "BitwiseAnd"): _lifted("bitand"),
    ("", "BitwiseNot"): _lifted("bitnot"),
    ("", "BitwiseOr"): _lifted("bitor"),
    ("", "BitwiseXor"): _lifted("bitxor"),
    ("", "Ceil"): _lifted("ceil"),
    ("", "Clip"): _clip,
    ("", "Cos"): _lifted("cos"),
    ("", "Cosh"): _lifted("cosh"),
    ("", "Div"): _lifted("div"),
    ("", "Equal"): _lifted("eq"),
    ("", "Erf"): _lifted("erf"),
    ("", "Exp"): _lifted("exp"),
    ("", "Floor"): _lifted("floor"),
    ("", "Greater"): _comparison("lt", swapped=True),
    ("", "GreaterOrEqual"): _comparison("le", swapped=True),
    ("", "IsInf"): _is_infinite,
    ("", "IsNaN"): _lifted("isnan"),
    ("", "Less"): _comparison("lt"),
    ("", "LessOrEqual"): _comparison("le"),
    ("", "Log"): _lifted("log"),
    ("", "Max"): _variadic("max"),
    ("", "Mean"): _mean,
    ("", "Min"): _variadic("min"),
    ("", "Mod"): _modulo,
    ("", "Mul"): _lifted("mul"),
    ("", "Neg"): _lifted("neg"),
    ("", "Not"): _lifted("not"),
    ("", "Or"): _lifted("or"),
    ("", "PRelu"): _parametric_relu,
    ("", "Pow"): _power,
    ("", "Reciprocal"): _unary(_reciprocal),
    ("", "Relu"): _unary(_relu),
    ("", "Round"): _lifted("round"),
    ("", "Sigmoid"): _lifted("sigmoid"),
    ("", "Sign"): _lifted("sign"),
    ("", "Sin"): _lifted("sin"),
    ("", "Sinh"): _lifted("sinh"),
    ("", "Softplus"): _unary(_softplus),
    ("", "Sqrt"): _lifted("sqrt"),
    ("", "Sub"): _lifted("sub"),
    ("", "Sum"): _variadic("add"),
    ("", "Tan"): _lifted("tan"),
    ("", "Tanh"): _lifted("tanh"),
    ("", "Where"): _lifted("where"),
    ("", "Xor"): _lifted("ne"),
}
