"""NASNet-A for phones, 4 @ 1056.

Source: Zoph et al., "Learning transferable architectures" (CVPR 2018), figure 4 (the two cells),
appendix A.4 (stem, factorized reduction). Batch size 1, no auxiliary head.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_FILTERS = 44
"""Of a cell in the first stage: 1056 penultimate channels, 24 = 6 parts * 4 times as many."""

_NORMAL_CELLS = 4
_EPSILON = 1e-3


def _relu_conv_bn(graph: GraphBuilder, x: Tensor, filters: int) -> Tensor:
    return graph.batch_norm(graph.conv(graph.relu(x), filters, 1), _EPSILON)


def _separable(graph: GraphBuilder, x: Tensor, filters: int, kernel: int, stride: int) -> Tensor:
    """ReLU, depthwise, pointwise, batch normalization: twice, the stride in the first."""
    for step in (stride, 1):
        x = graph.relu(x)
        x = graph.conv(x, x.channels, kernel, stride=step, pad=kernel // 2, groups=x.channels)
        x = graph.batch_norm(graph.conv(x, filters, 1), _EPSILON)
    return x


def _shift(graph: GraphBuilder, x: Tensor) -> Tensor:
    """x moved by one pixel up and left, zeros moving in."""
    batch, channels, height, width = x.shape
    pads = graph.integers((0, 0, 0, 0, 0, 0, 1, 1), "pad.pads")
    padded = graph.node(
        "Pad", [x, pads], (batch, channels, height + 1, width + 1), x.mean, x.variance
    )
    bounds = [
        graph.integers((1, 1), "slice.starts"),
        graph.integers((height + 1, width + 1), "slice.ends"),
        graph.integers((2, 3), "slice.axes"),
    ]
    return graph.node("Slice", [padded, *bounds], x.shape, x.mean, x.variance)


def _factorized_reduction(graph: GraphBuilder, x: Tensor, filters: int) -> Tensor:
    """Halve height and width; half of the filters see the even pixels, half the odd."""
    x = graph.relu(x)
    even = graph.conv(graph.average_pool(x, 1, stride=2), filters // 2, 1)
    odd = graph.conv(graph.average_pool(_shift(graph, x), 1, stride=2), filters // 2, 1)
    return graph.batch_norm(graph.concat([even, odd]), _EPSILON)


def _fit_previous(graph: GraphBuilder, previous: Tensor, x: Tensor, filters: int) -> Tensor:
    if previous.spatial != x.spatial:
        return _factorized_reduction(graph, previous, filters)
    return _relu_conv_bn(graph, previous, filters)


def _average(graph: GraphBuilder, x: Tensor, stride: int) -> Tensor:
    return graph.average_pool(x, 3, stride=stride, pad=1)


def _normal_cell(graph: GraphBuilder, previous: Tensor, x: Tensor, filters: int) -> Tensor:
    p = _fit_previous(graph, previous, x, filters)
    h = _relu_conv_bn(graph, x, filters)
    return graph.concat(
        [
            p,
            graph.add(_separable(graph, h, filters, 5, 1), _separable(graph, p, filters, 3, 1)),
            graph.add(_separable(graph, p, filters, 5, 1), _separable(graph, p, filters, 3, 1)),
            graph.add(_average(graph, h, 1), p),
            graph.add(_average(graph, p, 1), _average(graph, p, 1)),
            graph.add(_separable(graph, h, filters, 3, 1), h),
        ]
    )


def _reduction_cell(graph: GraphBuilder, previous: Tensor, x: Tensor, filters: int) -> Tensor:
    p = _fit_previous(graph, previous, x, filters)
    h = _relu_conv_bn(graph, x, filters)
    first = graph.add(_separable(graph, h, filters, 5, 2), _separable(graph, p, filters, 7, 2))
    second = graph.add(graph.max_pool(h, 3, stride=2, pad=1), _separable(graph, p, filters, 7, 2))
    return graph.concat(
        [
            second,
            graph.add(_average(graph, h, 2), _separable(graph, p, filters, 5, 2)),
            graph.add(_average(graph, first, 1), second),
            graph.add(
                _separable(graph, first, filters, 3, 1), graph.max_pool(h, 3, stride=2, pad=1)
            ),
        ]
    )


def nasnet_a() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("nasnet_a")
    stem = graph.conv(graph.input("x", (1, 3, 224, 224)), 32, 3, stride=2)
    stem = graph.batch_norm(stem, _EPSILON)
    previous, x = stem, _reduction_cell(graph, stem, stem, _FILTERS // 4)
    previous, x = x, _reduction_cell(graph, previous, x, _FILTERS // 2)
    for stage in range(3):
        filters = _FILTERS * 2**stage
        if stage > 0:
            previous, x = x, _reduction_cell(graph, previous, x, filters)
        for _ in range(_NORMAL_CELLS):
            previous, x = x, _normal_cell(graph, previous, x, filters)
    return graph.finish(graph.gemm(graph.global_average_pool(graph.relu(x)), 1000))
