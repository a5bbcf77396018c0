"""Dense copies: a factor of a contraction copied to where what tiles read lies side by side.

A convolution with a stride of 2 uses every second element of a line of the cache, and its rows do
not continue each other in memory. A copy of what it reads does both, and lies in the order that
tiles like; like padding it is a prologue, made in front of the tiles.

What it does not: tell whether a copy pays (`sketch_tiles`), or make it (`lower_prologue`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, prod

from tensorgen.contraction import Contraction
from tensorgen.expr import Axis, Expr, Tensor, compute, const
from tensorgen.flat import flat_index, index_terms, mergeable, merged_name
from tensorgen.prologue import Prologue
from tensorgen.simplify import Affine, affine, simplify
from tensorgen.task import Task
from tensorgen.types import TensorType, int64


@dataclass(frozen=True, slots=True)
class _Dimension:
    """An axis of the copy, whose element `index` the contraction reads. Steps along it are `step`
    elements of the original; with a `row`, so are those within a row of so many elements, and the
    rows are `row_step` elements apart."""

    extent: int
    index: Affine
    step: int
    row: int = 0
    row_step: int = 0

    def place(self, position: Expr) -> Expr:
        """Where an element is in the original, from the first one."""
        if not self.row:
            return position * self.step
        return position // self.row * self.row_step + position % self.row * self.step


def is_strided(contraction: Contraction, factor: int) -> bool:
    """True if neighbours among the results read a factor where it has other elements in between."""
    index = contraction.factors[factor]
    dimensions = _dimensions(index)
    return any(
        dimensions[-1].index.coefficient(axis) and index.coefficient(axis) > 1
        for axis in contraction.axes
        if dimensions
    )


def with_copy(task: Task, contraction: Contraction, factor: int) -> Contraction | None:
    """The same contraction with a prologue that copies what `factor` reads of an input, dense, in
    the order of memory; None if it has a prologue or such a copy would be larger than the input."""
    operand = contraction.operands[factor]
    if contraction.prologue is not None or task.constant[operand]:
        return None
    dimensions = _dimensions(contraction.factors[factor])
    original = task.inputs[operand]
    if not dimensions or prod(dimension.extent for dimension in dimensions) > original.size:
        return None
    first = contraction.factors[factor].constant
    contraction, dimensions = _merged(contraction, factor, dimensions)
    source = Tensor(operand, TensorType(original.dtype, (original.size,)))

    def element(*positions: Expr) -> Expr:
        place: Expr = const(first, int64)
        for dimension, position in zip(dimensions, positions, strict=True):
            place = place + dimension.place(position)
        return source[simplify(place)]

    extents = tuple(dimension.extent for dimension in dimensions)
    indices = tuple(dimension.index for dimension in dimensions)
    read = affine(flat_index([index.expr for index in indices], extents))
    one, other = contraction.factors
    return replace(
        contraction,
        factors=(read, other) if factor == 0 else (one, read),
        prologue=Prologue(factor, compute(extents, element), indices),
    )


def _dimensions(factor: Affine) -> tuple[_Dimension, ...]:
    """What a factor reads as a grid, from the outermost axis; empty if it goes backwards.

    Axes whose steps the nearer ones do not reach are axes of the grid. The others, windows, share
    one.
    """
    terms = sorted(((c, a) for a, c in factor.terms if isinstance(a, Axis)), key=lambda t: t[0])
    if any(step <= 0 for step, _ in terms):
        return ()
    groups: list[list[tuple[int, Axis]]] = []
    reach = 0
    for step, axis in terms:
        if step > reach:
            groups.append([])
        groups[-1].append((step, axis))
        reach += step * (axis.extent - 1)
    found = []
    for group in reversed(groups):
        unit = gcd(*(step for step, _ in group))
        index = Affine(tuple((axis, step // unit) for step, axis in group), 0)
        found.append(_Dimension(index.bounds[1] + 1, index, unit))
    return tuple(found)


def _merged(
    contraction: Contraction, factor: int, dimensions: tuple[_Dimension, ...]
) -> tuple[Contraction, tuple[_Dimension, ...]]:
    """The innermost two axes of the result that only the factor, as it lies in the original, does
    not walk in step become one: the copy does."""
    other = contraction.factors[1 - factor]
    terms = [contraction.result, *index_terms(contraction.epilogue), other.expr]
    for position, (outer, inner) in reversed(list(enumerate(pairwise(dimensions)))):
        match outer.index.terms, inner.index.terms:
            case ((Axis() as one, _),), ((Axis() as two, _),) if (one, two) in pairwise(
                contraction.axes
            ) and mergeable(one, two, terms):
                pass
            case _:
                continue
        both = Axis(two.position, one.extent * two.extent, merged_name(one, two))
        values: dict[Axis, Expr] = {one: const(0, int64), two: both}
        first, second = contraction.factors
        moved = affine(simplify(other.expr, values))
        contraction = replace(
            contraction,
            axes=tuple(both if a == two else a for a in contraction.axes if a != one),
            factors=(first, moved) if factor == 0 else (moved, second),
            result=simplify(contraction.result, values),
            epilogue=simplify(contraction.epilogue, values),
        )
        joined = _Dimension(both.extent, affine(both), inner.step, two.extent, outer.step)
        return contraction, (*dimensions[:position], joined, *dimensions[position + 2 :])
    return contraction, dimensions
