"""Classes of terms are closed under congruence, and parameters are compared by what they are."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.graph import Input, Value
from graphopt.ops import OP, transpose
from graphopt.ops import slice as slice_
from tensorgen.sizes import Size, judged_by, sizes
from tensorgen.types import TensorType, float32
from verify.axiom_terms import Entailed, LeftOpen, Terms
from verify.exploration import Path

INPUTS = tuple(Input(n, TensorType(float32, (2, 2))) for n in range(4))
NAMES = {n: f"x{n}" for n in range(4)}


def empty() -> Terms:
    return Terms(Entailed.of(Path(()), []), NAMES)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4))
def test_what_is_computed_alike_from_equals_is_equal(merges: list[tuple[int, int]]) -> None:
    terms = empty()
    sums = {(a, b): OP["add"](INPUTS[a], INPUTS[b]) for a, b in product(range(4), repeat=2)}
    negated = {pair: OP["neg"](value) for pair, value in sums.items()}
    numbers = {pair: terms.add(value) for pair, value in negated.items()}
    classes = list(range(4))
    for a, b in merges:
        terms.merge(terms.add(INPUTS[a]), terms.add(INPUTS[b]))
        classes = [classes[a] if known == classes[b] else known for known in classes]
    for (a, b), (c, d) in product(sums, repeat=2):
        expected = (classes[a], classes[b]) == (classes[c], classes[d])
        assert terms.equal(numbers[a, b], numbers[c, d]) == expected


def test_a_term_made_later_joins_its_class() -> None:
    terms = empty()
    one = terms.add(OP["exp"](INPUTS[0]))
    terms.merge(terms.add(INPUTS[0]), terms.add(INPUTS[1]))
    assert terms.equal(one, terms.add(OP["exp"](INPUTS[1])))
    assert not terms.equal(one, terms.add(OP["tanh"](INPUTS[1])))


def test_parameters_and_operators_tell_terms_apart() -> None:
    terms = empty()
    one = terms.add(transpose(INPUTS[0], perm=(1, 0)))
    assert terms.equal(one, terms.add(transpose(INPUTS[0], perm=(1, 0))))
    assert not terms.equal(one, terms.add(transpose(INPUTS[0], perm=(0, 1))))
    assert terms.text(one) == "transpose(x0, perm=(1, 0))"


def _sliced(start: Size) -> Value:
    x = Input(0, TensorType(float32, sizes([Size.variable("n0")])))
    return slice_(x, starts=sizes([start]), steps=(1,), sizes=(1,))


def test_sizes_are_compared_under_assumptions() -> None:
    """With b = a, starts at a and at b are one parameter; without, they are two."""
    a, b, n = (Size.variable(name) for name in ("a0", "b0", "n0"))
    for equal in (True, False):
        path = Path(())
        known = path.assumptions.with_nonnegative(n - a - 1).with_nonnegative(n - b - 1)
        path.assumptions = known.with_zero(a - b) if equal else known
        judge = Entailed.of(path, [])
        with judged_by(judge):
            terms = Terms(judge, NAMES)
            assert terms.equal(terms.add(_sliced(a)), terms.add(_sliced(b))) == equal


def test_an_open_comparison_is_no_decision() -> None:
    with judged_by(Entailed.of(Path(()), [])), pytest.raises(LeftOpen):
        bool(Size.variable("a0") == Size.variable("b0"))
