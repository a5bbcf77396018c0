"""The lines that a panel is packed from at run time, numbered.

A panel is a tile of the vector factor: all points of the sum by its lanes. Its lines go along the
lanes where the factor has neighbours there, else along the innermost axis of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tensorgen.contraction import Roles
from tensorgen.expr import Axis, Expr
from tensorgen.simplify import simplify
from tensorgen.target import LINE_BYTES


@dataclass(frozen=True, slots=True)
class PanelLines:
    """Lines on the grid of `axes`, those of the sum and, last, that of the lanes: as many along
    each as `counts` says, `step` elements apart along the one where elements are neighbours."""

    axes: tuple[Axis, ...]
    extents: tuple[int, ...]
    near: int
    step: int

    @staticmethod
    def of(roles: Roles, vector: int, width: int) -> PanelLines | None:
        """Those of a panel of so many lanes; None where no line has neighbours."""
        factor, column = roles.contraction.factors[vector], roles.vectors[-1]
        axes = (*roles.reduction, column)
        extents = (*(axis.extent for axis in roles.reduction), width)
        innermost = (len(axes) - 1, len(axes) - 2)[: len(axes)]
        near = next((n for n in innermost if factor.coefficient(axes[n]) == 1), None)
        if near is None:
            return None
        return PanelLines(axes, extents, near, LINE_BYTES // roles.contraction.dtype.bytes)

    @property
    def counts(self) -> tuple[int, ...]:
        """The lines along each axis."""
        return tuple(
            -(-extent // self.step) if n == self.near else extent
            for n, extent in enumerate(self.extents)
        )

    @property
    def count(self) -> int:
        """All lines."""
        return prod(self.counts)

    def point(self, number: Expr) -> dict[Axis, Expr]:
        """The place on a line by its number, of the lanes the one inside the panel. It is counted
        from the end of a run of neighbours: where runs begin amid a line, the one before has asked
        for it."""
        return dict(zip(self.axes, self._places(number), strict=True))

    def _places(self, number: Expr) -> Iterator[Expr]:
        counts = self.counts
        for n, extent in enumerate(self.extents):
            inside = prod(counts[n + 1 :])
            place = number // inside if inside > 1 else number
            if n > 0:
                place = place % counts[n]
            if n == self.near:
                first = extent - 1 - self.step * (counts[n] - 1)
                place = place * self.step + first
            yield simplify(place)
