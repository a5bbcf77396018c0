"""The simplifier of index terms: values and bounds kept at every point, and the rules' results."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Tensor,
    apply,
    cast,
    compute,
    const,
    expression_text,
    select,
    substitute,
    walk,
)
from tensorgen.simplify import (
    UNBOUNDED,
    Shifted,
    affine,
    bounds,
    simplify,
    simplify_index,
    simplify_tensor,
)
from tensorgen.types import TensorType, boolean, float32, int8, int32, int64, uint8, uint64


def value_at(term: Expr, point: Mapping[Axis, int]) -> int:
    """The term's value over the integers."""
    match term:
        case Const():
            return int(term.value)
        case Axis():
            return point[term]
        case Select():
            return value_at(term.then if value_at(term.condition, point) else term.otherwise, point)
        case Cast():
            return value_at(term.arg, point)
        case Apply():
            args = [value_at(arg, point) for arg in term.args]
            if term.op.name == "floordiv":
                return args[0] // args[1]
            return int(term.op.numpy(*(np.int64(arg) for arg in args)))
        case _:
            raise AssertionError(term)


AXES = tuple(
    Axis(position, extent, name)
    for position, (extent, name) in enumerate(zip((4, 6, 3, 1), "ijkl", strict=True))
)
POINTS = [
    dict(zip(AXES, values, strict=True)) for values in product(*(range(a.extent) for a in AXES))
]


def index_terms() -> st.SearchStrategy[Expr]:
    """Terms over the axes, with divisions by positive constants only."""
    leaves = st.one_of(
        st.sampled_from(AXES), st.integers(-6, 12).map(lambda value: const(value, int64))
    )

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        divisors = st.sampled_from([1, 2, 3, 4, 6, 12]).map(lambda value: const(value, int64))
        factors = st.integers(-4, 6).map(lambda value: const(value, int64))
        sums = st.builds(apply, st.sampled_from(["add", "sub", "max", "min"]), inner, inner)
        return st.one_of(
            sums,
            sums,
            st.builds(apply, st.just("mul"), inner, factors),
            st.builds(apply, st.just("mul"), inner, inner),
            st.builds(apply, st.sampled_from(["floordiv", "mod"]), inner, divisors),
            st.builds(lambda x: apply("neg", x), inner),
            st.builds(
                lambda op, x, y, then, other: select(apply(op, x, y), then, other),
                st.sampled_from(["lt", "le", "eq"]), inner, inner, inner, inner,
            ),
        )  # fmt: skip

    return st.recursive(leaves, grow, max_leaves=10)


def conditions() -> st.SearchStrategy[Expr]:
    """Comparisons of index terms under logic."""
    compared = st.builds(
        apply, st.sampled_from(["lt", "le", "eq", "ne"]), index_terms(), index_terms()
    )
    constant = st.booleans().map(lambda value: const(value, boolean))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(apply, st.sampled_from(["and", "or"]), inner, inner),
            st.builds(lambda x: apply("not", x), inner),
        )

    return st.recursive(st.one_of(compared, constant), grow, max_leaves=4)


@given(st.one_of(index_terms(), conditions()))
@settings(deadline=None, max_examples=300)
def test_values_are_kept_at_every_point(term: Expr) -> None:
    simple = simplify(term)
    assert simple.dtype == term.dtype
    for point in POINTS:
        assert value_at(simple, point) == value_at(term, point), f"{term} -> {simple} at {point}"


@given(st.one_of(index_terms(), conditions()))
@settings(deadline=None, max_examples=300)
def test_simplifying_again_changes_nothing(term: Expr) -> None:
    once = simplify(term)
    assert simplify(once) is once, f"{term} -> {once} -> {simplify(once)}"


@given(st.one_of(index_terms(), conditions()), st.lists(index_terms(), min_size=2, max_size=2))
@settings(deadline=None, max_examples=300)
def test_terms_in_place_of_axes_are_as_if_written_there(term: Expr, others: list[Expr]) -> None:
    values = dict(zip(AXES[1:], others, strict=False))
    written = substitute(term, lambda t: values.get(t) if isinstance(t, Axis) else None)
    for point in POINTS:
        assert value_at(simplify(term, values), point) == value_at(written, point)
    assert simplify(term, values) == simplify(simplify(term, values))


@given(index_terms())
@settings(deadline=None, max_examples=200)
def test_bounds_are_bounds(term: Expr) -> None:
    for form in (bounds(term), affine(term).bounds, simplify_index(term).bounds):
        low, high = form
        for point in POINTS:
            assert low <= value_at(term, point) <= high, f"{term} at {point}: {form}"


@given(index_terms())
@settings(deadline=None, max_examples=200)
def test_affine_form_is_the_term(term: Expr) -> None:
    form = affine(term)
    assert all(factor for _, factor in form.terms)
    for point in POINTS[::5]:
        total = form.constant + sum(c * value_at(atom, point) for atom, c in form.terms)
        assert total == value_at(term, point) == value_at(form.expr, point)


@given(index_terms(), index_terms(), st.integers(-3, 3))
@settings(deadline=None, max_examples=100)
def test_affine_forms_add_and_scale(x: Expr, y: Expr, factor: int) -> None:
    form = affine(x).plus(affine(y).scaled(factor))
    for point in POINTS[::7]:
        expected = value_at(x, point) + factor * value_at(y, point)
        assert value_at(form.expr, point) == expected


i, j, k, one = AXES
big = Axis(7, 24, "b")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (i + j - i, "j"),
        ((i * 6 + j) // 6, "i"),
        ((i * 6 + j) % 6, "j"),
        (big // 4 * 4 + big % 4, "b"),
        (big // 4 // 3, "floordiv(b, 12)"),
        (big % 12 % 4, "mod(b, 4)"),
        ((big * 4 + i) // 8, "floordiv(b, 2)"),
        ((big * 4 + i) % 8, "i + mod(b, 2) * 4"),
        (big % 12 // 4, "mod(floordiv(b, 4), 3)"),
        (big % 12 // 4 + big // 12 * 3, "floordiv(b, 4)"),
        (big % 24, "b"),
        (big // 24, "0"),
        (one + j, "j"),
        ((i + 2) * 3, "i * 3 + 6"),
        (apply("max", i, const(0, int64)), "i"),
        (apply("min", i, const(3, int64)), "i"),
        (apply("max", i, const(2, int64)), "max(i, 2)"),
        (i < 4, "True"),
        (i < 0, "False"),
        (apply("le", const(1, int64), j), "1 <= j"),
        (i.equals(9), "False"),
        ((i < 4) & (j < 3), "j < 3"),
        ((i < 0) | (j < 3), "j < 3"),
        (apply("not", apply("not", j < 3)), "j < 3"),
        (select(i < 4, j, k), "j"),
        (select(j < 3, k, k), "k"),
    ],
    ids=str,
)
def test_rules(term: Expr, text: str) -> None:
    assert expression_text(simplify(term)) == text


@given(index_terms(), st.integers(-100, 100))
@settings(deadline=None, max_examples=300)
def test_shifted_terms_are_sums_with_constants(term: Expr, offset: int) -> None:
    simple = simplify(term)
    assert Shifted.of(simple).by(offset) == simplify(simple + offset)


def test_unknown_terms_have_no_bounds() -> None:
    loaded = compute((4,), lambda a: Cast(a, int64)).body
    assert bounds(Cast(const(1.0, float32), int64)) == (-UNBOUNDED, UNBOUNDED)
    assert bounds(loaded * 2) is not None


@pytest.mark.parametrize("limit", [2**62 + 5, 2**63 - 1, -(2**63)])
def test_nothing_is_decided_about_data(limit: int) -> None:
    element = Tensor(0, TensorType(int64, (4,)))[i]
    for op in ("lt", "le", "eq"):
        term = apply(op, element, const(limit, int64))
        assert simplify(term) == term
    for op in ("max", "min"):
        term = apply(op, element, const(limit, int64))
        assert simplify(term) == term


def test_float_terms_are_left_alone() -> None:
    x = Cast(i, float32)
    term = x + 0.0 * x
    assert simplify(term) is term


def test_what_is_simple_is_the_same_object() -> None:
    tensor = compute((4, 6), lambda a, b: Cast(a * 6 + b, float32))
    assert simplify_tensor(tensor) is tensor
    assert list(walk(simplify(tensor.body)))[-1] is tensor.body


def test_deep_sums_are_simplified() -> None:
    terms: Sequence[Expr] = [i + n for n in range(60)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    assert expression_text(simplify(total)) == f"i * 60 + {sum(range(60))}"


def test_the_collector_finds_nothing() -> None:
    # Thousands of indices of a kernel are simplified: cycles took an eighth of a tuner's Python.
    axis = Axis(0, 12, "i")

    def changed(number: int) -> Expr:
        term = substitute((axis * number + 7) // 4, lambda t: axis + 1 if t == axis else None)
        return simplify(term, {axis: axis * 2})

    changed(3)
    gc.collect()
    gc.disable()
    try:
        results = [changed(number) for number in range(4, 20)]
        assert gc.collect() == 0, results
    finally:
        gc.enable()


def test_converted_integers_have_the_range_of_their_type() -> None:
    narrow = Load(0, TensorType(uint8, (5,)), (const(0, int64),))
    assert bounds(cast(cast(narrow, int32), int64)) == (0, 255)
    assert simplify(cast(cast(narrow, int32), int64) < 0) == const(False, boolean)
    # The conversion to int8 wraps: only the range of int8 is known.
    assert bounds(cast(cast(narrow, int8), int64)) == (-128, 127)
    assert bounds(cast(Load(0, TensorType(uint64, (5,)), (const(0, int64),)), int64))[0] < 0
