"""What an element of a graph's value is, as a sum of products, for sizes that are not known.

What it does: reads `OpSpec.compute` — index notation — of every node between a value and the
inputs. What it does not: know any operator by name. What the algebra has no form for raises
`Unsupported` with a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import product as combinations
from types import MappingProxyType
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
from verify.assumptions import Assumptions, follows, is_positive
from verify.canonical import canonical, quotient_by_terms
from verify.normal_form import (
    NUMBER,
    ONE,
    ZERO,
    Call,
    Element,
    Guard,
    Member,
    Product,
    Quotient,
    Relation,
    Sum,
    atom,
    by_cases,
    cases,
    folded,
    fresh_variable,
    indicator,
    inverse,
    number,
    product,
    ranges,
    scaled,
    sum_text,
    summed,
)
from verify.obligation import bounds

Scope = Mapping[int, Size]
"""The index that stands for each axis."""


class Unsupported(Exception):
    """The algebra has no form for a term. The message is the reason."""


@dataclass(slots=True)
class Meaning:
    """Elements of values under assumptions, by the expressions of nodes (digest: expression).

    Remembers what it has read. Quotients that got a name are in `quotients`, by it; what is known
    of them joins the assumptions.
    """

    assumptions: Assumptions
    expressions: Mapping[bytes, TensorExpr]
    quotients: dict[str, Quotient] = field(default_factory=dict)
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
        return by_cases(forms, lambda inside: called(function, inside))

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
                    lambda inside: folded(
                        function, [Member((), frozenset(), value) for value in inside]
                    ),
                )
            case "pow", [base, exponent] if term.dtype.is_float:
                forms = [canonical(base, self.assumptions), canonical(exponent, self.assumptions)]
                return by_cases(forms, lambda inside: power(inside[0], inside[1]))
            case name, args:
                return self._call(name, args)

    def _condition(self, term: Expr, scope: Scope, node: Node) -> Sum:
        """A bool term as a sum that is 0 or 1."""
        match term:
            case Apply(op=op, args=(left, right)) if op.name in _CONNECTIVES:
                first = self._condition(left, scope, node)
                second = self._condition(right, scope, node)
                both = product(first, second)
                match op.name:
                    case "and" | "bitand":
                        return both
                    case "or" | "bitor":
                        return first + second + scaled(both, -1)
                    case _:
                        return first + second + scaled(both, -2)
            case Apply(op=op, args=(inner,)) if op.name in ("not", "bitnot"):
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
            case Apply(op=op):
                raise Unsupported(f"{op.name} of conditions")
            case _:
                return self._value(term, scope, node)

    # Indices

    def _with_quotients(
        self,
        function: Callable[..., Sum],
        terms: list[Expr],
        scope: Scope,
        negative: Mapping[str, bool] = MappingProxyType({}),
    ) -> Sum:
        """`function` of the values of index terms.

        A quotient rounded down is a bound variable with the one value for which
        0 <= dividend - divisor * quotient < divisor; or, as variables are never negative, -1 less
        such a variable: `negative` says which. Where the sign is not known there is a term for
        either, and the conditions of one of them hold.
        """
        bound: dict[str, tuple[str, tuple[Guard, Guard]]] = {}
        values: dict[str, Size] = {}
        doubtful: list[str] = []

        def quotient(dividend: Size, divisor: Size) -> Size:
            known = self._known_quotient(dividend, divisor)
            if known is not None:
                return known
            key = f"{dividend} // {divisor}"
            if key not in bound:
                if key not in negative and not self.assumptions.is_nonnegative(dividend):
                    doubtful.append(key)
                name = fresh_variable("q")
                variable = Size.variable(name)
                values[key] = -1 - variable if negative.get(key) else variable
                rest = dividend - divisor * values[key]
                bound[key] = (
                    name,
                    (
                        Guard(rest, Relation.NONNEGATIVE),
                        Guard(divisor - 1 - rest, Relation.NONNEGATIVE),
                    ),
                )
            return values[key]

        found = function(*(self._index(term, scope, quotient) for term in terms))
        if doubtful:
            return tuple(
                product
                for sign in (False, True)
                for product in self._with_quotients(
                    function, terms, scope, {**negative, doubtful[0]: sign}
                )
            )
        for name, guards in bound.values():
            found = tuple(
                Product(
                    term.coefficient, (name, *term.bound), term.guards | set(guards), term.factors
                )
                for term in found
            )
        return found

    def _index(self, term: Expr, scope: Scope, quotient: Callable[[Size, Size], Size]) -> Size:
        """An index term as a polynomial."""
        match term:
            case Const(value=value):
                assert isinstance(value, int | Size)
                return Size.of(value)
            case Axis(position=position):
                return scope[position]
            case Apply(op=op, args=(inner,)) if op.name == "neg":
                return -self._index(inner, scope, quotient)
            case Apply(op=op, args=(left, right)):
                a, b = self._index(left, scope, quotient), self._index(right, scope, quotient)
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
                    case "max" | "min" as name:
                        greater = self.assumptions.is_nonnegative(a - b)
                        if greater or self.assumptions.is_nonnegative(b - a):
                            return a if greater == (name == "max") else b
                        raise Unsupported(f"the {name} of indices that may be either")
                    case name:
                        raise Unsupported(f"{name} of indices")
            case _:
                raise Unsupported("an index that is read from a tensor")

    def _known_quotient(self, dividend: Size, divisor: Size) -> Size | None:
        """A quotient by terms; or, of variables that are not bound, one with a name of its own."""
        above, below = self.assumptions.normal(dividend), self.assumptions.normal(divisor)
        exact = above.divided(below)
        if exact is not None:
            return exact
        known = self.assumptions.known
        whole = quotient_by_terms(above, below, known)
        if whole is not None or not _is_free(above, below):
            return whole
        if str(above) in self.quotients:
            # The quotient of a quotient is one by the product of both divisors.
            outer = self.quotients[str(above)]
            return self._known_quotient(outer.dividend, outer.divisor * below)
        for quotient in self.quotients.values():
            if quotient.dividend.same(above) and quotient.divisor.same(below):
                return Size.variable(quotient.name)
        if not follows(above, known) or not is_positive(below, known):
            return None
        name = f"f{len(self.quotients)}"
        self.quotients[name] = Quotient(name, above, below)
        for bound in bounds((), (), (self.quotients[name],)):
            self.assumptions = self.assumptions.with_nonnegative(bound)
        return Size.variable(name)

    def _reduced(self, term: Reduce, scope: Scope, node: Node) -> Sum:
        bound: list[tuple[str, Size]] = []
        places: list[list[Size]] = []
        for axis in term.axes:
            extent = self.assumptions.normal(axis.extent)
            count = extent.constant
            if term.fold is Fold.SUM and count is not None and count <= MOST_SUMMANDS:
                places.append([Size.of(place) for place in range(count)])
            else:
                bound.append((fresh_variable(), extent))
                places.append([Size.variable(bound[-1][0])])
        positions = [axis.position for axis in term.axes]
        body = tuple(
            product
            for place in combinations(*places)
            for product in self._value(
                term.body, {**scope, **dict(zip(positions, place, strict=True))}, node
            )
        )
        match term.fold:
            case Fold.SUM:
                return summed(bound, body)
            case Fold.PRODUCT | Fold.MAX | Fold.MIN:
                names = tuple(name for name, _ in bound)
                return by_cases(
                    [canonical(body, self.assumptions)],
                    lambda inside: self._folded(term.fold.value, bound, inside[0]),
                    names,
                )
            case _:
                assert_never(term.fold)

    def _folded(self, function: str, bound: Sequence[tuple[str, Size]], body: Sum) -> Sum:
        names, limits = tuple(name for name, _ in bound), ranges(bound)
        return folded(
            function,
            [
                Member(names, limits | guards, canonical(value, self.assumptions))
                for guards, value in cases(body)
            ],
        )


MOST_SUMMANDS = 8
"""A sum over so few known places is written out."""

_IDEMPOTENT = frozenset({"abs", "sign", "floor", "ceil", "trunc", "round"})
_EVEN = frozenset({"abs", "cos", "cosh"})


def called(function: str, args: Sequence[Sum]) -> Sum:
    """A function of the reals as an atom, where nothing better is known of it."""
    match function, args:
        case _, [inner] if function in _IDEMPOTENT and _is_call(inner, function):
            return inner
        case "bitnot", [inner] if _is_call(inner, "bitnot"):
            return _only_argument(inner)
        case (("bitand" | "bitor"), [left, right]) if sum_text(left) == sum_text(right):
            return left
        case _, [(first, *_) as inner] if function in _EVEN and first.coefficient < 0:
            return atom(Call(function, (scaled(tuple(inner), -1),)))
        case _:
            return atom(Call(function, tuple(args)))


def _is_call(value: Sum, function: str) -> bool:
    match value:
        case (Product(coefficient=Fraction(numerator=1, denominator=1)) as only,):
            match only.factors:
                case ((Call(function=name), 1),) if only.is_plain:
                    return name == function
        case _:
            pass
    return False


def _only_argument(value: Sum) -> Sum:
    (term,) = value
    ((call, _),) = term.factors
    assert isinstance(call, Call)
    return call.args[0]


MOST_FACTORS = 8
"""Powers with greater exponents stay functions."""


def power(base: Sum, exponent: Sum) -> Sum:
    """A power as a product: of the base as often as a small exponent is whole, and of roots for the
    quarters that are left."""
    match exponent:
        case (Product(coefficient=value) as only,) if only.is_plain and not only.factors:
            if value and (4 * value).denominator == 1 and abs(value) <= MOST_FACTORS:
                whole, quarters = divmod(int(4 * abs(value)), 4)
                root = called("sqrt", [base]) if quarters else base
                factors = [base] * whole
                factors += [root] if quarters & 2 else []
                factors += [called("sqrt", [root])] if quarters & 1 else []
                return reduce(product, [f if value > 0 else inverse(f) for f in factors])
        case _:
            pass
    return atom(Call("pow", (base, exponent)))


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


_CONNECTIVES = frozenset({"and", "or", "bitand", "bitor", "bitxor"})


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


def _is_free(*sizes: Size) -> bool:
    """Whether polynomials have no bound variables: those have an apostrophe or start with _."""
    return not any("'" in name or name[0] == "_" for size in sizes for name in size.variables)
