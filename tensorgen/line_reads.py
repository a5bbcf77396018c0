"""What a register tile reads in place: the cache lines of each step.

A step of a sum reads one element of each row, or of each lane. If neighbouring steps read
neighbouring elements, a line serves several steps; else each step asks for lines of its own, and
those that left the first-level cache since the last tile have to come again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from tensorgen.contraction import Roles
from tensorgen.expr import Axis
from tensorgen.simplify import Affine
from tensorgen.target import LINE_BYTES

SPLIT_LOAD = 2.0
"""Loads that one of a vector across two lines costs."""


@dataclass(frozen=True, slots=True)
class _Near:
    """An axis of a sum whose `extent` steps are so few bytes long that they stay on a line. Between
    two of them lie as many steps of the sum as the loops inside it have."""

    bytes: int
    extent: int
    between: int


@dataclass(frozen=True, slots=True)
class LineReads:
    """How a tile reads a factor, whose elements have `size` bytes: `distance` bytes from one of its
    rows or lanes to the next, and the axes of the sum along which lines are read again."""

    size: int
    distance: int
    near: tuple[_Near, ...]

    @staticmethod
    def of(roles: Roles, factor: int, tiled: Axis) -> LineReads:
        """The reads of a factor by tiles along an axis."""
        index = roles.contraction.factors[factor]
        size = roles.contraction.dtype.bytes
        near = []
        between = 1
        for axis in reversed(roles.reduction):
            step = abs(index.coefficient(axis)) * size
            if 0 < step < LINE_BYTES:
                near.append(_Near(step, axis.extent, between))
            between *= axis.extent
        return LineReads(size, abs(index.coefficient(tiled)) * size, tuple(near))

    def lines(self, rows: int, remembered: float = inf) -> float:
        """Lines of so many rows, or lanes, that a step reads and none of so many `remembered` steps
        before it."""
        near = [axis for axis in self.near if axis.between <= remembered]
        reach = self.size + sum(axis.bytes * (axis.extent - 1) for axis in near)
        steps = prod(axis.extent for axis in near)
        if self.distance < LINE_BYTES:
            return self._touched(reach + self.distance * (rows - 1)) / steps
        return rows * self._touched(reach) / steps

    def _touched(self, reach: int) -> float:
        """Lines that so many bytes at any place touch on average."""
        return 1.0 + (reach - 4) / LINE_BYTES


def lying_across(index: Affine, axes: Sequence[Axis], lanes: int, element_bytes: int) -> float:
    """The part of the vectors of neighbours at an index that lie across two lines, over all places
    of some axes. Memory is aligned, and vectors are counted from its beginning."""
    places = Counter({index.constant % lanes: 1})
    for axis in axes:
        step = index.coefficient(axis)
        if step % lanes:
            moved: Counter[int] = Counter()
            for place, number in places.items():
                # After as many steps as there are lanes the places repeat.
                for turn in range(min(axis.extent, lanes)):
                    moved[(place + step * turn) % lanes] += number
            places = moved
    aligned = places[0] / places.total()
    return (1.0 - aligned) * lanes * element_bytes / LINE_BYTES
