"""A detector of one stage: YOLOv5s at 320 x 320, to boxes that are not yet scaled.

Source: the structure that Jocher et al. published as YOLOv5, release 6: cross-stage parts (Wang et
al., "CSPNet", CVPR workshops 2020), pooled features (He et al., "Spatial pyramid pooling", ECCV
2014, three times five wide) and paths both ways (Liu et al., "Path aggregation network", CVPR
2018).
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_SIDE = 320
_ANCHORS = 3
_VALUES = 85
"""Of each box: four of its place, one whether it is one, and eighty classes."""


def _conv(graph: GraphBuilder, x: Tensor, channels: int, kernel: int, stride: int = 1) -> Tensor:
    return graph.silu(
        graph.conv(x, channels, kernel, stride=stride, pad=(kernel - 1) // 2, bias=True)
    )


def _cross_stage(
    graph: GraphBuilder, x: Tensor, channels: int, blocks: int, residual: bool = True
) -> Tensor:
    """Half of the channels through bottlenecks, the other half past them."""
    y = _conv(graph, x, channels // 2, 1)
    for _ in range(blocks):
        inner = _conv(graph, _conv(graph, y, channels // 2, 1), channels // 2, 3)
        y = graph.add(y, inner) if residual else inner
    return _conv(graph, graph.concat([y, _conv(graph, x, channels // 2, 1)]), channels, 1)


def _pooled(graph: GraphBuilder, x: Tensor) -> Tensor:
    parts = [_conv(graph, x, x.channels // 2, 1)]
    for _ in range(3):
        parts.append(graph.max_pool(parts[-1], 5, stride=1, pad=2))
    return _conv(graph, graph.concat(parts), x.channels, 1)


def _boxes(graph: GraphBuilder, x: Tensor) -> Tensor:
    """(1, boxes, values) of one scale."""
    values = graph.conv(x, _ANCHORS * _VALUES, 1, bias=True)
    apart = graph.reshape(values, (1, _ANCHORS, _VALUES, *x.spatial))
    last = graph.elementwise("Sigmoid", graph.transpose(apart, (0, 1, 3, 4, 2)))
    return graph.reshape(last, (1, _ANCHORS * x.spatial[0] * x.spatial[1], _VALUES))


def yolo() -> onnx.ModelProto:
    """x (1, 3, 320, 320) -> boxes (1, 6300, 85)."""
    graph = GraphBuilder("yolo")
    x = graph.silu(
        graph.conv(graph.input("x", (1, 3, _SIDE, _SIDE)), 32, 6, stride=2, pad=2, bias=True)
    )
    x = _cross_stage(graph, _conv(graph, x, 64, 3, stride=2), 64, 1)
    fine = _cross_stage(graph, _conv(graph, x, 128, 3, stride=2), 128, 2)
    middle = _cross_stage(graph, _conv(graph, fine, 256, 3, stride=2), 256, 3)
    x = _pooled(graph, _cross_stage(graph, _conv(graph, middle, 512, 3, stride=2), 512, 1))

    coarse = _conv(graph, x, 256, 1)
    x = graph.concat([graph.upsample(coarse, 2), middle])
    between = _conv(graph, _cross_stage(graph, x, 256, 1, residual=False), 128, 1)
    x = graph.concat([graph.upsample(between, 2), fine])
    fine = _cross_stage(graph, x, 128, 1, residual=False)
    x = graph.concat([_conv(graph, fine, 128, 3, stride=2), between])
    middle = _cross_stage(graph, x, 256, 1, residual=False)
    x = graph.concat([_conv(graph, middle, 256, 3, stride=2), coarse])
    last = _cross_stage(graph, x, 512, 1, residual=False)
    return graph.finish(graph.concat([_boxes(graph, y) for y in (fine, middle, last)]))
