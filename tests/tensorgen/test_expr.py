"""Terms of index notation: identity, construction, substitution and text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.composition import inline, renumber_operands
from tensorgen.evaluate import evaluate
from tensorgen.expr import (
    Const,
    Expr,
    Fold,
    Reduce,
    Tensor,
    TensorExpr,
    all_of,
    apply,
    cast,
    children,
    compute,
    const,
    free_axes,
    loads,
    map_children,
    neutral_element,
    reduce,
    reduce_sum,
    select,
    walk,
)
from tensorgen.types import (
    DTYPES,
    DType,
    TensorType,
    boolean,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)


def tensor(operand: int, *shape: int, dtype: DType = float32) -> Tensor:
    return Tensor(operand, TensorType(dtype, shape))


X, Y = tensor(0, 4, 6), tensor(1, 6, 5)


def product(names: list[str] | None = None) -> TensorExpr:
    return compute((4, 5), lambda i, j: reduce_sum(6, lambda k: X[i, k] * Y[k, j]), names=names)


# Identity


def test_equal_expressions_are_equal_terms_without_renaming() -> None:
    assert product() == product(["row", "column"])
    assert len({product(), product(["a", "b"])}) == 1
    assert product().digest == product(["a", "b"]).digest


def test_different_expressions_differ() -> None:
    variants = {
        product(),
        compute((4, 5), lambda i, j: reduce_sum(6, lambda k: Y[k, j] * X[i, k])),
        compute((4, 5), lambda i, j: reduce_sum(5, lambda k: X[i, k] * Y[k, j])),
        compute((4, 4), lambda i, j: reduce_sum(6, lambda k: X[i, k] * Y[k, j])),
        compute((4, 5), lambda i, j: reduce(Fold.MAX, 6, lambda k: X[i, k] * Y[k, j])),
        compute((4, 5), lambda i, j: X[i, j]),
        compute((4, 5), lambda j, i: X[j, i] + 0),
    }
    assert len(variants) == 7


@given(st.floats(), st.floats())
def test_constants_are_equal_exactly_if_their_bits_are(a: float, b: float) -> None:
    same = np.float64(a).view(np.int64) == np.float64(b).view(np.int64)
    assert (const(a, float64) == const(b, float64)) == same


def test_constants_of_different_types_or_signs_differ() -> None:
    assert len({const(0, int32), const(0, int64), const(0, float32), const(-0.0, float32)}) == 4
    assert const(math.nan, float32) == const(math.nan, float32)
    assert const(True, boolean).value is True
    assert const(1, float32).value == 1.0
    assert isinstance(const(1, float32).value, float)


def test_positions_are_canonical() -> None:
    def body(i: Expr) -> Expr:
        inner = reduce_sum(6, lambda k: X[i, k] * reduce_sum(5, lambda r: Y[k, r]))
        return inner + reduce(Fold.MAX, 6, lambda m: X[i, m])

    expression = compute((4,), body)
    assert [axis.position for axis in expression.axes] == [0]
    reductions = [term for term in walk(expression.body) if isinstance(term, Reduce)]
    assert sorted(term.axes[0].position for term in reductions) == [1, 1, 2]


# Construction


def test_operators_build_terms_with_literals_of_the_operand_type() -> None:
    def text(build: object) -> str:
        assert callable(build)
        return str(compute((4, 6), lambda i, j: build(X[i, j])).body)

    assert text(lambda x: 1 + x) == "1.0 + x[i,j]"
    assert text(lambda x: 1 - x) == "1.0 - x[i,j]"
    assert text(lambda x: x - 1) == "x[i,j] - 1.0"
    assert text(lambda x: (x + 1) * (x - 2)) == "(x[i,j] + 1.0) * (x[i,j] - 2.0)"
    assert text(lambda x: x - (x - 1)) == "x[i,j] - (x[i,j] - 1.0)"
    assert text(lambda x: -x / 2) == "neg(x[i,j]) / 2.0"
    assert text(lambda x: select(x >= 1, x, 0)) == "select(1.0 <= x[i,j], x[i,j], 0.0)"
    assert text(lambda x: select((x > 1) & (x < 2), x, 0)).startswith(
        "select(1.0 < x[i,j] && x[i,j] < 2.0,"
    )


def test_text_of_index_notation() -> None:
    assert str(product()) == "out[i,j] = sum(k) x[i,k] * y[k,j]"
    mean = compute((4,), lambda i: reduce_sum(6, lambda k: X[i, k]) / 6)
    assert str(mean) == "out[i] = (sum(k) x[i,k]) / 6.0"


def test_conjunction() -> None:
    assert all_of([]) == const(True, boolean)
    condition = const(1, int64) < 2
    assert all_of([condition]) == condition
    assert str(all_of([condition, condition])) == "1 < 2 && 1 < 2"


def test_cast_to_the_same_type_is_no_term() -> None:
    value = const(1, int32)
    assert cast(value, int32) is value
    assert cast(value, int64).dtype == int64


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("add", (const(1, int32), const(1, int64)), r"add: operands of types \[int32, int64\]"),
        ("add", (const(1, int32),), "add: arity"),
        ("add", (const(True, boolean), const(True, boolean)), "add: not defined on bool"),
        ("sqrt", (const(1, int32),), "sqrt: not defined on int32"),
    ],
)
def test_ill_typed_terms_are_our_bugs(name: str, args: tuple[Expr, ...], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        apply(name, *args)


def test_load_wants_one_index_for_each_axis() -> None:
    with pytest.raises(AssertionError, match="one index for each axis"):
        X[0]


def test_select_wants_a_condition_and_equal_types() -> None:
    one = const(1, int32)
    with pytest.raises(AssertionError):
        select(one, one, one)
    with pytest.raises(AssertionError):
        select(const(True, boolean), one, const(1, int64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("fold", [Fold.MAX, Fold.MIN])
def test_neutral_elements_bound_every_value(fold: Fold, dtype: DType) -> None:
    neutral = neutral_element(fold, dtype)
    assert neutral.dtype == dtype
    limits = {int8: (-128, 127), uint8: (0, 255), boolean: (False, True)}
    if dtype in limits:
        assert neutral.value == limits[dtype][0 if fold is Fold.MAX else 1]
    if dtype.is_float:
        assert neutral.value == (-math.inf if fold is Fold.MAX else math.inf)
    assert neutral_element(Fold.PRODUCT, dtype) == const(1, dtype)


# Traversal


def test_walk_gives_each_subterm_once_children_first() -> None:
    terms = list(walk(product().body))
    assert len({term.digest for term in terms}) == len(terms)
    place = {term.digest: n for n, term in enumerate(terms)}
    for term in terms:
        assert all(place[child.digest] < place[term.digest] for child in children(term))
    assert [load.operand for load in loads(product().body)] == [0, 1]


def test_walk_of_a_deep_shared_term_is_short() -> None:
    value: Expr = const(1, int64)
    for _ in range(200):
        value = value + value
    assert len(list(walk(value))) == 201


def test_terms_with_much_sharing_take_no_time() -> None:
    def doubled(value: Expr) -> Expr:
        for _ in range(60):
            value = value + value
        return value

    expression = compute((4, 6), lambda i, j: doubled(X[i, j]))
    assert free_axes(expression.body) == frozenset(expression.axes)
    fused = inline(compute((4, 6), lambda i, j: X[i, j]), 0, expression)
    assert fused == expression


def test_map_children_keeps_an_unchanged_term() -> None:
    body = product().body
    assert map_children(body, lambda child: child) is body
    changed = map_children(const(1, int32) + 1, lambda child: const(2, child.dtype))
    assert changed == const(2, int32) + 2


def test_free_axes_leaves_out_bound_ones() -> None:
    expression = product()
    assert free_axes(expression.body) == frozenset(expression.axes)
    assert isinstance(expression.body, Reduce)
    assert len(free_axes(expression.body.body)) == 3


# Substitution


def test_inline_equals_running_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (4, 6)).astype(np.float32)
    y = rng.integers(-3, 4, (6, 5)).astype(np.float32)
    z = tensor(2, 4, 5)
    consumer = compute((5, 4), lambda j, i: z[i, j] * reduce(Fold.MAX, 5, lambda k: z[i, k]))
    fused = inline(consumer, 2, product())
    assert 2 not in {load.operand for load in loads(fused.body)}
    produced = evaluate(product(), [x, y])
    np.testing.assert_array_equal(evaluate(fused, [x, y]), evaluate(consumer, [x, y, produced]))


def test_inline_reaches_loads_inside_indices() -> None:
    table, rows = tensor(0, 4, dtype=int64), tensor(1, 3, dtype=int64)
    consumer = compute((3,), lambda i: table[table[rows[i]]])
    producer = compute((4,), lambda i: 3 - i)
    fused = inline(consumer, 0, producer)
    assert {load.operand for load in loads(fused.body)} == {1}
    result = evaluate(fused, [np.zeros(4, np.int64), np.array([0, 1, 3])])
    assert result.tolist() == [0, 1, 3]


def test_renumbering_operands() -> None:
    renumbered = renumber_operands(product(), {0: 3, 1: 0})
    assert str(renumbered) == "out[i,j] = sum(k) w[i,k] * x[k,j]"
    assert renumber_operands(renumbered, {3: 0, 0: 1}) == product()


def test_constants_hold_python_values() -> None:
    assert isinstance(const(np.int64(3).item(), int64), Const)
    assert const(3, int64).value == 3
