"""Inception v3.

Source: Szegedy et al., "Rethinking the Inception architecture" (CVPR 2016), table 1 and figures 5
to 7, at the channel counts of the released model, without the auxiliary classifier.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Size, Tensor

_EPSILON = 1e-3


def _conv(
    graph: GraphBuilder,
    x: Tensor,
    channels: int,
    kernel: Size,
    *,
    stride: int = 1,
    pad: Size = 0,
) -> Tensor:
    conv = graph.conv(x, channels, kernel, stride=stride, pad=pad)
    return graph.relu(graph.batch_norm(conv, _EPSILON))


def _row(graph: GraphBuilder, x: Tensor, channels: int, length: int) -> Tensor:
    return _conv(graph, x, channels, (1, length), pad=(0, length // 2))


def _column(graph: GraphBuilder, x: Tensor, channels: int, length: int) -> Tensor:
    return _conv(graph, x, channels, (length, 1), pad=(length // 2, 0))


def _pooled(graph: GraphBuilder, x: Tensor, channels: int) -> Tensor:
    return _conv(graph, graph.average_pool(x, 3, stride=1, pad=1, count_padding=True), channels, 1)


def _module_35(graph: GraphBuilder, x: Tensor, pool_channels: int) -> Tensor:
    five = _conv(graph, _conv(graph, x, 48, 1), 64, 5, pad=2)
    three = _conv(graph, _conv(graph, x, 64, 1), 96, 3, pad=1)
    three = _conv(graph, three, 96, 3, pad=1)
    return graph.concat([_conv(graph, x, 64, 1), five, three, _pooled(graph, x, pool_channels)])


def _reduce_to_17(graph: GraphBuilder, x: Tensor) -> Tensor:
    double = _conv(graph, _conv(graph, x, 64, 1), 96, 3, pad=1)
    return graph.concat(
        [
            _conv(graph, x, 384, 3, stride=2),
            _conv(graph, double, 96, 3, stride=2),
            graph.max_pool(x, 3, stride=2),
        ]
    )


def _module_17(graph: GraphBuilder, x: Tensor, inner: int) -> Tensor:
    seven = _row(graph, _conv(graph, x, inner, 1), inner, 7)
    seven = _column(graph, seven, 192, 7)
    double = _column(graph, _conv(graph, x, inner, 1), inner, 7)
    double = _column(graph, _row(graph, double, inner, 7), inner, 7)
    double = _row(graph, double, 192, 7)
    return graph.concat([_conv(graph, x, 192, 1), seven, double, _pooled(graph, x, 192)])


def _reduce_to_8(graph: GraphBuilder, x: Tensor) -> Tensor:
    three = _conv(graph, _conv(graph, x, 192, 1), 320, 3, stride=2)
    seven = _row(graph, _conv(graph, x, 192, 1), 192, 7)
    seven = _conv(graph, _column(graph, seven, 192, 7), 192, 3, stride=2)
    return graph.concat([three, seven, graph.max_pool(x, 3, stride=2)])


def _module_8(graph: GraphBuilder, x: Tensor) -> Tensor:
    three = _conv(graph, x, 384, 1)
    double = _conv(graph, _conv(graph, x, 448, 1), 384, 3, pad=1)
    return graph.concat(
        [
            _conv(graph, x, 320, 1),
            graph.concat([_row(graph, three, 384, 3), _column(graph, three, 384, 3)]),
            graph.concat([_row(graph, double, 384, 3), _column(graph, double, 384, 3)]),
            _pooled(graph, x, 192),
        ]
    )


def inceptionv3() -> onnx.ModelProto:
    """x (1, 3, 299, 299) -> logits (1, 1000)."""
    graph = GraphBuilder("inceptionv3")
    x = _conv(graph, graph.input("x", (1, 3, 299, 299)), 32, 3, stride=2)
    x = _conv(graph, _conv(graph, x, 32, 3), 64, 3, pad=1)
    x = graph.max_pool(x, 3, stride=2)
    x = _conv(graph, _conv(graph, x, 80, 1), 192, 3)
    x = graph.max_pool(x, 3, stride=2)
    for pool_channels in (32, 64, 64):
        x = _module_35(graph, x, pool_channels)
    x = _reduce_to_17(graph, x)
    for inner in (128, 160, 160, 192):
        x = _module_17(graph, x, inner)
    x = _reduce_to_8(graph, x)
    for _ in range(2):
        x = _module_8(graph, x)
    return graph.finish(graph.gemm(graph.global_average_pool(x), 1000))
