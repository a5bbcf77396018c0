"""Exact values of single elements: tensor expressions over the rationals.

What it does: computes one element of a graph value from `OpSpec.compute`, on demand, with fractions
for floating-point types (so nothing rounds or overflows) and wrapping integers for integer types.
Every scalar operator is that of the expression language, applied to numbers of another kind.
What it does not: compute whole tensors fast, or what rationals do not have: the value of exp(1).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, assert_never

import numpy as np

from graphopt.graph import Constant, Input, Node, Value
from graphopt.ops.spec import expression_of
from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    TensorExpr,
    neutral_element,
)
from tensorgen.scalar_ops import SCALAR_OP
from tensorgen.types import DType, boolean, integer_range

Number = int | bool | Fraction | float
"""An element: an integer, a truth value, a rational; a float stands for an infinity only."""

Index = tuple[int, ...]


class Inexact(Exception):
    """An element that no rational number is, or that this module does not compute."""


class Undefined(Exception):
    """An element that has no value: a quotient by zero, a difference of infinities."""


@dataclass(slots=True)
class Elements:
    """Elements of values that depend on constants only; what was computed is remembered."""

    known: dict[tuple[bytes, Index], Number] = field(default_factory=dict)
    expressions: dict[bytes, TensorExpr] = field(default_factory=dict)

    def element(self, value: Value, index: Index) -> Number:
        """One element. Raises Inexact or Undefined."""
        match value:
            case Constant():
                return number(value.array[index], value.type.dtype)
            case Node():
                key = (value.digest, index)
                if key not in self.known:
                    self.known[key] = self._computed(value, index)
                return self.known[key]
            case Input():
                raise AssertionError("an input has no value")
            case _:
                assert_never(value)

    def _computed(self, node: Node, index: Index) -> Number:
        expression = self.expressions.get(node.digest)
        if expression is None:
            expression = self.expressions[node.digest] = expression_of(node)
        axes = dict(enumerate(index))
        return self._value(expression.body, node.inputs, axes)

    def _value(self, term: Expr, operands: tuple[Value, ...], axes: dict[int, int]) -> Number:
        match term:
            case Const():
                return number(term.value, term.dtype)
            case Axis():
                return axes[term.position]
            case Load():
                indices = (self._value(index, operands, axes) for index in term.indices)
                return self.element(operands[term.operand], tuple(int(i) for i in indices))
            case Apply():
                args = [self._value(arg, operands, axes) for arg in term.args]
                return _applied(term, args)
            case Cast():
                return _cast(self._value(term.arg, operands, axes), term)
            case Select():
                taken = self._value(term.condition, operands, axes)
                return self._value(term.then if taken else term.otherwise, operands, axes)
            case Reduce():
                return self._reduced(term, operands, axes)
            case _:
                assert_never(term)

    def _reduced(self, term: Reduce, operands: tuple[Value, ...], axes: dict[int, int]) -> Number:
        neutral = neutral_element(term.fold, term.dtype)
        result: Number | None = None
        for position in itertools.product(*(range(axis.extent) for axis in term.axes)):
            inner = {axis.position: n for axis, n in zip(term.axes, position, strict=True)}
            value = self._value(term.body, operands, {**axes, **inner})
            if result is None:
                result = value
            else:
                result = _operation(term.fold.value, term.dtype, [result, value])
        return number(neutral.value, term.dtype) if result is None else result


def number(value: Any, dtype: DType) -> Number:
    """An element of an array as a number. Raises Undefined for NaN."""
    if dtype == boolean:
        return bool(value)
    if dtype.is_integer:
        return int(value)
    wide = float(value)
    if math.isnan(wide):
        raise Undefined("not a number")
    return wide if math.isinf(wide) else Fraction(wide)


def _applied(term: Apply, args: list[Number]) -> Number:
    if term.op.name == "isnan":
        return False
    return _operation(term.op.name, term.args[0].dtype, args)


_DIVIDING = frozenset({"div", "floordiv", "mod", "fmod"})


def _operation(name: str, dtype: DType, args: list[Number]) -> Number:
    """A scalar operator on numbers of a type."""
    op = SCALAR_OP[name]
    result = op.result(dtype)
    if name in _DIVIDING and args[1] == 0:
        raise Undefined(f"{name} by zero")
    if not dtype.is_float:
        with np.errstate(all="ignore"):
            typed = op.numpy(*(np.asarray(arg, dtype=dtype.numpy) for arg in args))
        return number(typed, result)
    if name == "pow" and not (isinstance(args[1], Fraction) and args[1].denominator == 1):
        raise Inexact("a power with an exponent that is no integer")
    try:
        with np.errstate(all="ignore"):
            exact = op.numpy(*(np.asarray(arg, dtype=object) for arg in args))
    except ZeroDivisionError:
        raise Undefined(f"{name} by zero") from None
    except (TypeError, AttributeError, OverflowError):
        raise Inexact(name) from None
    return _rational(exact, result)


def _rational(value: Any, dtype: DType) -> Number:
    """What an operator made of fractions and infinities."""
    if isinstance(value, np.ndarray):
        value = value[()]
    if dtype == boolean:
        return bool(value)
    if isinstance(value, int | Fraction):
        return Fraction(value)
    wide = float(value)
    if math.isnan(wide):
        raise Undefined("a difference or product of infinities")
    if math.isinf(wide):
        return wide
    raise Inexact("a float")


def _cast(value: Number, term: Cast) -> Number:
    to, source = term.dtype, term.arg.dtype
    if term.bits:
        return _reinterpreted(value, source, to)
    if to == boolean:
        return value != 0
    if to.is_float:
        return value if source.is_float and isinstance(value, float) else Fraction(value)
    least, most = integer_range(to)
    if source.is_float:
        if isinstance(value, float):
            return most if value > 0 else least
        return min(max(math.trunc(value), least), most)
    return (int(value) - least) % (most - least + 1) + least


def _reinterpreted(value: Number, source: DType, to: DType) -> Number:
    """The bits of a number that its type holds, as a number of another type."""
    try:
        stored = np.asarray(float(value) if source.is_float else value).astype(source.numpy)
    except OverflowError:
        raise Inexact("a number beyond its type") from None
    if number(stored[()], source) != value:
        raise Inexact("a number that its type does not hold")
    return number(stored.view(to.numpy)[()], to)
