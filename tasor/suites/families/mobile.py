"""Small networks for phones: MobileNetV2 and SqueezeNet 1.1.

Sources: Sandler et al., "MobileNetV2" (CVPR 2018), table 2, width 1.0; Iandola et al.,
"SqueezeNet" (2016), with the cheaper first layers of release 1.1.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, repetitions, stride of the first repetition."""

_FIRE_GROUPS = (((16, 64), (16, 64)), ((32, 128), (32, 128)), ((48, 192),) * 2 + ((64, 256),) * 2)
"""Squeeze and expand channels of the fire modules between two poolings."""


def _conv_bn_relu6(
    graph: GraphBuilder, x: Tensor, channels: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> Tensor:
    return graph.relu6(graph.conv_bn(x, channels, kernel, stride=stride, groups=groups))


def _inverted_residual(
    graph: GraphBuilder, x: Tensor, expansion: int, channels: int, stride: int
) -> Tensor:
    hidden = x.channels * expansion
    y = x if expansion == 1 else _conv_bn_relu6(graph, x, hidden, 1)
    y = _conv_bn_relu6(graph, y, hidden, 3, stride=stride, groups=hidden)
    y = graph.conv_bn(y, channels, 1)
    return graph.add(x, y) if stride == 1 and x.channels == channels else y


def mobilenetv2() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("mobilenetv2")
    x = _conv_bn_relu6(graph, graph.input("x", (1, 3, 224, 224)), 32, 3, stride=2)
    for expansion, channels, repetitions, stride in _INVERTED_RESIDUALS:
        for repetition in range(repetitions):
            first_stride = stride if repetition == 0 else 1
            x = _inverted_residual(graph, x, expansion, channels, first_stride)
    x = _conv_bn_relu6(graph, x, 1280, 1)
    return graph.finish(graph.gemm(graph.global_average_pool(x), 1000))


def _fire(graph: GraphBuilder, x: Tensor, squeeze: int, expand: int) -> Tensor:
    x = graph.relu(graph.conv(x, squeeze, 1, bias=True))
    return graph.concat(
        [
            graph.relu(graph.conv(x, expand, 1, bias=True)),
            graph.relu(graph.conv(x, expand, 3, pad=1, bias=True)),
        ]
    )


def squeezenet() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("squeezenet")
    x = graph.relu(graph.conv(graph.input("x", (1, 3, 224, 224)), 64, 3, stride=2, bias=True))
    for fires in _FIRE_GROUPS:
        x = graph.max_pool(x, 3, stride=2)
        for squeeze, expand in fires:
            x = _fire(graph, x, squeeze, expand)
    x = graph.relu(graph.conv(x, 1000, 1, bias=True))
    return graph.finish(graph.global_average_pool(x))
