"""The questions that a proof leaves to a solver, to the letter."""

from __future__ import annotations

from fractions import Fraction

from tensorgen.sizes import Size
from verify.assumptions import Assumptions
from verify.normal_form import Element, Guard, Product, Quotient, Relation
from verify.obligation import Group, bounds, cancelling, impossible, matched

N0, N1, I0, K = (Size.variable(name) for name in ("n0", "n1", "i0", "_0_0_"))


def term(
    coefficient: Fraction | int, *guards: Guard, bound: tuple[str, ...] = (), at: Size = I0
) -> Product:
    factors = ((Element(0, (at,)), 1),)
    return Product(Fraction(coefficient), bound, frozenset(guards), factors)


def at_least(size: Size) -> Guard:
    return Guard(size, Relation.NONNEGATIVE)


def test_equal_terms_are_matched_and_others_grouped() -> None:
    same, split = term(3, at=N0), term(1, bound=("_0_0_",), at=K)
    low, high = term(1, at_least(I0 - 1)), term(1, Guard(I0, Relation.ZERO))
    pairs, groups = matched((term(1), same, split), (split, low, high, same))
    assert pairs == ((1, 3), (2, 0))
    assert groups == (Group((term(1),), (low, high)),)


CANCELLING = """\
(set-logic QF_NIA)
(declare-const i0 Int)
(declare-const n0 Int)
(assert (>= i0 0))
(assert (>= n0 0))
(assert (>= (+ (- 1) (* (- 1) i0) n0) 0))
(assert (>= (+ (- 2) n0) 0))
(assert (not (= (+ (- 7) n0) 0)))
(assert (not (= (+ (ite (= i0 0) (- 1) 0) (ite (>= (+ (- 1) i0) 0) (- 2) 0) (ite true 2 0)) 0)))
(check-sat)"""


def test_the_text_of_a_question() -> None:
    low, high = term(1, at_least(I0 - 1)), term(Fraction(1, 2), Guard(I0, Relation.ZERO))
    known = Assumptions({"n1": N0}, (N1 - 2,), (N0 - 7,))
    group = Group((term(1),), (low, high))
    assert cancelling(group, known, bounds((I0,), (N1,))) == CANCELLING


def test_several_conditions_and_products_of_variables() -> None:
    one = term(1, at_least(N0 * N0 * 3 - I0), Guard(N1 - 1, Relation.NONZERO))
    text = cancelling(Group((one,), ()), Assumptions())
    wanted = "(ite (and (>= (+ (* (- 1) i0) (* 3 n0 n0)) 0) (not (= (+ (- 1) n1) 0))) 1 0)"
    assert f"(assert (not (= {wanted} 0)))" in text


IMPOSSIBLE = """\
(set-logic QF_NIA)
(declare-const i0 Int)
(declare-const n0 Int)
(assert (>= i0 0))
(assert (>= n0 0))
(assert (>= (* (- 1) n0) 0))
(assert (>= (+ (- 1) (* (- 1) i0) n0) 0))
(check-sat)"""


def test_a_question_whether_anything_is_possible() -> None:
    # An index of a single element is 0, not a variable.
    also = bounds((I0, Size.of(0)), (N0, Size.of(1)))
    assert impossible(Assumptions({}, (-N0,)), also) == IMPOSSIBLE


def test_quotients_are_bounded() -> None:
    text = impossible(Assumptions(), bounds((I0,), (N0,), (Quotient("f0", I0, N1),)))
    assert "(assert (>= (+ (* (- 1) f0 n1) i0) 0))" in text
    assert "(assert (>= (+ (- 1) (* f0 n1) (* (- 1) i0) n1) 0))" in text


def test_nothing_assumed() -> None:
    assert impossible(Assumptions()) == "(set-logic QF_NIA)\n(check-sat)"
