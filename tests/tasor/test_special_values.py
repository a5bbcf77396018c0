"""NaN, infinities and subnormal numbers through every kind of kernel, against ONNX's reference.

All other values are small whole numbers, so that sums of products are exact in any order, and a
result that differs at all is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tasor
from tensorgen.types import Array
from tests.compiled_kernels import ISA_TARGETS, runnable_isas
from tests.required_tools import require

slow = functools.partial(pytest.param, marks=pytest.mark.slow)

SMALLEST = np.float32(2.0**-149)
"""The smallest number above 0."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: the shape of its data, weights of which shape, attributes.

    `exact` tells that whole numbers give whole numbers; other results may round, in either order.
    """

    operator: str
    data: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True
    second: tuple[int, ...] = ()


def window(kernel: int, rank: int = 2, **more: Any) -> dict[str, Any]:
    return {"kernel_shape": [kernel] * rank, **more}


NODES: Mapping[str, Node] = {
    "product": Node("MatMul", (7, 19), ((19, 37),)),
    "product of data": Node("MatMul", (3, 5, 11), second=(3, 11, 18)),
    "vector": Node("MatMul", (1, 64), ((64, 33),)),
    "gemm": Node("Gemm", (6, 10), ((10, 17), (17,)), {"alpha": 2.0}),
    "pointwise": Node("Conv", (1, 9, 7, 13), ((17, 9, 1, 1), (17,))),
    "conv": Node("Conv", (1, 3, 9, 11), ((16, 3, 3, 3), (16,)), {"pads": [1, 0, 2, 1]}),
    "strided": Node("Conv", (2, 4, 11, 10), ((5, 4, 3, 3),), {"strides": [2, 3]}),
    "dilated": Node("Conv", (1, 4, 11, 13), ((5, 4, 3, 3),), {"dilations": [2, 3]}),
    "grouped": Node("Conv", (1, 6, 7, 9), ((12, 3, 3, 3),), {"group": 2, "pads": [1] * 4}),
    "depthwise": Node("Conv", (1, 5, 9, 23), ((5, 1, 3, 3), (5,)), {"group": 5, "pads": [1] * 4}),
    "line": Node("Conv", (1, 4, 29), ((7, 4, 5),), {"pads": [2, 2]}),
    "volume": Node("Conv", (1, 2, 5, 6, 7), ((3, 2, 3, 3, 3),), {"pads": [1] * 6}),
    "transposed": Node("ConvTranspose", (1, 4, 5, 6), ((4, 3, 4, 4),),
                       {"strides": [2, 2], "pads": [1] * 4}),
    "transposed, ragged": Node("ConvTranspose", (1, 4, 5, 6), ((4, 3, 3, 3),), {"strides": [2, 2]}),
    "maxima": Node("MaxPool", (1, 3, 9, 21), attributes=window(3, strides=[1, 2], pads=[1] * 4)),
    "average": Node("AveragePool", (1, 3, 8, 20), attributes=window(2, strides=[2, 2])),
    "average all": Node("GlobalAveragePool", (2, 3, 4, 8)),
    "sum": Node("ReduceSum", (5, 70), attributes={"keepdims": 0}),
    "mean": Node("ReduceMean", (4, 64), attributes={"axes": [1]}),
    "maximum": Node("ReduceMax", (9, 41), attributes={"axes": [1]}),
    "minimum": Node("ReduceMin", (9, 41), attributes={"axes": [0]}),
    "relu": Node("Relu", (3, 33)),
    "leaky": Node("LeakyRelu", (3, 33), attributes={"alpha": 0.5}),
    "add": Node("Add", (3, 33), second=(3, 33)),
    "multiply": Node("Mul", (3, 33), second=(33,)),
    "larger": Node("Max", (3, 33), second=(3, 33)),
    "smaller": Node("Min", (3, 33), second=(33,)),
    "is it": Node("IsNaN", (3, 33)),
    "order": Node("Less", (3, 33), second=(3, 33)),
    "transposition": Node("Transpose", (9, 31), attributes={"perm": [1, 0]}),
    "divide": Node("Div", (3, 33), second=(3, 1), exact=False),
    "softmax": Node("Softmax", (40, 37), exact=False),
    "logarithmic": Node("LogSoftmax", (40, 5), exact=False),
    "layer": Node("LayerNormalization", (12, 48), ((48,), (48,)), exact=False),
    "instance": Node("InstanceNormalization", (2, 3, 5, 7), ((3,), (3,)), exact=False),
    "exp": Node("Exp", (3, 33), exact=False),
    "log": Node("Log", (3, 33), exact=False),
    "tanh": Node("Tanh", (3, 33), exact=False),
    "sigmoid": Node("Sigmoid", (3, 33), exact=False),
    "erf": Node("Erf", (3, 33), exact=False),
    "root": Node("Sqrt", (3, 33), exact=False),
}  # fmt: skip


def plain_dilated(x: Array, w: Array) -> Array:
    taps = sliding_window_view(x, (5, 7), axis=(2, 3))[..., ::2, ::3]
    with np.errstate(invalid="ignore"):
        result: Array = np.einsum("nchwij,ocij->nohw", taps, w).astype(np.float32)
    return result


def plain_average(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        result: Array = sliding_window_view(x, (2, 2), axis=(2, 3))[:, :, ::2, ::2].mean(
            axis=(4, 5)
        )
    return result


def plain_maxima(x: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    taps = sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, :, ::2]
    result: Array = taps.max(axis=(4, 5))
    return result


PLAIN: Mapping[str, Callable[..., Array]] = {
    "dilated": plain_dilated,
    "average": plain_average,
    "maxima": plain_maxima,
}
"""Where ONNX's reference goes another way: it dilates weights with zeros, which makes NaN of an
infinity that no tap meets, and takes NaN for padding."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One network of all nodes, each with data of its own, and what they should give."""

    model: onnx.ModelProto
    data: Mapping[str, Array]
    expected: Mapping[str, Array]


def subject(numbers: Mapping[str, tuple[Array, ...]]) -> Subject:
    """The network over the arrays that each node is given: data, the second operand, weights."""
    nodes, constants, inputs, outputs, data = [], [], [], [], {}
    for name, node in NODES.items():
        names = [f"{name} {number}" for number in range(len(numbers[name]))]
        given = 2 if node.second else 1
        nodes.append(helper.make_node(node.operator, names, [name], **node.attributes))
        for port, array in zip(names[:given], numbers[name], strict=False):
            inputs.append(helper.make_tensor_value_info(port, TensorProto.FLOAT, array.shape))
            data[port] = array
        for port, array in zip(names[given:], numbers[name][given:], strict=True):
            constants.append(numpy_helper.from_array(array, port))
        boolean = node.operator in ("IsNaN", "Less")
        kind = TensorProto.BOOL if boolean else TensorProto.FLOAT
        outputs.append(helper.make_tensor_value_info(name, kind, None))
    graph = helper.make_graph(nodes, "special", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(model).run(None, data)
    expected = dict(zip(NODES, results, strict=True))
    for name, meaning in PLAIN.items():
        expected[name] = meaning(*numbers[name])
    return Subject(model, data, expected)


def whole(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-4, 5, shape).astype(np.float32)


def drawn(node: Node, rng: np.random.Generator, specials: tuple[float, ...]) -> tuple[Array, ...]:
    """Operands of a node: whole numbers, and in the data now and then a special value."""

    def data(shape: tuple[int, ...]) -> Array:
        values = whole(rng, shape)
        mask = rng.random(shape) < 0.04
        values[mask] = rng.choice(np.array(specials, np.float32), int(mask.sum()))
        return values

    operands = [data(node.data)]
    if node.second:
        operands.append(data(node.second))
    return (*operands, *(whole(rng, shape) for shape in node.weights))


@pytest.fixture(scope="module")
def special() -> Subject:
    rng = np.random.default_rng(11)
    values = (np.nan, np.inf, -np.inf)
    return subject({name: drawn(node, rng, values) for name, node in NODES.items()})


@pytest.fixture(scope="module")
def subnormal() -> Subject:
    """Numbers so small that every product and every sum is subnormal, and exact."""
    rng = np.random.default_rng(12)

    def small(node: Node) -> tuple[Array, ...]:
        operands = drawn(node, rng, (0.0,))
        given = 1 if node.operator in ("MatMul", "Mul", "Div") else 1 + bool(node.second)
        tiny = [array * SMALLEST * np.float32(8) for array in operands[:given]]
        if node.operator in ("Gemm", "Conv") and len(operands) == 3:
            return (*tiny, operands[1], operands[2] * SMALLEST)
        return (*tiny, *operands[given:])

    return subject({name: small(node) for name, node in NODES.items()})


def wrong(name: str, found: Array, expected: Array) -> str:
    """What is wrong with a result; nothing if it is right."""
    assert found.shape == expected.shape, name
    with np.errstate(invalid="ignore"):
        same = (found == expected) | ((found != found) & (expected != expected))
        if not NODES[name].exact:
            near = np.isclose(found, expected, rtol=1e-5, atol=1e-6)
            same |= np.isfinite(expected) & near
    if same.all():
        return ""
    return f"{name}: {(~same).sum()}: {found[~same][:6]} for {expected[~same][:6]}"


@pytest.mark.parametrize("values", ["special", "subnormal"])
@pytest.mark.parametrize("strict", [False, slow(True)], ids=["fast", "strict"])
@pytest.mark.parametrize("isa", [runnable_isas()[-1], *map(slow, runnable_isas()[:-1])])
def test_kernels_give_what_onnx_says(
    isa: str, strict: bool, values: str, request: pytest.FixtureRequest
) -> None:
    given: Subject = request.getfixturevalue(values)
    model = tasor.compile(
        given.model, target=ISA_TARGETS[isa], threads=2, strict=strict, winograd=False
    )
    found = model.run(given.data)
    assert SMALLEST * np.float32(1) > 0, "the library leaves flush-to-zero as it was"
    assert found.keys() == given.expected.keys()
    problems = [wrong(name, found[name], given.expected[name]) for name in found]
    found_wrong = list(filter(None, problems))
    assert not found_wrong, "\n".join(found_wrong)


def at_odd_places(array: Array) -> Array:
    """The same values where only elements are aligned."""
    memory = np.zeros(array.nbytes + 64 + array.itemsize, np.uint8)
    start = -memory.ctypes.data % 64 + array.itemsize
    moved: Array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


@pytest.mark.parametrize("isa", runnable_isas()[-1:])
def test_arrays_need_the_alignment_of_their_elements_only(
    isa: str, special: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("gcc")
    monkeypatch.setenv("CC", "gcc -fsanitize=alignment,bounds -fno-sanitize-recover=all")
    model = tasor.compile(special.model, target=ISA_TARGETS[isa], threads=1)
    inputs = [special.data[port.name] for port in model.inputs]
    aligned = model(*inputs)
    outputs = [at_odd_places(array) for array in aligned]
    model.run_into([at_odd_places(array) for array in inputs], outputs)
    for port, found, expected in zip(model.outputs, outputs, aligned, strict=True):
        assert found.tobytes() == expected.tobytes(), port.name


def test_elements_that_are_not_aligned_are_copied_or_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "neg",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])],
    )
    model = tasor.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), threads=1
    )
    x = np.zeros(21, np.uint8)[1:].view(np.float32)
    x[...] = [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(model(x), [-1, -2, -3, -4, -5])
    with pytest.raises(tasor.InputError, match="contiguous aligned memory"):
        model.run_into([x], [np.empty(5, np.float32)])


SPREAD = 6
"""How far a value reaches beyond its window in a tile of minimal filtering, at most: its points."""


def test_filtering_spreads_special_values_over_their_tiles_and_no_further() -> None:
    rng = np.random.default_rng(13)
    x, w = whole(rng, (1, 64, 40, 48)), whole(rng, (64, 64, 3, 3))
    places = ((0, 3, 4), (5, 20, 30), (17, 39, 47))
    for (channel, row, column), value in zip(places, (np.nan, np.inf, -np.inf), strict=True):
        x[0, channel, row, column] = value
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    graph = helper.make_graph(
        [node], "filtered",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model = tasor.compile(proto, target=ISA_TARGETS[runnable_isas()[-1]], threads=1)
    if not any("winograd" in kernel.schedule for kernel in model.module.kernels):
        pytest.skip("filtering does not pay here")
    (found,) = model.run({"x": x}).values()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = sliding_window_view(padded, (3, 3), axis=(2, 3))
    with np.errstate(invalid="ignore"):
        expected = np.einsum("nchwij,ocij->nohw", taps, w, optimize=True)
    assert not np.isfinite(found[~np.isfinite(expected)]).any()
    rows, columns = np.ogrid[: x.shape[2], : x.shape[3]]
    near = np.zeros(x.shape[2:], bool)
    for _, row, column in places:
        near |= (abs(rows - row) <= SPREAD) & (abs(columns - column) <= SPREAD)
    np.testing.assert_allclose(found[..., ~near], expected[..., ~near], rtol=1e-4, atol=1e-2)
