"""Matching patterns against values, and building values from patterns."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.graph import Constant, Input, Value
from graphopt.matching import Bindings, build, equals_literal, literal_array, match
from graphopt.ops import OP
from graphopt.pattern import Literal, Pattern
from graphopt.pattern_reader import Scope, read_pattern
from graphopt.rule_functions import CONDITIONS, FUNCTIONS, Undefined, is_constant
from tensorgen.types import (
    DType,
    ShapeError,
    TensorType,
    bfloat16,
    boolean,
    float16,
    float32,
    float64,
    int8,
    int64,
    uint8,
)

X, Y, Z = (Input(n, TensorType(float32, (2, 3))) for n in range(3))


def constant(values: object, dtype: DType = float32) -> Constant:
    return Constant(np.asarray(values).astype(dtype.numpy))


def found(text: str, *values: Value) -> list[Bindings]:
    return list(match(read_pattern(text), values))


def target(text: str, source: str) -> Pattern:
    scope = Scope()
    read_pattern(source, scope)
    scope.closed = True
    return read_pattern(text, scope)


def test_variables_bind_what_stands_there() -> None:
    [bindings] = found("sub(x, y)", OP["sub"](X, Y))
    assert dict(bindings.tensors) == {"x": X, "y": Y}


def test_the_same_variable_is_the_same_value() -> None:
    assert found("sub(x, x)", OP["sub"](OP["neg"](X), OP["neg"](X)))
    assert not found("sub(x, x)", OP["sub"](X, Y))


def test_commutative_operators_match_in_both_orders() -> None:
    product = OP["add"](X, OP["neg"](Y))
    [bindings] = found("add(neg(a), b)", product)
    assert bindings.tensors["a"] == Y
    assert len(found("add(a, b)", product)) == 2
    assert not found("sub(neg(a), b)", OP["sub"](X, OP["neg"](Y)))


def test_nested_commutative_orders_are_all_tried() -> None:
    value = OP["mul"](OP["add"](X, Y), OP["add"](Y, Z))
    [bindings, *_] = found("mul(add(a, b), add(c, a))", value)
    assert bindings.tensors == {"a": Y, "b": X, "c": Z}


def test_parameters_bind_and_must_agree() -> None:
    value = OP["transpose"](OP["transpose"](X, perm=(1, 0)), perm=(1, 0))
    assert found("transpose(transpose(x, perm=p), perm=p)", value)[0].params == {"p": (1, 0)}
    assert found("transpose(transpose(x, perm=(1, 0)), perm=q)", value)
    assert not found("transpose(transpose(x, perm=(0, 1)), perm=q)", value)


def test_captured_parameters_stand_for_the_rest() -> None:
    value = OP["reduce_sum"](X, axes=(1,), keepdims=True)
    [bindings] = found("reduce_sum(x, axes=a, **p)", value)
    assert bindings.captured == {"p": (("keepdims", True),)}
    [again] = build(target("reduce_max(x, axes=a, **p)", "reduce_sum(x, axes=a, **p)"), bindings)
    assert again == OP["reduce_max"](X, axes=(1,), keepdims=True)


def test_captured_parameters_must_agree() -> None:
    same = OP["add"](OP["reduce_sum"](X, axes=(1,), keepdims=True),
                     OP["reduce_sum"](Y, axes=(1,), keepdims=True))  # fmt: skip
    other = OP["add"](OP["reduce_sum"](X, axes=(1,), keepdims=True),
                      OP["reduce_sum"](Y, axes=(0,), keepdims=True))  # fmt: skip
    pattern = "add(reduce_sum(x, **p), reduce_sum(y, **p))"
    assert found(pattern, same)
    assert not found(pattern, other)


def test_sequences_take_every_split() -> None:
    value = OP["concat"](X, Y, Z, axis=0)
    splits = [
        tuple(len(bindings.sequences[name]) for name in "st")
        for bindings in found("concat(*s, x, *t, axis=0)", value)
    ]
    assert splits == [(0, 2), (1, 1), (2, 0)]
    assert not found("concat(*s, x, y, z, w, axis=0)", value)


def test_a_label_names_the_node() -> None:
    inner = OP["neg"](X)
    [bindings] = found("exp(y := neg(x))", OP["exp"](inner))
    assert bindings.tensors == {"x": X, "y": inner}


def test_several_results_share_names() -> None:
    first, second = OP["sub"](X, Y), OP["sub"](X, Z)
    assert found("sub(x, y), sub(x, z)", first, second)
    assert not found("sub(x, y), sub(z, y)", first, second)


@pytest.mark.parametrize(
    ("literal", "value", "equal"),
    [
        (1, constant([[1.0, 1.0]]), True),
        (1, constant([[1.0, 2.0]]), False),
        (1, constant(1, int64), True),
        (0, constant([0.0, -0.0]), True),
        (True, constant(True, boolean), True),
        (1, constant(True, boolean), False),
        (True, constant(1), False),
        (0.5, constant(0.5), True),
        (0.1, constant(np.float32(0.1)), True),
        (0.5, constant(0, int64), False),
        (-1, constant(255, uint8), False),
        (float("inf"), constant(np.inf), True),
        (1, constant(np.ones((0, 2))), False),
        (1, X, False),
    ],
)
def test_literals(literal: int | float | bool, value: Value, equal: bool) -> None:
    assert equals_literal(value, Literal(literal)) is equal


def test_a_literal_is_no_constant_that_makes_the_others_larger() -> None:
    """Of x + 0 under a sum, where 0 had three elements and x one, the proof would not speak."""
    x, y = Input(0, TensorType(float32, (1,))), Input(1, TensorType(float32, (3,)))
    zeros = constant(np.zeros(3))
    assert not found("add(x, 0)", OP["add"](x, zeros))
    assert not found("add(x, 0)", OP["add"](zeros, x))
    assert found("add(x, 0)", OP["add"](y, zeros))


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64])
def test_a_literal_integer_is_held_exactly_or_not_at_all(dtype: DType) -> None:
    assert literal_array(Literal(256), dtype) is not None
    assert literal_array(Literal(2**60 + 1), dtype) is None


def test_literals_take_the_type_beside_them() -> None:
    wide = Input(0, TensorType(int8, (2,)))
    [value] = build(target("mul(x, 3)", "neg(x)"), Bindings({"x": wide}))
    assert value == OP["mul"](wide, constant(3, int8))
    with pytest.raises(Undefined):
        build(target("mul(x, 300)", "neg(x)"), Bindings({"x": wide}))


def test_ill_typed_targets_are_refused_by_the_operator() -> None:
    with pytest.raises(ShapeError):
        build(target("matmul(x, x)", "neg(x)"), Bindings({"x": X}))


def test_bindings_are_values() -> None:
    first = Bindings().with_tensor("x", X)
    second = first.with_tensor("y", Y)
    assert set(first.tensors) == {"x"}
    assert set(second.tensors) == {"x", "y"}


# Functions and conditions


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("reordered", ((2, 0, 1), (1, 2, 0)), (0, 1, 2)),
        ("inverse", ((2, 0, 1),), (1, 2, 0)),
        ("shape_of", (X,), (2, 3)),
        ("image", (0, (2, 0, 1)), 2),
        ("images", ((0, 1), (2, 0, 1)), (0, 2)),
        ("without", ((2, 0, 1), (1,)), (1, 0)),
        ("aligned_shape", (constant([1, 2, 3]), X), (1, 3)),
        ("on_axis", (constant([1, 2, 3]), -1, X), (1, 3)),
        ("on_axis", (constant([1, 2, 3]), 0, X), (3, 1)),
        ("reduced_shape", (X, (0,), True), (1, 3)),
        ("reduced_shape", (X, (0,), False), (3,)),
        ("union", ((0, 2), (1, 2)), (0, 1, 2)),
        ("shifted", ((5, 1), 0, (X, Y)), (1, 1)),
        ("plus", ((1, 2), (3, 4)), (4, 6)),
        ("times", ((1, 2), (3, 4)), (3, 8)),
        ("zeros_like", ((1, 2),), (0, 0)),
        ("pads_before", ((1, 2, 3, 4),), (0, 0, 1, 2)),
        ("pads_after", ((1, 2, 3, 4),), (0, 0, 3, 4)),
        ("joined_pads", ((0, 0, 1, 1), (0, 0, 2, 2), (1, 2, 3, 4)), (2, 3, 5, 6)),
        ("kernel_sizes", (constant(np.ones((2, 1, 3, 5))),), (3, 5)),
    ],
)
def test_functions(name: str, arguments: tuple[object, ...], result: object) -> None:
    assert FUNCTIONS[name].value(*arguments) == result


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("reordered", ((1, 0), (0, 1, 2))),
        ("reordered", ((1, 0), (5, 6))),
        ("image", (7, (0, 1))),
        ("on_axis", (X, 2, X)),
        ("aligned_shape", (X, constant(1))),
        ("kernel_sizes", (X,)),
        ("plus", ((1,), (1, 2))),
        ("inverse", (3,)),
    ],
)
def test_functions_without_a_value(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(Undefined):
        FUNCTIONS[name].value(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("identity", ((0, 1, 2),), True),
        ("identity", ((0, 2, 1),), False),
        ("along", (constant([1, 2, 3]), -1, X), True),
        ("along", (constant([1, 2, 3]), 0, X), False),
        ("along", (constant(np.ones((2, 1))), 0, X), True),
        ("along", (constant(np.ones((2, 3))), 0, X), False),
        ("along", (constant(1), 0, X), True),
        ("along", (constant(np.ones((1, 1, 3))), 1, X), False),
        ("exact_reciprocal", (constant([0.5, -4.0]),), True),
        ("exact_reciprocal", (constant([0.5, 3.0]),), False),
        ("exact_reciprocal", (constant([0.0]),), False),
        ("exact_reciprocal", (constant([np.inf]),), False),
        ("exact_reciprocal", (constant([np.nan]),), False),
        ("exact_reciprocal", (constant([1e-40]),), False),
        ("exact_reciprocal", (constant([2], int64),), False),
        ("exact_reciprocal", (X,), False),
        ("moves_only_units", (Input(0, TensorType(float32, (1, 2, 1, 3))), (1, 0, 3, 2)), True),
        ("moves_only_units", (X, (1, 0)), False),
        ("lossless", (X, "float64"), True),
        ("lossless", (X, "float16"), False),
        ("lossless", (Input(0, TensorType(int64, ())), "float64"), False),
        ("lossless", (Input(0, TensorType(uint8, ())), "bfloat16"), True),
        ("lossless", (Input(0, TensorType(uint8, ())), "int8"), False),
        ("lossless", (Input(0, TensorType(bfloat16, ())), "float16"), False),
        ("lossless", (Input(0, TensorType(boolean, ())), "int8"), True),
        ("lossless", (X, "text"), False),
        # int8 -1: as a float it saturates to 0, as an integer it wraps to 255.
        ("converts_alike", (Input(0, TensorType(int8, ())), "float32", "uint8"), False),
        ("converts_alike", (Input(0, TensorType(int8, ())), "float32", "int16"), True),
        ("converts_alike", (Input(0, TensorType(int8, ())), "int32", "uint8"), True),
        ("converts_alike", (X, "float64", "uint8"), True),
        ("converts_alike", (X, "text", "uint8"), False),
        ("nested", (constant([1, 2, 3]), X), True),
        ("nested", (constant(np.ones((2, 1))), constant([1, 2, 3])), False),
        ("nested", (constant([1, 2]), X), False),
        ("ones", ((1, 1),), True),
        ("nonzero", ((0, 1),), True),
        ("odd", (3, (1, 5)), True),
        ("odd", ((3, 2),), False),
        ("has", ((("groups", 2), ("pads", (0, 0))), "groups", 2), True),
        ("has", ((("groups", 2), ("pads", (0, 0))), "pads", (0, 1)), False),
        ("has", ((("groups", 2),), "strides", (1,)), False),
        ("alike", ((("groups", 2),), (("groups", 2),)), True),
        ("alike", ((("groups", 2),), (("groups", 1),)), False),
        ("floating", (X,), True),
        ("signed", (Input(0, TensorType(uint8, ())),), False),
    ],
)
def test_conditions(name: str, arguments: tuple[object, ...], result: bool) -> None:
    assert CONDITIONS[name].value(*arguments) is result


def test_constants_are_what_needs_no_input() -> None:
    weight = OP["neg"](constant([1, 2]))
    assert is_constant(weight)
    assert not is_constant(OP["add"](weight, OP["neg"](Input(0, TensorType(float32, (2,))))))


def test_a_large_constant_graph_is_not_searched_to_its_end() -> None:
    value: Value = constant([1, 2])
    for n in range(200):
        value = OP["add"](value, constant([n, n]))
    assert not is_constant(value)
