"""Narrow element types against ml_dtypes and the `onnx` library, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphopt.graph import Graph, Input
from graphopt.onnx_import import ModelError, UnsupportedOperator, import_model
from graphopt.onnx_import.narrow import (
    BY_NUMBER,
    NARROW_TYPES,
    Encoded,
    NarrowType,
    PowerOfTwo,
    SmallFloat,
    SmallInteger,
    decoded,
    encoded,
    saturated,
    stored,
)
from graphopt.reference import evaluate_graph
from tensorgen.types import TensorType, float32, int32, uint8

FLOATS = [type for type in NARROW_TYPES if isinstance(type.encoding, SmallFloat)]
INTEGERS = [type for type in NARROW_TYPES if isinstance(type.encoding, SmallInteger)]
POWERS = [type for type in NARROW_TYPES if isinstance(type.encoding, PowerOfTwo)]

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def evaluated(value: Any, x: Any) -> Any:
    """The value, computed from graph input 0."""
    graph = Graph((Input(0, value_type(x)),), (value,), ("x",), ("y",))
    return evaluate_graph(graph, {"x": x})[0]


def value_type(x: Any) -> TensorType:
    return TensorType(uint8 if x.dtype == np.uint8 else float32, x.shape)


def numbers_around(type: NarrowType) -> Any:
    """Every value of the type, the ties between them, their neighbours, and all kinds of others."""
    codes = np.arange(1 << type.encoding.bits, dtype=np.uint8).view(type.numpy)
    exact = codes.astype(np.float32)
    finite = np.unique(exact[np.isfinite(exact)])
    ties = (finite[:-1] + finite[1:]) / 2
    patterns = np.random.default_rng(0).integers(0, 0x7F800000, 5000, dtype=np.uint32)
    others = patterns.view(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0], np.float32)
    around = np.concatenate([finite, ties])
    with np.errstate(over="ignore"):
        beyond = finite[-1] * f32([1.01, 1.05, 1.1, 2])
    neighbours = [np.nextafter(around, -np.inf), np.nextafter(around, np.inf)]
    return np.concatenate(
        [exact, around, *neighbours, beyond, others, -others, special], dtype=np.float32
    )


@pytest.mark.parametrize("type", FLOATS, ids=lambda type: type.name)
@pytest.mark.parametrize("saturate", [True, False], ids=["saturate", "overflow"])
def test_floats_are_rounded_as_ml_dtypes_rounds_them(type: NarrowType, saturate: bool) -> None:
    x = numbers_around(type)
    graph_input = Input(0, value_type(x))
    codes = evaluated(encoded(graph_input, type, saturate=saturate).codes, x)
    with np.errstate(all="ignore"):
        wanted = numpy_helper.saturate_cast(x, type.numpy) if saturate else x.astype(type.numpy)
    is_number = ~np.isnan(wanted.astype(np.float32)) & ~np.isnan(x)
    np.testing.assert_array_equal(codes[is_number], wanted.view(np.uint8)[is_number])
    found = codes.view(type.numpy).astype(np.float32)
    assert isinstance(type.encoding, SmallFloat)
    if type.encoding.nan:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted.astype(np.float32)))
    else:
        assert (found[np.isnan(x)] == 0).all()


@pytest.mark.parametrize("type", POWERS, ids=lambda type: type.name)
@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [True, False], ids=["saturate", "overflow"])
def test_powers_of_two_are_rounded_as_onnx_rounds_them(
    type: NarrowType, rounding: str, saturate: bool
) -> None:
    x = np.concatenate([numbers_around(type), f32([3, 2.5, 1.5, 0.75, 3e38])])
    value = encoded(Input(0, value_type(x)), type, saturate=saturate, rounding=rounding)
    wanted = numpy_helper.to_float8e8m0(x, saturate, rounding)
    np.testing.assert_array_equal(evaluated(value.codes, x), wanted.view(np.uint8))


@pytest.mark.parametrize("type", INTEGERS, ids=lambda type: type.name)
def test_integers_keep_their_low_bits_or_saturate(type: NarrowType) -> None:
    x = np.arange(-20, 21).astype(np.float32)
    graph_input = Input(0, value_type(x))
    low_bits = evaluated(encoded(graph_input, type, saturate=True).codes, x)
    np.testing.assert_array_equal(low_bits, x.astype(np.int32).astype(type.numpy).view(np.uint8))
    assert isinstance(type.encoding, SmallInteger)
    limited = evaluated(saturated(graph_input, type).codes, x)
    np.testing.assert_array_equal(
        limited, np.clip(x, *type.encoding.limits).astype(type.numpy).view(np.uint8)
    )


@pytest.mark.parametrize("type", NARROW_TYPES, ids=lambda type: type.name)
def test_every_code_is_decoded_as_ml_dtypes_reads_it(type: NarrowType) -> None:
    codes = np.arange(1 << type.encoding.bits, dtype=np.uint8)
    operand = Encoded(Input(0, value_type(codes)), type)
    np.testing.assert_array_equal(
        evaluated(decoded(operand, float32), codes), codes.view(type.numpy).astype(np.float32)
    )
    if isinstance(type.encoding, SmallInteger):
        found = evaluated(decoded(operand, int32), codes)
        np.testing.assert_array_equal(found, codes.view(type.numpy).astype(np.int32))


# In a model


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Mapping[str, int],
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *declared) for name, declared in inputs.items()],
        [helper.make_tensor_value_info(name, number, None) for name, number in outputs.items()],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def packed(values: Sequence[int], number: int, *, raw: bool) -> onnx.TensorProto:
    """A constant w of a narrow integer type, packed as files have it."""
    array = np.array(values).astype(BY_NUMBER[number].numpy)
    tensor = numpy_helper.from_array(array, "w")
    if raw:
        return tensor
    fields = onnx.TensorProto(name="w", dims=tensor.dims, data_type=number)
    fields.int32_data.extend(tensor.raw_data)
    return fields


@pytest.mark.parametrize("raw", [True, False], ids=["raw_data", "int32_data"])
@pytest.mark.parametrize("number", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2])
def test_packed_weights_are_moved_and_dequantized(number: int, raw: bool) -> None:
    nodes = [
        helper.make_node("Reshape", ["w", "shape"], ["m"]),
        helper.make_node("Transpose", ["m"], ["t"]),
        helper.make_node("DequantizeLinear", ["t", "scale"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    values = [1, -2, 0, 1, 1, -1] if number != TensorProto.UINT4 else [1, 15, 7, 0, 3, 9]
    constants = [
        packed(values, number, raw=raw),
        numpy_helper.from_array(np.array([3, 2]), "shape"),
        numpy_helper.from_array(f32(0.5), "scale"),
    ]
    model = model_of(nodes, {"x": (TensorProto.FLOAT, [1, 2])}, {"y": TensorProto.FLOAT}, constants)
    x = f32([[1, 10]])
    weights = np.array(values, np.float32).reshape(3, 2).T / 2
    np.testing.assert_array_equal(evaluate_graph(import_model(model), {"x": x})[0], x @ weights)


def test_borders_take_and_give_bytes() -> None:
    number = TensorProto.FLOAT8E5M2
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN)
    model = model_of([cast], {"x": (number, [4])}, {"y": TensorProto.FLOAT8E4M3FN})
    x = f32([1, -0.3, 57344, np.nan]).astype(BY_NUMBER[number].numpy)
    graph = import_model(model)
    assert [value.type.dtype for value in (*graph.inputs, *graph.outputs)] == [uint8, uint8]
    (y,) = evaluate_graph(graph, {"x": stored(x)})
    found = np.asarray(y).view(BY_NUMBER[TensorProto.FLOAT8E4M3FN].numpy).astype(np.float32)
    np.testing.assert_array_equal(found, f32([1, -0.3125, 448, np.nan]))
    fixed = import_model(model, bindings={"x": x})
    np.testing.assert_array_equal(evaluate_graph(fixed, {})[0], y)


def test_arithmetic_on_narrow_types_is_refused() -> None:
    add = helper.make_node("Neg", ["x"], ["y"], name="n")
    model = model_of([add], {"x": (TensorProto.INT4, [4])}, {"y": TensorProto.INT4})
    with pytest.raises(
        UnsupportedOperator,
        match=r"node 'n' \(Neg\): expected an element type to compute with, got int4",
    ):
        import_model(model)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            onnx.TensorProto(name="w", dims=[3], data_type=TensorProto.INT4, raw_data=b"1"),
            "tensor 'w': expected 2 bytes for 2 elements of uint8, got 1",
        ),
        (
            onnx.TensorProto(name="w", dims=[2], data_type=TensorProto.UINT4, int32_data=[300]),
            "tensor 'w': expected 1 bytes in int32_data",
        ),
        (
            onnx.TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT8E5M2, int32_data=[0]),
            "tensor 'w': expected 2 bytes in int32_data, got 1 numbers",
        ),
    ],
)
def test_bad_data_is_refused(tensor: onnx.TensorProto, message: str) -> None:
    cast = helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)
    with pytest.raises(ModelError, match=message):
        import_model(model_of([cast], {}, {"y": TensorProto.FLOAT}, [tensor]))


def test_an_output_of_another_type_than_declared_is_refused() -> None:
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    model = model_of([cast], {"x": (TensorProto.FLOAT, [4])}, {"y": TensorProto.UINT8})
    with pytest.raises(ModelError, match="'y'"):
        import_model(model)


def test_an_unknown_rounding_is_refused() -> None:
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode="sideways")
    model = model_of([cast], {"x": (TensorProto.FLOAT, [4])}, {"y": TensorProto.FLOAT8E8M0})
    with pytest.raises(ModelError, match="expected round_mode up, down or nearest, got sideways"):
        import_model(model)
