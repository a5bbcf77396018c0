"""The lines that the epilogue of a tile reads and writes, in strips across the tile.

An operand that moves with the rows and with the lanes of a tile (what a residual adds) is as large
as the result, comes from wherever it was left, and is read in pieces of a line or two that no
prefetcher foresees. What moves with one of both, a bias, is near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.contraction import Contraction
from tensorgen.expr import Axis, Expr, Load, const, loads
from tensorgen.flat import flat_index
from tensorgen.loop import Buffer
from tensorgen.lower_loops import replace_axes
from tensorgen.packing import cut_lengths, length_of
from tensorgen.simplify import Affine, affine
from tensorgen.target import LINE_BYTES
from tensorgen.types import int64

LEAST_CHUNK = 4
"""Steps of a sum between two times that a tile asks for lines."""


def chunk_lengths(reduction: Sequence[Axis]) -> tuple[int, ...]:
    """Of how many steps the chunks of a sum can be between which a tile asks for lines of its
    epilogue, shortest first; none where the sum is too short."""
    total = length_of(reduction)
    return tuple(steps for steps in cut_lengths(reduction) if LEAST_CHUNK <= steps < total)


def epilogue_operands(contraction: Contraction) -> tuple[Load, ...]:
    """What the epilogue reads beside the sums and small operands, each once: loads that move along
    every axis that the result moves along."""
    result = affine(contraction.result)
    moving = [axis for axis in contraction.axes if result.coefficient(axis)]
    found = []
    for load in loads(contraction.epilogue):
        if load.operand == contraction.stage_operand:
            continue
        index = affine(flat_index(load.indices, load.type.shape))
        plain = all(isinstance(atom, Axis) for atom, _ in index.terms)
        if plain and all(index.coefficient(axis) for axis in moving):
            found.append(load)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class EpilogueLines:
    """The part of `buffer` that the epilogue of a tile reads or writes: a strip for each place on
    the axis `strip`, of neighbours on the axis `along`; `index` is where an element is. With `cut`,
    strips may begin amid a line."""

    buffer: Buffer
    index: Affine
    strip: Axis
    along: Axis
    cut: bool

    @staticmethod
    def of(buffer: Buffer, index: Expr, across: Axis, along: Axis) -> EpilogueLines | None:
        """Those at an index; None where neighbours of a tile are no neighbours in memory."""
        place = affine(index)
        for strip, near in ((across, along), (along, across)):
            if place.coefficient(near) == 1 or near.extent == 1:
                line = LINE_BYTES // buffer.dtype.bytes
                steps = [factor for atom, factor in place.terms if atom != near]
                cut = any(step % line for step in (*steps, place.constant))
                return EpilogueLines(buffer, place, strip, near, cut)
        return None

    @property
    def strips(self) -> int:
        """How many there are."""
        return self.strip.extent

    def places(self, number: Expr) -> tuple[Expr, ...]:
        """Indices of which one is on each line of the strip with a number."""
        line = LINE_BYTES // self.buffer.dtype.bytes
        length = self.along.extent
        offsets = [*range(0, length, line)]
        if self.cut and offsets[-1] != length - 1:
            offsets.append(length - 1)
        return tuple(
            replace_axes(self.index.expr, {self.strip: number, self.along: const(offset, int64)})
            for offset in offsets
        )
