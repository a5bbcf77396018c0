"""Integer points: polynomials read from text, conditions on them, and where the conditions hold.

What it does: the arithmetic of `checker`, written apart from that of the prover so that no mistake
is in both. A polynomial is `-1+2*a*b`, a condition `P >= 0`, `P == 0` or `P != 0`; all variables
are integers of at least 0. What it does not: prove anything; it tries values.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

Polynomial = tuple[tuple[tuple[str, ...], int], ...]
"""Monomials, as names in order, with coefficients other than 0; sorted."""
Condition = tuple[Polynomial, str]
"""A polynomial and how it relates to 0: >=, == or !=."""
Point = dict[str, int]
Spans = dict[str, tuple[int, int]]
"""The least and the greatest value of variables."""
Order = Callable[[int, int], Sequence[int]]
"""Which values from the least to the greatest are tried, in which order."""


class Fault(ValueError):
    """What is wrong with a certificate, in one line."""


def demand(satisfied: bool, message: str) -> None:
    """Raise Fault unless that holds."""
    if not satisfied:
        raise Fault(message)


ROUNDS = 4
"""So often conditions narrow spans before a variable gets a value."""

SMALL_BOX = 256
"""Spans of no more points are tried point by point."""

_POLYNOMIAL = re.compile(r"[+-]?\w+([+*-]\w+)*", re.ASCII)


@lru_cache(maxsize=100_000)
def polynomial(text: str) -> Polynomial:
    """A polynomial. Raises Fault for text that is none."""
    demand(_POLYNOMIAL.fullmatch(text) is not None, f"expected a polynomial, got {text!r}")
    terms: dict[tuple[str, ...], int] = {}
    for sign, product in re.findall(r"([+-]?)([^+-]+)", text):
        factors = product.split("*")
        value = math.prod(int(part) for part in factors if part.isdecimal())
        names = tuple(sorted(part for part in factors if not part.isdecimal()))
        terms[names] = terms.get(names, 0) + (-value if sign == "-" else value)
    return tuple(sorted((names, value) for names, value in terms.items() if value))


@lru_cache(maxsize=100_000)
def condition(text: str) -> Condition:
    """A condition. Raises Fault for text that is none."""
    size, _, relation = text.removesuffix(" 0").rpartition(" ")
    demand(relation in (">=", "==", "!="), f"expected a condition, got {text!r}")
    return polynomial(size), relation


def variables(size: Polynomial) -> set[str]:
    """The variables of a polynomial."""
    return {name for names, _ in size for name in names}


def value_at(size: Polynomial, point: Mapping[str, int]) -> int:
    """The value at a point. Raises Fault for a variable that has none there."""
    total = 0
    for names, factor in size:
        for name in names:
            if name not in point:
                raise Fault(f"expected a known variable, got {name}")
            factor *= point[name]
        total += factor
    return total


def holds(required: Condition, point: Mapping[str, int]) -> bool:
    """Whether a condition holds at a point."""
    value = value_at(required[0], point)
    match required[1]:
        case ">=":
            return value >= 0
        case "==":
            return value == 0
        case _:
            return value != 0


def plus(left: Polynomial, right: Polynomial, times: int = 1) -> Polynomial:
    """The first polynomial and a multiple of the second."""
    terms = dict(left)
    for names, factor in right:
        terms[names] = terms.get(names, 0) + times * factor
    return tuple(sorted((names, value) for names, value in terms.items() if value))


def multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    """The product."""
    product: Polynomial = ()
    for names, factor in left:
        own = tuple((tuple(sorted((*names, *other))), factor * more) for other, more in right)
        product = plus(product, own)
    return product


def substituted(size: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
    """The polynomial with variables replaced, once."""
    total: Polynomial = ()
    for names, factor in size:
        product: Polynomial = (((), factor),)
        for name in names:
            product = multiplied(product, values.get(name, (((name,), 1),)))
        total = plus(total, product)
    return total


def upward(low: int, high: int) -> Sequence[int]:
    """All values, the least first."""
    return range(low, high + 1)


def points(
    required: Sequence[Condition], known: Point, spans: Spans, order: Order = upward
) -> Iterator[Point]:
    """Every point that adds to a known one values inside the spans, where the conditions hold."""
    rest = _undecided(required, known)
    if rest is None:
        return
    found = narrowed(rest, spans)
    if found is None:
        return
    free = {name: span for name, span in found.items() if span[0] != span[1]}
    if len(free) < len(found):
        fixed = {name: low for name, (low, _) in found.items() if name not in free}
        yield from points(rest, known | fixed, free, order)
    elif not free:
        demand(not rest, "expected conditions on known variables")
        yield known
    elif math.prod(high - low + 1 for low, high in free.values()) <= SMALL_BOX:
        for values in itertools.product(*(order(*span) for span in free.values())):
            added = dict(zip(free, values, strict=True))
            if all(holds(one, added) for one in rest):
                yield known | added
    else:
        chosen = min(free, key=lambda name: (free[name][1] - free[name][0], name))
        others = {name: span for name, span in free.items() if name != chosen}
        for value in order(*free[chosen]):
            yield from points(rest, known | {chosen: value}, others, order)


def _undecided(required: Sequence[Condition], known: Point) -> list[Condition] | None:
    """The conditions on what is not known, with what is known put in; None if one fails."""
    rest: list[Condition] = []
    for size, relation in required:
        terms: dict[tuple[str, ...], int] = {}
        for names, factor in size:
            free = []
            for name in names:
                if name in known:
                    factor *= known[name]
                else:
                    free.append(name)
            key = tuple(free)
            terms[key] = terms.get(key, 0) + factor
        left = tuple((names, factor) for names, factor in terms.items() if factor)
        if any(names for names, _ in left):
            rest.append((left, relation))
        elif not holds((left, relation), {}):
            return None
    return rest


def narrowed(required: Sequence[Condition], spans: Spans) -> Spans | None:
    """The spans as far as conditions leave them, by interval arithmetic; None if nothing fits."""
    current = dict(spans)
    for _ in range(ROUNDS):
        before = dict(current)
        for size, relation in required:
            if relation != "!=" and not _narrow(size, relation, current):
                return None
        if current == before:
            break
    return current


def _narrow(size: Polynomial, relation: str, spans: Spans) -> bool:
    """Narrows spans by one condition; whether they hold any value still."""
    parts = [_reach(names, factor, spans) for names, factor in size]
    least, most = sum(low for low, _ in parts), sum(high for _, high in parts)
    if most < 0 or (relation == "==" and least > 0):
        return False
    for (names, factor), (lowest, highest) in zip(size, parts, strict=True):
        if len(names) != 1:
            continue
        low, high = spans[names[0]]
        # slope * variable + rest is at least 0
        limits = [(factor, most - highest)]
        if relation == "==":
            limits.append((-factor, lowest - least))
        for slope, rest in limits:
            if slope < 0:
                high = min(high, rest // -slope)
            else:
                low = max(low, -(rest // slope))
        if low > high:
            return False
        spans[names[0]] = (low, high)
    return True


def _reach(names: tuple[str, ...], factor: int, spans: Spans) -> tuple[int, int]:
    """The least and the greatest value of a monomial."""
    low = high = factor
    for name in names:
        if name not in spans:
            raise Fault(f"expected a known variable, got {name}")
        low, high = low * spans[name][0], high * spans[name][1]
    return (low, high) if factor > 0 else (high, low)
