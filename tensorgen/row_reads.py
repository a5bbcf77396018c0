"""What it costs to read the rows of a register tile in place: the cache lines of each step.

A step of a sum reads one element of each row. If neighbouring steps read neighbouring elements, a
line serves several steps and prefetchers see the next one coming; else each step asks for lines of
its own, and those that left the first-level cache since the last tile have to come again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tensorgen.contraction import Roles
from tensorgen.machine import Core

LINE = 64
"""Bytes of a cache line."""

LONE_LINE, STREAMED_LINE = 2.2, 0.5
"""Cycles for a line from the second-level cache that no arithmetic covers: one that lies apart from
the line before it, and the next one of a stream."""


@dataclass(frozen=True, slots=True)
class RowReads:
    """How a tile reads its rows: `distance` bytes from one to the next, `reach` bytes that steps on
    the same lines cover in each, `steps` of them; all steps together are `depth`. `streamed` tells
    that neighbouring steps read neighbouring elements."""

    distance: int
    reach: int
    steps: int
    depth: int
    streamed: bool

    @staticmethod
    def of(roles: Roles, vector: int) -> RowReads | None:
        """The reads of the factor that is not along the lanes; None if it has no rows."""
        if not roles.rows:
            return None
        index = roles.contraction.factors[1 - vector]
        size = roles.contraction.dtype.bytes
        moves = [(abs(index.coefficient(axis)) * size, axis.extent) for axis in roles.reduction]
        near = [(step, extent) for step, extent in moves if 0 < step < LINE]
        return RowReads(
            abs(index.coefficient(roles.rows[-1])) * size,
            size + sum(step * (extent - 1) for step, extent in near),
            prod(extent for _, extent in near),
            prod(extent for _, extent in moves),
            bool(moves) and moves[-1][0] == size,
        )

    def cycles(self, rows: int, core: Core) -> float:
        """Cycles of one step for the lines of so many rows that are not at hand."""
        if self.distance < LINE:
            lines = self._lines(self.reach + self.distance * (rows - 1))
        else:
            lines = rows * self._lines(self.reach)
        each = lines / self.steps
        if self.streamed:
            return each * STREAMED_LINE
        first = core.loads[0][0]
        return each * LONE_LINE if self.depth * each * LINE > first else 0.0

    def _lines(self, reach: int) -> float:
        """Lines that so many bytes at any place touch on average."""
        return 1.0 + (reach - 4) / LINE
