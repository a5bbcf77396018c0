"""Each operator's meaning against its independent numpy oracle, and what its type rule refuses."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt.graph import Input, Param
from graphopt.ops import OP, OPS, OpSpec, Sample, expression_of, sample
from graphopt.reference import APPROXIMATED, JUMPING, SUMMING_FAMILIES
from tensorgen.evaluate import evaluate
from tensorgen.simplify import simplify_tensor
from tensorgen.types import (
    Array,
    DType,
    Shape,
    ShapeError,
    TensorType,
    bfloat16,
    boolean,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    type_of,
)

CASES = [(op, number) for op in OPS for number in range(len(op.samples))]
IDS = [f"{op.name}-{number}" for op, number in CASES]

INDEXED_FAMILIES = ("indexing", "scatter")


def index_operand(op: OpSpec) -> int:
    """Which operand of an indexed operator holds the indices."""
    return 0 if op.name == "one_hot" else 1


def whole_numbers(type: TensorType, rng: np.random.Generator, low: int = -3) -> Array:
    """Small whole numbers, of which sums and products are exact in every type."""
    if type.dtype == boolean:
        return rng.integers(0, 2, type.shape).astype(np.bool_)
    start = low if type.dtype.kind.value in ("float", "signed") else 0
    return rng.integers(start, 4, type.shape).astype(type.dtype.numpy)


def indices_for(op: OpSpec, case: Sample, rng: np.random.Generator) -> Array:
    """Indices that are in bounds of every axis that the operator could mean."""
    type = case.types[index_operand(op)]
    if op.name == "one_hot":
        bound = int(str(case.keywords["depth"])) + 2
    else:
        bound = min(case.types[0].shape)
    return rng.integers(-bound, max(bound, 1), type.shape).astype(type.dtype.numpy)


def operands_for(op: OpSpec, case: Sample) -> list[Array]:
    rng = np.random.default_rng(zlib.crc32(f"{op.name}{case}".encode()))
    arrays = [whole_numbers(type, rng) for type in case.types]
    if op.family in INDEXED_FAMILIES:
        arrays[index_operand(op)] = indices_for(op, case, rng)
    return arrays


def check(op: OpSpec, arrays: Sequence[Array], params: dict[str, Param], exact: bool) -> None:
    """infer, compute and reference agree on these operands."""
    expected = op.reference(*arrays, **params)
    types = tuple(type_of(array) for array in arrays)
    node = op(*(Input(n, type) for n, type in enumerate(types)), **params)
    assert node.type == type_of(np.asarray(expected))
    expression = expression_of(node)
    assert expression.type == node.type
    result = evaluate(expression, arrays)
    assert type_of(result) == node.type
    if not node.type.dtype.is_float:
        np.testing.assert_array_equal(result, expected)
        return
    # 16-bit floats compare as float64, in which NaN equals NaN.
    found, wanted = result.astype(np.float64), np.asarray(expected).astype(np.float64)
    bits = {64: 52, 32: 23, 16: 7}
    tolerance = 0.0 if exact else 32 * 2.0 ** -bits[node.type.dtype.bits]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("op", "number"), CASES, ids=IDS)
def test_meaning_equals_reference_on_whole_numbers(op: OpSpec, number: int) -> None:
    case = op.samples[number]
    check(op, operands_for(op, case), case.keywords, exact=op.family != "elementwise")


@pytest.mark.parametrize(("op", "number"), CASES, ids=IDS)
def test_meaning_equals_reference_on_reals(op: OpSpec, number: int) -> None:
    case = op.samples[number]
    arrays = operands_for(op, case)
    rng = np.random.default_rng(number)
    for position, array in enumerate(arrays):
        if type_of(array).dtype.is_float:
            arrays[position] = rng.standard_normal(array.shape).astype(array.dtype)
    check(op, arrays, case.keywords, exact=False)


@pytest.mark.parametrize(("op", "number"), CASES, ids=IDS)
def test_what_is_folded_in_float32_rounds_once(op: OpSpec, number: int) -> None:
    """So that its result is the same on every machine. Scattered sums round in a fixed order."""
    if op.family in (*SUMMING_FAMILIES, "scatter") or op.name in APPROXIMATED | JUMPING:
        return
    case = op.samples[number]
    arrays = operands_for(op, case)
    rng = np.random.default_rng(number)
    for position, array in enumerate(arrays):
        if array.dtype == np.float32:
            arrays[position] = rng.standard_normal(array.shape).astype(np.float32)
    wide = [array.astype(np.float64) if array.dtype == np.float32 else array for array in arrays]
    narrow = op.reference(*arrays, **case.keywords)
    rounded = op.reference(*wide, **case.keywords).astype(narrow.dtype)
    np.testing.assert_array_equal(narrow, rounded)


@pytest.mark.parametrize("dtype", [float16, bfloat16, int8, float64], ids=str)
@pytest.mark.parametrize("name", ["matmul", "conv", "sum_pool", "max_pool", "reduce_sum", "argmax"])
def test_other_element_types(name: str, dtype: DType) -> None:
    op = OP[name]
    case = op.samples[1]
    rng = np.random.default_rng(5)
    types = (TensorType(dtype, type.shape) for type in case.types)
    check(op, [whole_numbers(type, rng) for type in types], case.keywords, exact=True)


def test_operator_names_are_unique_and_documented() -> None:
    assert sorted(OP) == sorted({op.name for op in OPS})
    assert all(op.doc and op.family for op in OPS)


# NaN and extremes


NAN = float("nan")


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_extremes_propagate_nan(name: str) -> None:
    x = np.array([[1, NAN, 2], [3, -1, 0]], np.float32)
    check(OP[name], [x], {"axes": (1,), "keepdims": False}, exact=True)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_position_of_extreme_is_that_of_nan(name: str, last: bool) -> None:
    x = np.array([[1, NAN, 2, NAN], [np.inf, -1, np.inf, -1]], np.float32)
    check(OP[name], [x], {"axis": 1, "last": last}, exact=True)


def test_max_pool_index_of_nan_and_infinity() -> None:
    x = np.array([[[1, NAN, 2, NAN, -np.inf, -np.inf, -np.inf]]], np.float32)
    params: dict[str, Param] = {
        "kernel": (3,), "strides": (1,), "pads": (1, 1), "dilations": (1,)
    }  # fmt: skip
    check(OP["max_pool_index"], [x], params, exact=True)
    check(OP["max_pool"], [x], params, exact=True)


def test_cast_saturates_and_truncates() -> None:
    x = np.array([NAN, np.inf, -np.inf, 2.9, -2.9, 3e9, -3e9, 1e20, 0.0], np.float32)
    for to in ("int8", "int32", "int64", "uint8", "uint64", "bool", "float16", "bfloat16"):
        check(OP["cast"], [x], {"to": to}, exact=True)
    result = evaluate(OP["cast"].expression(type_of(x), to="int8"), [x])
    assert result.tolist() == [0, 127, -128, 2, -2, 127, -128, 127, 0]


def test_integer_cast_wraps() -> None:
    x = np.array([300, -1, 128], np.int32)
    check(OP["cast"], [x], {"to": "uint8"}, exact=True)
    check(OP["cast"], [x], {"to": "int8"}, exact=True)


@pytest.mark.parametrize(
    ("dtype", "to"), [(float16, "int16"), (bfloat16, "uint16"), (float64, "int64"), (int8, "bool")]
)
def test_bitcast(dtype: DType, to: str) -> None:
    x = whole_numbers(TensorType(dtype, (9,)), np.random.default_rng(2), low=0)
    if to == "bool":
        x = (x % 2).astype(x.dtype)
    check(OP["bitcast"], [x], {"to": to}, exact=True)


def test_scatter_drops_updates_out_of_bounds() -> None:
    types = [TensorType(float32, (2,)), TensorType(int64, (2,)), TensorType(float32, (2,))]
    expression = OP["scatter_elements"].expression(*types, axis=0, reduction="add")
    x, updates = np.zeros(2, np.float32), np.ones(2, np.float32)
    assert evaluate(expression, [x, np.array([5, 1]), updates]).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["gather", "gather_elements"])
def test_gather_out_of_bounds_reads_the_nearest_element(name: str) -> None:
    types = (TensorType(float32, (3,)), TensorType(int64, (4,)))
    x = np.array([1, 2, 3], np.float32)
    indices = np.array([3, -4, 2**62, -(2**62)])
    expected = np.array([3, 1, 3, 1], np.float32)
    meaning = OP[name].expression(*types, axis=0)
    np.testing.assert_array_equal(evaluate(meaning, [x, indices]), expected)
    np.testing.assert_array_equal(OP[name].reference(x, indices, axis=0), expected)


def test_concat_of_many_operands_is_not_deep() -> None:
    arrays = [np.full((1,), n, np.int64) for n in range(600)]
    check(OP["concat"], arrays, {"axis": 0}, exact=True)


# Shapes at random


small = st.integers(1, 4)


@given(st.lists(small, max_size=4), st.data())
@settings(deadline=None, max_examples=60)
def test_broadcasting(shape: list[int], data: st.DataObject) -> None:
    operands = []
    for _ in range(2):
        kept = [data.draw(st.sampled_from([1, size])) for size in shape]
        dropped = data.draw(st.integers(0, len(shape)))
        operands.append(tuple(kept[dropped:]))
    rng = np.random.default_rng(0)
    arrays = [whole_numbers(TensorType(int32, operand), rng) for operand in operands]
    check(OP["sub"], arrays, {}, exact=True)
    check(OP["broadcast_to"], arrays[:1], {"shape": tuple(np.broadcast(*arrays).shape)}, True)


FACTORS = st.lists(st.sampled_from([1, 2, 2, 3, 5]), max_size=5)


@given(FACTORS, st.data())
@settings(deadline=None, max_examples=150)
def test_reshape(factors: list[int], data: st.DataObject) -> None:
    def regrouped() -> Shape:
        order: list[int] = data.draw(st.permutations(factors))
        shape: list[int] = []
        for factor in order:
            if shape and bool(data.draw(st.integers(0, 1))):
                shape[-1] *= factor
            else:
                shape.append(factor)
        return tuple(shape)

    source, target = regrouped(), regrouped()
    x = np.arange(np.prod(source, dtype=int)).reshape(source)
    check(OP["reshape"], [x], {"shape": target}, exact=True)


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ((2, 12), (2, 3, 4), "x[i,j * 4 + l]"),
        ((2, 3, 4), (2, 12), "x[i,floordiv(j, 4),mod(j, 4)]"),
        ((4, 6), (8, 3), "x[floordiv(i, 2),mod(i, 2) * 3 + j]"),
        ((1, 6, 1), (6,), "x[0,i,0]"),
        ((4, 9), (6, 6), "x[floordiv(i * 6 + j, 9),mod(i * 6 + j, 9)]"),
    ],
)
def test_reshape_splits_and_merges_single_axes(source: Shape, target: Shape, text: str) -> None:
    expression = OP["reshape"].expression(TensorType(float32, source), shape=target)
    assert str(expression.body) == text


@given(st.lists(st.integers(0, 6), min_size=1, max_size=3), st.data())
@settings(deadline=None, max_examples=100)
def test_slice(shape: list[int], data: st.DataObject) -> None:
    starts, steps, sizes = [], [], []
    for extent in shape:
        start = data.draw(st.integers(0, max(extent - 1, 0)))
        step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
        room = (extent - 1 - start if step > 0 else start) // abs(step) + 1 if extent else 0
        starts.append(start)
        steps.append(step)
        sizes.append(data.draw(st.integers(0, room)))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    params: dict[str, Param] = {
        "starts": tuple(starts), "steps": tuple(steps), "sizes": tuple(sizes)
    }  # fmt: skip
    check(OP["slice"], [x], params, exact=True)


@given(st.data())
@settings(deadline=None, max_examples=80)
def test_convolution_and_pooling(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))

    def values(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(count))

    kernel, strides, dilations = values(1, 3), values(1, 3), values(1, 2)
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sizes = tuple(span + extra for span, extra in zip(spans, values(0, 4), strict=True))
    # Less padding than a window spans, so that every window holds an element.
    pads = tuple(data.draw(st.integers(0, min(2, span - 1))) for span in [*spans, *spans])
    groups, inputs, outputs = (data.draw(st.integers(1, 2)) for _ in range(3))
    rng = np.random.default_rng(1)
    dtype = data.draw(st.sampled_from([float32, int32]))
    x = whole_numbers(TensorType(dtype, (2, groups * inputs, *sizes)), rng)
    w = whole_numbers(TensorType(dtype, (groups * outputs, inputs, *kernel)), rng)
    common: dict[str, Param] = {"strides": strides, "pads": pads, "dilations": dilations}
    check(OP["conv"], [x, w], {**common, "groups": groups}, exact=True)
    for name in ("max_pool", "sum_pool", "max_pool_index"):
        check(OP[name], [x], {**common, "kernel": kernel}, exact=True)


@given(
    st.sampled_from(["constant", "reflect", "edge", "wrap"]),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6), st.integers(0, 6)), max_size=2),
)
@settings(deadline=None, max_examples=80)
def test_pad(mode: str, axes: list[tuple[int, int, int]]) -> None:
    x = np.arange(np.prod([size for size, _, _ in axes], dtype=int))
    x = x.reshape([size for size, _, _ in axes])
    before, after = tuple(low for _, low, _ in axes), tuple(high for _, _, high in axes)
    params: dict[str, Param] = {"before": before, "after": after, "mode": mode}
    check(OP["pad"], [x, np.asarray(-7)], params, exact=True)


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=7), st.booleans(), st.data())
@settings(deadline=None, max_examples=60)
def test_ties_of_positions_and_ranks(values: list[int], flag: bool, data: st.DataObject) -> None:
    x = np.array(values, np.float32)
    for name in ("argmax", "argmin"):
        check(OP[name], [x], {"axis": 0, "last": flag}, exact=True)
    k = data.draw(st.integers(0, len(values)))
    for name in ("top_k_values", "top_k_indices"):
        check(OP[name], [x], {"k": k, "axis": 0, "largest": flag}, exact=True)


# The form of the meaning


def conv_text(**changes: Param) -> str:
    params: dict[str, Param] = {
        "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1, **changes
    }  # fmt: skip
    groups = int(str(params["groups"]))
    types = TensorType(float32, (2, 4, 5, 5)), TensorType(float32, (4, 4 // groups, 3, 3))
    return str(simplify_tensor(OP["conv"].expression(*types, **params)))


def test_convolution_reads_as_in_the_field() -> None:
    left = "out[n,oc,oh,ow] = sum(ic,kh,kw) "
    assert conv_text() == left + "x[n,ic,oh + kh,ow + kw] * y[oc,ic,kh,kw]"
    # Dilated, the window fits only once along the last axis.
    assert conv_text(strides=(2, 1), dilations=(1, 2)) == (
        left + "x[n,ic,oh * 2 + kh,kw * 2] * y[oc,ic,kh,kw]"
    )
    assert conv_text(groups=4) == left + "x[n,oc,oh + kh,ow + kw] * y[oc,0,kh,kw]"
    assert conv_text(groups=2) == (
        left + "x[n,ic + floordiv(oc, 2) * 2,oh + kh,ow + kw] * y[oc,ic,kh,kw]"
    )


def test_padding_is_tested_only_where_it_is_read() -> None:
    assert conv_text(pads=(0, 0, 0, 1)) == (
        "out[n,oc,oh,ow] = sum(ic,kh,kw) "
        "select(ow + kw < 5, x[n,ic,oh + kh,ow + kw], 0.0) * y[oc,ic,kh,kw]"
    )
    # A stride of 2 over 5 and one pad: the window that would read the pad does not fit.
    assert "select" not in conv_text(strides=(2, 2), pads=(0, 0, 1, 1))


# Refused inputs


def types_of(*shapes: Shape, dtype: DType = float32) -> tuple[TensorType, ...]:
    return sample(*shapes, dtype=dtype).types


INDEX = TensorType(int64, (2,))
POOL: dict[str, Param] = {"kernel": (2,), "strides": (1,), "pads": (0, 0), "dilations": (1,)}
CONV: dict[str, Param] = {"strides": (1,), "pads": (0, 0), "dilations": (1,), "groups": 1}
REFUSED: list[tuple[str, tuple[TensorType, ...], dict[str, Param], str]] = [
    ("add", types_of((2,), (3,)), {}, "add: expected shapes that broadcast, got [2] and [3]"),
    ("matmul", types_of((2, 3), (4, 2)), {}, "as many columns of x as rows of y, got 3 and 4"),
    ("matmul", types_of((2,), (2, 2)), {}, "matmul: expected operands of rank at least 2"),
    ("matmul", types_of((2, 1, 1), (3, 1, 1)), {}, "matmul batch: expected shapes that broadcast"),
    ("matmul", types_of((2, 2), (2, 2), dtype=boolean), {}, "matmul: expected numbers, got bool"),
    (
        "matmul",
        (TensorType(float32, (2, 2)), TensorType(float64, (2, 2))),
        {},
        "matmul: expected operands of one element type, got float32, float64",
    ),
    ("conv", types_of((1, 3, 5), (4, 2, 3)), CONV, "for 3 channels in 1 groups"),
    ("conv", types_of((1, 4, 5), (3, 2, 3)), {**CONV, "groups": 2}, "divisible by groups"),
    ("conv", types_of((1, 4, 5), (3, 4, 3, 1)), CONV, "conv: expected x (n, c, …)"),
    ("conv", types_of((1, 4, 2), (3, 4, 3)), CONV, "padded size of at least 3 on spatial axis 0"),
    ("conv", types_of((1, 4, 5), (3, 4, 3)), {**CONV, "strides": (0,)}, "strides of at least 1"),
    ("conv", types_of((1, 4, 5), (3, 4, 3)), {**CONV, "pads": (-1, 0)}, "pads of at least 0"),
    ("conv", types_of((1, 4, 5), (3, 4, 3)), {**CONV, "pads": (1,)}, "conv: expected 2 pads"),
    ("einsum", types_of((2, 3), (4, 2)), {"equation": "ij,jk->ik"}, "equal sizes for 'j'"),
    ("einsum", types_of((2, 3)), {"equation": "ii->i"}, "expected equal sizes for 'i'"),
    ("einsum", types_of((2, 3)), {"equation": "i...->i"}, "expected letters, commas"),
    ("einsum", types_of((2, 3)), {"equation": "ij->k"}, "each result label once"),
    ("einsum", types_of((2, 3)), {"equation": "ij,jk->ik"}, "expected 1 terms"),
    ("einsum", types_of((2, 3)), {"equation": "i->i"}, "expected rank 1 for 'i'"),
    ("max_pool", types_of((2, 3)), POOL, "max_pool: expected x of shape (n, c, spatial…)"),
    ("sum_pool", types_of((1, 2, 1)), POOL, "padded size of at least 2"),
    ("reduce_sum", types_of((2, 3)), {"axes": (2,), "keepdims": True}, "axis in 0..1, got 2"),
    ("reduce_max", types_of((2, 3)), {"axes": (1, 0), "keepdims": True}, "ascending order"),
    ("argmax", types_of((2, 0)), {"axis": 1, "last": False}, "at least one element along axis 1"),
    (
        "cumulative_sum",
        types_of((2,), dtype=boolean),
        {"axis": 0, "exclusive": False, "reverse": False},
        "cumulative_sum: expected numbers, got bool",
    ),
    ("transpose", types_of((2, 3)), {"perm": (0, 0)}, "permutation of 2 axes, got [0, 0]"),
    ("reshape", types_of((2, 3)), {"shape": (4,)}, "expected a shape of 6 elements, got [4]"),
    ("reshape", types_of((2, 3)), {"shape": (-2, -3)}, "sizes of at least 0"),
    ("broadcast_to", types_of((2, 3)), {"shape": (3,)}, "expected x to broadcast to [3]"),
    ("concat", types_of((2, 3), (2, 4)), {"axis": 0}, "concat: expected sizes equal to"),
    ("concat", types_of((2, 3), (2,)), {"axis": 0}, "concat: expected operands of rank 2"),
    ("concat", (), {"axis": 0}, "concat: expected at least one operand, got none"),
    (
        "slice",
        types_of((3,)),
        {"starts": (1,), "steps": (1,), "sizes": (3,)},
        "slice: expected positions below 3 on axis 0, got 3 from 1 in steps of 1",
    ),
    (
        "slice",
        types_of((3,)),
        {"starts": (1,), "steps": (0,), "sizes": (1,)},
        "slice: expected a step other than 0",
    ),
    (
        "pad",
        types_of((3,), ()),
        {"before": (-1,), "after": (0,), "mode": "edge"},
        "pad: expected sizes of at least 0",
    ),
    (
        "pad",
        types_of((3,), ()),
        {"before": (1,), "after": (0,), "mode": "mirror"},
        "pad: expected a mode of constant, reflect, edge, wrap, got 'mirror'",
    ),
    (
        "pad",
        types_of((0,), ()),
        {"before": (1,), "after": (0,), "mode": "edge"},
        "pad: expected elements to repeat in mode edge",
    ),
    ("insert_axis", types_of((3,)), {"axis": 2}, "insert_axis: expected an axis in 0..1, got 2"),
    ("gather", types_of((3,), (2,)), {"axis": 0}, "expected int32 or int64 indices, got float32"),
    ("gather_nd", (*types_of((2, 2)), INDEX), {"batch_dims": 1}, "gather_nd: expected batch_dims"),
    (
        "gather_elements",
        (*types_of((3, 1)), TensorType(int64, (2, 2))),
        {"axis": 0},
        "gather_elements: expected indices no larger than",
    ),
    ("one_hot", (INDEX, *types_of((3,))), {"axis": 0, "depth": 2}, "expected values (off, on)"),
    ("top_k_values", types_of((3,)), {"k": 4, "axis": 0, "largest": True}, "between 0 and 3"),
    (
        "scatter_elements",
        (*types_of((3,)), INDEX, *types_of((3,))),
        {"axis": 0, "reduction": "none"},
        "expected indices and updates of one shape",
    ),
    (
        "scatter_elements",
        (*types_of((3,)), INDEX, *types_of((2,))),
        {"axis": 0, "reduction": "mean"},
        "expected a reduction of none, add, mul, max, min, got 'mean'",
    ),
    (
        "scatter_nd",
        (*types_of((3, 3)), INDEX, *types_of((2,))),
        {"reduction": "none"},
        "scatter_nd: expected updates of shape []",
    ),
]


@pytest.mark.parametrize(
    ("name", "types", "params", "message"),
    REFUSED,
    ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)],
)
def test_refused_operands(
    name: str, types: tuple[TensorType, ...], params: dict[str, Param], message: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        OP[name](*(Input(n, type) for n, type in enumerate(types)), **params)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
