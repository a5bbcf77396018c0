"""Values at a point: of a certificate's forms, and of a graph by the meaning of its operators.

What it does: evaluates both exactly, over the same random inputs. Numbers are rationals, so nothing
rounds; a function of which the algebra knows nothing is a random table, the same for both; maxima,
comparisons and quotients are what they are. Sizes are numbers here. What it does not: compare
(see `sampled_cases`), or use any part of the prover.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, assert_never

from graphopt.graph import Constant, Input, Value
from graphopt.ops.spec import expression_of
from tensorgen.expr import Apply, Axis, Cast, Const, Expr, Load, Reduce, Select, TensorExpr
from tensorgen.types import TensorType
from verify.integer_points import Fault, Point, condition, points, polynomial, value_at

Json = Any
"""A part of a certificate as `json.loads` gives it."""

Number = int | Fraction | float
"""A float stands for an infinity only."""

FARTHEST = 10**6
"""Bound variables are at most this, if conditions say nothing."""

MOST_VALUES = 1000
"""A bound variable that conditions leave more values is refused: sizes at a point are small."""

_FRACTION = re.compile(r"-?\d{1,40}(/\d{1,40})?", re.ASCII)


WHOLE: Sequence[Number] = (-7, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 8)
"""Values of elements and of functions."""

BROKEN: Sequence[Number] = (*WHOLE, *(Fraction(n, 4) for n in (-11, -6, -2, -1, 1, 3, 10)))
"""Values of elements, where functions are at work that whole numbers do not show."""


class NoValue(Exception):
    """An element without a value: a quotient by 0, a difference of infinities."""


@dataclass(slots=True)
class Values:
    """Elements of inputs of those types and values of functions, each drawn when asked for."""

    rng: random.Random
    inputs: Sequence[TensorType]
    numbers: Sequence[Number] = WHOLE
    table: dict[Any, Number] = field(default_factory=dict)
    known: dict[tuple[bytes, tuple[int, ...]], Number] = field(default_factory=dict)
    expressions: dict[bytes, TensorExpr] = field(default_factory=dict)

    def forget(self) -> None:
        """Draw all numbers anew from now on."""
        self.table.clear()
        self.known.clear()

    def input(self, position: int, index: tuple[int, ...]) -> Number:
        """An element of an input: a number other than 0, or a truth value."""
        if not 0 <= position < len(self.inputs):
            raise Fault(f"expected one of {len(self.inputs)} inputs, got {position}")
        type = self.inputs[position]
        if len(index) != type.rank or any(
            not 0 <= n < size for n, size in zip(index, type.shape, strict=True)
        ):
            raise Fault(f"expected an index of input {position}, {type}, got {list(index)}")
        match type.dtype:
            case dtype if dtype.is_float:
                return self._drawn((position, index), self.numbers)
            case dtype if dtype.is_integer:
                return self._drawn((position, index), WHOLE)
            case _:
                return self._drawn((position, index), (0, 1))

    def _drawn(self, key: tuple[Any, ...], numbers: Sequence[Number]) -> Number:
        if key not in self.table:
            self.table[key] = self.rng.choice(numbers)
        return self.table[key]

    def call(self, name: str, args: Sequence[Number]) -> Number:
        """The value of a function, true where it is rational and the algebra knows more of it than
        that equal arguments give equal values. Raises NoValue."""
        match name, [_plain(arg) for arg in args]:
            case "bool", [value]:
                return value
            case (("inf" | "-inf"), []):
                return float(name)
            case "inverse", [value]:
                return _quotient(1, value)
            case _, [left, right] if name in _COMPARISONS:
                return int(_COMPARISONS[name](left, right))
            case "isnan", [_]:
                return 0
            case _ if any(isinstance(arg, float) for arg in args):
                raise NoValue
            case _, [value] if name in _FUNCTIONS:
                return _FUNCTIONS[name](value)
            case (("cos" | "cosh"), [value]):
                return self._drawn((name, abs(value)), WHOLE)
            case (("bitnot" | "bitand" | "bitor"), _) if all(isinstance(arg, int) for arg in args):
                return int(_BITS[name](*args))
            case (("floordiv" | "mod"), [int(left), int(right)]):
                if not right:
                    raise NoValue
                return left // right if name == "floordiv" else left % right
            case "pow", [base, int(exponent)]:
                return _power(base, exponent)
            case "pow", [base, Fraction(denominator=2 | 4) as exponent]:
                return self._roots(base, exponent)
            case _:
                return self._drawn((name, *args), WHOLE)

    def _roots(self, base: Number, exponent: Fraction) -> Number:
        """A power of a number to some halves or quarters, by roots. Raises NoValue."""
        whole, quarters = divmod(int(4 * abs(exponent)), 4)
        root = self.call("sqrt", [base])
        power = _power(base, whole)
        if quarters & 2:
            power *= root
        if quarters & 1:
            power *= self.call("sqrt", [root])
        return power if exponent > 0 else _quotient(1, power)

    # Forms

    def form(self, form: Json, point: Point) -> Number:
        """The value of a sum of terms. Raises NoValue and Fault."""
        total: Number = 0
        for term in form:
            if not term.keys() <= {"times", "over", "where", "of"}:
                raise Fault(f"expected a term, got {term}")
            for inner in _bound(term, point):
                product = _plain(coefficient(term))
                for factor, exponent in term.get("of", ()):
                    value = self.factor(factor, inner)
                    product *= _power(value, exponent)
                total += product
        return _defined(total)

    def factor(self, factor: Json, point: Point) -> Number:
        """The value of an atom. Raises NoValue and Fault."""
        match factor:
            case {"x": int(position)}:
                index = tuple(value_at(polynomial(i), point) for i in factor.get("at", ()))
                return self.input(position, index)
            case {"number": text}:
                return value_at(polynomial(text), point)
            case {"call": str(name)}:
                return self.call(name, [self.form(arg, point) for arg in factor.get("of", ())])
            case {"max": members}:
                return max(self._members(members, point), default=-math.inf)
            case {"min": members}:
                return min(self._members(members, point), default=math.inf)
            case {"mul": members}:
                return _defined(math.prod(self._members(members, point)))
            case _:
                raise Fault(f"expected an atom, got {factor}")

    def _members(self, members: Json, point: Point) -> Iterator[Number]:
        for member in members:
            for inner in _bound(member, point):
                yield self.form(member["value"], inner)

    # Graphs

    def element(self, value: Value, index: tuple[int, ...]) -> Number:
        """An element of a graph's value. Raises NoValue."""
        match value:
            case Input():
                return self.input(value.position, index)
            case Constant():
                return _exact(value.array[index].item())
            case _:
                key = (value.digest, index)
                if key not in self.known:
                    if value.digest not in self.expressions:
                        self.expressions[value.digest] = expression_of(value)
                    body = self.expressions[value.digest].body
                    self.known[key] = self._value(body, value.inputs, dict(enumerate(index)))
                return self.known[key]

    def _value(self, term: Expr, operands: Sequence[Value], axes: Mapping[int, int]) -> Number:
        match term:
            case Const():
                return _exact(term.value)
            case Axis():
                return axes[term.position]
            case Load():
                index = (self._value(i, operands, axes) for i in term.indices)
                return self.element(operands[term.operand], tuple(map(int, index)))
            case Select():
                taken = self._value(term.condition, operands, axes)
                return self._value(term.then if taken else term.otherwise, operands, axes)
            case Cast(arg=arg):
                inner = self._value(arg, operands, axes)
                exact = arg.dtype.is_float and term.dtype.is_float and not term.bits
                return inner if exact else self.call(f"to_{term.dtype.name}", [inner])
            case Reduce():
                return self._reduced(term, operands, axes)
            case Apply():
                args = [self._value(arg, operands, axes) for arg in term.args]
                if term.op.name == "div" and term.dtype.is_float:
                    return _quotient(*args)
                if term.op.name in _ARITHMETIC:
                    return _defined(_ARITHMETIC[term.op.name](*args))
                return self.call(term.op.name, args)
            case _:
                assert_never(term)

    def _reduced(self, term: Reduce, operands: Sequence[Value], axes: Mapping[int, int]) -> Number:
        positions = [axis.position for axis in term.axes]
        values = (
            self._value(term.body, operands, {**axes, **dict(zip(positions, at, strict=True))})
            for at in itertools.product(*(range(axis.extent) for axis in term.axes))
        )
        match term.fold.value:
            case "max":
                return max(values, default=-math.inf)
            case "min":
                return min(values, default=math.inf)
            case "mul":
                return _defined(math.prod(values))
            case _:
                return _defined(sum(values))


def _bound(part: Json, point: Point) -> Iterator[Point]:
    """The points that a term or member runs over."""
    required = [condition(text) for text in part.get("where", ())]
    names = part.get("over", ())
    if not point.keys().isdisjoint(names):
        raise Fault(f"expected new names of bound variables, got {names}")
    return points(required, point, dict.fromkeys(names, (0, FARTHEST)), _bounded)


def _bounded(low: int, high: int) -> Sequence[int]:
    if high - low > MOST_VALUES:
        raise Fault("expected conditions that bound every variable of a sum")
    return range(low, high + 1)


def coefficient(term: Json) -> Fraction:
    """The number before a term. Raises Fault."""
    text = term.get("times", "1")
    if not _FRACTION.fullmatch(text):
        raise Fault(f"expected a fraction, got {text!r}")
    return Fraction(text)


def _power(base: Number, exponent: Json) -> Number:
    if type(exponent) is not int or abs(exponent) > MOST_VALUES:
        raise Fault(f"expected an exponent, got {exponent!r}")
    return _defined(base**exponent if exponent >= 0 else _quotient(1, base) ** -exponent)


def _defined(value: Number) -> Number:
    if value != value:
        raise NoValue
    return value


def _quotient(dividend: Number, divisor: Number) -> Number:
    if not divisor or isinstance(divisor, float):
        raise NoValue
    return dividend if divisor == 1 else dividend / Fraction(divisor)


def _exact(value: int | float) -> Number:
    return value if isinstance(value, int) or math.isinf(value) else _plain(Fraction(value))


def _plain(value: Number) -> Number:
    """The same number, an int if it is whole."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


_COMPARISONS: Mapping[str, Callable[[Number, Number], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}

_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "sign": lambda value: (value > 0) - (value < 0),
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,  # halves to even, as the operator does
}

_BITS: Mapping[str, Callable[..., Number]] = {
    "bitnot": operator.invert,
    "bitand": operator.and_,
    "bitor": operator.or_,
}

_ARITHMETIC: Mapping[str, Callable[..., Number]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "max": max,
    "min": min,
    "and": lambda left, right: int(bool(left) and bool(right)),
    "or": lambda left, right: int(bool(left) or bool(right)),
    "not": lambda value: int(not value),
}
