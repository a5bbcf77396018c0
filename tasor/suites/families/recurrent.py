"""The NAS recurrent cell, unrolled.

Source: Zoph and Le, "Neural architecture search with reinforcement learning" (ICLR 2017), figure 8
and appendix A: a binary tree of eight leaves, each fed by a linear map of the input and one of the
hidden state, with the memory cell entering at the second level.
"""

from __future__ import annotations

import onnx

from tasor.suites.builder import GraphBuilder, Tensor

_STEPS = 5
_HIDDEN = 512
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
