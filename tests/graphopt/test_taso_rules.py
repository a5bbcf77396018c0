"""TASO's substitutions: what they say as rules, and what the rule language does not say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.graph import Constant, Node
from graphopt.instances import find_instance
from graphopt.ops import OP
from graphopt.rule import rule_text, statement_text
from graphopt.rule_functions import FUNCTIONS, Undefined
from graphopt.rules import read_rules
from graphopt.taso_rules import Groups, Translated, Unsupported, load_taso_rules, translate
from graphopt.taso_schema import (
    MAX_OPERATORS,
    Activation,
    OpType,
    Padding,
    Parameter,
    decode_substitutions,
)
from tests.taso_file import Params, encoded, op, taso_file
from verify.oracle import Agreed, judge

P = Parameter
CONV: Params = {
    P.KERNEL_H: 3, P.KERNEL_W: 3, P.STRIDE_H: 1, P.STRIDE_W: 1, P.PAD: Padding.SAME,
    P.ACTI: Activation.NONE,
}  # fmt: skip
ROWS: Params = {P.NUM_INPUTS: 2, P.AXIS: 0, P.NUMDIM: 2}
COLUMNS: Params = {P.NUM_INPUTS: 2, P.AXIS: 1, P.NUMDIM: 2}
CHANNELS: Params = {P.NUM_INPUTS: 2, P.AXIS: 1, P.NUMDIM: 4}
HALVES: Params = {P.NUM_OUTPUTS: 2, P.AXIS: 1}
PLAIN: Params = {P.ACTI: Activation.NONE}

X, Y, Z, W = (-1, 0), (-2, 0), (-3, 0), (-4, 0)


def statement(*sides: Any, groups: Groups = Groups.FREE, **more: Any) -> str:
    [read] = translate(decode_substitutions(encoded(*sides, **more)), groups)
    assert isinstance(read, Translated), read
    assert read_rules(rule_text(read.rule)) == (read.rule,)
    return statement_text(read.rule)


def refusal(*sides: Any) -> str:
    [read] = translate(decode_substitutions(encoded(*sides)))
    assert isinstance(read, Unsupported), read
    assert read.name == "taso-000"
    return read.reason


# The file that TASO ships


@pytest.mark.slow
def test_every_shipped_substitution_is_a_rule_with_instances() -> None:
    for groups in Groups:
        read = load_taso_rules(taso_file(), groups)
        assert [rule.index for rule in read] == list(range(133))
        rules = [entry.rule for entry in read if isinstance(entry, Translated)]
        assert [rule.name for rule in rules] == [f"taso-{n:03}" for n in range(133)]
        # Reading asks for an instance of each.
        assert read_rules("\n".join(map(rule_text, rules))) == tuple(rules)


@pytest.mark.slow
def test_shipped_substitutions_of_several_results() -> None:
    rules = [entry.rule for entry in load_taso_rules(taso_file()) if isinstance(entry, Translated)]
    assert sum(len(rule.source.terms) == 2 for rule in rules) == 13


# Single operators


def test_matrix_products_have_two_axes() -> None:
    text = statement(
        [op(OpType.MATMUL, [X, Y], PLAIN), op(OpType.MATMUL, [(0, 0), Z], PLAIN)],
        [op(OpType.MATMUL, [Y, Z], PLAIN), op(OpType.MATMUL, [X, (0, 0)], PLAIN)],
    )
    assert text == "matmul(matmul(x, y), z) => matmul(x, matmul(y, z)) where rank(2, x, y, z)"


def test_elementwise_operands_have_one_shape() -> None:
    text = statement(
        [op(OpType.EW_ADD, [X, Y]), op(OpType.EW_MUL, [(0, 0), Z])],
        [op(OpType.EW_MUL, [X, Z]), op(OpType.EW_MUL, [Y, Z]), op(OpType.EW_ADD, [(0, 0), (1, 0)])],
    )
    assert text == "mul(add(x, y), z) => add(mul(x, z), mul(y, z)) where same_shape(x, y, z)"


def test_inner_results_are_named_where_conditions_speak_of_them() -> None:
    text = statement(
        [
            op(OpType.MATMUL, [X, Y], PLAIN),
            op(OpType.MATMUL, [Z, W], PLAIN),
            op(OpType.EW_ADD, [(0, 0), (1, 0)]),
        ],
        [
            op(OpType.CONCAT, [X, Z], COLUMNS),
            op(OpType.CONCAT, [Y, W], ROWS),
            op(OpType.MATMUL, [(0, 0), (1, 0)], PLAIN),
        ],
    )
    assert text == (
        "add(t0 := matmul(x, y), t1 := matmul(z, w)) => "
        "matmul(concat(x, z, axis=1), concat(y, w, axis=0)) "
        "where same_shape(t0, t1), rank(2, x, y, z, w)"
    )


MERGED_CONV = (
    [op(OpType.CONV2D, [X, Y], CONV), op(OpType.CONV2D, [X, Z], CONV)],
    [
        op(OpType.CONCAT, [Y, Z], {**CHANNELS, P.AXIS: 0}),
        op(OpType.CONV2D, [X, (0, 0)], {**CONV, P.ACTI: Activation.RELU}),
        op(OpType.SPLIT, [(1, 0)], HALVES),
    ],
)


def test_convolutions_state_their_padding_and_splits_their_sizes() -> None:
    text = statement(*MERGED_CONV, outputs=[(0, 0, 2, 0), (1, 0, 2, 1)])
    shared = "strides=(1, 1), pads=p0, dilations=(1, 1), groups=g0"
    whole = f"max(0, conv(x, concat(y, z, axis=0), {shared}))"
    steps = "steps=(1, 1, 1, 1)"
    assert text == (
        f"conv(x, y, {shared}), "
        "conv(x, z, strides=(1, 1), pads=p1, dilations=(1, 1), groups=g1) => "
        f"slice({whole}, starts=(0, 0, 0, 0), {steps}, "
        "sizes=sizes(size(x, 0), size(y, 0), size(x, 2), size(x, 3))), "
        f"slice({whole}, starts=sizes(0, size(y, 0), 0, 0), {steps}, "
        "sizes=sizes(size(x, 0), size(z, 0), size(x, 2), size(x, 3))) "
        "where equal(p0, same_pads(size(y, 2), size(y, 3))), "
        "equal(p1, same_pads(size(z, 2), size(z, 3)))"
    )


def test_ordinary_convolutions_have_one_group_in_the_source() -> None:
    text = statement(*MERGED_CONV, outputs=[(0, 0, 2, 0), (1, 0, 2, 1)], groups=Groups.ONE)
    assert text.count("groups=1") == 4
    assert "groups=g" not in text


def test_groups_of_a_target_follow_from_its_operands() -> None:
    text = statement(
        [op(OpType.CONV2D, [X, Y], CONV)],
        [
            op(OpType.CONCAT, [X, X], CHANNELS),
            op(OpType.CONV2D, [(0, 0), Y], {**CONV, P.ACTI: Activation.TANH}),
        ],
        groups=Groups.ONE,
    )
    assert "groups=quotient(total(size(x, 1), size(x, 1)), size(y, 1))" in text
    assert "tanh(conv(" in text


def test_relu_and_fused_relu_are_told_apart() -> None:
    text = statement(
        [op(OpType.CONV2D, [X, Y], CONV), op(OpType.RELU, [(0, 0)])],
        [op(OpType.CONV2D, [X, Y], {**CONV, P.ACTI: Activation.RELU})],
    )
    source, target = text.split(" => ")
    assert source.endswith(", 0)")
    assert target.startswith("max(0, conv(")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({P.PAD: Padding.VALID}, "pads=(0, 0, 0, 0)"),
        ({P.STRIDE_H: 2}, "equal(p0, strided_same_pads(sizes(size(x, 2), size(x, 3)), "
                          "sizes(size(y, 2), size(y, 3)), (2, 1)))"),
    ],
)  # fmt: skip
def test_padding_of_convolutions(parameters: Params, expected: str) -> None:
    conv = {**CONV, **parameters}
    text = statement(
        [op(OpType.CONV2D, [X, Y], conv), op(OpType.RELU, [(0, 0)])],
        [op(OpType.CONV2D, [X, Y], {**conv, P.ACTI: Activation.RELU})],
    )
    assert expected in text


POOL: Params = {
    P.KERNEL_H: 3, P.KERNEL_W: 2, P.STRIDE_H: 1, P.STRIDE_W: 1, P.PAD: Padding.SAME,
    P.ACTI: Activation.NONE,
}  # fmt: skip


def test_pools_have_literal_kernels_and_averages_count_padding() -> None:
    both = [op(OpType.POOL2D_AVG, [X], POOL), op(OpType.POOL2D_AVG, [Y], POOL)]
    text = statement(
        [*both, op(OpType.CONCAT, [(0, 0), (1, 0)], CHANNELS)],
        [op(OpType.CONCAT, [X, Y], CHANNELS), op(OpType.POOL2D_AVG, [(0, 0)], POOL)],
    )
    pooled = (
        "div(sum_pool({}, kernel=(3, 2), strides=(1, 1), pads=(1, 0, 1, 1), dilations=(1, 1)), 6)"
    )
    assert text == (
        f"concat({pooled.format('x')}, {pooled.format('y')}, axis=1) => "
        f"{pooled.format('concat(x, y, axis=1)')}"
    )
    [rule] = read_rules(f"rule: {text}")
    outcome = judge(rule, 10)
    assert isinstance(outcome, Agreed), outcome
    assert outcome.instances == 10


def test_maximum_pools_transposes_and_scalars() -> None:
    swap = {P.NUMDIM: 2, P.PERM: 2, P.OUTSHUFFLE: 0}
    text = statement(
        [op(OpType.TRANSPOSE, [X], swap), op(OpType.MUL, [(0, 0), Y])],
        [op(OpType.MUL, [X, Y]), op(OpType.TRANSPOSE, [(0, 0)], swap)],
    )
    assert text == (
        "mul(transpose(x, perm=(1, 0)), y) => transpose(mul(x, y), perm=(1, 0)) "
        "where rank(0, y), rank(2, x)"
    )
    text = statement(
        [op(OpType.POOL2D_MAX, [X], POOL), op(OpType.RELU, [(0, 0)])],
        [op(OpType.RELU, [X]), op(OpType.POOL2D_MAX, [(0, 0)], POOL)],
    )
    assert text.startswith("max(max_pool(x, kernel=(3, 2)")


def test_enlarging_centres_a_kernel() -> None:
    larger = {P.KERNEL_H: 3, P.KERNEL_W: 3}
    text = statement(
        [op(OpType.CONV2D, [X, Y], CONV)],
        [op(OpType.ENLARGE, [Y], larger), op(OpType.CONV2D, [X, (0, 0)], CONV)],
    )
    assert "before=centring_before(sizes(size(y, 0), size(y, 1), size(y, 2), size(y, 3)), " in text


def test_a_kernel_can_be_enlarged_to_the_size_of_another() -> None:
    text = statement(
        [op(OpType.CONV2D, [X, Y], CONV), op(OpType.CONV2D, [X, Z], CONV)],
        [
            op(OpType.ENLARGE, [Y, Z]),
            op(OpType.CONV2D, [X, (0, 0)], CONV),
            op(OpType.CONV2D, [X, Z], {**CONV, P.ACTI: Activation.NONE}),
        ],
        outputs=[(0, 0, 1, 0), (1, 0, 2, 0)],
    )
    assert "sizes(size(y, 0), size(y, 1), size(z, 2), size(z, 3)))" in text
    assert "pads=p1, dilations=(1, 1), groups=g0" in text  # the padding of the larger kernel


def test_splits_of_sources_state_their_cuts() -> None:
    text = statement(
        [
            op(OpType.CONCAT, [X, Y], COLUMNS),
            op(OpType.SPLIT, [(0, 0)], HALVES),
            op(OpType.RELU, [(1, 1)]),
        ],
        [op(OpType.RELU, [Y])],
    )
    assert text == (
        "max(slice(concat(x, y, axis=1), starts=s0, steps=(1, 1), sizes=n1), 0) => max(y, 0) "
        "where rank(2, x, y), equal(s0, sizes(0, size(x, 1))), "
        "equal(n1, sizes(size(x, 0), size(y, 1)))"
    )


def test_the_last_concatenation_is_cut_first() -> None:
    joined = [op(OpType.CONCAT, [X, Y], COLUMNS), op(OpType.CONCAT, [(0, 0), Z], COLUMNS)]
    text = statement(
        [op(OpType.CONCAT, [X, Y], COLUMNS), op(OpType.RELU, [(0, 0)]), op(OpType.RELU, [Z])],
        [*joined, op(OpType.RELU, [(1, 0)]), op(OpType.SPLIT, [(2, 0)], HALVES)],
        outputs=[(1, 0, 3, 0), (2, 0, 3, 1)],
    )
    assert "starts=sizes(0, total(size(x, 1), size(y, 1)))" in text


def test_an_axis_is_cut_into_as_many_parts_as_stated() -> None:
    joined = [op(OpType.CONCAT, [X, Y], COLUMNS), op(OpType.CONCAT, [(0, 0), Z], COLUMNS)]
    thirds = {P.NUM_OUTPUTS: 3, P.AXIS: 1}
    text = statement(
        [op(OpType.RELU, [X]), op(OpType.RELU, [Y]), op(OpType.RELU, [Z])],
        [*joined, op(OpType.RELU, [(1, 0)]), op(OpType.SPLIT, [(2, 0)], thirds)],
        outputs=[(0, 0, 3, 0), (1, 0, 3, 1), (2, 0, 3, 2)],
    )
    assert "starts=(0, 0)" in text
    assert "starts=sizes(0, size(x, 1))" in text
    assert "starts=sizes(0, total(size(x, 1), size(y, 1)))" in text


# What the rule language does not say


RELU = [op(OpType.RELU, [X])]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (RELU, [op(OpType.CONSTANT_IMM, [])], "operator CONSTANT_IMM"),
        ([op(4711, [X])], RELU, "operator type 4711"),
        ([op(-1, [X])], RELU, "operator type -1"),
        (RELU, RELU, "both sides are the same"),
        (RELU, [op(OpType.RELU, [X, X])], "RELU of 2 operands"),
        (RELU, [op(OpType.MATMUL, [X], PLAIN)], "MATMUL of 1 operands"),
        (RELU, [op(OpType.CONCAT, [X, X], {P.NUMDIM: 2})], "CONCAT without parameter AXIS"),
        (RELU, [op(OpType.CONCAT, [X, X])], "CONCAT without parameter NUMDIM"),
        (RELU, [op(OpType.CONCAT, [X], COLUMNS)], "another number of operands"),
        (RELU, [op(OpType.CONCAT, [X, X], {P.AXIS: 2, P.NUMDIM: 2})], "CONCAT with AXIS 2"),
        (RELU, [op(OpType.CONCAT, [X, X], {P.AXIS: -1, P.NUMDIM: 2})], "CONCAT with AXIS -1"),
        (RELU, [op(OpType.CONCAT, [X, X], {P.AXIS: 0, P.NUMDIM: 9})], "CONCAT with NUMDIM 9"),
        (RELU, [op(OpType.TRANSPOSE, [X], {P.NUMDIM: 2, P.PERM: 3})], "no permutation"),
        (RELU, [op(OpType.TRANSPOSE, [X], {P.NUMDIM: 2, P.PERM: 4})], "TRANSPOSE with PERM 4"),
        (RELU, [op(OpType.SPLIT, [X], HALVES)], "whose axes are not known"),
        (
            [op(OpType.MATMUL, [X, X], PLAIN)],
            [op(OpType.SPLIT, [X], HALVES)],
            "SPLIT of an axis that was not concatenated",
        ),
        (
            [op(OpType.MATMUL, [X, X], PLAIN)],
            [op(OpType.CONCAT, [X, X], CHANNELS)],
            "a tensor of 2 and of 4 axes",
        ),
        (RELU, [op(OpType.CONV2D, [X, X], {**CONV, P.ACTI: 7})], "CONV2D with activation 7"),
        (RELU, [op(OpType.CONV2D, [X, X], {**CONV, P.PAD: 2})], "CONV2D with PAD 2"),
        (RELU, [op(OpType.CONV2D, [X, X], {**CONV, P.STRIDE_W: 0})], "CONV2D with STRIDE_W 0"),
        (RELU, [op(OpType.POOL2D_MAX, [X], {**POOL, P.KERNEL_H: -3})], "with KERNEL_H -3"),
        (
            [op(OpType.RELU, [X]), op(OpType.TANH, [Y])],
            [op(OpType.EW_ADD, [X, Y])],
            "a variable that no result of the source needs",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(source: Any, target: Any, reason: str) -> None:
    if reason.startswith("a variable"):
        data = encoded(source, target, outputs=[(0, 0, 0, 0)])
        [read] = translate(decode_substitutions(data))
        assert isinstance(read, Unsupported)
        assert read.reason == reason
    else:
        assert reason in refusal(source, target)


def test_a_graph_that_is_too_large_as_a_term_is_refused() -> None:
    doubling = [op(OpType.EW_ADD, [X, X])]
    doubling += [op(OpType.EW_ADD, [(n, 0), (n, 0)]) for n in range(MAX_OPERATORS - 1)]
    assert refusal(doubling, RELU) == "a result too large to write out as a term"
    assert refusal(RELU, doubling) == "a result too large to write out as a term"


def test_one_refusal_does_not_stop_the_others() -> None:
    good = encoded([op(OpType.EW_ADD, [X, Y])], [op(OpType.EW_ADD, [Y, X])])
    bad = encoded([op(99, [X])], RELU)
    read = translate(decode_substitutions(good + bad + good))
    assert [type(entry) for entry in read] == [Translated, Unsupported, Translated]
    assert [entry.index for entry in read] == [0, 1, 2]


# Functions and conditions that these rules use


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sizes", (3, 4), (3, 4)),
        ("total", (3, 4, 5), 12),
        ("quotient", (6, 2), 3),
        ("same_pads", (3, 4, 1), (1, 1, 0, 1, 2, 0)),
        ("strided_same_pads", ((5, 4), (3, 3), (2, 2)), (1, 0, 1, 1)),
        ("strided_same_pads", ((1, 7), (1, 2), (3, 1)), (0, 0, 0, 1)),
        ("centring_before", ((2, 1, 2), (2, 3, 5)), (0, 1, 1)),
        ("centring_after", ((2, 1, 2), (2, 3, 5)), (0, 1, 2)),
    ],
)
def test_functions_of_sizes(name: str, arguments: tuple[Any, ...], expected: Any) -> None:
    assert FUNCTIONS[name].value(*arguments) == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("quotient", (7, 2)),
        ("quotient", (7, 0)),
        ("strided_same_pads", ((5,), (3, 3), (2, 2))),
        ("strided_same_pads", ((5,), (3,), (0,))),
        ("centring_before", ((3,), (2,))),
        ("centring_after", ((3,), (4, 4))),
    ],
)
def test_functions_of_sizes_without_a_value(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(Undefined):
        FUNCTIONS[name].value(*arguments)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_same_padding_keeps_sizes_up_to_the_stride(size: int, kernel: int, stride: int) -> None:
    pads = FUNCTIONS["strided_same_pads"].value((size,), (kernel,), (stride,))
    if stride == 1:
        assert pads == FUNCTIONS["same_pads"].value(kernel)
    x = Constant(np.ones((1, 1, size)))
    w = Constant(np.ones((1, 1, kernel)))
    node = OP["conv"](x, w, strides=(stride,), pads=pads, dilations=(1,), groups=1)
    assert isinstance(node, Node)
    assert node.type.shape == (1, 1, -(-size // stride))
    assert pads[0] <= pads[1] <= pads[0] + 1


def test_sizes_and_ranks_of_tensors() -> None:
    x = Constant(np.ones((2, 3)))
    assert FUNCTIONS["size"].value(x, 1) == 3
    assert FUNCTIONS["size"].value(x, -2) == 2
    with pytest.raises(Undefined):
        FUNCTIONS["size"].value(x, 2)


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("add(x, y) => add(y, x) where same_shape(x, y)", lambda x, y: x.shape == y.shape),
        ("add(x, y) => add(y, x) where rank(3, x, y)", lambda x, y: x.ndim == y.ndim == 3),
    ],
)
def test_conditions_guide_the_draw_of_instances(text: str, met: Any) -> None:
    [rule] = read_rules(f"rule: {text}")
    for seed in range(20):
        instance = find_instance(rule, seed)
        assert instance is not None
        tensors = instance.bindings.tensors
        x, y = tensors["x"], tensors["y"]
        assert isinstance(x, Constant)
        assert isinstance(y, Constant)
        assert met(x.array, y.array)
