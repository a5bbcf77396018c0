"""Sound: the encoder of Whisper-tiny for ten seconds, two Conformer blocks, and WaveNet.

Sources: Radford et al., "Robust speech recognition via large-scale weak supervision" (ICML 2023),
section 2.2; Gulati et al., "Conformer" (Interspeech 2020), figure 1, with the widths of its small
model and absolute positions; van den Oord et al., "WaveNet" (2016), figure 4.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor
from tasor.suites.families.attention_blocks import attention, block

_WHISPER_FRAMES = 1000
_CONFORMER_FRAMES = 256
_WAVENET_SAMPLES = 1024
_WAVENET_CHANNELS = 64


def whisper() -> onnx.ModelProto:
    """Mel spectrogram (1, 80, 1000) -> hidden state (1, 500, 384)."""
    graph = GraphBuilder("whisper")
    x = graph.input("x", (1, 80, _WHISPER_FRAMES))
    for stride in (1, 2):
        x = graph.gelu(graph.conv(x, 384, 3, stride=stride, pad=1, bias=True))
    x = graph.transpose(x, (0, 2, 1))
    x = graph.add(x, graph.normal(x.shape, 0.5, "embedding.positions"))
    for _ in range(4):
        x = block(graph, x, heads=6)
    return graph.finish(graph.layer_norm(x))


def _half_feed_forward(graph: GraphBuilder, x: Tensor) -> Tensor:
    inner = graph.silu(graph.linear(graph.layer_norm(x), 4 * x.shape[-1]))
    return graph.add(x, graph.multiply(graph.linear(inner, x.shape[-1]), graph.scalar(0.5)))


def _convolution_part(graph: GraphBuilder, x: Tensor) -> Tensor:
    """Gated, filtered over 31 frames channel by channel, and mixed."""
    hidden = x.shape[-1]
    y = graph.transpose(graph.layer_norm(x), (0, 2, 1))
    y = graph.conv(y, 2 * hidden, 1, bias=True)
    gate = graph.elementwise("Sigmoid", graph.slice(y, 1, hidden, 2 * hidden), mean=0.5)
    y = graph.multiply(graph.slice(y, 1, 0, hidden), gate)
    y = graph.batch_norm(graph.conv(y, hidden, 31, pad=15, groups=hidden, bias=True))
    y = graph.conv(graph.silu(y), hidden, 1, bias=True)
    return graph.add(x, graph.transpose(y, (0, 2, 1)))


def conformer() -> onnx.ModelProto:
    """Hidden state (1, 256, 144) -> hidden state (1, 256, 144)."""
    graph = GraphBuilder("conformer")
    x = graph.input("x", (1, _CONFORMER_FRAMES, 144))
    for _ in range(2):
        x = _half_feed_forward(graph, x)
        x = graph.add(x, attention(graph, graph.layer_norm(x), heads=4))
        x = _convolution_part(graph, x)
        x = graph.layer_norm(_half_feed_forward(graph, x))
    return graph.finish(x)


def wavenet() -> onnx.ModelProto:
    """Samples (1, 1, 1024) -> logits of the next ones (1, 256, 1024)."""
    graph = GraphBuilder("wavenet")
    channels = _WAVENET_CHANNELS
    x = graph.conv(graph.input("x", (1, 1, _WAVENET_SAMPLES)), channels, 1, bias=True)
    skipped: Tensor | None = None
    for layer in range(10):
        # A window of two has all its padding in front: as much as it is dilated.
        filtered, gate = (
            graph.conv(graph.front_pad(x, 2**layer), channels, 2, dilation=2**layer, bias=True)
            for _ in range(2)
        )
        gated = graph.multiply(
            graph.elementwise("Tanh", filtered, variance=0.4),
            graph.elementwise("Sigmoid", gate, mean=0.5, variance=0.05),
        )
        skip = graph.conv(gated, 128, 1, bias=True)
        skipped = skip if skipped is None else graph.add(skipped, skip)
        x = graph.add(x, graph.conv(gated, channels, 1, bias=True))
    assert skipped is not None
    y = graph.relu(graph.conv(graph.relu(skipped), 128, 1, bias=True))
    return graph.finish(graph.conv(y, 256, 1, bias=True))
