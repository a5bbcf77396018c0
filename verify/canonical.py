"""One form for equal sums, as far as that can be had: bound variables renamed, guards simplified.

What it does: replaces solved variables, removes bound variables that an equation determines, lets
ranges start at 0, drops guards that follow from the others and terms that no index reaches, counts
what a bound variable only repeats, names bound variables in an order that does not depend on their
names, and adds up equal terms. What it does not: decide whether two forms are equal (see
`equality`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, permutations, product
from math import gcd
from typing import assert_never

from tensorgen.sizes import Size
from verify.assumptions import Assumptions, has_no_minus
from verify.normal_form import (
    NUMBER,
    Atom,
    Call,
    Element,
    Extreme,
    Guard,
    Guards,
    Member,
    Product,
    Relation,
    Sum,
    member_text,
    moved_member,
    powers,
    product_text,
    renamed,
)

MOST_ORDERS = 720
"""Orders of bound variables that are tried where nothing tells them apart."""


def canonical(value: Sum, assumptions: Assumptions, depth: int = 0) -> Sum:
    """The sum in canonical form; `depth` counts the functions around it."""
    terms: dict[str, Product] = {}
    for term in value:
        form = _canonical_product(term, assumptions, depth)
        if form is None:
            continue
        text = product_text(replace(form, coefficient=Fraction(1)))
        known = terms.get(text)
        total = form.coefficient + (known.coefficient if known is not None else 0)
        terms[text] = replace(form, coefficient=total)
    return tuple(terms[text] for text in sorted(terms) if terms[text].coefficient)


def _canonical_product(term: Product, assumptions: Assumptions, depth: int) -> Product | None:
    term = renamed(term, assumptions.solved)
    simple = _simplified(term.bound, term.guards, assumptions)
    if simple is None:
        return None
    bound, guards, values = simple
    term = renamed(Product(term.coefficient, (), frozenset(), term.factors), values)
    inside = _with_guards(assumptions, guards)
    factors = [
        (_canonical_atom(value, inside, depth), exponent) for value, exponent in term.factors
    ]
    bound, guards, counted = _counted(bound, guards, factors)
    coefficient, merged = _merged([*factors, *counted])
    if not coefficient:
        return None
    return _ordered(Product(term.coefficient * coefficient, bound, guards, merged), depth)


def _canonical_atom(value: Atom, assumptions: Assumptions, depth: int) -> Atom:
    match value:
        case Element():
            return Element(value.operand, tuple(map(assumptions.normal, value.indices)))
        case Call():
            return Call(
                value.function, tuple(canonical(a, assumptions, depth + 1) for a in value.args)
            )
        case Extreme():
            members = (canonical_member(m, assumptions, depth + 1) for m in value.members)
            kept = {member_text(member): member for member in members if member is not None}
            return Extreme(value.function, tuple(kept[text] for text in sorted(kept)))
        case _:
            assert_never(value)


def canonical_member(member: Member, assumptions: Assumptions, depth: int) -> Member | None:
    """A member in canonical form; None if no index reaches it."""
    member = moved_member(member, assumptions.solved)
    simple = _simplified(member.bound, member.guards, assumptions)
    if simple is None:
        return None
    bound, guards, values = simple
    moved = moved_member(Member((), frozenset(), member.value), values)
    value = canonical(moved.value, _with_guards(assumptions, guards), depth + 1)
    used = {name for term in value for name in _variables(term)}
    needed = {name for guard in guards for name in guard.size.variables}
    bound = tuple(name for name in bound if name in used or name in needed)
    best: tuple[str, Member] | None = None
    for order in _orders(bound, [member_text(Member((), guards, value))]):
        names = {name: Size.variable(_bound_name(depth, n)) for n, name in enumerate(order)}
        candidate = moved_member(Member(order, guards, value), names)
        text = member_text(candidate)
        if best is None or text < best[0]:
            best = (text, candidate)
    assert best is not None
    return best[1]


def _with_guards(assumptions: Assumptions, guards: Iterable[Guard]) -> Assumptions:
    for guard in sorted(guards, key=lambda g: g.text):
        if guard.relation is Relation.NONNEGATIVE:
            assumptions = assumptions.with_nonnegative(guard.size)
    return assumptions


# Guards


def _simplified(
    bound: tuple[str, ...], guards: Guards, assumptions: Assumptions
) -> tuple[tuple[str, ...], Guards, dict[str, Size]] | None:
    """Fewer bound variables and guards, and what the variables became; None if nothing fits."""
    values: dict[str, Size] = {}
    current = _normal_guards(guards, assumptions)
    if current is None:
        return None
    while True:
        step = _step(bound, current, assumptions)
        if step is None:
            break
        name, value, keeps = step
        one = {name: value}
        values = {known: old.replaced(one) for known, old in values.items()} | one
        moved = [guard.replaced(one) for guard in current]
        if not keeps:
            bound = tuple(other for other in bound if other != name)
            moved.append(Guard(value, Relation.NONNEGATIVE))
        following = _normal_guards(moved, assumptions)
        if following is None:
            return None
        current = following
    return bound, frozenset(current), values


def _step(
    bound: tuple[str, ...], guards: list[Guard], assumptions: Assumptions
) -> tuple[str, Size, bool] | None:
    """A bound variable, a new value for it, and whether it stays bound."""
    variables = set(bound)
    for guard in guards:
        for name in sorted(guard.size.variables & variables):
            found = _alone(guard.size, name)
            if found is None:
                continue
            factor, rest = found
            if guard.relation is Relation.ZERO:
                return name, rest * -factor, False
            if guard.relation is Relation.NONNEGATIVE and factor == -1 and rest.same(0):
                return name, Size.of(0), False
            if guard.relation is Relation.NONNEGATIVE and factor == 1:
                # The variable is counted from `least` on, which must be at least 0 for that.
                least = -rest
                starts = _only_sizes(least) or _is_digit(name, rest, guards)
                if starts and not least.same(0) and assumptions.is_nonnegative(least):
                    return name, Size.variable(name) + least, True
    return _known_quotient(bound, guards, assumptions)


def _only_sizes(size: Size) -> bool:
    """Whether a polynomial has no index in it: indices have an apostrophe or start with i."""
    return not any("'" in name or name.startswith(("i", "_")) for name in size.variables)


def _is_digit(name: str, rest: Size, guards: list[Guard]) -> bool:
    """Whether guards say 0 <= name + rest < d for a size d, as of a remainder k - d*q."""
    low = Size.variable(name) + rest
    for guard in guards:
        if guard.relation is Relation.NONNEGATIVE:
            divisor = guard.size + low + 1
            if name not in divisor.variables and _only_sizes(divisor):
                return True
    return False


def _known_quotient(
    bound: tuple[str, ...], guards: list[Guard], assumptions: Assumptions
) -> tuple[str, Size, bool] | None:
    """A quotient that is 0, or that another variable stands for already."""
    named: dict[str, str] = {}
    for name, dividend, divisor in _quotients(bound, guards):
        rest = (guard for guard in guards if name not in guard.size.variables)
        others = _with_guards(assumptions, rest)
        if others.is_nonnegative(dividend) and others.is_nonnegative(divisor - 1 - dividend):
            return name, Size.of(0), False
        known = named.setdefault(f"{dividend} // {divisor}", name)
        if known != name:
            return name, Size.variable(known), False
    return None


def _quotients(bound: tuple[str, ...], guards: list[Guard]) -> Iterator[tuple[str, Size, Size]]:
    """Bound variables q with their dividend e and divisor d, where guards say 0 <= e - d*q < d."""
    inequalities = [guard.size for guard in guards if guard.relation is Relation.NONNEGATIVE]
    for name in bound:
        concerned = [size for size in inequalities if name in size.variables]
        for rest in concerned:
            for other in concerned:
                divisor = rest + other + 1
                dividend = rest + divisor * Size.variable(name)
                if name not in divisor.variables and name not in dividend.variables:
                    yield name, dividend, divisor


def _alone(size: Size, name: str) -> tuple[int, Size] | None:
    """The coefficient, 1 or -1, of a variable that occurs once and alone, and the rest."""
    factor = size.terms.get((name,), 0)
    rest = size - Size({(name,): factor})
    return (factor, rest) if abs(factor) == 1 and name not in rest.variables else None


def _normal_guards(guards: Iterable[Guard], assumptions: Assumptions) -> list[Guard] | None:
    """Guards without those that follow from the rest, sorted; None if they exclude each other."""
    kept: dict[str, Guard] = {}
    for guard in guards:
        simple = _reduced(Guard(assumptions.normal(guard.size), guard.relation))
        value = simple.size.constant
        if value is None:
            kept[simple.text] = simple
        elif not _holds(value, simple.relation):
            return None
    ordered = [kept[text] for text in sorted(kept)]
    for guard in list(ordered):
        others = _with_guards(assumptions, (other for other in ordered if other is not guard))
        match guard.relation:
            case Relation.NONNEGATIVE:
                if others.is_nonnegative(guard.size):
                    ordered.remove(guard)
                elif others.is_nonnegative(-guard.size - 1):
                    return None
            case Relation.NONZERO:
                if others.is_nonnegative(guard.size - 1) or others.is_nonnegative(-guard.size - 1):
                    ordered.remove(guard)
            case Relation.ZERO:
                if others.is_nonnegative(guard.size - 1) or others.is_nonnegative(-guard.size - 1):
                    return None
            case _:
                assert_never(guard.relation)
    return ordered


def _reduced(guard: Guard) -> Guard:
    """The guard divided by what all its coefficients share."""
    factors = [factor for monomial, factor in guard.size.terms.items() if monomial]
    common = gcd(*factors) if factors else 1
    size = guard.size
    if common > 1:
        rest = size.terms.get((), 0)
        if guard.relation is not Relation.NONNEGATIVE and rest % common:
            return Guard(Size.of(rest), guard.relation)
        size = Size({m: f // common for m, f in size.terms.items()})
    leading = next(iter(size.terms.values()), 0)
    if guard.relation is not Relation.NONNEGATIVE and leading < 0:
        size = -size
    return Guard(size, guard.relation)


def _holds(value: int, relation: Relation) -> bool:
    match relation:
        case Relation.NONNEGATIVE:
            return value >= 0
        case Relation.ZERO:
            return value == 0
        case Relation.NONZERO:
            return value != 0
        case _:
            assert_never(relation)


# Factors


def _variables(term: Product) -> set[str]:
    found = {name for guard in term.guards for name in guard.size.variables}
    for value, _ in term.factors:
        found |= atom_variables(value)
    return found


def atom_variables(value: Atom) -> set[str]:
    """The variables in an atom, those bound inside it included."""
    match value:
        case Element():
            return {name for index in value.indices for name in index.variables}
        case Call():
            return {name for arg in value.args for term in arg for name in _variables(term)}
        case Extreme():
            return {
                name
                for member in value.members
                for name in {
                    *(name for guard in member.guards for name in guard.size.variables),
                    *(name for term in member.value for name in _variables(term)),
                }
            }
        case _:
            assert_never(value)


def _counted(
    bound: tuple[str, ...], guards: Guards, factors: list[tuple[Atom, int]]
) -> tuple[tuple[str, ...], Guards, list[tuple[Atom, int]]]:
    """A variable that no factor reads and one guard bounds only says how often: its count."""
    used = {name for value, _ in factors for name in atom_variables(value)}
    counts: list[tuple[Atom, int]] = []
    for name in bound:
        own = [guard for guard in guards if name in guard.size.variables]
        if name in used or len(own) != 1 or own[0].relation is not Relation.NONNEGATIVE:
            continue
        found = _alone(own[0].size, name)
        if found is not None and found[0] == -1 and has_no_minus(found[1] + 1):
            counts.append((Element(NUMBER, (found[1] + 1,)), 1))
            bound = tuple(other for other in bound if other != name)
            guards = guards - {own[0]}
    return bound, guards, counts


def _merged(
    factors: Iterable[tuple[Atom, int]],
) -> tuple[Fraction, tuple[tuple[Atom, int], ...]]:
    """Numbers multiplied into one, or into the coefficient, and equal atoms as powers."""
    whole = Size.of(1)
    others: list[tuple[Atom, int]] = []
    for value, exponent in factors:
        if isinstance(value, Element) and value.operand == NUMBER and exponent > 0:
            for _ in range(exponent):
                whole = whole * value.indices[0]
        else:
            others.append((value, exponent))
    if whole.constant is not None:
        return Fraction(whole.constant), powers(others)
    return Fraction(1), powers([*others, (Element(NUMBER, (whole,)), 1)])


# Names of bound variables


def _bound_name(depth: int, number: int) -> str:
    return f"_{depth}_{number}_"


def _ordered(term: Product, depth: int) -> Product:
    """The term with bound variables named by an order that their names do not influence."""
    if not term.bound:
        return term
    parts = [value.text for value, _ in term.factors] + [guard.text for guard in term.guards]
    best: tuple[str, Product] | None = None
    for order in _orders(term.bound, parts):
        names = {name: Size.variable(_bound_name(depth, n)) for n, name in enumerate(order)}
        candidate = renamed(replace(term, bound=order), names)
        text = product_text(candidate)
        if best is None or text < best[0]:
            best = (text, candidate)
    assert best is not None
    return best[1]


def _orders(bound: tuple[str, ...], parts: list[str]) -> Iterator[tuple[str, ...]]:
    """Orders of bound variables worth trying: all among those that occur alike."""

    def signature(name: str) -> str:
        marked = []
        for part in parts:
            if name in part:
                text = part.replace(name, "@")
                for other in bound:
                    text = text.replace(other, "*")
                marked.append(text)
        return ";".join(sorted(marked))

    ranked = sorted(bound, key=lambda name: (signature(name), name))
    groups = [tuple(group) for _, group in groupby(ranked, key=signature)]
    for number, choice in enumerate(product(*(permutations(group) for group in groups))):
        if number == MOST_ORDERS:
            return
        yield tuple(name for group in choice for name in group)
