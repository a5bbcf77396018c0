"""Networks that answer for each pixel: U-Net, the head of DeepLabV3, style transfer and ESPCN.

Sources: Ronneberger et al., "U-Net" (MICCAI 2015), figure 1, at half the channels and padded; Chen
et al., "Rethinking atrous convolution" (2017), figure 5, behind a ResNet of stride 16; Johnson et
al., "Perceptual losses" (ECCV 2016), with instance normalization and upsampling as in its later
releases; Shi et al., "Real-time single image and video super-resolution" (CVPR 2016), figure 1.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_UNET_CHANNELS = (32, 64, 128, 256)
_STYLE_SIDE = 224


def _twice(graph: GraphBuilder, x: Tensor, channels: int) -> Tensor:
    for _ in range(2):
        x = graph.relu(graph.conv(x, channels, 3, pad=1, bias=True))
    return x


def unet() -> onnx.ModelProto:
    """x (1, 3, 192, 192) -> scores of two classes (1, 2, 192, 192)."""
    graph = GraphBuilder("unet")
    x = graph.input("x", (1, 3, 192, 192))
    kept = []
    for channels in _UNET_CHANNELS:
        kept.append(_twice(graph, x, channels))
        x = graph.max_pool(kept[-1], 2, stride=2)
    x = _twice(graph, x, 2 * _UNET_CHANNELS[-1])
    for skip in reversed(kept):
        x = graph.conv_transpose(x, skip.channels, 2, stride=2, pad=0)
        x = _twice(graph, graph.concat([skip, x]), skip.channels)
    return graph.finish(graph.conv(x, 2, 1, bias=True))


def deeplab() -> onnx.ModelProto:
    """Features (1, 1024, 24, 24) -> scores of 21 classes (1, 21, 96, 96)."""
    graph = GraphBuilder("deeplab")
    x = graph.input("x", (1, 1024, 24, 24))

    def layer(y: Tensor, kernel: int, dilation: int = 1) -> Tensor:
        pad = dilation * (kernel // 2)
        return graph.relu(graph.batch_norm(graph.conv(y, 256, kernel, pad=pad, dilation=dilation)))

    whole = layer(graph.mean_of_planes(x), 1)
    spread = graph.node(
        "Expand",
        [whole, graph.integers((1, 256, 24, 24), "expand.shape")],
        (1, 256, 24, 24),
        whole.mean,
        whole.variance,
    )
    branches = [layer(x, 1), *(layer(x, 3, rate) for rate in (6, 12, 18)), spread]
    y = layer(layer(graph.concat(branches), 1), 3)
    return graph.finish(graph.upsample(graph.conv(y, 21, 1, bias=True), 4, "linear"))


def _style_layer(
    graph: GraphBuilder, x: Tensor, channels: int, kernel: int, stride: int = 1
) -> Tensor:
    padded = graph.reflect_pad(x, kernel // 2)
    return graph.instance_norm(graph.conv(padded, channels, kernel, stride=stride, bias=True))


def style() -> onnx.ModelProto:
    """x (1, 3, 224, 224) -> image (1, 3, 224, 224)."""
    graph = GraphBuilder("style")
    x = graph.input("x", (1, 3, _STYLE_SIDE, _STYLE_SIDE))
    for channels, kernel, stride in ((32, 9, 1), (64, 3, 2), (128, 3, 2)):
        x = graph.relu(_style_layer(graph, x, channels, kernel, stride))
    for _ in range(5):
        y = graph.relu(_style_layer(graph, x, 128, 3))
        x = graph.add(x, _style_layer(graph, y, 128, 3))
    for channels in (64, 32):
        x = graph.relu(_style_layer(graph, graph.upsample(x, 2), channels, 3))
    return graph.finish(graph.conv(graph.reflect_pad(x, 4), 3, 9, bias=True))


def espcn() -> onnx.ModelProto:
    """Luminance (1, 1, 96, 96) -> luminance (1, 1, 288, 288)."""
    graph = GraphBuilder("espcn")
    x = graph.input("x", (1, 1, 96, 96))
    for channels, kernel in ((64, 5), (32, 3)):
        convolved = graph.conv(x, channels, kernel, pad=kernel // 2, bias=True)
        x = graph.elementwise("Tanh", convolved, variance=0.4)
    x = graph.conv(x, 9, 3, pad=1, bias=True)
    return graph.finish(graph.node("DepthToSpace", [x], (1, 1, 288, 288), blocksize=3, mode="CRD"))
