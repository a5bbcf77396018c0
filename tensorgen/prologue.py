"""Prologues: an operand of a contraction that is a stage of the same task, such as padding.

What it does: tells which part of such a stage is read while the outer loops stand still (the bounds
that Halide infers: Ragan-Kelley et al., PLDI 2013, section 4.2). What it does not: choose the loops
inside which that part is made (`sketch_tiles`), or print them (`lower_prologue`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from tensorgen.expr import Axis, Const, Expr, Load, Select, TensorExpr, walk
from tensorgen.simplify import Affine, affine
from tensorgen.types import Shape, row_major_strides


def is_padding(expr: TensorExpr) -> bool:
    """True if each element is a copy of one other or a constant, as the axes alone decide."""
    match expr.body:
        case Select(condition=condition, then=Load(indices=indices), otherwise=Const()):
            parts = (part for term in (condition, *indices) for part in walk(term))
            return not any(isinstance(part, Load) for part in parts)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Prologue:
    """`stage`, which a contraction's factor number `factor` reads at `indices`, one for each axis
    of the stage, in terms of the contraction's axes."""

    factor: int
    stage: TensorExpr
    indices: tuple[Affine, ...]

    def moved_by(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """Those of `axes` that move the part that is read: first the ones whose steps lead to
        elements that no other step reads, then the others."""
        moving = [axis for axis in axes if any(i.coefficient(axis) for i in self.indices)]
        return tuple(sorted(moving, key=self._overlaps))

    def parted_by(self, axis: Axis) -> bool:
        """Whether the steps of an axis lead to parts of the stage that no other step reads, one
        behind the other in memory."""
        outermost = next(
            (i for i, a in zip(self.indices, self.stage.axes, strict=True) if a.extent > 1), None
        )
        return (
            outermost is not None and bool(outermost.coefficient(axis)) and not self._overlaps(axis)
        )

    def stepped_by(self, axis: Axis) -> int | None:
        """The axis of the stage, by position, along which an axis of the sum steps from neighbour
        to neighbour; None if there is none."""
        moved = [n for n, index in enumerate(self.indices) if index.coefficient(axis)]
        match moved:
            case [position] if self.indices[position].coefficient(axis) == 1:
                return position
            case _:
                return None

    def _overlaps(self, axis: Axis) -> bool:
        for index in self.indices:
            step = abs(index.coefficient(axis))
            if step:
                low, high = _without(index, (axis,)).bounds
                if high - low < step:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class Slab:
    """The part of a prologue's stage that is read while the axes `origin` is in terms of stand
    still: `shape` elements from `origin`, of which the factor reads the flat index `read`. Steps
    along the stage's axes are `strides` elements apart."""

    prologue: Prologue
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    origin: tuple[Affine, ...]
    read: Affine

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def turned(self) -> int | None:
        """The axis of the stage whose elements are neighbours, if it is not its last one."""
        inner = self.strides.index(1)
        return inner if prod(self.shape[inner + 1 :]) > 1 else None

    @staticmethod
    def of(prologue: Prologue, fixed: Collection[Axis], together: int | None = None) -> Slab:
        """The part that is read for one point of the `fixed` axes, in the order of the stage, but
        innermost its axis number `together`."""
        shape, origin, local = [], [], []
        for index in prologue.indices:
            moving = _without(index, fixed)
            low, high = moving.bounds
            shape.append(high - low + 1)
            local.append(moving.plus(Affine((), -low)))
            origin.append(index.plus(moving.scaled(-1)).plus(Affine((), low)))
        strides = _strides(tuple(shape), together)
        read = Affine((), 0)
        for part, stride in zip(local, strides, strict=True):
            read = read.plus(part.scaled(stride))
        return Slab(prologue, tuple(shape), strides, tuple(origin), read)


def prologue_of(factor: int, stage: TensorExpr, indices: Sequence[Expr]) -> Prologue | None:
    """The prologue that a factor reads at `indices`; None if one of them is not affine."""
    forms = tuple(affine(index) for index in indices)
    if any(not isinstance(atom, Axis) for form in forms for atom, _ in form.terms):
        return None
    return Prologue(factor, stage, forms)


def _strides(shape: Shape, innermost: int | None) -> tuple[int, ...]:
    """Row-major strides if axis number `innermost`, where it is given, were the last one."""
    if innermost is None:
        return row_major_strides(shape)
    others = tuple(1 if n == innermost else extent for n, extent in enumerate(shape))
    strides = (stride * shape[innermost] for stride in row_major_strides(others))
    return tuple(1 if n == innermost else stride for n, stride in enumerate(strides))


def _without(index: Affine, axes: Collection[Axis]) -> Affine:
    """The terms of an index that no given axis moves, without the constant."""
    return Affine(tuple((atom, c) for atom, c in index.terms if atom not in axes), 0)
