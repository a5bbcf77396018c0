"""Terms by their roots, and what one level of the enumeration finds.

What it does: holds many terms at once as arrays, an operator instance and the identifiers of its
operands each. Identifiers number the representatives, one for each value, in the order in which
they were found. What it does not: hold values (`population`) or trees (`trees`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphopt.enumerate.fields import Keys
from tensorgen.types import Shape

Numbers = NDArray[np.int64]

LEAF = -1
"""The instance of a leaf: its operand is the number of the input, or of the constant after them."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Root operators of many terms: instance, and the identifiers of both operands (or -1)."""

    instance: Numbers
    left: Numbers
    right: Numbers

    def __len__(self) -> int:
        return len(self.instance)

    def __getitem__(self, chosen: Numbers | slice) -> Nodes:
        return Nodes(self.instance[chosen], self.left[chosen], self.right[chosen])

    @staticmethod
    def joined(parts: list[Nodes]) -> Nodes:
        """All nodes, one part after the other."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return Nodes(empty, empty, empty)
        return Nodes(
            np.concatenate([part.instance for part in parts]),
            np.concatenate([part.left for part in parts]),
            np.concatenate([part.right for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Part:
    """What one level found among the results of one shape.

    `found` are the roots of its new representatives with their `keys`. `others[n]` has the value
    of `firsts[n]`: the root of a representative, whose identifier is `known[n]`, or -1 if this
    level is the last and the value is new. `generated` terms have this shape; `undefined` ones,
    divisions by something with a zero, are not among them.
    """

    shape: Shape
    generated: int
    undefined: int
    distinct: int
    found: Nodes
    keys: Keys
    others: Nodes
    firsts: Nodes
    known: Numbers

    def without_collisions(self) -> Part:
        """What the next levels need of it."""
        empty = Nodes.joined([])
        return replace(self, others=empty, firsts=empty, known=np.zeros(0, np.int64))
