"""What a register tile reads in place: the cache lines of each step.

A step of a sum reads one element of each row, or of each lane. If neighbouring steps read
neighbouring elements, a line serves several steps; else each step asks for lines of its own, and
those that left the first-level cache since the last tile have to come again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tensorgen.contraction import Roles
from tensorgen.expr import Axis

LINE_BYTES = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, slots=True)
class LineReads:
    """How a tile reads a factor: `distance` bytes from one of its rows or lanes to the next,
    `reach` bytes that steps on the same lines cover in each, `steps` of them."""

    distance: int
    reach: int
    steps: int

    @staticmethod
    def of(roles: Roles, factor: int, tiled: Axis) -> LineReads:
        """The reads of a factor by tiles along an axis."""
        index = roles.contraction.factors[factor]
        size = roles.contraction.dtype.bytes
        moves = [(abs(index.coefficient(axis)) * size, axis.extent) for axis in roles.reduction]
        near = [(step, extent) for step, extent in moves if 0 < step < LINE_BYTES]
        return LineReads(
            abs(index.coefficient(tiled)) * size,
            size + sum(step * (extent - 1) for step, extent in near),
            prod(extent for _, extent in near),
        )

    def lines(self, rows: int) -> float:
        """Lines of so many rows, or lanes, that a step reads and no step before it."""
        if self.distance < LINE_BYTES:
            return self._touched(self.reach + self.distance * (rows - 1)) / self.steps
        return rows * self._touched(self.reach) / self.steps

    def _touched(self, reach: int) -> float:
        """Lines that so many bytes at any place touch on average."""
        return 1.0 + (reach - 4) / LINE_BYTES
