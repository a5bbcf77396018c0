"""Groups of nodes that ONNX has one operator for, so that other tools read the model well.

Each is the same function of the reals, with the same element type throughout; floats may be rounded
differently. A group is written as one node only if nobody else reads what lies inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from graphopt.graph import Constant, Graph, Node, Value, consumers
from graphopt.onnx_export.contraction import convolution
from graphopt.onnx_export.parameters import integers
from graphopt.onnx_export.pooling import pooled_natively, pooling
from graphopt.onnx_export.term import Term, call, elementwise, reduced
from graphopt.onnx_export.windows import counts, windows_of
from tensorgen.types import Array, float16, float32, float64

_FLOATS = frozenset({float16, float32, float64})


@dataclass(frozen=True, slots=True)
class Fusion:
    """One ONNX operator for a node and those before it that it absorbs.

    `build` makes its term from the terms of `operands`; `name` is what the operator is called.
    """

    name: str
    operands: tuple[Value, ...]
    absorbed: tuple[Node, ...]
    build: Callable[..., Term]


def fusions(graph: Graph) -> Mapping[Node, Fusion]:
    """The groups of a graph, disjoint, by the node whose value each gives."""
    readers = consumers(graph.values)
    outputs = set(graph.outputs)
    found: dict[Node, Fusion] = {}
    absorbed: set[Node] = set()
    for root in reversed(graph.nodes):
        if root in absorbed or root.type.dtype not in _FLOATS:
            continue
        for match in _MATCHERS:
            fusion = match(root)
            if fusion is None:
                continue
            group = {root, *fusion.absorbed}
            private = all(
                node not in outputs and group.issuperset(readers[node]) for node in fusion.absorbed
            )
            if private:
                found[root] = fusion
                absorbed.update(fusion.absorbed)
                break
    return found
