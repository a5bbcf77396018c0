"""What an element of a graph's value is, as a sum of products, for sizes that are not known.

What it does: reads `OpSpec.compute` — index notation — of every node between a value and the
inputs. What it does not: know any operator by name. What the algebra has no form for raises
`Unsupported` with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import assert_never

from graphopt.graph import Constant, Input, Node, Value
from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Reduce,
    Select,
    TensorExpr,
    loads,
)
from tensorgen.sizes import Size
from tensorgen.types import boolean, int64
from verify.assumptions import Assumptions
from verify.canonical import canonical
from verify.normal_form import (
    NUMBER,
    ONE,
    ZERO,
    Call,
    Element,
    Guard,
    Member,
    Product,
    Relation,
    Sum,
    atom,
    by_cases,
    cases,
    extreme,
    fresh_variable,
    indicator,
    inverse,
    number,
    product,
    ranges,
    scaled,
    summed,
)

Scope = Mapping[int, Size]
"""The index that stands for each axis."""


class Unsupported(Exception):
    """The algebra has no form for a term. The message is the reason."""


@dataclass(slots=True)
class Meaning:
    """Elements of values under assumptions, by the expressions of nodes (digest: expression).

    Remembers what it has read.
    """

    assumptions: Assumptions
    expressions: Mapping[bytes, TensorExpr]
    known: dict[tuple[bytes, tuple[str, ...]], Sum] = field(default_factory=dict)

    def element(self, value: Value, indices: tuple[Size, ...]) -> Sum:
        """The element of a value at indices. Raises Unsupported."""
        key = (value.digest, tuple(map(str, indices)))
        if key not in self.known:
            self.known[key] = self._element(value, indices)
        return self.known[key]

    def _element(self, value: Value, indices: tuple[Size, ...]) -> Sum:
        match value:
            case Input():
                if value.type.dtype == boolean:
                    # A condition is a function of its place, and 0 or 1.
                    return atom(Call("bool", (atom(Element(value.position, indices)),)))
                return atom(Element(value.position, indices))
            case Constant():
                if value.type.size != 1:
                    raise Unsupported("a constant tensor of several elements")
                return _number(value.array.reshape(-1)[0].item())
            case Node():
                expression = self.expressions[value.digest]
                scope = {
                    axis.position: index
                    for axis, index in zip(expression.axes, indices, strict=True)
                }
                return canonical(self._value(expression.body, scope, value), self.assumptions)
            case _:
                assert_never(value)

    def _value(self, term: Expr, scope: Scope, node: Node) -> Sum:
        if _is_index(term):
            return self._with_quotients(
                lambda index: atom(Element(NUMBER, (index,))), [term], scope
            )
        match term:
            case Const():
                return _number(term.value)
            case Load(operand=operand, indices=indices):
                source = node.inputs[operand]
                return self._with_quotients(
                    lambda *found: self.element(source, found), list(indices), scope
                )
            case Apply():
                return self._applied(term, scope, node)
            case Cast(arg=arg):
                inner = self._value(arg, scope, node)
                if term.bits or not _is_exact(arg, term):
                    return self._call(f"to_{term.dtype.name}", [inner])
                return inner
            case Select():
                condition = self._condition(term.condition, scope, node)
                then = product(condition, self._value(term.then, scope, node))
                otherwise = product(negation(condition), self._value(term.otherwise, scope, node))
                return then + otherwise
            case Reduce():
                return self._reduced(term, scope, node)
            case Axis():
                raise AssertionError("an axis is an index")
            case _:
                assert_never(term)

    def _call(self, function: str, args: list[Sum]) -> Sum:
        forms = [canonical(arg, self.assumptions) for arg in args]
        return by_cases(forms, lambda inside: atom(Call(function, tuple(inside))))

    def _applied(self, term: Apply, scope: Scope, node: Node) -> Sum:
        if term.op.predicate or term.dtype == boolean:
            return self._condition(term, scope, node)
        args = [self._value(arg, scope, node) for arg in term.args]
        match term.op.name, args:
            case "add", [left, right]:
                return left + right
            case "sub", [left, right]:
                return left + scaled(right, -1)
            case "neg", [inner]:
                return scaled(inner, -1)
            case "mul", [left, right]:
                return product(left, right)
            case "div", [left, right] if term.dtype.is_float:
                form = canonical(right, self.assumptions)
                return product(left, by_cases([form], lambda inside: inverse(inside[0])))
            case ("max" | "min") as function, args:
                forms = [canonical(arg, self.assumptions) for arg in args]
                return by_cases(
                    forms,
                    lambda inside: extreme(
                        function, [Member((), frozenset(), value) for value in inside]
                    ),
                )
            case name, args:
                return self._call(name, args)

    def _condition(self, term: Expr, scope: Scope, node: Node) -> Sum:
        """A bool term as a sum that is 0 or 1."""
        match term:
            case Apply(op=op, args=(left, right)) if op.name in ("and", "or"):
                first = self._condition(left, scope, node)
                second = self._condition(right, scope, node)
                both = product(first, second)
                return both if op.name == "and" else first + second + scaled(both, -1)
            case Apply(op=op, args=(inner,)) if op.name == "not":
                return negation(self._condition(inner, scope, node))
            case Apply(op=op, args=(left, right)) if op.predicate and _is_index(left, right):
                return self._with_quotients(
                    lambda a, b: indicator([_comparison(op.name, a, b)]), [left, right], scope
                )
            case Apply(op=op, args=args) if op.predicate:
                values = [self._value(arg, scope, node) for arg in args]
                if op.name == "ne" and len(values) == 2:
                    return ONE + scaled(self._call("eq", values), -1)
                return self._call(op.name, values)
            case Const(value=value):
                return ONE if value else ZERO
            case _:
                return self._value(term, scope, node)

    def _with_quotients(self, function: Callable[..., Sum], terms: list[Expr], scope: Scope) -> Sum:
        return _with_quotients(function, terms, scope, self.assumptions)

    def _reduced(self, term: Reduce, scope: Scope, node: Node) -> Sum:
        bound = [(fresh_variable(), Size.of(axis.extent)) for axis in term.axes]
        inner = dict(scope) | {
            axis.position: Size.variable(name)
            for axis, (name, _) in zip(term.axes, bound, strict=True)
        }
        body = self._value(term.body, inner, node)
        match term.fold:
            case Fold.SUM:
                return summed(bound, body)
            case Fold.PRODUCT:
                raise Unsupported("a product over an axis")
            case Fold.MAX | Fold.MIN:
                names, limits = tuple(name for name, _ in bound), ranges(bound)
                members = [
                    Member(names, limits | guards, canonical(value, self.assumptions))
                    for guards, value in cases(canonical(body, self.assumptions))
                ]
                return extreme(term.fold.value, members)
            case _:
                assert_never(term.fold)


def _number(value: object) -> Sum:
    assert isinstance(value, int | float)
    if math.isinf(value):
        return atom(Call("inf" if value > 0 else "-inf", ()))
    if math.isnan(value):
        raise Unsupported("a literal that is not a number")
    return number(Fraction(value))


def _is_exact(source: Expr, target: Expr) -> bool:
    """Whether a conversion keeps values, in the arithmetic of the reals."""
    return source.dtype.is_float and target.dtype.is_float


def negation(condition: Sum) -> Sum:
    """The opposite of a condition."""
    match condition:
        case (Product(coefficient=Fraction(numerator=1, denominator=1)) as only,) if (
            not only.bound and not only.factors
        ):
            guards = sorted(only.guards, key=lambda guard: guard.text)
            # not (a and b and c): not a; a and not b; a and b and not c.
            return tuple(
                term
                for position, guard in enumerate(guards)
                for term in indicator([*guards[:position], guard.negated])
            )
        case _:
            return ONE + scaled(condition, -1)


def _comparison(name: str, left: Size, right: Size) -> Guard:
    match name:
        case "lt":
            return Guard(right - left - 1, Relation.NONNEGATIVE)
        case "le":
            return Guard(right - left, Relation.NONNEGATIVE)
        case "eq":
            return Guard(right - left, Relation.ZERO)
        case "ne":
            return Guard(right - left, Relation.NONZERO)
        case _:
            raise Unsupported(f"{name} of indices")


# Indices


def _is_index(*terms: Expr) -> bool:
    """Whether terms are int64 and made of axes and numbers alone."""
    return all(
        term.dtype == int64 and not loads(term) and not isinstance(term, Reduce | Select | Cast)
        for term in terms
    )


def _with_quotients(
    function: Callable[..., Sum], terms: list[Expr], scope: Scope, assumptions: Assumptions
) -> Sum:
    """`function` of the values of index terms.

    A quotient rounded down becomes a bound variable q with the one value for which
    0 <= dividend - divisor * q < divisor.
    """
    quotients: dict[str, tuple[str, tuple[Guard, Guard]]] = {}

    def quotient(dividend: Size, divisor: Size) -> Size:
        exact = dividend.divided(divisor)
        if exact is not None:
            return exact
        if assumptions.is_nonnegative(dividend) and assumptions.is_nonnegative(
            divisor - 1 - dividend
        ):
            return Size.of(0)
        key = f"{dividend} // {divisor}"
        if key not in quotients:
            name = fresh_variable("q")
            rest = dividend - divisor * Size.variable(name)
            quotients[key] = (
                name,
                (
                    Guard(rest, Relation.NONNEGATIVE),
                    Guard(divisor - 1 - rest, Relation.NONNEGATIVE),
                ),
            )
        return Size.variable(quotients[key][0])

    def index(term: Expr) -> Size:
        match term:
            case Const(value=value):
                assert isinstance(value, int | Size)
                return Size.of(value)
            case Axis(position=position):
                return scope[position]
            case Apply(op=op, args=(inner,)) if op.name == "neg":
                return -index(inner)
            case Apply(op=op, args=(left, right)):
                a, b = index(left), index(right)
                match op.name:
                    case "add":
                        return a + b
                    case "sub":
                        return a - b
                    case "mul":
                        return a * b
                    case "floordiv":
                        return quotient(a, b)
                    case "mod":
                        return a - b * quotient(a, b)
                    case name:
                        raise Unsupported(f"{name} of indices")
            case _:
                raise Unsupported("an index that is read from a tensor")

    found = function(*map(index, terms))
    for name, guards in quotients.values():
        found = tuple(
            Product(term.coefficient, (name, *term.bound), term.guards | set(guards), term.factors)
            for term in found
        )
    return found
