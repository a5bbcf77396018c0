"""What transformers are made of: attention over heads, and the block of a pre-normalized one.

Source: Vaswani et al., "Attention is all you need" (NIPS 2017), section 3.2; normalization in front
of each part as in Xiong et al., "On layer normalization in the transformer architecture"
(ICML 2020).
"""

from __future__ import annotations

from math import sqrt

from tasor.suites.builder import GraphBuilder, Tensor


def embedded(graph: GraphBuilder, ids: Tensor, vocabulary: int, hidden: int) -> Tensor:
    """Token ids (batch, sequence) as vectors (batch, sequence, hidden), with their positions."""
    shape = (*ids.shape, hidden)
    words = graph.normal((vocabulary, hidden), 1.0, "embedding.words")
    positions = graph.normal(shape, 1.0, "embedding.positions")
    return graph.add(graph.node("Gather", [words, ids], shape, axis=0), positions)


def attention(graph: GraphBuilder, x: Tensor, heads: int, bias: Tensor | None = None) -> Tensor:
    """Self-attention of (batch, sequence, hidden); `bias` is added to the scores (batch, heads,
    sequence, sequence) and may broadcast."""
    batch, sequence, hidden = x.shape
    split = (batch, sequence, heads, hidden // heads)
    query, key, value = (graph.reshape(graph.linear(x, hidden), split) for _ in range(3))
    scaled = graph.multiply(
        graph.transpose(query, (0, 2, 1, 3)), graph.scalar(1 / sqrt(hidden // heads))
    )
    scores = graph.matmul(scaled, graph.transpose(key, (0, 2, 3, 1)))
    if bias is not None:
        scores = graph.add(scores, bias)
    mixed = graph.matmul(graph.softmax(scores), graph.transpose(value, (0, 2, 1, 3)))
    merged = graph.reshape(graph.transpose(mixed, (0, 2, 1, 3)), x.shape)
    return graph.linear(merged, hidden)


def feed_forward(graph: GraphBuilder, x: Tensor, hidden: int) -> Tensor:
    """Two layers with GELU between them."""
    return graph.linear(graph.gelu(graph.linear(x, hidden)), x.shape[-1])


def block(graph: GraphBuilder, x: Tensor, heads: int, bias: Tensor | None = None) -> Tensor:
    """Attention and a feed-forward part four times as wide, each normalized and added."""
    x = graph.add(x, attention(graph, graph.layer_norm(x), heads, bias))
    return graph.add(x, feed_forward(graph, graph.layer_norm(x), 4 * x.shape[-1]))
