"""Equations: canonical form, sizes of their variables, tests on other shapes, rules."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from graphopt.enumerate.retest import Fails, Holds, Outcome, Untested, retest
from graphopt.enumerate.rule_text import rules_of
from graphopt.enumerate.sizes import Grouping, Linear, Unsolvable, draw
from graphopt.enumerate.trees import (
    Applied,
    Equation,
    Fixed,
    Tree,
    Variable,
    canonical,
    is_instance,
    tree_text,
)
from graphopt.enumerate.vocabulary import Vocabulary, extended, result_shape, taso
from graphopt.evaluation import by_meaning
from tensorgen.types import Shape
from verify.oracle import Agreed, Refuted, judge

TASO, EXTENDED = taso(), extended()
M, N, K = (Variable(number, 2) for number in range(3))
X, Y, Z, W = (Variable(number, 4) for number in range(4))
S, T = Variable(8, 0), Variable(9, 0)
EXAMPLES: dict[int, tuple[Shape, ...]] = {
    0: ((),), 1: ((4,),), 2: ((4, 4), (2, 4), (4, 8)), 3: ((3, 2, 4), (3, 4, 4)),
    4: ((2, 4, 5, 5), (4, 4, 3, 3), (4, 4, 1, 3), (4, 1, 3, 3), (2, 8, 5, 5)),
}  # fmt: skip


def apply(
    name: str, *operands: Tree, vocabulary: Vocabulary = TASO, shapes: tuple[Shape, ...] = ()
) -> Applied:
    """An instance on operands, with the parameters it has for `shapes` or some that fit."""
    instance = next(i for i in vocabulary.instances if i.name == name)
    choices: list[tuple[Shape, ...]] = [()]
    for operand in operands:
        rank = operand.rank if isinstance(operand, Variable) else RANKS[tree_text(operand)]
        choices = [(*choice, shape) for choice in choices for shape in EXAMPLES[rank]]
    for choice in [shapes] if shapes else choices:
        params = vocabulary.parameters(instance, *choice)
        if params is not None:
            tree = Applied(instance, tuple(sorted(params.items())), operands)
            result = result_shape(instance, params, choice, 512)
            assert result is not None
            RANKS[tree_text(tree)] = len(result)
            return tree
    raise AssertionError(f"{name}: no shapes fit")


IDENTITY = Fixed(next(c for c in TASO.constants if c.name == "identity_matrix"))
RANKS = {"identity_matrix": 2, "ones": 4}
DEPTHWISE = ((2, 4, 5, 5), (4, 1, 3, 3))


def judged(left: Tree, right: Tree) -> Outcome:
    return retest(canonical(left, right), seed=0)


# Canonical form


def test_names_and_order_of_operands_leave_the_canonical_form_alone() -> None:
    first = canonical(apply("add", M, apply("matmul", N, K)), apply("matmul", M, N))
    second = canonical(apply("add", apply("matmul", K, M), N), apply("matmul", N, K))
    assert str(first) == str(second)
    assert str(first) == "add(matmul(v0r2, v1r2), v2r2) = matmul(v2r2, v0r2)"


def test_the_larger_side_comes_first() -> None:
    assert str(canonical(M, apply("relu", M))) == "relu(v0r2) = v0r2"


def test_operands_of_products_of_matrices_are_not_exchanged() -> None:
    assert str(canonical(apply("matmul", M, N), M)) != str(canonical(apply("matmul", N, M), M))


def test_an_equation_with_variables_alike_is_an_instance() -> None:
    general = canonical(apply("add", apply("add", M, N), K), apply("add", M, apply("add", N, K)))
    special = canonical(apply("add", apply("add", M, M), K), apply("add", M, apply("add", M, K)))
    assert is_instance(special, general)
    assert not is_instance(general, special)
    assert is_instance(general, general)


# Sizes


def test_sizes_are_linear() -> None:
    one = Linear(1, ((0, 2), (3, -1)))
    assert one.plus(Linear(0, ((0, -2),))) == Linear(1, ((3, -1),))
    assert one.times(-2) == Linear(-2, ((0, -4), (3, 2)))


def test_drawn_sizes_fit_and_are_distinct_where_nothing_ties_them() -> None:
    equation = Equation(apply("matmul", M, N), apply("matmul", M, N))
    shapes = draw(equation, Grouping.ANY, Random(0)).variables
    (m, k), (same, n) = shapes[M], shapes[N]
    assert k == same
    assert len({m, k, n}) == 3


def test_parts_of_concats_are_unequal_in_the_first_draw() -> None:
    joined = apply("concat[1]2d", M, N)
    shapes = draw(Equation(joined, joined), Grouping.ANY, Random(1)).variables
    assert shapes[M][0] == shapes[N][0]
    assert shapes[M][1] != shapes[N][1]


@pytest.mark.parametrize("number", [0, 1])
def test_groups_divide_channels(number: int) -> None:
    conv = apply("conv3x3", X, Y)
    for seed in range(20):
        shapes = draw(Equation(conv, conv), Grouping.ANY, Random(seed), number).variables
        groups = shapes[X][1] // shapes[Y][1]
        assert groups == (2, 3)[number]
        assert shapes[Y][0] % groups == 0


def test_kernels_of_even_and_odd_size_are_drawn() -> None:
    conv = apply("conv3x3", X, Y)
    kernels = {
        draw(Equation(conv, conv), Grouping.AS_FOUND, Random(seed)).variables[Y][2]
        for seed in range(40)
    }
    assert {1, 2, 3, 4} == kernels


def test_sizes_that_contradict_each_other_are_unsolvable() -> None:
    joined = apply("concat[1]2d", M, M)
    with pytest.raises(Unsolvable):
        draw(Equation(joined, M), Grouping.ANY, Random(0))


# Tests


def test_what_holds_for_square_matrices_only_fails() -> None:
    twice = apply("concat[0]2d", M, N), apply("concat[1]2d", M, N)
    assert isinstance(judged(*twice), Fails | Untested)
    exchanged = judged(
        apply("matmul", apply("concat[1]2d", M, N), apply("concat[0]2d", M, K)),
        apply("matmul", apply("concat[1]2d", N, M), apply("concat[0]2d", K, M)),
    )
    assert isinstance(exchanged, Fails)


def test_the_merge_of_convolutions_with_unequal_channels_fails() -> None:
    """x*y | z*w = (x | z)*(y | w), which TASO ships: not true for any number of groups."""
    apart = apply("concat[1]4d", apply("conv3x3", X, Y), apply("conv3x3", Z, W))
    joint = apply("conv3x3", apply("concat[1]4d", X, Z), apply("concat[0]4d", Y, W))
    assert isinstance(judged(apart, joint), Fails | Untested)


def test_groups_are_claimed_as_far_as_they_hold() -> None:
    added = apply("add", apply("conv3x3", X, Y), apply("conv3x3", X, Z))
    assert judged(added, apply("conv3x3", X, apply("add", Y, Z))) == Holds(Grouping.ANY)
    joined = apply("concat[1]4d", apply("conv3x3", X, Y), apply("conv3x3", X, Z))
    found = judged(joined, apply("conv3x3", X, apply("concat[0]4d", Y, Z)))
    assert found == Holds(Grouping.AS_FOUND)
    apart = [apply("conv3x3", *pair, shapes=DEPTHWISE) for pair in ((X, Y), (Z, W))]
    joint = apply(
        "conv3x3", apply("concat[1]4d", X, Z), apply("concat[0]4d", Y, W), shapes=DEPTHWISE
    )
    assert judged(apply("concat[1]4d", *apart), joint) == Holds(Grouping.DEPTHWISE)


def test_factors_of_both_signs_are_tried() -> None:
    scaled = apply("max_pool", apply("scale", X, S))
    assert isinstance(judged(scaled, apply("scale", apply("max_pool", X), S)), Fails)
    twice = apply("scale", apply("scale", X, S), T)
    outer = apply("scale", apply("scale", apply("relu", X), S), T)
    assert isinstance(judged(apply("relu", twice), outer), Fails)
    assert isinstance(judged(apply("relu", apply("relu", M)), apply("relu", M)), Holds)


def test_functions_of_real_numbers_are_compared_up_to_rounding() -> None:
    def real(name: str, *operands: Tree) -> Applied:
        return apply(name, *operands, vocabulary=EXTENDED)

    product = real("mul", real("exp", M), real("exp", N))
    assert isinstance(judged(product, real("exp", real("add", M, N))), Holds)
    assert isinstance(judged(product, real("exp", real("sub", M, N))), Fails)
    assert isinstance(judged(real("tanh", real("neg", M)), real("neg", real("tanh", M))), Holds)


def test_identity_matrices_take_the_size_that_is_asked_for() -> None:
    assert isinstance(judged(apply("matmul", IDENTITY, M), M), Holds)
    assert isinstance(judged(apply("mul", IDENTITY, M, shapes=((4, 4), (4, 4))), M), Fails)


def test_outcomes_depend_on_the_seed_alone() -> None:
    equation = canonical(apply("matmul", M, N), apply("matmul", N, M))
    assert {type(retest(equation, 5)) for _ in range(3)} == {Fails}


# Rules


def test_ties_give_rules_both_ways_and_others_one() -> None:
    transposed = apply("transpose", apply("relu", M))
    both = rules_of(canonical(transposed, apply("relu", apply("transpose", M))), Grouping.ANY)
    assert len(both) == 2
    assert both[0].source == both[1].target
    assert len(rules_of(canonical(apply("relu", apply("relu", M)), apply("relu", M)),
                        Grouping.ANY)) == 1  # fmt: skip


def test_splits_become_slices_where_something_settles_their_place() -> None:
    joined = apply("concat[1]2d", M, N)
    second = apply("split1[1]2d", joined, shapes=((4, 8),))
    (rule,) = rules_of(canonical(second, N), Grouping.ANY)
    assert str(rule).split(": ")[1] == (
        "slice(concat(x, y, axis=1), starts=s0, steps=(1, 1), sizes=n0) => y "
        "where rank(2, x, y), equal(s0, offset_on(shape_of(x), 1))"
    )
    assert isinstance(judge(rule, 20, value_of=by_meaning), Agreed)


def test_a_split_of_a_variable_keeps_the_other_axes_whole() -> None:
    inner = apply("relu", apply("split1[1]2d", M, shapes=((4, 8),)))
    outer = apply("split1[1]2d", apply("relu", M), shapes=((4, 8),))
    rules = rules_of(canonical(inner, outer), Grouping.ANY)
    texts = [str(rule).split(" where ")[1] for rule in rules]
    assert any("equal(n0, plus(offset_on(n0, 1), offset_on(shape_of(x), 0)))" in text
               for text in texts)  # fmt: skip
    assert all(isinstance(judge(rule, 20), Agreed) for rule in rules)


def test_an_equation_with_a_constant_matrix_has_no_rule() -> None:
    assert rules_of(canonical(apply("matmul", IDENTITY, M), M), Grouping.ANY) == ()


def test_relu_of_scaled_sums_claims_nothing_of_integers_that_wrap() -> None:
    doubled = apply("relu", apply("add", M, M))
    outer = apply("add", apply("relu", M), apply("relu", M))
    for rule in rules_of(canonical(doubled, outer), Grouping.ANY):
        assert "floating(x)" in str(rule)
        assert not isinstance(judge(rule, 20), Refuted)


def test_ones_are_a_literal_beside_another_operand() -> None:
    ones = Fixed(next(c for c in TASO.constants if c.name == "ones"))
    (rule,) = rules_of(canonical(apply("mul", X, ones), X), Grouping.ANY)
    assert str(rule).split(": ")[1] == "mul(1, x) => x where rank(4, x)"
    assert np.array_equal(ones.constant.like((2, 3)), np.ones((2, 3)))


def test_reshapes_keep_the_sizes_that_the_source_has() -> None:
    x = Variable(0, 3)
    flat = apply("flatten", apply("neg", x, vocabulary=EXTENDED), vocabulary=EXTENDED)
    other = apply("neg", apply("flatten", x, vocabulary=EXTENDED), vocabulary=EXTENDED)
    texts = [str(rule).split(": ")[1] for rule in rules_of(canonical(flat, other), Grouping.ANY)]
    assert "reshape(neg(x), shape=t0) => neg(reshape(x, shape=t0)) where rank(3, x)" in texts
