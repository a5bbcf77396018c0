"""The NAS recurrent cell, unrolled, and taggers of two bidirectional layers, LSTM and GRU.

Sources: Zoph and Le, "Neural architecture search with reinforcement learning" (ICLR 2017), figure 8
and appendix A: a binary tree of eight leaves, each fed by a linear map of the input and one of the
hidden state, with the memory cell entering at the second level; Huang et al., "Bidirectional
LSTM-CRF models for sequence tagging" (2015), section 2.2, without the CRF.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_STEPS = 5
_HIDDEN = 512
_TAGGED = 32
_LEAVES = ("Sigmoid", "Relu", "Sigmoid", "Relu", "Tanh", "Sigmoid", "Tanh", "Sigmoid")
_PRODUCT_LEAF = 3
"""The leaf that multiplies its two maps; the others add them."""


def _cell(
    graph: GraphBuilder,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: tuple[tuple[Tensor, Tensor], ...],
) -> tuple[Tensor, Tensor]:
    """One step: x, h, c (batch, hidden) and a pair of weights per leaf -> the next h and c."""
    leaves = []
    for index, (activation, (of_x, of_h)) in enumerate(zip(_LEAVES, weights, strict=True)):
        maps = graph.matmul(x, of_x), graph.matmul(h, of_h)
        joined = graph.multiply(*maps) if index == _PRODUCT_LEAF else graph.add(*maps)
        leaves.append(graph.elementwise(activation, joined))
    second = (
        graph.elementwise("Tanh", graph.multiply(leaves[0], leaves[1])),
        graph.elementwise("Tanh", graph.add(leaves[2], leaves[3])),
        graph.elementwise("Tanh", graph.multiply(leaves[4], leaves[5])),
        graph.elementwise("Sigmoid", graph.add(leaves[6], leaves[7])),
    )
    next_c = graph.multiply(graph.elementwise("Tanh", graph.add(second[0], c)), second[1])
    right = graph.elementwise("Tanh", graph.add(second[2], second[3]))
    return graph.elementwise("Tanh", graph.multiply(next_c, right)), next_c


def nasrnn() -> onnx.ModelProto:
    """x (5 steps, 1, 512) and the first states h, c (1, 512) -> the last hidden state (1, 512)."""
    graph = GraphBuilder("nasrnn")
    sequence = graph.input("x", (_STEPS, 1, _HIDDEN))
    h, c = (graph.input(name, (1, _HIDDEN)) for name in ("h", "c"))
    weights = tuple(
        (graph.matmul_weight(sequence, _HIDDEN), graph.matmul_weight(h, _HIDDEN)) for _ in _LEAVES
    )
    for step in range(_STEPS):
        index = graph.scalar_index(step)
        x = graph.node("Gather", [sequence, index], (1, _HIDDEN), axis=0)
        h, c = _cell(graph, x, h, c, weights)
    return graph.finish(h)


def _both_ways(graph: GraphBuilder, x: Tensor, operator: str, gates: int, hidden: int) -> Tensor:
    """A recurrent layer read from both ends: (steps, 1, features) -> (steps, 1, 2 * hidden)."""
    steps, _, features = x.shape
    outputs = graph.node(
        operator,
        [
            x,
            graph.normal((2, gates * hidden, features), features**-0.5, "recurrent.w"),
            graph.normal((2, gates * hidden, hidden), hidden**-0.5, "recurrent.r"),
            graph.normal((2, 2 * gates * hidden), 0.1, "recurrent.bias"),
        ],
        (steps, 2, 1, hidden),
        variance=0.2,
        hidden_size=hidden,
        direction="bidirectional",
    )
    return graph.reshape(graph.transpose(outputs, (0, 2, 1, 3)), (steps, 1, 2 * hidden))


def _tagger(name: str, operator: str, gates: int) -> onnx.ModelProto:
    graph = GraphBuilder(name)
    x = graph.input("x", (_TAGGED, 1, 128))
    for _ in range(2):
        x = _both_ways(graph, x, operator, gates, 256)
    return graph.finish(graph.linear(x, 64))


def lstm() -> onnx.ModelProto:
    """x (32 steps, 1, 128) -> scores of 64 tags (32, 1, 64)."""
    return _tagger("lstm", "LSTM", 4)


def gru() -> onnx.ModelProto:
    """x (32 steps, 1, 128) -> scores of 64 tags (32, 1, 64)."""
    return _tagger("gru", "GRU", 3)
