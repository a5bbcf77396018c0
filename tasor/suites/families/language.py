"""A decoder of text, 12 layers of 512: token ids to the logits of what comes next.

Source: Radford et al., "Language models are unsupervised multitask learners" (2019), section 2.3,
at a width for small machines, with weights of its own for the output.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from tasor.suites.builder import GraphBuilder
from tasor.suites.families.attention_blocks import block, embedded

GPT_VOCABULARY = 8192
_SEQUENCE = 128
_HIDDEN = 512
_HEADS = 8
_LAYERS = 12
_MASKED = -1e9


def gpt() -> onnx.ModelProto:
    """input_ids int64 (1, 128), each below GPT_VOCABULARY -> logits (1, 128, GPT_VOCABULARY)."""
    graph = GraphBuilder("gpt")
    ids = graph.input("input_ids", (1, _SEQUENCE), TensorProto.INT64)
    x = embedded(graph, ids, GPT_VOCABULARY, _HIDDEN)
    later = np.triu(np.full((_SEQUENCE, _SEQUENCE), _MASKED, np.float32), 1)
    mask = graph.constant(later, "mask")
    for _ in range(_LAYERS):
        x = block(graph, x, _HEADS, mask)
    x = graph.layer_norm(x)
    return graph.finish(graph.matmul(x, graph.matmul_weight(x, GPT_VOCABULARY)))
