"""Layouts of relaid factors of a contraction, and the blocks in which its sums are taken.

Factors are zero-filled up to whole tiles:
- vector factor: batch, outer vector axes, vector tile, reduction, lane;
- broadcast factor: batch, outer row axes, row tile, reduction, row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tensorgen.contraction import Roles
from tensorgen.expr import Axis, Expr, Tensor, TensorExpr, compute, const, select, substitute
from tensorgen.flat import flat_index
from tensorgen.schedule import RegisterTile, ScheduleError
from tensorgen.simplify import Affine
from tensorgen.types import TensorType


def length_of(axes: Sequence[Axis]) -> int:
    """The number of points on a grid of axes."""
    return prod(axis.extent for axis in axes)


def row_major(axes: Sequence[Axis], values: Mapping[Axis, Expr]) -> Expr:
    """The row-major position of a point on a grid of axes."""
    return flat_index([values[axis] for axis in axes], tuple(axis.extent for axis in axes))


def panel_axes(factor: Affine, roles: Roles, tiled: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes that select a panel of a relaid factor, besides its tile."""
    batch = tuple(axis for axis in roles.batch if factor.coefficient(axis))
    return (*batch, *tiled[:-1])


def packed_factor(
    original: TensorType, factor: Affine, roles: Roles, tiled: tuple[Axis, ...], length: int
) -> TensorExpr:
    """A relaid factor as an expression over the flattened original."""
    outer = panel_axes(factor, roles, tiled)
    extent = tiled[-1].extent if tiled else 1
    tiles = -(-extent // length)
    shape = (
        *(axis.extent for axis in outer),
        tiles,
        *(axis.extent for axis in roles.reduction),
        length,
    )
    source = Tensor(0, TensorType(original.dtype, (original.size,)))

    def element(*indices: Expr) -> Expr:
        tile, part = indices[len(outer)], indices[-1]
        position = tile * length + part
        values: dict[Axis, Expr] = dict(zip(outer, indices[: len(outer)], strict=True))
        values.update(zip(roles.reduction, indices[len(outer) + 1 : -1], strict=True))
        if tiled:
            values[tiled[-1]] = position
        load = source[
            substitute(factor.expr, lambda t: values.get(t) if isinstance(t, Axis) else None)
        ]
        if extent % length == 0:
            return load
        return select(position < extent, load, const(0, original.dtype))

    return compute(shape, element)


def panel_size(roles: Roles, schedule: RegisterTile) -> int:
    """Elements of a panel that holds all tiles of the vector factor."""
    *outer, column = roles.vectors
    width = schedule.vectors * schedule.lanes
    tiles = length_of(outer) * -(-column.extent // width)
    return tiles * length_of(roles.reduction) * width


def meets_rows_in_blocks(roles: Roles, vector: int, lanes: int) -> bool:
    """Whether packing transposes whole square blocks of the factor of that number, whose columns
    meet neighbours in each row of the other one."""
    if not roles.reduction:
        return False
    column, last = roles.vectors[-1], roles.reduction[-1]
    along, across = roles.contraction.factors[vector], roles.contraction.factors[1 - vector]
    neighbours = along.coefficient(last) == across.coefficient(last) == 1
    whole = column.extent % lanes == last.extent % lanes == 0
    return neighbours and whole and along.coefficient(column) != 1


def cut_axes(axes: Sequence[Axis], depth: int) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The axes cut in two, the outer and the inner part of each: `depth` points lie inside.

    Only one of them has both parts. Raises ScheduleError if blocks of that size do not go round.
    """
    outer, inner = [], []
    rest = depth
    for axis in reversed(axes):
        inside = min(rest, axis.extent)
        if axis.extent % inside or rest % inside:
            raise ScheduleError(
                f"register_tile: expected a depth that divides {length_of(axes)} products from the "
                f"innermost axis, got {depth}"
            )
        outer.append(Axis(axis.position, axis.extent // inside, axis.name))
        inner.append(Axis(axis.position, inside, axis.name))
        rest //= inside
    return tuple(outer[::-1]), tuple(inner[::-1])


def cut_lengths(axes: Sequence[Axis]) -> tuple[int, ...]:
    """The depths at which `cut_axes` cuts, shortest first: whole inner axes by a divisor of the
    next."""
    found, inside = set(), 1
    for axis in reversed(axes):
        found |= {inside * part for part in range(1, axis.extent + 1) if not axis.extent % part}
        inside *= axis.extent
    return tuple(sorted(found))
