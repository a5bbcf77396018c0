"""Every operator as a model of its own: in ONNX Runtime, in the reference evaluator, and back."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from graphopt.graph import Constant, Graph, Input, Param, Value
from graphopt.onnx_export import ExportError, export_model
from graphopt.onnx_export.table import EXPORTERS
from graphopt.onnx_export.windows import counts, counts_along, inside
from graphopt.onnx_import import import_model
from graphopt.ops import OP, OPS, OpSpec, Sample
from graphopt.ops.windows import Windows
from graphopt.reference import evaluate_graph
from tensorgen.types import (
    DTYPES,
    Array,
    DType,
    Kind,
    ShapeError,
    TensorType,
    bfloat16,
    boolean,
    dtype_of,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    type_of,
    uint8,
    uint16,
    uint32,
    uint64,
)

NOT_IN_RUNTIME: Mapping[DType, str] = {
    float64: "tan asin acos atan sinh cosh asinh acosh atanh erf conv conv_transpose",
    uint64: "max_pool max_pool_index reduce_max reduce_min argmax argmin top_k_values "
    "top_k_indices",
}
"""What ONNX Runtime may have no kernel for."""

NOT_IN_EVALUATOR = frozenset({"conv_transpose", "max_pool", "max_pool_index", "gather_elements"})
"""Where the reference evaluator fails on groups, pads, batches and indices that reach less than
x."""

DIGITS = {64: 1e-12, 32: 3e-5, 16: 2e-2}
"""Relative tolerance by width; for 16 bits, sums may have been rounded at every step."""


def index_operand(op: OpSpec) -> int | None:
    """Which operand holds indices; None if none does."""
    if op.name == "one_hot":
        return 0
    return 1 if op.family in ("indexing", "scatter") else None


def operands_of(op: OpSpec, types: Sequence[TensorType], case: Sample, seed: str) -> list[Array]:
    """Arrays in the operator's domain: indices in bounds, distinct where one place is written."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    arrays = [_array(type, rng) for type in types]
    params = case.keywords
    if op.name in ("div", "floordiv", "mod", "fmod"):
        arrays[1] = np.where(arrays[1] == 0, np.ones_like(arrays[1]), arrays[1])
    if op.name in ("shl", "shr"):
        width = types[1].dtype.bits
        arrays[1] = rng.integers(0, width + 3, types[1].shape).astype(arrays[1].dtype)
    position = index_operand(op)
    if position is not None:
        bound = (
            int(str(params["depth"])) + 2
            if op.name == "one_hot"
            else min(types[0].shape, default=1)
        )
        indices = rng.integers(-bound, max(bound, 1), types[position].shape)
        arrays[position] = np.asarray(indices, types[position].dtype.numpy)
        if op.family == "scatter" and params["reduction"] == "none":
            arrays[2] = np.broadcast_to(arrays[2].flat[0] if arrays[2].size else 0, types[2].shape)
            arrays[2] = np.asarray(arrays[2], types[2].dtype.numpy)
    return arrays


def _array(type: TensorType, rng: np.random.Generator) -> Array:
    if type.dtype == boolean:
        return rng.integers(0, 2, type.shape).astype(np.bool_)
    if type.dtype.is_float:
        return np.asarray(2 * rng.standard_normal(type.shape)).astype(type.dtype.numpy)
    low = 0 if type.dtype.kind is Kind.UNSIGNED else -5
    return rng.integers(low, 6, type.shape).astype(type.dtype.numpy)


def one_node(op: OpSpec, types: Sequence[TensorType], params: Mapping[str, Param]) -> Graph:
    """The operator over inputs x0, x1, …; bfloat16 stays inside, numpy exchange has none."""
    inputs = tuple(
        Input(n, TensorType(float32, t.shape) if t.dtype == bfloat16 else t)
        for n, t in enumerate(types)
    )
    operands = (
        OP["cast"](value, to="bfloat16") if type.dtype == bfloat16 else value
        for value, type in zip(inputs, types, strict=True)
    )
    result: Value = op(*operands, **params)
    if result.type.dtype == bfloat16:
        result = OP["cast"](result, to="float32")
    return Graph(inputs, (result,), tuple(f"x{n}" for n in range(len(inputs))), ("y",))


def checked(graph: Graph) -> onnx.ModelProto:
    """The exported model, which the checker accepts with all inferred types."""
    model = export_model(graph)
    onnx.checker.check_model(model, full_check=True)
    return model


def runtime(model: onnx.ModelProto, feed: Mapping[str, Array]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, dict(feed)))


def assert_close(actual: Any, expected: Any, dtype: DType) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert type_of(actual) == type_of(expected)
    if not dtype.is_float:
        np.testing.assert_array_equal(actual, expected)
        return
    tolerance = DIGITS[dtype.bits]
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


def check(op: OpSpec, types: Sequence[TensorType], case: Sample, seed: str) -> None:
    """The model computes what the operator means, wherever it can be run."""
    arrays = operands_of(op, types, case, seed)
    graph = one_node(op, types, case.keywords)
    model = checked(graph)
    feed = {
        name: array.astype(value.type.dtype.numpy)
        for name, array, value in zip(graph.input_names, arrays, graph.inputs, strict=True)
    }
    with np.errstate(all="ignore"):
        expected = np.asarray(op.reference(*arrays, **case.keywords))
    expected = expected.astype(graph.outputs[0].type.dtype.numpy)
    # Rounding is that of the narrowest type that takes part.
    dtype = min((dtype_of(a) for a in (*arrays, expected)), key=_precision)
    dtype = dtype if dtype_of(expected).is_float else dtype_of(expected)
    try:
        assert_close(runtime(model, feed)[0], expected, dtype)
    except NoKernel:
        assert op.name in NOT_IN_RUNTIME.get(types[0].dtype, "").split()
    if op.name not in NOT_IN_EVALUATOR:
        with np.errstate(all="ignore"):
            evaluated: Any = ReferenceEvaluator(model).run(None, feed)
        # Its erf is good for single precision only.
        assert_close(evaluated[0], expected, float32 if op.name == "erf" else dtype)
    with np.errstate(all="ignore"):
        returned = evaluate_graph(import_model(model), feed)
    assert_close(returned[0], expected, dtype)


def _precision(dtype: DType) -> int:
    return dtype.bits if dtype.is_float else 64


CASES = [(op, number) for op in OPS for number in range(len(op.samples))]


@pytest.mark.parametrize(("op", "number"), CASES, ids=[f"{op}-{number}" for op, number in CASES])
def test_operator_means_the_same_in_onnx(op: OpSpec, number: int) -> None:
    case = op.samples[number]
    check(op, case.types, case, f"{op}{number}")


TYPED = [(op, dtype) for op in OPS for dtype in DTYPES]


@pytest.mark.parametrize(("op", "dtype"), TYPED, ids=[f"{op}-{dtype}" for op, dtype in TYPED])
def test_operator_means_the_same_in_every_element_type(op: OpSpec, dtype: DType) -> None:
    for number, case in enumerate(op.samples[:2]):
        kept = index_operand(op) if op.name != "where" else 0
        types = tuple(
            type if position == kept else TensorType(dtype, type.shape)
            for position, type in enumerate(case.types)
        )
        try:
            op(*(Input(n, type) for n, type in enumerate(types)), **case.keywords)
        except ShapeError:
            return
        check(op, types, case, f"{op}{number}{dtype}")


def test_every_operator_has_an_exporter() -> None:
    assert EXPORTERS.keys() == OP.keys()


# Values at the edges


def values(op: str, *arrays: Array, **params: Param) -> None:
    """ONNX Runtime and the reference evaluator agree with the operator on these operands."""
    graph = one_node(OP[op], [type_of(array) for array in arrays], params)
    model = checked(graph)
    feed = dict(zip(graph.input_names, arrays, strict=True))
    with np.errstate(all="ignore"):
        expected = OP[op].reference(*arrays, **params)
        evaluated: Any = ReferenceEvaluator(model).run(None, feed)
    for actual in (runtime(model, feed)[0], evaluated[0]):
        np.testing.assert_array_equal(actual, expected)


INTEGERS = [int8, int16, int32, int64, uint8, uint16, uint32, uint64]


@pytest.mark.parametrize("op", ["shl", "shr"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_by_the_width_and_of_extremes(op: str, dtype: DType) -> None:
    limits = np.iinfo(dtype.name)
    x = np.array([limits.min, limits.max, 1, 5, limits.max // 3], dtype.numpy)
    counts = np.arange(dtype.bits + 2, dtype=dtype.numpy)[:, None]
    values(op, x, counts)
    values(op, x, counts[:1])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["div", "floordiv", "mod", "fmod"])
def test_division_of_extremes(op: str, dtype: DType) -> None:
    limits = np.iinfo(dtype.name)
    edges = [limits.min, limits.min + 1, limits.max, limits.max - 1, 7, limits.max // 3 + 2]
    x = np.array([*edges, 0], dtype.numpy)
    y = np.array([edge for edge in edges if edge], dtype.numpy)[:, None]
    values(op, x, y)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("op", ["mod", "fmod"])
def test_remainders_of_floats_have_the_right_sign(op: str, dtype: DType) -> None:
    x = np.array([5.5, -5.5, 0.0, 6.0, -6.0, np.nan, np.inf], dtype.numpy)
    y = np.array([2.0, -2.0, 3.0, -3.0, np.inf], dtype.numpy)[:, None]
    values(op, x, y)


@pytest.mark.parametrize("dtype", [int8, int16, int32, int64], ids=str)
def test_integer_powers(dtype: DType) -> None:
    x = np.array([-3, -2, -1, 0, 1, 2, 3], dtype.numpy)
    x = x[x != 0]
    y = np.array([-3, -2, -1, 0, 1, 2, 3, 4], dtype.numpy)[:, None]
    values("pow", x, y)


@pytest.mark.parametrize("dtype", [int8, int16, int32, int64, uint8, uint16, uint32], ids=str)
def test_comparisons_of_extremes(dtype: DType) -> None:
    limits = np.iinfo(dtype.name)
    rng = np.random.default_rng(8)
    x = rng.integers(limits.min, limits.max, (5, 7), dtype.name, endpoint=True)
    x[0, :2] = x[1, -2:] = limits.min, limits.max
    for op in ("reduce_max", "reduce_min"):
        values(op, x, axes=(1,), keepdims=False)
        values(op, x, axes=(0,), keepdims=True)
    for op in ("argmax", "argmin"):
        values(op, x, axis=1, last=True)
    for op in ("top_k_values", "top_k_indices"):
        values(op, x, axis=1, k=3, largest=False)
    for op in ("max", "min", "lt", "le"):
        values(op, x, x[::-1].copy())


def test_trunc_of_what_is_no_number() -> None:
    values("trunc", np.array([-2.7, -0.3, 0.0, 0.3, 2.7, np.inf, -np.inf, np.nan], np.float32))


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", [*INTEGERS, boolean], ids=str)
def test_integer_casts_keep_the_low_bits(source: DType, target: DType) -> None:
    limits = np.iinfo(source.name)
    values("cast", np.array([limits.min, limits.max, 0, 1, 100], source.numpy), to=target.name)


@pytest.mark.parametrize(("source", "target"), [(int8, uint8), (uint64, int64), (int16, uint16)])
def test_bitcasts_between_integers_need_no_new_opset(source: DType, target: DType) -> None:
    limits = np.iinfo(source.name)
    values("bitcast", np.array([limits.min, limits.max, 1], source.numpy), to=target.name)
    graph = one_node(OP["bitcast"], [TensorType(source, (2,))], {"to": target.name})
    assert export_model(graph).opset_import[0].version == 21


def test_bitcasts_of_floats_need_a_newer_opset() -> None:
    graph = one_node(OP["bitcast"], [TensorType(float32, (2,))], {"to": "int32"})
    model = checked(graph)
    assert model.opset_import[0].version == 26
    assert [node.op_type for node in model.graph.node] == ["BitCast"]


# Windows


@pytest.mark.parametrize("dtype", [float32, int8, int32, int64, uint8], ids=str)
@pytest.mark.parametrize("op", ["max_pool", "sum_pool"])
def test_windows_that_runtimes_refuse(op: str, dtype: DType) -> None:
    """Pads of the kernel's size, windows of padding alone, four spatial axes."""
    rng = np.random.default_rng(3)
    cases: list[tuple[tuple[int, ...], dict[str, Param]]] = [
        ((1, 2, 5), {"kernel": (2,), "strides": (1,), "pads": (3, 2), "dilations": (1,)}),
        ((2, 1, 2), {"kernel": (2,), "strides": (1,), "pads": (1, 1), "dilations": (3,)}),
        (
            (1, 1, 2, 3, 2, 3),
            {"kernel": (2,) * 4, "strides": (1,) * 4, "pads": (0,) * 8, "dilations": (1,) * 4},
        ),
    ]
    for shape, params in cases:
        x = _array(TensorType(dtype, shape), rng)
        graph = one_node(OP[op], [type_of(x)], params)
        actual = runtime(checked(graph), {"x0": x})[0]
        np.testing.assert_allclose(actual, OP[op].reference(x, **params), rtol=1e-6)


@pytest.mark.parametrize("dtype", [float32, int8, int32, int64], ids=str)
def test_padding_never_wins_against_the_lowest_element(dtype: DType) -> None:
    lowest = -np.inf if dtype.is_float else np.iinfo(dtype.name).min
    x = np.full((2, 2, 3, 3), lowest).astype(dtype.numpy)
    params: dict[str, Param] = {
        "kernel": (2, 2), "strides": (1, 1), "pads": (1, 1, 0, 1), "dilations": (1, 1)
    }  # fmt: skip
    graph = one_node(OP["max_pool_index"], [type_of(x)], params)
    actual = runtime(checked(graph), {"x0": x})[0]
    np.testing.assert_array_equal(actual, OP["max_pool_index"].reference(x, **params))


@given(data=st.data())
def test_elements_of_windows_are_counted(data: st.DataObject) -> None:
    numbers = [data.draw(st.integers(low, 6)) for low in (1, 1, 1, 0, 0, 1)]
    size, kernel, stride, before, after, dilation = numbers
    assume(before + size + after >= (kernel - 1) * dilation + 1)
    windows = Windows.of("pool", (size,), (kernel,), (stride,), (before, after), (dilation,))
    expected = inside(windows, 0).sum(axis=1)
    np.testing.assert_array_equal(counts_along(windows, 0), expected)
    np.testing.assert_array_equal(np.broadcast_to(counts(windows), expected.shape), expected)


def test_windows_too_many_to_lay_out_are_refused() -> None:
    x = TensorType(int64, (1, 1, 20_000))
    params: dict[str, Param] = {
        "kernel": (10_000,), "strides": (1,), "pads": (0, 0), "dilations": (1,)
    }  # fmt: skip
    with pytest.raises(ExportError, match="windows: expected at most 16777216 positions on an ax"):
        export_model(one_node(OP["max_pool"], [x], params))
    checked(one_node(OP["max_pool"], [TensorType(float32, x.shape)], params))
    model = checked(one_node(OP["sum_pool"], [TensorType(float32, (1, 9, 20_000))], params))
    assert [node.op_type for node in model.graph.node] == ["Expand", "Conv"]


# Operators with two results


def test_both_results_of_one_operator_are_one_node() -> None:
    x = Input(0, TensorType(float32, (1, 2, 6, 6)))
    params: dict[str, Param] = {
        "kernel": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1)
    }  # fmt: skip
    ranked: dict[str, Param] = {"k": 2, "axis": 3, "largest": True}
    values = (
        OP["max_pool_index"](x, **params),
        OP["top_k_indices"](x, **ranked),
        OP["max_pool"](x, **params),
        OP["top_k_values"](x, **ranked),
    )
    graph = Graph((x,), values, ("x",), ("a", "b", "c", "d"))
    model = checked(graph)
    assert [(node.op_type, list(node.output)) for node in model.graph.node] == [
        ("MaxPool", ["c", "a"]),
        ("TopK", ["d", "b"]),
    ]
    feed = {"x": np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)}
    for actual, expected in zip(runtime(model, feed), evaluate_graph(graph, feed), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_constants_are_written_in_the_type_they_are_used_in() -> None:
    x = Input(0, TensorType(int8, (3,)))
    y = OP["max"](x, Constant(np.array([3], np.int8)))
    model = checked(Graph((x,), (y,), ("x",), ("y",)))
    assert [node.op_type for node in model.graph.node] == ["Max"]
    wide = Input(0, TensorType(int16, (3,)))
    y = OP["max"](wide, Constant(np.array([3], np.int16)))
    model = checked(Graph((wide,), (y,), ("x",), ("y",)))
    assert [node.op_type for node in model.graph.node] == ["Cast", "Max", "Cast"]
