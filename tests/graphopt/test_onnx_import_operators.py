"""Single operators with drawn attributes: import and reference evaluation against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from graphopt.onnx_import import ModelError, import_model
from graphopt.reference import evaluate_graph

onnxruntime.set_default_logger_severity(4)

SETTINGS = settings(max_examples=40, deadline=None)


def single(
    operator: str,
    arrays: Mapping[str, Any],
    constants: Mapping[str, Any],
    inputs: Sequence[str],
    outputs: Mapping[str, int],
    opset: int = 21,
    **attributes: Any,
) -> onnx.ModelProto:
    node = helper.make_node(operator, inputs, list(outputs), **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in arrays.items()
        ],
        [helper.make_tensor_value_info(name, number, None) for name, number in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def agree(model: onnx.ModelProto, arrays: Mapping[str, Any], *, drawn: bool = False) -> None:
    """Both give the same; a drawn model that the runtime refuses does not count."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        expected = session.run(None, dict(arrays))
    except Exception:  # the runtime's exceptions have no common base
        if not drawn:
            raise
        assume(False)
    actual: Any = evaluate_graph(import_model(model), arrays)
    for want, got in zip(expected, actual, strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def values(shape: Sequence[int], dtype: Any = np.float32) -> Any:
    generator = np.random.default_rng(sum(shape))
    if np.issubdtype(dtype, np.floating):
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(-9, 9, shape).astype(dtype)


FLOAT, INT64 = {"y": TensorProto.FLOAT}, {"y": TensorProto.INT64}


@st.composite
def sliding(draw: st.DrawFn, *, ceil: bool) -> dict[str, Any]:
    """Sizes and attributes of a convolution or pooling over one or two spatial axes."""
    rank = draw(st.integers(1, 2))

    def each(low: int, high: int, count: int = rank) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    result: dict[str, Any] = {"sizes": each(5, 9), "kernel": each(1, 3)}
    attributes: dict[str, Any] = {"strides": each(1, 3), "dilations": each(1, 2)}
    mode = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if mode == "NOTSET":
        attributes["pads"] = [
            min(pad, size - 1)
            for pad, size in zip(each(0, 2, 2 * rank), result["kernel"] * 2, strict=True)
        ]
    else:
        attributes["auto_pad"] = mode
        attributes["dilations"] = [1] * rank
    if ceil:
        attributes["ceil_mode"] = draw(st.integers(0, 1)) if mode == "NOTSET" else 0
    return {**result, "attributes": attributes}


@SETTINGS
@given(sliding(ceil=False), st.integers(1, 2), st.booleans())
def test_conv(case: dict[str, Any], groups: int, bias: bool) -> None:
    x = values((2, 2 * groups, *case["sizes"]))
    constants = {"w": values((4, 2, *case["kernel"]))}
    if bias:
        constants["b"] = values((4,))
    model = single(
        "Conv", {"x": x}, constants, ["x", *constants], FLOAT, group=groups, **case["attributes"]
    )
    agree(model, {"x": x}, drawn=True)


@SETTINGS
@given(sliding(ceil=False), st.integers(1, 2), st.booleans(), st.data())
def test_conv_transpose(case: dict[str, Any], groups: int, bias: bool, data: st.DataObject) -> None:
    attributes = case["attributes"]
    x = values((2, 2 * groups, *case["sizes"]))
    constants = {"w": values((2 * groups, 3, *case["kernel"]))}
    if bias:
        constants["b"] = values((3 * groups,))
    if "auto_pad" in attributes or data.draw(st.booleans()):
        # Where padding would be negative, ONNX Runtime gives less than the size that was asked for.
        attributes["strides"] = [
            min(stride, taps)
            for stride, taps in zip(attributes["strides"], case["kernel"], strict=True)
        ]
    if data.draw(st.booleans()):
        attributes["output_padding"] = [
            data.draw(st.integers(0, stride - 1)) for stride in attributes["strides"]
        ]
    if data.draw(st.booleans()):
        attributes.pop("pads", None)
        attributes["output_shape"] = [
            (size - 1) * stride + data.draw(st.integers(1, 1 + (taps - 1) * apart))
            for size, stride, taps, apart in zip(
                case["sizes"],
                attributes["strides"],
                case["kernel"],
                attributes["dilations"],
                strict=True,
            )
        ]
    model = single(
        "ConvTranspose", {"x": x}, constants, ["x", *constants], FLOAT, group=groups, **attributes
    )
    agree(model, {"x": x}, drawn=True)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@SETTINGS
@given(case=sliding(ceil=True), data=st.data())
def test_pools(operator: str, case: dict[str, Any], data: st.DataObject) -> None:
    attributes = {**case["attributes"], "kernel_shape": case["kernel"]}
    outputs = dict(FLOAT)
    if operator == "MaxPool" and data.draw(st.booleans()):
        outputs["i"] = TensorProto.INT64
        attributes["storage_order"] = 0
    if operator == "AveragePool":
        attributes["count_include_pad"] = data.draw(st.integers(0, 1))
        # ONNX Runtime counts dilated windows that run over the end differently from ONNX.
        assume(not attributes["ceil_mode"] or attributes["dilations"] == [1] * len(case["sizes"]))
    if attributes.get("auto_pad", "VALID") != "VALID":
        # Where padding would be negative, ONNX Runtime drops elements at the front.
        assume(all(a <= b for a, b in zip(attributes["strides"], case["kernel"], strict=True)))
    if operator == "LpPool":
        attributes["p"] = data.draw(st.integers(1, 3))
    x = values((2, 3, *case["sizes"]))
    model = single(operator, {"x": x}, {}, ["x"], outputs, opset=19, **attributes)
    agree(model, {"x": x}, drawn=True)


@SETTINGS
@given(st.data())
def test_slice(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    bound = st.one_of(st.integers(-7, 7), st.sampled_from([2**63 - 1, -(2**63), 2**31, -(2**31)]))
    count = len(axes)
    constants = {
        "starts": np.array([data.draw(bound) for _ in range(count)], np.int64),
        "ends": np.array([data.draw(bound) for _ in range(count)], np.int64),
        "axes": np.array(
            [axis - len(shape) if data.draw(st.booleans()) else axis for axis in axes], np.int64
        ),
        "steps": np.array(
            [data.draw(st.integers(-3, 3).filter(bool)) for _ in range(count)], np.int64
        ),
    }
    # ONNX Runtime reads the greatest end as "to the end" even where steps go backwards.
    backwards = constants["steps"] < 0
    assume(not np.any(backwards & (constants["ends"] >= 2**31)))
    x = values(shape)
    agree(single("Slice", {"x": x}, constants, ["x", *constants], FLOAT), {"x": x}, drawn=True)


@SETTINGS
@given(st.data())
def test_pad(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    shape = data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3))
    least = -1 if mode == "constant" else 0
    most = min(shape) - 1 if mode == "reflect" else 4
    pads = [data.draw(st.integers(least, most)) for _ in range(2 * len(shape))]
    constants = {"pads": np.array(pads, np.int64), "fill": np.float32(1.5)}
    x = values(shape)
    model = single("Pad", {"x": x}, constants, ["x", *constants], FLOAT, mode=mode)
    agree(model, {"x": x}, drawn=True)


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"])
@SETTINGS
@given(data=st.data())
def test_reductions(operator: str, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    axes = data.draw(st.lists(st.integers(0, rank - 1), unique=True))
    attributes = {"keepdims": data.draw(st.integers(0, 1))}
    opset = data.draw(st.sampled_from([11, 18]))
    x = values(range(2, 2 + rank))
    constants: dict[str, Any] = {}
    if axes and opset == 18:
        constants["axes"] = np.array(axes, np.int64)
    elif axes:
        attributes["axes"] = axes  # type: ignore[assignment]
    if opset == 18:
        attributes["noop_with_empty_axes"] = data.draw(st.integers(0, 1))
    assume(not (operator == "ReduceL2" and attributes.get("noop_with_empty_axes") and not axes))
    model = single(operator, {"x": x}, constants, ["x", *constants], FLOAT, opset, **attributes)
    agree(model, {"x": x}, drawn=True)


@pytest.mark.parametrize("left", [1, 2, 3])
@pytest.mark.parametrize("right", [1, 2, 3])
def test_matmul_of_any_ranks(left: int, right: int) -> None:
    x = values((*((2, 3)[: left - 1]), 4) if left < 3 else (5, 3, 4))
    y = values({1: (4,), 2: (4, 2), 3: (5, 4, 2)}[right])
    arrays = {"x": x, "w": y}
    agree(single("MatMul", arrays, {}, ["x", "w"], FLOAT), arrays)


@SETTINGS
@given(st.booleans(), st.booleans(), st.sampled_from([None, (), (1,), (5,), (3, 1), (3, 5)]))
def test_gemm(trans_a: bool, trans_b: bool, c: tuple[int, ...] | None) -> None:
    arrays = {
        "a": values((4, 3) if trans_a else (3, 4)),
        "b": values((5, 4) if trans_b else (4, 5)),
    }
    if c is not None:
        arrays["c"] = values(c)
    attributes: dict[str, Any] = {
        "transA": int(trans_a),
        "transB": int(trans_b),
        "alpha": 0.5,
        "beta": 2.0,
    }
    agree(single("Gemm", arrays, {}, list(arrays), FLOAT, **attributes), arrays)


@pytest.mark.parametrize(
    "equation",
    ["ij,jk->ik", "...ij,...jk->...ik", "bhqd,bhkd->bhqk", "ii->i", "ij->", "...i->...", "i,j"],
)
def test_einsum(equation: str) -> None:
    sizes = dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 3)
    terms = equation.split("->")[0].split(",")
    arrays = {
        f"x{n}": values([2, *(sizes[c] for c in term[3:])])
        if term.startswith("...")
        else values([sizes[c] for c in term])
        for n, term in enumerate(terms)
    }
    agree(single("Einsum", arrays, {}, list(arrays), FLOAT, equation=equation), arrays)


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 13, 18])
def test_split_and_topk_in_every_form(opset: int) -> None:
    x = values((3, 7))
    sizes = np.array([3, 4], np.int64)
    outputs = {"y": TensorProto.FLOAT, "z": TensorProto.FLOAT}
    if opset < 13:
        split = single("Split", {"x": x}, {}, ["x"], outputs, opset, axis=1, split=[3, 4])
    else:
        split = single("Split", {"x": x}, {"s": sizes}, ["x", "s"], outputs, opset, axis=1)
    agree(split, {"x": x})
    outputs = {"y": TensorProto.FLOAT, "i": TensorProto.INT64}
    if opset < 10:
        top = single("TopK", {"x": x}, {}, ["x"], outputs, opset, k=3)
    else:
        top = single("TopK", {"x": x}, {"k": np.array([3], np.int64)}, ["x", "k"], outputs, opset)
    agree(top, {"x": x})


@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_family(operator: str, axis: int, opset: int) -> None:
    x = values((2, 3, 4))
    agree(single(operator, {"x": x}, {}, ["x"], FLOAT, opset, axis=axis), {"x": x})


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    x = values((2, 3, 4, 5))
    constants = {name: np.abs(values((3,))) + 0.1 for name in ("s", "b", "m", "v")}
    inputs = ["x", *constants]
    model = single("BatchNormalization", {"x": x}, constants, inputs, FLOAT, opset, epsilon=0.01)
    agree(model, {"x": x})
    nodes = import_model(model).nodes
    assert [node.op.name for node in nodes] == ["mul", "add"]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint8])
def test_integer_division_truncates(dtype: Any) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    arrays = {"x": np.array([7, -7, 7, -7, 9]).astype(dtype), "z": np.array([2, 2, 3, 3, 5], dtype)}
    agree(single("Div", arrays, {}, ["x", "z"], {"y": number}), arrays)


@pytest.mark.parametrize("opset", [6, 7, 9, 16])
def test_prelu_with_one_slope_per_channel(opset: int) -> None:
    x = values((2, 3, 4))
    slope = values((3, 1) if opset >= 7 else (3,))
    model = single("PRelu", {"x": x}, {"slope": slope}, ["x", "slope"], FLOAT, opset)
    expected = np.where(x < 0, x * slope.reshape(3, 1), x)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, x.shape))
    (actual,) = evaluate_graph(import_model(model), {"x": x})
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("operator", "attributes", "message"),
    [
        ("MaxPool", {"kernel_shape": [9]}, "expected a padded size of at least 9 on spatial axis"),
        ("MaxPool", {"kernel_shape": [2, 2]}, "expected kernel_shape with 1 sizes, got"),
        ("MaxPool", {"kernel_shape": [2], "strides": [0]}, "expected strides with 1 values"),
        ("MaxPool", {"kernel_shape": [2], "pads": [0]}, "expected 2 pads, got"),
        ("AveragePool", {"kernel_shape": [2], "auto_pad": "SOME"}, "expected auto_pad NOTSET"),
        ("LRN", {"size": 0}, "size of at least 1"),
    ],
)
def test_bad_attributes_are_refused(
    operator: str, attributes: dict[str, Any], message: str
) -> None:
    x = values((1, 2, 5))
    with pytest.raises(ModelError, match=message):
        import_model(single(operator, {"x": x}, {}, ["x"], FLOAT, 18, **attributes))
