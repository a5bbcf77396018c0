"""What is assumed of the integers in a proof: sizes, parameters and indices.

What it does: holds equations and inequalities between polynomials, and decides whether another one
follows. Most follow from signs: every variable stands for an integer of at least 0, so a polynomial
without negative coefficients is one, too. What signs and sums do not settle stays open here (see
`feasibility`). What it does not: choose assumptions (see `exploration`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from math import gcd

from tensorgen.sizes import Integer, Monomial, Size


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Equations solved for a variable, polynomials that are at least 0, and such that are not 0.

    `hint` has integers that fitted when that was last asked (0 where it is silent).
    """

    solved: Mapping[str, Size] = field(default_factory=dict)
    nonnegative: tuple[Size, ...] = ()
    nonzero: tuple[Size, ...] = ()
    hint: Mapping[str, int] = field(default_factory=dict, compare=False)
    _known: Known | None = field(default=None, init=False, compare=False, repr=False)

    def normal(self, size: Integer) -> Size:
        """The polynomial with solved variables replaced."""
        return Size.of(size).replaced(self.solved)

    # Assuming

    def with_nonnegative(self, size: Size) -> Assumptions:
        """Assume that a polynomial is at least 0; if its opposite is, too, that it is 0."""
        wanted = tightened(self.normal(size))
        if self.is_nonnegative(wanted):
            return self
        if self.is_nonnegative(-wanted):
            return self.with_zero(wanted)
        known = self._with_bounds(wanted)
        above = [monomial for monomial, factor in wanted.terms.items() if factor > 0]
        if len(above) == 1 and len(above[0]) > 1 and wanted.terms.get((), 0) < 0:
            # A product above 0 has factors above 0.
            for name in sorted(set(above[0])):
                known = known.with_nonnegative(Size.variable(name) - 1)
        return known

    def with_nonzero(self, size: Size) -> Assumptions:
        """Assume that a polynomial is not 0."""
        return replace(self, nonzero=(*self.nonzero, self.normal(size)))

    def with_zero(self, size: Size) -> Assumptions:
        """Assume that a polynomial is 0: solved for a variable where one stands alone in it."""
        equation = without_positive_factors(self.normal(size))
        match sorted(equation.terms.items()):
            case [((), constant), (names, factor)] if constant == -factor and abs(factor) == 1:
                known = self
                for name in sorted(set(names)):
                    known = known._with_equation(known.normal(Size.variable(name)) - 1)
                return known
            case _:
                pass
        for name in sorted(equation.variables):
            # A product of integers is 1 where each factor is.
            for sign in (1, -1):
                quotient = (equation * sign + 1).by_successor(name)
                if quotient is not None and quotient.variables:
                    return self.with_zero(Size.variable(name)).with_zero(quotient - 1)
        if len(equation.variables) > 1 and len({f > 0 for f in equation.terms.values()}) == 1:
            # A sum of what is at least 0 is 0: so is every part of it.
            known = self
            for monomial in equation.terms:
                known = known.with_zero(Size({monomial: 1})) if len(monomial) == 1 else known
            equation = known.normal(equation)
            return known if not equation.terms else known._with_equation(equation)
        return self._with_equation(equation)

    def _with_equation(self, equation: Size) -> Assumptions:
        found = _solution(equation)
        if found is None:
            return self._with_bounds(equation, -equation)
        name, value = found
        one = {name: value}
        solved = {known: old.replaced(one) for known, old in self.solved.items()} | one
        # The variable was at least 0, so its value is.
        moved = (known.replaced(one) for known in self.nonnegative)
        told = {str(known): known for known in (*moved, value) if not has_no_minus(known)}
        kept = tuple(told.values())
        nonzero = tuple(known.replaced(one) for known in self.nonzero)
        result = Assumptions(solved, kept, nonzero, self.hint)
        for known in kept:
            if has_no_minus(-known) and known.variables:
                # What was at least 0 is at most 0 now.
                result = result._without(known).with_zero(known)
        return result

    def _without(self, size: Size) -> Assumptions:
        return replace(
            self, nonnegative=tuple(known for known in self.nonnegative if known is not size)
        )

    def _with_bounds(self, *sizes: Size) -> Assumptions:
        known = {str(size) for size in self.nonnegative}
        added = (size for size in sizes if str(size) not in known)
        return replace(self, nonnegative=(*self.nonnegative, *added))

    # Deciding

    def is_nonnegative(self, size: Integer) -> bool:
        """Whether a polynomial is at least 0 by signs and by adding up at most two assumptions."""
        return follows(self.normal(size), self.known)

    @property
    def known(self) -> Known:
        """What is at least 0, by the monomials that it subtracts."""
        if self._known is None:
            object.__setattr__(self, "_known", by_subtracted(self.nonnegative))
        assert self._known is not None
        return self._known

    def lines(self) -> Iterator[str]:
        """What is assumed, as text."""
        for name, value in sorted(self.solved.items()):
            yield f"{name} = {value}"
        for size in self.nonnegative:
            yield f"0 <= {size}"
        for size in self.nonzero:
            yield f"{size} != 0"


def has_no_minus(size: Size) -> bool:
    """Whether signs alone say that a polynomial is at least 0."""
    return not size.subtracted


Known = Mapping[Monomial, Sequence[Size]]
"""Polynomials that are at least 0, by the monomials that they subtract."""


def by_subtracted(sizes: Iterable[Size]) -> Known:
    """Polynomials by the monomials that they subtract."""
    found: dict[Monomial, list[Size]] = {}
    for size in sizes:
        for monomial in size.subtracted:
            found.setdefault(monomial, []).append(size)
    return found


def follows(
    wanted: Size, known: Known, but: Size | None = None, most: int = 2, scaled: bool = False
) -> bool:
    """Whether a polynomial is a sum of at most so many known ones, without the one `but`, and of
    one that is at least 0 by its signs; with `scaled`, each times a monomial."""
    if not wanted.subtracted:
        return True
    if not most:
        return False
    # Some summand must have a minus where the polynomial has one.
    missing = min(wanted.subtracted)
    if most == 1 and not scaled:
        return any(other is not but and _reaches(wanted, other) for other in known.get(missing, ()))
    for part, cofactor in _divisors(missing) if scaled else ((missing, ()),):
        for other in known.get(part, ()):
            if other is not but:
                summand = other * Size({cofactor: 1}) if cofactor else other
                if follows(wanted - summand, known, but, most - 1, scaled):
                    return True
    return False


def _reaches(wanted: Size, summand: Size) -> bool:
    """Whether signs alone say that a polynomial is at least another."""
    own, other = wanted.terms, summand.terms
    return all(own.get(monomial, 0) >= factor for monomial, factor in other.items()) and all(
        monomial in other for monomial in wanted.subtracted
    )


def is_positive(size: Size, known: Known) -> bool:
    """Whether a polynomial is above 0: by sums, or as a product of variables without any of which
    something known would be below 0."""
    if follows(size - 1, known):
        return True
    if len(size.terms) != 1:
        return False
    ((names, factor),) = size.terms.items()
    return factor > 0 and all(_is_needed(name, known) for name in set(names))


def _is_needed(name: str, known: Known) -> bool:
    without = {name: Size.of(0)}
    candidates = {str(size): size for sizes in known.values() for size in sizes}
    opposites = [
        -size.replaced(without) - 1 for size in candidates.values() if name in size.variables
    ]
    return any(follows(size, known) for size in opposites) or any(
        follows(size, known, most=3, scaled=True) for size in opposites
    )


@lru_cache(maxsize=10_000)
def _divisors(monomial: Monomial) -> tuple[tuple[Monomial, Monomial], ...]:
    """The monomials that divide one, with their cofactors; itself first."""
    found: dict[Monomial, Monomial] = {}
    for chosen in product((True, False), repeat=len(monomial)):
        part = tuple(name for name, taken in zip(monomial, chosen, strict=True) if taken)
        rest = tuple(name for name, taken in zip(monomial, chosen, strict=True) if not taken)
        found[part] = rest
    return tuple(found.items())


def without_positive_factors(equation: Size) -> Size:
    """The equation divided by factors `1 + variable`."""
    for name in sorted(equation.variables):
        quotient = equation.by_successor(name)
        if quotient is not None and quotient.terms:
            return without_positive_factors(quotient)
    return equation


def tightened(size: Size) -> Size:
    """A polynomial that is at least 0 for the same integers, divided by factors `1 + variable` and
    by what its coefficients share.

    (1 + v) * q - 1 is at least 0 where q is at least 1.
    """
    common = gcd(*(factor for monomial, factor in size.terms.items() if monomial))
    if common > 1:
        size = Size({monomial: factor // common for monomial, factor in size.terms.items()})
    for name in sorted(size.variables):
        rest = size.replaced({name: Size.of(-1)}).constant
        if rest in (0, -1):
            quotient = (size - rest).by_successor(name)
            assert quotient is not None, "the remainder was taken away"
            if quotient.terms:
                return tightened(quotient + rest)
    return size


def _solution(equation: Size) -> tuple[str, Size] | None:
    """A variable with coefficient 1 or -1 that occurs nowhere else, and its value."""
    for monomial, factor in sorted(equation.terms.items(), reverse=True):
        if len(monomial) != 1 or abs(factor) != 1:
            continue
        name = monomial[0]
        rest = equation - Size({monomial: factor})
        if name not in rest.variables:
            return name, rest * -factor
    return None
