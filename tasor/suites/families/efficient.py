"""Networks of depthwise convolutions with gated channels: EfficientNet-B0 and MobileNetV3-Large.

Sources: Tan and Le, "EfficientNet" (ICML 2019), table 1; Howard et al., "Searching for MobileNetV3"
(ICCV 2019), table 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from tasor.suites.builder import GraphBuilder, Tensor


@dataclass(frozen=True, slots=True)
class _Block:
    """An inverted residual; the gate goes through `squeezed` channels, or there is none."""

    kernel: int
    hidden: int
    channels: int
    stride: int
    activation: Callable[[GraphBuilder, Tensor], Tensor]
    squeezed: int = 0


@dataclass(frozen=True, slots=True)
class _Gate:
    """The two functions of a small network that gates channels."""

    between: Callable[[GraphBuilder, Tensor], Tensor]
    operator: str


_EFFICIENT_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Expansion, output channels, repetitions, stride of the first repetition, kernel."""

_MOBILE_BLOCKS = (
    _Block(3, 16, 16, 1, GraphBuilder.relu),
    _Block(3, 64, 24, 2, GraphBuilder.relu),
    _Block(3, 72, 24, 1, GraphBuilder.relu),
    _Block(5, 72, 40, 2, GraphBuilder.relu, 24),
    _Block(5, 120, 40, 1, GraphBuilder.relu, 32),
    _Block(5, 120, 40, 1, GraphBuilder.relu, 32),
    _Block(3, 240, 80, 2, GraphBuilder.hard_swish),
    _Block(3, 200, 80, 1, GraphBuilder.hard_swish),
    _Block(3, 184, 80, 1, GraphBuilder.hard_swish),
    _Block(3, 184, 80, 1, GraphBuilder.hard_swish),
    _Block(3, 480, 112, 1, GraphBuilder.hard_swish, 120),
    _Block(3, 672, 112, 1, GraphBuilder.hard_swish, 168),
    _Block(5, 672, 160, 2, GraphBuilder.hard_swish, 168),
    _Block(5, 960, 160, 1, GraphBuilder.hard_swish, 240),
    _Block(5, 960, 160, 1, GraphBuilder.hard_swish, 240),
)
"""A quarter of the hidden channels as the nearest multiple of eight goes through each gate."""


def _gated(graph: GraphBuilder, x: Tensor, squeezed: int, gate: _Gate) -> Tensor:
    """Each channel times what a small network makes of the means of all."""
    means = gate.between(graph, graph.conv(graph.mean_of_planes(x), squeezed, 1, bias=True))
    expanded = graph.conv(means, x.channels, 1, bias=True)
    return graph.multiply(x, graph.elementwise(gate.operator, expanded, mean=0.5, variance=0.05))


def _inverted_residual(graph: GraphBuilder, x: Tensor, block: _Block, gate: _Gate) -> Tensor:
    hidden, activation = block.hidden, block.activation
    y = x if hidden == x.channels else activation(graph, graph.conv_bn(x, hidden, 1))
    y = activation(
        graph, graph.conv_bn(y, hidden, block.kernel, stride=block.stride, groups=hidden)
    )
    if block.squeezed:
        y = _gated(graph, y, block.squeezed, gate)
    y = graph.conv_bn(y, block.channels, 1)
    return graph.add(x, y) if block.stride == 1 and x.channels == block.channels else y


def efficientnet() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("efficientnet")
    gate = _Gate(GraphBuilder.silu, "Sigmoid")
    x = graph.silu(graph.conv_bn(graph.input("x", (1, 3, 224, 224)), 32, 3, stride=2))
    for expansion, channels, repetitions, first_stride, kernel in _EFFICIENT_STAGES:
        for repetition in range(repetitions):
            stride = first_stride if repetition == 0 else 1
            hidden, squeezed = x.channels * expansion, x.channels // 4
            block = _Block(kernel, hidden, channels, stride, GraphBuilder.silu, squeezed)
            x = _inverted_residual(graph, x, block, gate)
    x = graph.silu(graph.conv_bn(x, 1280, 1))
    return graph.finish(graph.gemm(graph.global_average_pool(x), 1000))


def mobilenetv3() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("mobilenetv3")
    gate = _Gate(GraphBuilder.relu, "HardSigmoid")
    x = graph.hard_swish(graph.conv_bn(graph.input("x", (1, 3, 224, 224)), 16, 3, stride=2))
    for block in _MOBILE_BLOCKS:
        x = _inverted_residual(graph, x, block, gate)
    x = graph.global_average_pool(graph.hard_swish(graph.conv_bn(x, 960, 1)))
    return graph.finish(graph.gemm(graph.hard_swish(graph.gemm(x, 1280)), 1000))
