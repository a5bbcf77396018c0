"""Canonical forms have the value of what they were made from, and equal sums often one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.sizes import Size
from verify.assumptions import Assumptions
from verify.canonical import canonical
from verify.certificate import Comparison
from verify.equality import Open, compared
from verify.normal_form import (
    Call,
    Element,
    Folded,
    Guard,
    Member,
    Product,
    Relation,
    Sum,
    atom,
    indicator,
    scaled,
    sum_text,
    summed,
)
from verify.normal_form import product as times

REACH = 9
"""No bound variable of the sums drawn here goes beyond."""

ROW, N = Size.variable("i0"), Size.variable("n")


def size_at(size: Size, point: Mapping[str, int]) -> int:
    return sum(f * prod(point[name] for name in m) for m, f in size.terms.items())


def holds(guard: Guard, point: Mapping[str, int]) -> bool:
    value = size_at(guard.size, point)
    match guard.relation:
        case Relation.NONNEGATIVE:
            return value >= 0
        case Relation.ZERO:
            return value == 0
        case Relation.NONZERO:
            return value != 0


def points(
    bound: tuple[str, ...], guards: frozenset[Guard], point: Mapping[str, int]
) -> Iterator[Mapping[str, int]]:
    for values in product(range(REACH), repeat=len(bound)):
        inner = {**point, **dict(zip(bound, values, strict=True))}
        if all(holds(guard, inner) for guard in guards):
            yield inner


def atom_at(value: Element | Call | Folded, point: Mapping[str, int]) -> Fraction:
    match value:
        case Element(operand=-1, indices=(index,)):
            return Fraction(size_at(index, point))
        case Element(operand=operand, indices=indices):
            # Some function of the place.
            mixed = operand + 1
            for index in indices:
                mixed = mixed * 31 + size_at(index, point)
            return Fraction(mixed % 17 - 8)
        case Call(args=(arg,)):
            return value_at(arg, point) ** 2 + 1
        case Folded(members=members):
            return max(
                value_at(member.value, inner)
                for member in members
                for inner in points(member.bound, member.guards, point)
            )
        case Call():
            raise AssertionError(value.text)


def value_at(value: Sum, point: Mapping[str, int]) -> Fraction:
    total = Fraction(0)
    for term in value:
        for inner in points(term.bound, term.guards, point):
            factors = (atom_at(factor, inner) ** power for factor, power in term.factors)
            total += prod(factors, start=term.coefficient)
    return total


OFFSETS = st.integers(-2, 2)


@st.composite
def sums(draw: st.DrawFn) -> Sum:
    """Sums over at most two variables below 4, with conditions on them, and functions of such."""
    total: Sum = ()
    for _ in range(draw(st.integers(1, 2))):
        bound = tuple(f"k'{n}'" for n in range(draw(st.integers(0, 2))))
        variables = [ROW, N, *map(Size.variable, bound)]

        def linear(variables: list[Size] = variables) -> Size:
            size = Size.of(draw(OFFSETS))
            for variable in variables:
                size = size + variable * draw(st.integers(-1, 1))
            return size

        guards = {Guard(3 - Size.variable(name), Relation.NONNEGATIVE) for name in bound}
        guards |= {
            Guard(linear(), draw(st.sampled_from(list(Relation))))
            for _ in range(draw(st.integers(0, 2)))
        }
        value: Sum = (
            Product(
                Fraction(draw(st.integers(1, 3))),
                bound,
                frozenset(guards),
                ((Element(0, (linear(), linear())), 1),),
            ),
        )
        if draw(st.booleans()):
            value = atom(Call("f", (value,)))
        total = total + value
    return total


@settings(deadline=None, max_examples=150)
@given(sums())
def test_the_form_has_the_same_value(value: Sum) -> None:
    form = canonical(value, Assumptions())
    for i, n in product(range(3), range(3)):
        point = {"i0": i, "n": n}
        assert value_at(form, point) == value_at(value, point), sum_text(form)


@settings(deadline=None, max_examples=60)
@given(sums(), sums())
def test_what_is_called_equal_is(left: Sum, right: Sum) -> None:
    if isinstance(compared(left, right, Assumptions(), (), ()), Comparison):
        for i, n in product(range(3), range(3)):
            point = {"i0": i, "n": n}
            assert value_at(left, point) == value_at(right, point)


def test_a_sum_over_a_joined_range_splits() -> None:
    k, m = Size.variable("k'0'"), Size.variable("m")
    first = Guard(N - 1 - k, Relation.NONNEGATIVE)
    joined = summed(
        [("k'0'", N + m)],
        times(indicator([first]), atom(Element(0, (k,))))
        + times(indicator([first.negated]), atom(Element(1, (k - N,)))),
    )
    apart = summed([("k'1'", N)], atom(Element(0, (Size.variable("k'1'"),)))) + summed(
        [("k'2'", m)], atom(Element(1, (Size.variable("k'2'"),)))
    )
    assert isinstance(compared(joined, apart, Assumptions(), (), ()), Comparison)
    assert isinstance(compared(joined, scaled(apart, 2), Assumptions(), (), ()), Open)


def test_a_variable_that_starts_above_is_not_zero() -> None:
    """Once it was taken for a quotient by -1; and what a shifted variable became was lost."""
    k = Size.variable("k'0'")
    between = frozenset(
        {Guard(3 - k, Relation.NONNEGATIVE), Guard(k - ROW - 2, Relation.NONNEGATIVE)}
    )
    value: Sum = (Product(Fraction(1), ("k'0'",), between, ((Element(0, (k,)), 1),)),)
    form = canonical(value, Assumptions())
    for row in range(3):
        assert value_at(form, {"i0": row}) == value_at(value, {"i0": row})
    single = frozenset({Guard(ROW - k, Relation.NONNEGATIVE), Guard(k - ROW, Relation.NONNEGATIVE)})
    (term,) = canonical(
        (Product(Fraction(1), ("k'0'",), single, ((Element(0, (k,)), 1),)),), Assumptions()
    )
    assert sum_text((term,)) == "x0[i0]"


def test_a_variable_that_nothing_reads_counts() -> None:
    repeated = summed([("k'0'", N)], atom(Element(0, (ROW,))))
    (term,) = canonical(repeated, Assumptions())
    assert not term.bound
    assert sum_text((term,)) == "x-1[n] x0[i0]"


def test_names_do_not_matter() -> None:
    def square(first: str, second: str) -> Sum:
        a, b = Size.variable(first), Size.variable(second)
        inside = times(atom(Element(0, (a, b))), atom(Element(1, (b, a))))
        return summed([(first, N), (second, N)], inside)

    forms = [canonical(square(*names), Assumptions()) for names in (("p'", "q'"), ("q'", "p'"))]
    assert sum_text(forms[0]) == sum_text(forms[1])


def test_cases_add_up_to_everything() -> None:
    guard = Guard(ROW - N, Relation.NONNEGATIVE)
    x = atom(Element(0, (ROW,)))
    parts = times(indicator([guard]), x) + times(indicator([guard.negated]), x)
    assert isinstance(compared(parts, x, Assumptions(), (), ()), Comparison)


def test_a_maximum_forgets_what_cannot_be_reached() -> None:
    k = Size.variable("k'0'")
    reached = Member(
        ("k'0'",), frozenset({Guard(N - 1 - k, Relation.NONNEGATIVE)}), atom(Element(0, (k,)))
    )
    never = Member((), frozenset({Guard(Size.of(-1), Relation.NONNEGATIVE)}), atom(Element(1, ())))
    both, one = atom(Folded("max", (reached, never))), atom(Folded("max", (reached,)))
    assert isinstance(compared(both, one, Assumptions(), (), ()), Comparison)
