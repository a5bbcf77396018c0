"""The encoder of BERT-base, from token ids to the last hidden state.

Source: Devlin et al., "BERT" (NAACL 2019), section 3; GELU by Erf and layer normalization as
primitive operators, as exporters emit them at this opset. No pooler, no attention mask.
"""

from __future__ import annotations

from math import sqrt

import onnx
from onnx import TensorProto

from tasor.suites.builder import GraphBuilder, Tensor
from tasor.suites.families.attention_blocks import embedded

VOCABULARY = 30522
_LAYERS = 12
_SEQUENCE = 128
_HIDDEN = 768
_HEADS = 12
_FEED_FORWARD = 3072
_EPSILON = 1e-12


def _layer_norm(graph: GraphBuilder, x: Tensor) -> Tensor:
    rows = (*x.shape[:-1], 1)
    mean = graph.node("ReduceMean", [x], rows, axes=(-1,), keepdims=1)
    centred = graph.elementwise("Sub", x, mean)
    squares = graph.elementwise("Pow", centred, graph.scalar(2.0))
    variance = graph.node("ReduceMean", [squares], rows, axes=(-1,), keepdims=1)
    deviation = graph.elementwise("Sqrt", graph.add(variance, graph.scalar(_EPSILON)))
    normalized = graph.elementwise("Div", centred, deviation)
    scale = graph.uniform((_HIDDEN,), 0.75, 1.25, "layer_norm.scale")
    bias = graph.normal((_HIDDEN,), 0.1, "layer_norm.bias")
    return graph.add(graph.multiply(normalized, scale), bias)


def _heads(graph: GraphBuilder, x: Tensor, permutation: tuple[int, ...]) -> Tensor:
    split = graph.reshape(x, (1, _SEQUENCE, _HEADS, _HIDDEN // _HEADS))
    return graph.transpose(split, permutation)


def _attention(graph: GraphBuilder, x: Tensor) -> Tensor:
    query = _heads(graph, graph.linear(x, _HIDDEN), (0, 2, 1, 3))
    key = _heads(graph, graph.linear(x, _HIDDEN), (0, 2, 3, 1))
    value = _heads(graph, graph.linear(x, _HIDDEN), (0, 2, 1, 3))
    scores = graph.matmul(query, key)
    scaled = graph.elementwise("Div", scores, graph.scalar(sqrt(_HIDDEN // _HEADS)))
    mixed = graph.matmul(graph.softmax(scaled), value)
    merged = graph.reshape(graph.transpose(mixed, (0, 2, 1, 3)), x.shape)
    return graph.linear(merged, _HIDDEN)


def bert() -> onnx.ModelProto:
    """input_ids int64 (1, 128), each below VOCABULARY -> hidden state (1, 128, 768)."""
    graph = GraphBuilder("bert")
    ids = graph.input("input_ids", (1, _SEQUENCE), TensorProto.INT64)
    x = _layer_norm(graph, embedded(graph, ids, VOCABULARY, _HIDDEN))
    for _ in range(_LAYERS):
        x = _layer_norm(graph, graph.add(_attention(graph, x), x))
        inner = graph.gelu(graph.linear(x, _FEED_FORWARD))
        x = _layer_norm(graph, graph.add(graph.linear(inner, _HIDDEN), x))
    return graph.finish(x)
