"""Sums of products: the form in which two sides of a rewrite are compared.

    coefficient * sum over bound variables where guards hold * product of atoms

What it does: the algebra of such sums — a commutative ring with formal inverses, conditions as
factors that are 0 or 1, maxima, minima and products over ranges as members, all other functions as
atoms over normal forms. Every variable, bound or not, stands for an integer of at least 0. What it
does not: compare forms (see `equality`) or read operators (see `meaning`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from itertools import count
from typing import assert_never

from tensorgen.sizes import Size


class Relation(Enum):
    """How a guard's polynomial relates to 0."""

    NONNEGATIVE = ">= 0"
    ZERO = "== 0"
    NONZERO = "!= 0"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on integers: a polynomial and how it relates to 0."""

    size: Size = field(compare=False, hash=False)
    relation: Relation
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.size} {self.relation.value}")

    @property
    def negated(self) -> Guard:
        """The opposite condition."""
        match self.relation:
            case Relation.NONNEGATIVE:
                return Guard(-self.size - 1, Relation.NONNEGATIVE)
            case Relation.ZERO:
                return Guard(self.size, Relation.NONZERO)
            case Relation.NONZERO:
                return Guard(self.size, Relation.ZERO)
            case _:
                assert_never(self.relation)

    def replaced(self, values: Mapping[str, Size]) -> Guard:
        """The guard with variables replaced."""
        return Guard(self.size.replaced(values), self.relation)


Guards = frozenset[Guard]


@dataclass(frozen=True, slots=True)
class Quotient:
    """A variable that stands for a quotient of integers, rounded down; the divisor is above 0 and
    the dividend at least 0."""

    name: str
    dividend: Size
    divisor: Size


@dataclass(frozen=True, slots=True)
class Element:
    """One element of an input."""

    operand: int
    indices: tuple[Size, ...] = field(compare=False, hash=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        inside = ",".join(map(str, self.indices))
        object.__setattr__(self, "text", f"x{self.operand}[{inside}]")


@dataclass(frozen=True, slots=True)
class Call:
    """A function of which nothing is known but that equal arguments give equal values."""

    function: str
    args: tuple[Sum, ...] = field(compare=False, hash=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        inside = ", ".join(sum_text(arg) for arg in self.args)
        object.__setattr__(self, "text", f"{self.function}({inside})")


@dataclass(frozen=True, slots=True)
class Member:
    """Values of a maximum or minimum: `value` for all bound variables where the guards hold."""

    bound: tuple[str, ...]
    guards: Guards
    value: Sum


@dataclass(frozen=True, slots=True)
class Folded:
    """The maximum or minimum over members, or their product: "max", "min" or "mul"."""

    function: str
    members: tuple[Member, ...] = field(compare=False, hash=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        inside = "; ".join(sorted(map(member_text, self.members)))
        object.__setattr__(self, "text", f"{self.function}{{{inside}}}")


Atom = Element | Call | Folded


@dataclass(frozen=True, slots=True)
class Product:
    """One term of a sum; factors are atoms with exponents other than 0, sorted by text."""

    coefficient: Fraction
    bound: tuple[str, ...]
    guards: Guards
    factors: tuple[tuple[Atom, int], ...]

    @property
    def is_plain(self) -> bool:
        """Whether it is a product alone: nothing bound, no condition."""
        return not self.bound and not self.guards


Sum = tuple[Product, ...]

NUMBER = -1
"""The operand whose element at n is the number n: an index that is used as a value."""

ZERO: Sum = ()
_names = count()


def fresh_variable(prefix: str = "k") -> str:
    """The name of a bound variable that occurs nowhere else."""
    return f"{prefix}'{next(_names)}'"


def number(value: Fraction | int) -> Sum:
    """A number as a sum."""
    return (Product(Fraction(value), (), frozenset(), ()),) if value else ZERO


ONE = number(1)


def atom(value: Atom) -> Sum:
    """An atom as a sum."""
    return (Product(Fraction(1), (), frozenset(), ((value, 1),)),)


def indicator(guards: Iterable[Guard]) -> Sum:
    """1 where all guards hold, else 0."""
    return (Product(Fraction(1), (), frozenset(guards), ()),)


# Algebra


def scaled(value: Sum, factor: Fraction | int) -> Sum:
    """The sum times a number."""
    if not factor:
        return ZERO
    return tuple(
        Product(term.coefficient * factor, term.bound, term.guards, term.factors) for term in value
    )


def product(left: Sum, right: Sum) -> Sum:
    """The product, distributed."""
    return tuple(_multiplied(a, apart(b)) for a in left for b in right)


def _multiplied(left: Product, right: Product) -> Product:
    return Product(
        left.coefficient * right.coefficient,
        left.bound + right.bound,
        left.guards | right.guards,
        powers((*left.factors, *right.factors)),
    )


_BOOLEAN = frozenset({"lt", "le", "eq", "ne", "isnan", "bool"})


def powers(pairs: Iterable[tuple[Atom, int]]) -> tuple[tuple[Atom, int], ...]:
    """Factors with equal atoms as one power, sorted."""
    merged: dict[str, tuple[Atom, int]] = {}
    for value, exponent in pairs:
        known = merged.get(value.text)
        merged[value.text] = (value, exponent + (known[1] if known is not None else 0))
    kept = (
        # A condition is 0 or 1, which are their own squares.
        (value, 1 if isinstance(value, Call) and value.function in _BOOLEAN else exponent)
        for value, exponent in merged.values()
        if exponent
    )
    return tuple(sorted(kept, key=lambda pair: pair[0].text))


def apart(term: Product) -> Product:
    """The term with bound variables of its own names."""
    if not term.bound:
        return term
    return renamed(term, {name: Size.variable(fresh_variable()) for name in term.bound})


def inverse(value: Sum) -> Sum:
    """1 / value; formal, for values other than 0."""
    if len(value) == 1 and value[0].is_plain:
        (term,) = value
        return (
            Product(
                1 / term.coefficient,
                (),
                frozenset(),
                tuple((factor, -exponent) for factor, exponent in term.factors),
            ),
        )
    return atom(Call("inverse", (value,)))


def ranges(bound: Sequence[tuple[str, Size]]) -> Guards:
    """That variables stay below their extents."""
    return frozenset(
        Guard(extent - 1 - Size.variable(name), Relation.NONNEGATIVE) for name, extent in bound
    )


def summed(bound: Sequence[tuple[str, Size]], value: Sum) -> Sum:
    """The sum over variables from 0 to below their extents."""
    names = tuple(name for name, _ in bound)
    limits = ranges(bound)
    return tuple(
        Product(term.coefficient, names + term.bound, term.guards | limits, term.factors)
        for term in map(apart, value)
    )


# Replacing variables


def renamed(term: Product, values: Mapping[str, Size]) -> Product:
    """The term with variables replaced, bound ones among them if `values` names them."""
    return Product(
        term.coefficient,
        _renamed_bound(term.bound, values),
        frozenset(guard.replaced(values) for guard in term.guards),
        powers((_moved_atom(value, values), exponent) for value, exponent in term.factors),
    )


def moved(value: Sum, values: Mapping[str, Size]) -> Sum:
    """The sum with free variables replaced."""
    return tuple(renamed(term, values) for term in value)


def _moved_atom(value: Atom, values: Mapping[str, Size]) -> Atom:
    match value:
        case Element():
            return Element(value.operand, tuple(i.replaced(values) for i in value.indices))
        case Call():
            return Call(value.function, tuple(moved(arg, values) for arg in value.args))
        case Folded():
            return Folded(value.function, tuple(moved_member(m, values) for m in value.members))
        case _:
            assert_never(value)


def moved_member(member: Member, values: Mapping[str, Size]) -> Member:
    """The member with variables replaced, bound ones among them if `values` names them."""
    guards = frozenset(guard.replaced(values) for guard in member.guards)
    return Member(_renamed_bound(member.bound, values), guards, moved(member.value, values))


def _renamed_bound(bound: tuple[str, ...], values: Mapping[str, Size]) -> tuple[str, ...]:
    return tuple(next(iter(values[name].variables)) if name in values else name for name in bound)


# Cases


def outer_guards(value: Sum, inner: Collection[str] = ()) -> list[Guard]:
    """The conditions of terms that concern neither their bound variables nor `inner`, sorted."""
    found = {
        guard
        for term in value
        for guard in term.guards
        if guard.size.variables.isdisjoint((*term.bound, *inner))
    }
    return sorted(found, key=lambda guard: guard.text)


def given(value: Sum, guard: Guard) -> Sum:
    """The sum where a guard holds, which no longer mentions it."""
    opposite = guard.negated
    return tuple(
        Product(term.coefficient, term.bound, term.guards - {guard}, term.factors)
        for term in value
        if opposite not in term.guards
    )


def by_cases(
    values: Sequence[Sum], function: Callable[[Sequence[Sum]], Sum], inner: Collection[str] = ()
) -> Sum:
    """`function` of values, with their conditions taken out: they become conditions of the result.

    So a function sees values that hold everywhere, for all values of the variables `inner`.
    """
    guards = [guard for value in values for guard in outer_guards(value, inner)]
    if not guards:
        return function(values)
    guard = guards[0]
    parts = []
    for case in (guard, guard.negated):
        inside = by_cases([given(value, case) for value in values], function, inner)
        parts.append(product(indicator([case]), inside))
    return parts[0] + parts[1]


def cases(value: Sum) -> list[tuple[Guards, Sum]]:
    """The value by disjoint conditions."""
    guards = outer_guards(value)
    if not guards:
        return [(frozenset(), value)]
    guard = guards[0]
    return [
        (conditions | {case}, inside)
        for case in (guard, guard.negated)
        for conditions, inside in cases(given(value, case))
    ]


_UNITS = {"max": "-inf", "min": "inf", "mul": "1"}


def folded(function: str, members: Iterable[Member]) -> Sum:
    """Members folded by a function. One alone, for all and without a condition, is its value; what
    changes nothing goes, and the members of a member are members."""
    unit = _UNITS[function]
    found = [
        inner
        for member in members
        for inner in _flattened(function, member)
        if sum_text(inner.value) != unit
    ]
    if function != "mul":
        # What occurs twice counts once.
        found = list({member_text(member): member for member in found}.values())
    if not found:
        return ONE if function == "mul" else atom(Call(unit, ()))
    kept = tuple(sorted(found, key=member_text))
    if len(kept) == 1 and not kept[0].bound and not kept[0].guards:
        return kept[0].value
    return atom(Folded(function, kept))


def _flattened(function: str, member: Member) -> Iterable[Member]:
    value = member.value
    if len(value) == 1 and value[0].is_plain and value[0].coefficient == 1:
        match value[0].factors:
            case ((Folded(function=name, members=members), 1),) if name == function:
                for inner in members:
                    own = {name: Size.variable(fresh_variable()) for name in inner.bound}
                    fresh = moved_member(inner, own)
                    yield Member(
                        member.bound + fresh.bound, member.guards | fresh.guards, fresh.value
                    )
                return
            case _:
                pass
    yield member


# Text


def product_text(term: Product) -> str:
    """A term as text. Terms that differ in their bound variables' names differ here."""
    factors = [
        value.text if exponent == 1 else f"{value.text}^{exponent}"
        for value, exponent in term.factors
    ]
    if term.coefficient != 1 or not factors:
        factors.insert(0, str(term.coefficient))
    text = " ".join(factors)
    if term.guards:
        text = f"[{', '.join(sorted(guard.text for guard in term.guards))}] {text}"
    return f"sum({','.join(term.bound)}) {text}" if term.bound else text


def sum_text(value: Sum) -> str:
    """A sum as text; its terms sorted."""
    match value:
        case (Product(coefficient=Fraction(numerator=1, denominator=1)) as only,) if (
            only.is_plain and len(only.factors) == 1 and only.factors[0][1] == 1
        ):
            text = only.factors[0][0].text
            return text.removesuffix("()")
        case _:
            return " + ".join(sorted(map(product_text, value))) or "0"


def member_text(member: Member) -> str:
    """A member as text."""
    text = sum_text(member.value)
    if member.guards:
        text = f"[{', '.join(sorted(guard.text for guard in member.guards))}] {text}"
    return f"all({','.join(member.bound)}) {text}" if member.bound else text
