"""Sizes of zero and one and prime sizes, through every kind of kernel, against ONNX's reference.

Values are small whole numbers, so that sums of products are exact in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tasor
from tensorgen.types import Array

SIZES = st.sampled_from([1, 1, 2, 3, 5, 7, 11, 13, 17, 19, 31, 37])
MAYBE_EMPTY = st.sampled_from([0, 1, 2, 3, 5, 17, 37])


@dataclass(frozen=True, slots=True)
class Node:
    """An operator on data, and on weights that are known when it is compiled."""

    operator: str
    data: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    attributes: tuple[tuple[str, Any], ...] = ()


@st.composite
def products(draw: st.DrawFn) -> Node:
    batch = draw(st.sampled_from([(), (0,), (1,), (3,)]))
    rows, columns, depth = draw(MAYBE_EMPTY), draw(MAYBE_EMPTY), draw(MAYBE_EMPTY)
    x, y = (*batch, rows, depth), (*batch, depth, columns)
    return Node("MatMul", *(((x,), (y,)) if draw(st.booleans()) else ((x, y), ())))


@st.composite
def convolutions(draw: st.DrawFn) -> Node:
    """Of one to three axes; grouped, strided, dilated and padded, each axis in its own way."""
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([1, 2, 7, 17]))
    kernel = draw(st.tuples(*[st.integers(1, 3)] * rank))
    strides = draw(st.tuples(*[st.integers(1, 3)] * rank))
    dilations = draw(st.tuples(*[st.integers(1, 2)] * rank))
    pads = draw(st.tuples(*[st.integers(0, 2)] * (2 * rank)))
    least = (
        max(1, (k - 1) * d + 1 - pads[axis] - pads[rank + axis])
        for axis, (k, d) in enumerate(zip(kernel, dilations, strict=True))
    )
    sizes = tuple(size + draw(st.sampled_from([0, 1, 4, 12])) for size in least)
    batch = draw(st.sampled_from([0, 1, 1, 2]))
    attributes = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads}
    weights = ((groups * outputs, inputs, *kernel), (groups * outputs,))
    return Node(
        "Conv", ((batch, groups * inputs, *sizes),), weights, tuple(attributes.items())
    )  # fmt: skip


@st.composite
def depthwise(draw: st.DrawFn) -> Node:
    channels = draw(st.sampled_from([1, 2, 17]))
    kernel = draw(st.sampled_from([2, 3, 5]))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    height, width = kernel + draw(SIZES), kernel + draw(SIZES)
    stride = draw(st.integers(1, 2))
    attributes = {"group": channels, "strides": (stride, stride), "pads": pads}
    data = (draw(st.sampled_from([0, 1, 2])), channels, height, width)
    return Node("Conv", (data,), ((channels, 1, kernel, kernel),), tuple(attributes.items()))


@st.composite
def transposed(draw: st.DrawFn) -> Node:
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    strides = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    channels = draw(st.sampled_from([(1, 1), (2, 3), (5, 17)]))
    sizes = (draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([1, 3, 7])))
    return Node(
        "ConvTranspose", ((1, channels[0], *sizes),), ((*channels, *kernel),),
        (("strides", strides),),
    )  # fmt: skip


@st.composite
def pools(draw: st.DrawFn) -> Node:
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    height, width = kernel + draw(SIZES) - 1, kernel + draw(SIZES) - 1
    data = (draw(st.sampled_from([0, 1, 3])), draw(st.sampled_from([1, 5])), height, width)
    attributes = (("kernel_shape", (kernel, kernel)), ("strides", (stride, stride)))
    return Node("MaxPool", (data,), (), attributes)


@st.composite
def elementwise(draw: st.DrawFn) -> Node:
    shape = draw(st.lists(MAYBE_EMPTY, max_size=3))
    other = tuple(1 if draw(st.booleans()) else size for size in shape)
    operator = draw(st.sampled_from(["Add", "Mul", "Max"]))
    return Node(operator, (tuple(shape), other), ())


@st.composite
def rows(draw: st.DrawFn) -> Node:
    shape = (draw(MAYBE_EMPTY), draw(SIZES))
    operator = draw(st.sampled_from(["Softmax", "ReduceMax", "Transpose"]))
    attributes: dict[str, tuple[tuple[str, Any], ...]] = {
        "Softmax": (),
        "ReduceMax": (("axes", (1,)),),
        "Transpose": (("perm", (1, 0)),),
    }
    return Node(operator, (shape,), (), attributes[operator])


NODES = st.one_of(
    products(), convolutions(), depthwise(), transposed(), pools(), elementwise(), rows()
)


def network(nodes: Sequence[Node]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The nodes beside each other, and their data."""
    rng = np.random.default_rng(len(nodes))
    made, constants, inputs, outputs, data = [], [], [], [], {}

    def whole(shape: tuple[int, ...]) -> Array:
        return rng.integers(-4, 5, shape).astype(np.float32)

    for number, node in enumerate(nodes):
        given = [f"x{number}_{n}" for n in range(len(node.data))]
        known = [f"w{number}_{n}" for n in range(len(node.weights))]
        made.append(
            helper.make_node(
                node.operator, [*given, *known], [f"y{number}"], **dict(node.attributes)
            )
        )
        for name, shape in zip(given, node.data, strict=True):
            data[name] = whole(shape)
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        for name, shape in zip(known, node.weights, strict=True):
            constants.append(numpy_helper.from_array(whole(shape), name))
        outputs.append(helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, None))
    graph = helper.make_graph(made, "odd", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), data


def check(nodes: Sequence[Node], threads: int, target: str) -> None:
    proto, data = network(nodes)
    found = tasor.compile(proto, threads=threads, target=target).run(data)
    for number, node in enumerate(nodes):
        names = [name for name in data if name.startswith(f"x{number}_")]
        reference = ReferenceEvaluator(_only(proto, number))
        with np.errstate(all="ignore"):
            results = reference.run(None, {name: data[name] for name in names})
        assert isinstance(results, list)
        tolerance = 1e-5 if node.operator == "Softmax" else 1e-4
        np.testing.assert_allclose(
            found[f"y{number}"], results[0], rtol=tolerance, atol=tolerance, err_msg=str(node)
        )


def _only(proto: onnx.ModelProto, number: int) -> onnx.ModelProto:
    """A model of one of the nodes."""
    node = proto.graph.node[number]
    graph = helper.make_graph(
        [node], "one",
        [port for port in proto.graph.input if port.name in node.input],
        [port for port in proto.graph.output if port.name in node.output],
        [tensor for tensor in proto.graph.initializer if tensor.name in node.input],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=proto.opset_import)


@given(st.lists(NODES, min_size=24, max_size=24))
@settings(
    deadline=None, max_examples=2, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)  # fmt: skip
@pytest.mark.parametrize(("threads", "target"), [(1, "host"), (2, "host"), (1, "c99")])
def test_odd_sizes(threads: int, target: str, nodes: list[Node]) -> None:
    check(nodes, threads, target)
