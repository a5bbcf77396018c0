"""Bytes of weights that a graph's kernels read, and how many of them the model's own ones have.

Weights that are joined for one product and read as they are by another one are laid out twice. The
kernels, one by one, read no more for that; the run as a whole goes through more memory.

What it does not: know how kernels lay weights out (`graphopt.shared_constants`).
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.graph import Graph, Node, Value
from graphopt.search.promised import WeightOnly


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """`own` bytes that the constants have from which weights are computed, and those that kernels
    `read`, each weight counted once."""

    own: int
    read: int

    @property
    def copies(self) -> int:
        """Bytes beside the model's own."""
        return max(0, self.read - self.own)


class WeightCopies:
    """The bytes of graphs' weights; remembers what each weight is computed from."""

    def __init__(self, is_weight: WeightOnly) -> None:
        self._is_weight = is_weight
        self._sources: dict[bytes, dict[bytes, int]] = {}

    def __call__(self, graph: Graph) -> WeightBytes:
        """The bytes of a graph's weights."""
        read: dict[bytes, Value] = {}
        for node in graph.nodes:
            if not self._is_weight(node):
                read |= {value.digest: value for value in node.inputs if self._is_weight(value)}
        own: dict[bytes, int] = {}
        for value in read.values():
            own |= self._constants_of(value)
        return WeightBytes(sum(own.values()), sum(map(_bytes, read.values())))

    def _constants_of(self, weight: Value) -> dict[bytes, int]:
        """The bytes of each constant that a weight is computed from, by digest."""
        pending = [weight]
        while pending:
            value = pending[-1]
            if value.digest in self._sources:
                pending.pop()
            elif not isinstance(value, Node):
                self._sources[value.digest] = {value.digest: _bytes(value)}
            else:
                missing = [v for v in value.inputs if v.digest not in self._sources]
                pending.extend(missing)
                if not missing:
                    merged: dict[bytes, int] = {}
                    for operand in value.inputs:
                        merged |= self._sources[operand.digest]
                    self._sources[value.digest] = merged
        return self._sources[weight.digest]


def _bytes(value: Value) -> int:
    return value.type.size * value.type.dtype.bytes
