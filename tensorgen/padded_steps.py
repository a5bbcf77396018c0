"""Steps of a sum that read nothing but padding, left out: what the other steps read lies in place.

A convolution whose window is spread far apart reads mostly padding near the borders: with a
dilation of 18, three quarters of all products on an image of 24 x 24 are of zeros. Along an axis,
positions see the same steps of the window in the image if the dilation, the padding and the size of
the image are multiples of their number: tiles of so many need no padded copy, only a condition for
each step of the window. Where they differ within a tile, as at the sides of an image without a
dilation, the padded copy stays, and only lines of padding above and below are left out: of 3 x 3
steps on 7 x 7 one in ten. Factors that are infinite or NaN are not multiplied by zeros then.

What it does not: choose (`sketch_tiles`), or print the conditions (`lower_contraction`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from tensorgen.conditions import all_nonnegative
from tensorgen.contraction import (
    EPILOGUE_BASE,
    SPLIT_BASE,
    Contraction,
    Roles,
    assign_roles,
)
from tensorgen.expr import Axis, Const, Expr, Load, Select, const
from tensorgen.flat import flat_index
from tensorgen.simplify import Affine, affine, simplify
from tensorgen.task import Task
from tensorgen.types import int64

MOST_POINTS = 1 << 16
"""Conditions at more points are not counted, and such contractions keep their padding."""

LEAST_STEPS = 32
"""Steps between two conditions, at least, where lines are left out beside a padded copy."""

MOST_NEEDED = 0.99
"""The part of the steps that is needed then, at most: to leave out fewer is not worth estimates of
as many tiles again."""


def roles_without_padding(task: Task, contraction: Contraction, vector: int) -> Roles | None:
    """The roles of the axes, factor `vector` along the lanes, with guards that no two elements of a
    tile differ in: instead of a prologue that pads an input with zeros, or beside it, where other
    guards tell elements of a tile apart. None if too little can be left out."""
    padding = Padding.of(task, contraction)
    if padding is None:
        return None
    bare = padding.in_place(contraction)
    if bare is not None:
        roles = assign_roles(bare, vector)
        if are_uniform(roles):
            return roles
    roles = assign_roles(replace(contraction, guards=padding.guards), vector)
    kept = tuple(guard for guard in roles.contraction.guards if _is_uniform(guard, roles))
    roles = replace(roles, contraction=replace(roles.contraction, guards=kept))
    return roles if kept and _lines_pay(roles) else None


def _lines_pay(roles: Roles) -> bool:
    """Whether enough steps are left out, and enough others lie between two conditions."""
    steps = 1
    for axis in reversed(roles.reduction):
        if any(guard.coefficient(axis) for guard in roles.contraction.guards):
            break
        steps *= axis.extent
    return steps >= LEAST_STEPS and needed_share(roles.contraction) <= MOST_NEEDED


@dataclass(frozen=True, slots=True)
class Padding:
    """The zeros that a prologue puts around an input as factor number `factor`: one of the `guards`
    is negative exactly where the contraction reads them, and elsewhere it reads `load`, with the
    axes of the prologue at `places`. The input is no constant: these are packed with their padding
    at compile time."""

    factor: int
    guards: tuple[Affine, ...]
    load: Load
    places: Mapping[Expr, Affine]

    @staticmethod
    def of(task: Task, contraction: Contraction) -> Padding | None:
        """None if a contraction has no such prologue, or one that other than its axes decide."""
        prologue = contraction.prologue
        if prologue is None:
            return None
        match prologue.stage.body:
            case Select(condition=condition, then=Load() as load, otherwise=Const(value=0)) if (
                load.operand < len(task.inputs) and not task.constant[load.operand]
            ):
                within = all_nonnegative(condition)
            case _:
                return None
        if within is None:
            return None
        places: dict[Expr, Affine] = dict(zip(prologue.stage.axes, prologue.indices, strict=True))
        found = [_moved(bound, places) for bound in within]
        if any(guard is None for guard in found):
            return None
        guards = tuple(guard for guard in found if guard is not None and guard.bounds[0] < 0)
        return Padding(prologue.factor, guards, load, places) if guards else None

    def in_place(self, contraction: Contraction) -> Contraction | None:
        """The same contraction with the guards instead of the prologue: steps that they let through
        read the input itself. None if that is at other than affine places."""
        source = _moved(affine(flat_index(self.load.indices, self.load.type.shape)), self.places)
        if source is None:
            return None
        operands, factors = list(contraction.operands), list(contraction.factors)
        operands[self.factor], factors[self.factor] = self.load.operand, source
        contraction = replace(
            contraction,
            operands=(operands[0], operands[1]),
            factors=(factors[0], factors[1]),
            prologue=None,
            guards=self.guards,
        )
        return _alike_inside(contraction)


def needed_share(contraction: Contraction) -> float:
    """The part of all steps that the guards let through; 1 if there are too many to count."""
    axes = [
        axis
        for axis in (*contraction.axes, *contraction.reduction)
        if any(guard.coefficient(axis) for guard in contraction.guards)
    ]
    extents = tuple(axis.extent for axis in axes)
    if prod(extents) > MOST_POINTS:
        return 1.0
    points = dict(zip(axes, np.indices(extents, sparse=True), strict=True))
    needed = np.ones(extents, bool)
    for guard in contraction.guards:
        value = sum((points[axis] * guard.coefficient(axis) for axis in axes), guard.constant)
        needed &= value >= 0
    return float(needed.mean())


def are_uniform(roles: Roles) -> bool:
    """Whether no guard tells the elements of a tile apart."""
    return all(_is_uniform(guard, roles) for guard in roles.contraction.guards)


def _is_uniform(guard: Affine, roles: Roles) -> bool:
    """Whether a guard does not tell the elements of a tile apart."""
    tiled = (*roles.rows[-1:], *roles.vectors[-1:])
    return not any(guard.coefficient(axis) for axis in tiled)


def condition_of(guards: Iterable[Affine], values: Mapping[Axis, Expr]) -> Expr | None:
    """True where no guard is negative, for these values of the axes; None if that is everywhere."""
    whole: Expr | None = None
    for guard in guards:
        value = affine(simplify(guard.expr, dict(values)))
        if value.bounds[0] >= 0:
            continue
        # Written as the comparison that it was: constants on the right.
        term = const(-value.constant, int64) <= Affine(value.terms, 0).expr
        whole = term if whole is None else whole & term
    return whole


def _moved(index: Affine, places: Mapping[Expr, Affine]) -> Affine | None:
    """An index with terms in place of its axes; None if it has another atom."""
    result = Affine((), index.constant)
    for atom, coefficient in index.terms:
        if atom not in places:
            return None
        result = result.plus(places[atom].scaled(coefficient))
    return result


def _alike_inside(contraction: Contraction) -> Contraction:
    """The same with the innermost guarded axis of the result split in two, so that no guard tells
    the positions along the inner one apart; unchanged if there is no such split."""
    guards = contraction.guards
    guarded = [a for a in contraction.axes if any(guard.coefficient(a) for guard in guards)]
    if not guarded:
        return contraction
    axis = guarded[-1]
    size = _alike(guards, axis)
    if size == 1:
        return contraction
    first = max(
        (
            a.position + 1
            for a in (*contraction.axes, *contraction.reduction)
            if SPLIT_BASE <= a.position < EPILOGUE_BASE
        ),
        default=SPLIT_BASE,
    )
    outer = Axis(first, axis.extent // size, f"{axis.name}_g")
    inner = Axis(first + 1, size, axis.name)
    step: dict[Axis, Expr] = {axis: outer * size + inner}
    position = contraction.axes.index(axis)
    axes = tuple(
        a
        for a in (*contraction.axes[:position], outer, inner, *contraction.axes[position + 1 :])
        if a.extent > 1
    )
    ones: dict[Axis, Expr] = {outer: const(0, int64)} if outer.extent == 1 else {}

    def split(term: Expr) -> Expr:
        return simplify(simplify(term, step), ones)

    one, two = (affine(split(factor.expr)) for factor in contraction.factors)
    return replace(
        contraction,
        axes=axes,
        factors=(one, two),
        result=split(contraction.result),
        epilogue=split(contraction.epilogue),
        guards=tuple(_widest(guard, axis, outer, size) for guard in guards),
    )


def _alike(guards: Iterable[Affine], axis: Axis) -> int:
    """How many positions along an axis, from each multiple of their number on, no guard tells
    apart: they begin and end where the whole numbers that it counts do."""
    size = axis.extent
    for guard in guards:
        coefficient = guard.coefficient(axis)
        if abs(coefficient) > 1:
            return 1
        if coefficient:
            start = guard.constant if coefficient > 0 else guard.constant + 1
            size = gcd(size, start, *(c for atom, c in guard.terms if atom != axis))
    return size


def _widest(guard: Affine, axis: Axis, outer: Axis, size: int) -> Affine:
    """A guard at the last position of its block of `size` that it lets through: it lets all of them
    through, or none."""
    coefficient = guard.coefficient(axis)
    terms = [(atom, c) for atom, c in guard.terms if atom != axis]
    if coefficient and outer.extent > 1:
        terms.append((outer, coefficient * size))
    return Affine(tuple(terms), guard.constant + max(coefficient, 0) * (size - 1))
