"""One form for equal sums, as far as that can be had: bound variables renamed, guards simplified.

What it does: replaces solved variables, removes bound variables that an equation determines, lets
ranges start at 0, drops guards that follow from the others and terms that no index reaches, counts
what a bound variable only repeats, names bound variables in an order that does not depend on their
names, and adds up equal terms. What it does not: decide whether two forms are equal (see
`equality`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, permutations
from itertools import product as combinations
from math import gcd
from typing import assert_never

from tensorgen.sizes import Size
from verify.assumptions import (
    Assumptions,
    Known,
    by_subtracted,
    follows,
    has_no_minus,
    is_positive,
    tightened,
    without_positive_factors,
)
from verify.normal_form import (
    NUMBER,
    ONE,
    ZERO,
    Atom,
    Call,
    Element,
    Folded,
    Guard,
    Guards,
    Member,
    Product,
    Relation,
    Sum,
    folded,
    inverse,
    member_text,
    moved_member,
    powers,
    product,
    product_text,
    renamed,
)

MOST_ORDERS = 720
"""Orders of bound variables that are tried where nothing tells them apart."""


def canonical(value: Sum, assumptions: Assumptions, depth: int = 0) -> Sum:
    """The sum in canonical form; `depth` counts the functions around it."""
    terms: dict[str, Product] = {}
    for term in value:
        for form in _canonical_product(term, assumptions, depth):
            text = product_text(replace(form, coefficient=Fraction(1)))
            known = terms.get(text)
            total = form.coefficient + (known.coefficient if known is not None else 0)
            terms[text] = replace(form, coefficient=total)
    return tuple(terms[text] for text in sorted(terms) if terms[text].coefficient)


def _canonical_product(term: Product, assumptions: Assumptions, depth: int) -> Sum:
    term = renamed(term, assumptions.solved)
    simple = _simplified(term.bound, term.guards, assumptions)
    if simple is None:
        return ZERO
    bound, guards, values = simple
    term = renamed(Product(term.coefficient, (), frozenset(), term.factors), values)
    inside = _with_guards(assumptions, guards)
    factors: list[tuple[Atom, int]] = []
    opened = ONE
    for value, exponent in term.factors:
        form = _canonical_atom(value, inside, depth)
        if isinstance(form, tuple):
            base = form if exponent > 0 else inverse(form)
            for _ in range(abs(exponent)):
                opened = product(opened, base)
        else:
            factors.append((form, exponent))
    if opened != ONE:
        rest = Product(term.coefficient, bound, guards, powers(factors))
        return canonical(product((rest,), opened), assumptions, depth)
    bound, guards = _without_idle_quotients(bound, guards, factors, assumptions)
    bound, guards, counted = _counted(bound, guards, factors)
    coefficient, merged = _merged([*factors, *counted])
    if not coefficient:
        return ZERO
    return (_ordered(Product(term.coefficient * coefficient, bound, guards, merged), depth),)


def _canonical_atom(value: Atom, assumptions: Assumptions, depth: int) -> Atom | Sum:
    """The atom in canonical form; a sum where it is no atom under these assumptions."""
    match value:
        case Element():
            return Element(value.operand, tuple(map(assumptions.normal, value.indices)))
        case Call():
            return Call(
                value.function, tuple(canonical(a, assumptions, depth + 1) for a in value.args)
            )
        case Folded():
            members = (canonical_member(m, assumptions, depth + 1) for m in value.members)
            form = folded(value.function, [member for member in members if member is not None])
            match form:
                case (Product(factors=((Folded() as only, 1),)),) if len(form) == 1:
                    return only
                case _:
                    return form
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
    free = Member((), guards, value)
    orders = _orders(bound, lambda names: member_text(moved_member(free, names)))
    candidates = (moved_member(replace(free, bound=o), _names(o, depth)) for o in orders)
    return min(candidates, key=member_text)


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
        # A variable that stayed bound is replaced again: in what it became.
        values = one | {known: old.replaced(one) for known, old in values.items()}
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
    """Whether a polynomial has no index in it: indices have an apostrophe or start with i, _ or,
    quotients of such, with f."""
    return not any("'" in name or name.startswith(("i", "_", "f")) for name in size.variables)


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
    for guard in guards:
        for name in bound:
            # e - d * q is at least 0 for q = 0 alone where e is below d, and d at least 0.
            times = Size({m: f for m, f in guard.size.terms.items() if name in m})
            divisor = (-times).divided(Size.variable(name)) if times.terms else None
            rest = guard.size - times
            if guard.relation is not Relation.NONNEGATIVE or divisor is None:
                continue
            if name not in divisor.variables:
                others = _known(assumptions, (g for g in guards if name not in g.size.variables))
                if has_no_minus(divisor) and follows(divisor - 1 - rest, others):
                    return name, Size.of(0), False
    named: dict[str, str] = {}
    for name, dividend, divisor in _quotients(bound, guards):
        others = _known(assumptions, (g for g in guards if name not in g.size.variables))
        whole = quotient_by_terms(dividend, divisor, others)
        if whole is not None:
            return name, whole, False
        known = named.setdefault(f"{dividend} // {divisor}", name)
        if known != name:
            return name, Size.variable(known), False
    return None


def quotient_by_terms(dividend: Size, divisor: Size, known: Known) -> Size | None:
    """The quotient rounded down, where terms are multiples of the divisor and the others add up to
    0 at least and to less than it."""
    whole = dividend.multiples(divisor)
    rest = dividend - whole * divisor
    if follows(rest, known) and (
        follows(divisor - 1 - rest, known) or follows(_least(divisor - 1 - rest, known), known)
    ):
        return whole
    return None


def _least(size: Size, known: Known) -> Size:
    """What a polynomial is at least: with indices that it subtracts at their upper bounds."""
    for monomial in sorted(size.subtracted):
        for name in monomial:
            bounds = (_alone(other, name) for other in known.get((name,), ()))
            bound = next((rest for factor, rest in filter(None, bounds) if factor == -1), None)
            if bound is not None and not _only_sizes(Size.variable(name)):
                times = Size({monomial: size.terms[monomial]})
                return _least(size - times + times.replaced({name: bound}), known)
    return size


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
        simple = _reduced(Guard(assumptions.normal(guard.size), guard.relation), assumptions)
        value = simple.size.constant
        if value is None:
            kept[simple.text] = simple
        elif not _holds(value, simple.relation):
            return None
    ordered = [kept[text] for text in sorted(kept)]
    for guard in list(ordered):
        known = _known(assumptions, ordered)
        size, opposite = guard.size, -guard.size
        match guard.relation:
            case Relation.NONNEGATIVE:
                others = [other for other in ordered if other is not guard]
                if follows(size, known, but=size) or _at_bounds(size, others, assumptions):
                    ordered.remove(guard)
                elif follows(opposite - 1, known, but=size) or _at_bounds(
                    opposite - 1, others, assumptions
                ):
                    return None
            case Relation.NONZERO:
                if follows(size - 1, known) or follows(opposite - 1, known):
                    ordered.remove(guard)
            case Relation.ZERO:
                if follows(size - 1, known) or follows(opposite - 1, known):
                    return None
            case _:
                assert_never(guard.relation)
    return ordered


def _at_bounds(size: Size, guards: list[Guard], assumptions: Assumptions) -> bool:
    """Whether a polynomial with products is at least 0 at the bounds of its indices."""
    if all(len(monomial) < 2 for monomial in size.subtracted):
        return False
    known = _known(assumptions, guards)
    return follows(_least(size, known), known)


def _known(assumptions: Assumptions, guards: Iterable[Guard]) -> Known:
    bounds = (guard.size for guard in guards if guard.relation is Relation.NONNEGATIVE)
    return by_subtracted((*assumptions.nonnegative, *bounds))


def _reduced(guard: Guard, assumptions: Assumptions) -> Guard:
    """The guard divided by what all its coefficients share, and by variables above 0."""
    inequality = guard.relation is Relation.NONNEGATIVE
    size = tightened(guard.size) if inequality else without_positive_factors(guard.size)
    rest = size.terms.get((), 0)
    for name in sorted(size.variables) if rest in (0, -1) else ():
        variable = Size.variable(name)
        quotient = (size - rest).divided(variable)
        whole = inequality or not rest
        if whole and quotient is not None and assumptions.is_nonnegative(variable - 1):
            # v * q - 1 is at least 0 where q is at least 1.
            return _reduced(Guard(quotient + rest, guard.relation), assumptions)
    common = gcd(*(factor for monomial, factor in size.terms.items() if monomial))
    if common > 1:
        if not inequality and rest % common:
            return Guard(Size.of(rest), guard.relation)
        size = Size({m: f // common for m, f in size.terms.items()})
    if not inequality and next(iter(size.terms.values()), 0) < 0:
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
        case Folded():
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


def _without_idle_quotients(
    bound: tuple[str, ...],
    guards: Guards,
    factors: Sequence[tuple[Atom, int]],
    assumptions: Assumptions,
) -> tuple[tuple[str, ...], Guards]:
    """A quotient that nothing reads is there, and once: for a divisor above 0 and a dividend of at
    least 0."""
    used = {name for value, _ in factors for name in atom_variables(value)}
    for name, dividend, divisor in _quotients(bound, sorted(guards, key=lambda g: g.text)):
        own = {guard for guard in guards if name in guard.size.variables}
        if name in used or len(own) != 2:
            continue
        others = _known(assumptions, guards - own)
        if follows(dividend, others) and is_positive(divisor, others):
            rest = tuple(other for other in bound if other != name)
            return _without_idle_quotients(rest, guards - own, factors, assumptions)
    return bound, guards


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


def _names(order: tuple[str, ...], depth: int) -> dict[str, Size]:
    return {name: Size.variable(f"_{depth}_{number}_") for number, name in enumerate(order)}


def _ordered(term: Product, depth: int) -> Product:
    """The term with bound variables named by an order that their names do not influence."""
    if not term.bound:
        return term
    free = replace(term, bound=())
    orders = _orders(term.bound, lambda names: product_text(renamed(free, names)))
    candidates = (renamed(replace(free, bound=o), _names(o, depth)) for o in orders)
    return min(candidates, key=product_text)


def _orders(
    bound: tuple[str, ...], text_of: Callable[[Mapping[str, Size]], str]
) -> Iterator[tuple[str, ...]]:
    """Orders of bound variables worth trying: all among those that occur alike; `text_of` gives the
    text with variables renamed, which their order must not influence."""

    def signature(name: str) -> str:
        marks = {other: Size.variable("@1" if other == name else "@0") for other in bound}
        return text_of(marks)

    if len(bound) == 1:
        yield bound
        return
    signatures = {name: signature(name) for name in bound}
    ranked = sorted(bound, key=lambda name: (signatures[name], name))
    groups = [tuple(group) for _, group in groupby(ranked, key=signatures.__getitem__)]
    for number, choice in enumerate(combinations(*(permutations(group) for group in groups))):
        if number == MOST_ORDERS:
            return
        yield tuple(name for group in choice for name in group)
