"""Convolutional networks by how their layers are connected: DenseNet-121 and ShuffleNetV2 1.0.

Sources: Huang et al., "Densely connected convolutional networks" (CVPR 2017), table 1; Ma et al.,
"ShuffleNet V2" (ECCV 2018), table 5 and figure 3.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_DENSE_BLOCKS = (6, 12, 24, 16)
_GROWTH = 32
_SHUFFLE_STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and blocks."""


def _dense_layer(graph: GraphBuilder, x: Tensor) -> Tensor:
    """All channels so far and those that are made of them."""
    y = graph.conv(graph.relu(graph.batch_norm(x)), 4 * _GROWTH, 1)
    y = graph.conv(graph.relu(graph.batch_norm(y)), _GROWTH, 3, pad=1)
    return graph.concat([x, y])


def densenet121() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("densenet121")
    x = graph.relu(graph.conv_bn(graph.input("x", (1, 3, 224, 224)), 64, 7, stride=2))
    x = graph.max_pool(x, 3, stride=2, pad=1)
    for block, layers in enumerate(_DENSE_BLOCKS):
        if block:
            x = graph.conv(graph.relu(graph.batch_norm(x)), x.channels // 2, 1)
            x = graph.average_pool(x, 2, stride=2)
        for _ in range(layers):
            x = _dense_layer(graph, x)
    x = graph.relu(graph.batch_norm(x))
    return graph.finish(graph.gemm(graph.global_average_pool(x), 1000))


def _shuffled(graph: GraphBuilder, halves: list[Tensor]) -> Tensor:
    """The channels of two halves in turns."""
    x = graph.concat(halves)
    batch, channels, height, width = x.shape
    apart = graph.reshape(x, (batch, 2, channels // 2, height, width))
    return graph.reshape(graph.transpose(apart, (0, 2, 1, 3, 4)), x.shape)


def _shuffle_branch(graph: GraphBuilder, x: Tensor, channels: int, stride: int) -> Tensor:
    y = graph.relu(graph.conv_bn(x, channels, 1))
    y = graph.conv_bn(y, channels, 3, stride=stride, groups=channels)
    return graph.relu(graph.conv_bn(y, channels, 1))


def _shuffle_block(graph: GraphBuilder, x: Tensor, channels: int, first: bool) -> Tensor:
    half = channels // 2
    if first:
        kept = graph.conv_bn(x, x.channels, 3, stride=2, groups=x.channels)
        kept = graph.relu(graph.conv_bn(kept, half, 1))
        return _shuffled(graph, [kept, _shuffle_branch(graph, x, half, 2)])
    kept, changed = graph.slice(x, 1, 0, half), graph.slice(x, 1, half, channels)
    return _shuffled(graph, [kept, _shuffle_branch(graph, changed, half, 1)])


def shufflenetv2() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("shufflenetv2")
    x = graph.relu(graph.conv_bn(graph.input("x", (1, 3, 224, 224)), 24, 3, stride=2))
    x = graph.max_pool(x, 3, stride=2, pad=1)
    for channels, blocks in _SHUFFLE_STAGES:
        for block in range(blocks):
            x = _shuffle_block(graph, x, channels, first=block == 0)
    x = graph.relu(graph.conv_bn(x, 1024, 1))
    return graph.finish(graph.gemm(graph.global_average_pool(x), 1000))
