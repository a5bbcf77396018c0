"""Residual networks: ResNet-50, ResNeXt-50 32x4d and 3D-ResNet-18.

Sources: He et al., "Deep residual learning" (CVPR 2016), table 1, with the stride of a bottleneck
in its 3x3 convolution; Xie et al., "Aggregated residual transformations" (CVPR 2017), table 1;
Tran et al., "A closer look at spatiotemporal convolutions" (CVPR 2018), table 1, R3D.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Size, Tensor

_EXPANSION = 4
_STAGES_50 = (3, 4, 6, 3)
_STAGES_18 = (2, 2, 2, 2)


def _conv_bn(
    graph: GraphBuilder,
    x: Tensor,
    channels: int,
    kernel: Size,
    *,
    stride: Size = 1,
    pad: Size = 0,
    groups: int = 1,
) -> Tensor:
    conv = graph.conv(x, channels, kernel, stride=stride, pad=pad, groups=groups)
    return graph.batch_norm(conv)


def _shortcut(graph: GraphBuilder, x: Tensor, channels: int, stride: int) -> Tensor:
    if stride == 1 and x.channels == channels:
        return x
    return _conv_bn(graph, x, channels, 1, stride=stride)


def _bottleneck(
    graph: GraphBuilder, x: Tensor, planes: int, stride: int, groups: int, group_width: int
) -> Tensor:
    width = planes * group_width * groups // 64
    y = graph.relu(_conv_bn(graph, x, width, 1))
    y = graph.relu(_conv_bn(graph, y, width, 3, stride=stride, pad=1, groups=groups))
    y = _conv_bn(graph, y, planes * _EXPANSION, 1)
    return graph.relu(graph.add(y, _shortcut(graph, x, planes * _EXPANSION, stride)))


def _basic_block(graph: GraphBuilder, x: Tensor, planes: int, stride: int) -> Tensor:
    y = graph.relu(_conv_bn(graph, x, planes, 3, stride=stride, pad=1))
    y = _conv_bn(graph, y, planes, 3, pad=1)
    return graph.relu(graph.add(y, _shortcut(graph, x, planes, stride)))


def _bottleneck_network(name: str, groups: int, group_width: int) -> onnx.ModelProto:
    graph = GraphBuilder(name)
    x = graph.input("x", (1, 3, 224, 224))
    x = graph.relu(_conv_bn(graph, x, 64, 7, stride=2, pad=3))
    x = graph.max_pool(x, 3, stride=2, pad=1)
    for stage, blocks in enumerate(_STAGES_50):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _bottleneck(graph, x, 64 * 2**stage, stride, groups, group_width)
    return graph.finish(graph.gemm(graph.global_average_pool(x), 1000))


def resnet50() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    return _bottleneck_network("resnet50", groups=1, group_width=64)


def resnext50() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    return _bottleneck_network("resnext50", groups=32, group_width=4)


def resnet3d18() -> onnx.ModelProto:
    """x (1, 3, 16 frames, 112, 112) -> logits (1, 400)."""
    graph = GraphBuilder("resnet3d18")
    x = graph.input("x", (1, 3, 16, 112, 112))
    x = graph.relu(_conv_bn(graph, x, 64, (3, 7, 7), stride=(1, 2, 2), pad=(1, 3, 3)))
    for stage, blocks in enumerate(_STAGES_18):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _basic_block(graph, x, 64 * 2**stage, stride)
    return graph.finish(graph.gemm(graph.global_average_pool(x), 400))
