"""Sizes that are not known: polynomials with integer coefficients over named variables.

What it does: lets the type rules and meanings of operators, which are written for integers, run
unchanged on symbolic sizes. Arithmetic gives polynomials. A comparison asks the `Judge` in force,
which knows what is assumed of the variables; quotients and remainders ask it too. What it does not:
assume anything itself. Without a judge a comparison is an error, and a size is no `int`: code that
needs a number (`range`, an allocation) fails instead of taking some number for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, Union, cast

Monomial = tuple[str, ...]
"""Names of variables in order, with repetition: a*a*b is ("a", "a", "b"); 1 is ()."""


class Judge(Protocol):
    """Answers what sizes alone cannot."""

    def is_zero(self, size: Size) -> bool:
        """Whether the size is 0."""

    def is_negative(self, size: Size) -> bool:
        """Whether the size is below 0."""

    def quotient(self, dividend: Size, divisor: Size) -> Size:
        """The quotient rounded toward minus infinity, for a positive divisor."""


_judge: ContextVar[Judge] = ContextVar("judge of sizes")


@contextmanager
def judged_by(judge: Judge) -> Iterator[None]:
    """Comparisons of sizes inside ask this judge."""
    token = _judge.set(judge)
    try:
        yield
    finally:
        _judge.reset(token)


Integer = Union[int, "Size"]


class NotConcrete(Exception):
    """A size that is no number stands where only a number has a meaning, as the length of a tuple
    or a place in one. That says nothing of whether there is one: it is no TypeError."""


class Size:
    """An integer as a polynomial. Immutable; `terms` maps monomials to coefficients other than 0.

    `==` and its kin compare values under what the judge assumes; `same` compares polynomials.
    """

    __slots__ = ("_subtracted", "_text", "_variables", "terms")

    terms: Mapping[Monomial, int]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        kept = all(terms.values())
        self.terms = terms if kept else {m: factor for m, factor in terms.items() if factor}
        self._text: str | None = None
        self._variables: frozenset[str] | None = None
        self._subtracted: frozenset[Monomial] | None = None

    @staticmethod
    def variable(name: str) -> Size:
        """The variable of that name."""
        return Size({(name,): 1})

    @staticmethod
    def of(value: Integer) -> Size:
        """A number as a constant polynomial."""
        return value if isinstance(value, Size) else Size({(): value})

    # What it is

    @property
    def constant(self) -> int | None:
        """Its value if no variable occurs."""
        if not self.terms:
            return 0
        return self.terms[()] if len(self.terms) == 1 and () in self.terms else None

    @property
    def variables(self) -> frozenset[str]:
        """The variables that occur."""
        if self._variables is None:
            self._variables = frozenset(name for monomial in self.terms for name in monomial)
        return self._variables

    @property
    def subtracted(self) -> frozenset[Monomial]:
        """The monomials with negative coefficients."""
        if self._subtracted is None:
            self._subtracted = frozenset(m for m, factor in self.terms.items() if factor < 0)
        return self._subtracted

    def same(self, other: Integer) -> bool:
        """Whether both are the same polynomial."""
        return self.terms == Size.of(other).terms

    def __index__(self) -> int:
        value = self.constant
        if value is None:
            raise NotConcrete(f"{self} where a number is needed")
        return value

    def __hash__(self) -> int:
        # Which sizes are equal is for the judge to say, so sets must ask it.
        return 0

    def __str__(self) -> str:
        if self._text is None:
            self._text = _text(self.terms)
        return self._text

    def __repr__(self) -> str:
        return f"<{self}>"

    # Arithmetic

    def __add__(self, other: Integer) -> Size:
        if isinstance(other, int):
            return self._plus({(): other} if other else {}, 1)
        return self._plus(other.terms, 1) if isinstance(other, Size) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Size:
        return _of_terms({monomial: -factor for monomial, factor in self.terms.items()})

    def __sub__(self, other: Integer) -> Size:
        if isinstance(other, int):
            return self + -other
        return self._plus(other.terms, -1) if isinstance(other, Size) else NotImplemented

    def _plus(self, terms: Mapping[Monomial, int], times: int) -> Size:
        """The sum with terms, of which no coefficient is 0, a number of times."""
        if not terms:
            return self
        total = dict(self.terms)
        for monomial, factor in terms.items():
            value = total.get(monomial, 0) + times * factor
            if value:
                total[monomial] = value
            else:
                del total[monomial]
        return _of_terms(total)

    def __rsub__(self, other: Integer) -> Size:
        return Size.of(other) - self

    def __mul__(self, other: Integer) -> Size:
        if isinstance(other, int):
            return Size({monomial: factor * other for monomial, factor in self.terms.items()})
        if not isinstance(other, Size):
            return NotImplemented
        if len(self.terms) == len(other.terms) == 1:
            ((left, factor),), ((right, times),) = self.terms.items(), other.terms.items()
            return _of_terms({tuple(sorted(left + right)): factor * times})
        terms: dict[Monomial, int] = {}
        for left, factor in self.terms.items():
            for right, more in other.terms.items():
                monomial = tuple(sorted(left + right))
                terms[monomial] = terms.get(monomial, 0) + factor * more
        return Size(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Integer) -> Size:
        divisor = Size.of(other)
        exact = self.divided(divisor)
        return _judge.get().quotient(self, divisor) if exact is None else exact

    def __rfloordiv__(self, other: Integer) -> Size:
        return Size.of(other) // self

    def __mod__(self, other: Integer) -> Size:
        return self - (self // other) * other

    def __rmod__(self, other: Integer) -> Size:
        return Size.of(other) % self

    def divided(self, divisor: Size) -> Size | None:
        """The quotient by a divisor of one term if every term is a multiple of it, else None."""
        if len(divisor.terms) != 1:
            return Size.of(1) if divisor.terms and self.same(divisor) else None
        ((names, factor),) = divisor.terms.items()
        terms: dict[Monomial, int] = {}
        for monomial, own in self.terms.items():
            left = list(monomial)
            if own % factor or any(names.count(name) > left.count(name) for name in names):
                return None
            for name in names:
                left.remove(name)
            terms[tuple(left)] = own // factor
        return Size(terms)

    def multiples(self, divisor: Size) -> Size:
        """The terms that are multiples of a divisor of one term, divided by it."""
        terms = (Size({monomial: factor}) for monomial, factor in self.terms.items())
        quotients = (term.divided(divisor) for term in terms)
        return sum((found for found in quotients if found is not None), Size({}))

    def by_successor(self, name: str) -> Size | None:
        """The quotient by a variable plus 1 if there is no remainder, else None."""
        powers: dict[int, Size] = {}
        for monomial, factor in self.terms.items():
            rest = tuple(other for other in monomial if other != name)
            power = len(monomial) - len(rest)
            powers[power] = powers.get(power, Size({})) + Size({rest: factor})
        quotient, carried = Size({}), Size({})
        for power in range(max(powers, default=0), 0, -1):
            carried = powers.get(power, Size({})) - carried
            quotient = quotient + carried * Size({(name,) * (power - 1): 1})
        return quotient if not (powers.get(0, Size({})) - carried).terms else None

    def at(self, point: Mapping[str, int]) -> int:
        """The value where variables have values; those without one are 0."""
        total = 0
        for monomial, factor in self.terms.items():
            for name in monomial:
                factor *= point.get(name, 0)
            total += factor
        return total

    def replaced(self, values: Mapping[str, Size]) -> Size:
        """The polynomial with variables replaced."""
        if self.variables.isdisjoint(values):
            return self
        untouched: dict[Monomial, int] = {}
        touched: list[Size] = []
        for monomial, factor in self.terms.items():
            if not any(name in values for name in monomial):
                untouched[monomial] = factor
                continue
            product = _of_terms({tuple(n for n in monomial if n not in values): factor})
            for name in monomial:
                if name in values:
                    product = product * values[name]
            touched.append(product)
        return sum(touched, _of_terms(untouched))

    # Comparison

    def __bool__(self) -> bool:
        return not _judge.get().is_zero(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Size):
            return NotImplemented
        difference = self - other
        value = difference.constant
        return _judge.get().is_zero(difference) if value is None else value == 0

    def __lt__(self, other: Integer) -> bool:
        return _is_negative(self - other)

    def __le__(self, other: Integer) -> bool:
        return not _is_negative(Size.of(other) - self)

    def __gt__(self, other: Integer) -> bool:
        return _is_negative(Size.of(other) - self)

    def __ge__(self, other: Integer) -> bool:
        return not _is_negative(self - other)


def _of_terms(terms: Mapping[Monomial, int]) -> Size:
    """The polynomial of terms of which no coefficient is 0; arithmetic makes millions of them."""
    size = object.__new__(Size)
    size.terms = terms
    size._text = size._variables = size._subtracted = None
    return size


def _is_negative(size: Size) -> bool:
    value = size.constant
    return _judge.get().is_negative(size) if value is None else value < 0


def _text(terms: Mapping[Monomial, int]) -> str:
    parts: list[str] = []
    for monomial in sorted(terms):
        names, factor = "*".join(monomial), terms[monomial]
        magnitude = str(abs(factor))
        text = "*".join(part for part in (magnitude, names) if part and (part != "1" or not names))
        sign = "-" if factor < 0 else "+" if parts else ""
        parts.append(f"{sign}{text}")
    return "".join(parts) or "0"


def symbolic(size: Integer) -> int:
    """A size where the type says `int`: what the operators' code is written for."""
    return cast(int, size)


def sizes(values: Iterable[Integer]) -> tuple[int, ...]:
    """Several sizes as a shape."""
    return tuple(symbolic(value) for value in values)
