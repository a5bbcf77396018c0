"""The generator of DCGAN.

Source: Radford et al., "Unsupervised representation learning with deep convolutional generative
adversarial networks" (ICLR 2016), figure 1, with 4x4 kernels of stride 2.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder

_CHANNELS = (512, 256, 128)


def dcgan() -> onnx.ModelProto:
    """x (1, 100) -> image (1, 3, 64, 64) in (-1, 1)."""
    graph = GraphBuilder("dcgan")
    x = graph.gemm(graph.input("x", (1, 100)), 1024 * 4 * 4)
    x = graph.relu(graph.batch_norm(graph.reshape(x, (1, 1024, 4, 4))))
    for channels in _CHANNELS:
        x = graph.conv_transpose(x, channels, 4, stride=2, pad=1)
        x = graph.relu(graph.batch_norm(x))
    image = graph.conv_transpose(x, 3, 4, stride=2, pad=1)
    return graph.finish(graph.elementwise("Tanh", image))
