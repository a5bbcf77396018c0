"""Images in patches: ViT-S/16, the first two stages of Swin-T, MLP-Mixer-S/16 and ConvNeXt-T.

Sources: Dosovitskiy et al., "An image is worth 16x16 words" (ICLR 2021), with the width of Touvron
et al., "Training data-efficient image transformers" (ICML 2021), table 1; Liu et al., "Swin
transformer" (ICCV 2021), table 7; Tolstikhin et al., "MLP-Mixer" (NeurIPS 2021), table 1; Liu et
al., "A ConvNet for the 2020s" (CVPR 2022), section 2.
"""

from __future__ import annotations

import numpy as np
import onnx

from tasor.suites.builder import GraphBuilder, Tensor
from tasor.suites.families.attention_blocks import attention, block, feed_forward

_PATCH = 16
_PATCHES = (224 // _PATCH) ** 2
_SWIN_STAGES = ((96, 3), (192, 6))
"""Width and heads; two blocks each."""
_WINDOW = 7
_MASKED = -100.0
_CONVNEXT_STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))
"""Channels and blocks."""


def _patches(graph: GraphBuilder, hidden: int) -> Tensor:
    """x (1, 3, 224, 224) -> (1, patches, hidden)."""
    image = graph.input("x", (1, 3, 224, 224))
    embedded = graph.conv(image, hidden, _PATCH, stride=_PATCH, bias=True)
    return graph.transpose(graph.reshape(embedded, (1, hidden, _PATCHES)), (0, 2, 1))


def vit() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("vit")
    hidden = 384
    x = graph.concat([graph.normal((1, 1, hidden), 1.0, "class"), _patches(graph, hidden)], axis=1)
    x = graph.add(x, graph.normal((1, _PATCHES + 1, hidden), 0.5, "embedding.positions"))
    for _ in range(12):
        x = block(graph, x, heads=6)
    first = graph.node("Gather", [graph.layer_norm(x), graph.scalar_index(0)], (1, hidden), axis=1)
    return graph.finish(graph.gemm(first, 1000))


def mixer() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("mixer")
    hidden = 512
    x = _patches(graph, hidden)
    for _ in range(8):
        turned = graph.transpose(graph.layer_norm(x), (0, 2, 1))
        mixed = graph.transpose(feed_forward(graph, turned, 256), (0, 2, 1))
        x = graph.add(x, mixed)
        x = graph.add(x, feed_forward(graph, graph.layer_norm(x), 2048))
    x = graph.layer_norm(x)
    means = graph.node("ReduceMean", [x], (1, hidden), axes=(1,), keepdims=0)
    return graph.finish(graph.gemm(means, 1000))


def _rolled(graph: GraphBuilder, x: Tensor, shift: int) -> Tensor:
    """(1, height, width, hidden) with both sides rolled back by `shift`."""
    for axis in (1, 2):
        size = x.shape[axis]
        cut = shift % size
        x = graph.concat([graph.slice(x, axis, cut, size), graph.slice(x, axis, 0, cut)], axis)
    return x


def _windows(graph: GraphBuilder, x: Tensor) -> Tensor:
    """(1, side, side, hidden) -> (windows, positions, hidden)."""
    _, side, _, hidden = x.shape
    count = side // _WINDOW
    apart = graph.reshape(x, (count, _WINDOW, count, _WINDOW, hidden))
    turned = graph.transpose(apart, (0, 2, 1, 3, 4))
    return graph.reshape(turned, (count * count, _WINDOW * _WINDOW, hidden))


def _joined(graph: GraphBuilder, x: Tensor, side: int) -> Tensor:
    """The inverse of `_windows`."""
    hidden, count = x.shape[-1], side // _WINDOW
    apart = graph.reshape(x, (count, count, _WINDOW, _WINDOW, hidden))
    return graph.reshape(graph.transpose(apart, (0, 2, 1, 3, 4)), (1, side, side, hidden))


def _window_mask(graph: GraphBuilder, side: int, shift: int) -> Tensor:
    """What is added to the scores (windows, 1, positions, positions): positions that were not
    neighbours before the image was rolled do not see each other."""
    bounds = (slice(0, -_WINDOW), slice(-_WINDOW, -shift), slice(-shift, None))
    regions = np.zeros((side, side), np.int64)
    for number, (rows, columns) in enumerate((r, c) for r in bounds for c in bounds):
        regions[rows, columns] = number
    count = side // _WINDOW
    apart = regions.reshape(count, _WINDOW, count, _WINDOW).transpose(0, 2, 1, 3)
    flat = apart.reshape(count * count, 1, _WINDOW * _WINDOW)
    apart_pairs = flat[..., :, None] != flat[..., None, :]
    return graph.constant(np.where(apart_pairs, _MASKED, 0).astype(np.float32), "window.mask")


def _swin_block(graph: GraphBuilder, x: Tensor, heads: int, shift: int) -> Tensor:
    side, positions = x.shape[1], _WINDOW * _WINDOW
    y = graph.layer_norm(x)
    y = _windows(graph, _rolled(graph, y, shift) if shift else y)
    bias = graph.normal((1, heads, positions, positions), 0.1, "window.positions")
    if shift:
        bias = graph.add(_window_mask(graph, side, shift), bias)
    y = _joined(graph, attention(graph, y, heads, bias), side)
    x = graph.add(x, _rolled(graph, y, -shift) if shift else y)
    return graph.add(x, feed_forward(graph, graph.layer_norm(x), 4 * x.shape[-1]))


def _merged(graph: GraphBuilder, x: Tensor, hidden: int) -> Tensor:
    """Patches two by two: half the sides, and the hidden size named."""
    _, side, _, before = x.shape
    apart = graph.reshape(x, (1, side // 2, 2, side // 2, 2, before))
    turned = graph.transpose(apart, (0, 1, 3, 4, 2, 5))
    joined = graph.layer_norm(graph.reshape(turned, (1, side // 2, side // 2, 4 * before)))
    return graph.matmul(joined, graph.matmul_weight(joined, hidden))


def swin() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("swin")
    image = graph.input("x", (1, 3, 224, 224))
    x = graph.conv(image, _SWIN_STAGES[0][0], 4, stride=4, bias=True)
    x = graph.layer_norm(graph.transpose(x, (0, 2, 3, 1)))
    for hidden, heads in _SWIN_STAGES:
        if x.shape[-1] != hidden:
            x = _merged(graph, x, hidden)
        for shift in (0, _WINDOW // 2):
            x = _swin_block(graph, x, heads, shift)
    x = graph.layer_norm(x)
    means = graph.node("ReduceMean", [x], (1, x.shape[-1]), axes=(1, 2), keepdims=0)
    return graph.finish(graph.gemm(means, 1000))


def _channels_normalized(graph: GraphBuilder, x: Tensor) -> Tensor:
    """Normalized over the channels of (1, channels, height, width)."""
    normalized = graph.layer_norm(graph.transpose(x, (0, 2, 3, 1)))
    return graph.transpose(normalized, (0, 3, 1, 2))


def _convnext_block(graph: GraphBuilder, x: Tensor) -> Tensor:
    channels = x.channels
    y = graph.conv(x, channels, 7, pad=3, groups=channels, bias=True)
    y = graph.layer_norm(graph.transpose(y, (0, 2, 3, 1)))
    y = feed_forward(graph, y, 4 * channels)
    y = graph.multiply(y, graph.uniform((channels,), 0.1, 0.5, "layer_scale"))
    return graph.add(x, graph.transpose(y, (0, 3, 1, 2)))


def convnext() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> logits (1, 1000)."""
    graph = GraphBuilder("convnext")
    x = graph.input("x", (1, 3, 224, 224))
    for stage, (channels, blocks) in enumerate(_CONVNEXT_STAGES):
        if stage:
            normalized = _channels_normalized(graph, x)
            x = graph.conv(normalized, channels, 2, stride=2, bias=True)
        else:
            x = _channels_normalized(graph, graph.conv(x, channels, 4, stride=4, bias=True))
        for _ in range(blocks):
            x = _convnext_block(graph, x)
    return graph.finish(graph.gemm(graph.layer_norm(graph.global_average_pool(x)), 1000))
