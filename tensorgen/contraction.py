"""Contractions: sums of products of two tensors, and the roles of their axes.

Matrix multiplication, convolution of any rank, stride, dilation and grouping, and einsum are one
thing here: `out[o…] = sum(k…) p[affine(o, k)] * q[affine(o, k)]`. An output axis that occurs in
both factors is a batch axis, one that occurs only in the broadcast factor a row axis, one that
occurs only in the vector factor a vector axis.

What it does not: choose tiles (`sketch`) or print loops (`lower_contraction`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from tensorgen.expr import (
    Apply,
    Axis,
    Const,
    Expr,
    Fold,
    Load,
    Reduce,
    const,
    free_axes,
    loads,
    substitute,
    walk,
)
from tensorgen.flat import flat_index, flat_loads, index_terms, mergeable, merged_name
from tensorgen.loop import FIRST_LOOP
from tensorgen.prologue import Prologue, is_padding, prologue_of
from tensorgen.simplify import Affine, affine, simplify
from tensorgen.task import Task
from tensorgen.types import DType, float32, float64, int64

SPLIT_BASE = 1 << 16
"""Axes made by splitting are numbered from here, between expression axes and loop variables."""

EPILOGUE_BASE = 1 << 18
"""Axes made by splitting the epilogue's are numbered from here."""

assert SPLIT_BASE < EPILOGUE_BASE < FIRST_LOOP


@dataclass(frozen=True, slots=True)
class Contraction:
    """`sum(reduction) factors[0] * factors[1]` for all values of `axes`.

    `factors` are flat affine indices into the task's operands `operands`: inputs, or the stage
    in front that `prologue` describes. `result` is the flat index of the task's result and
    `epilogue` its value, in terms of `axes`, where the load of `stage_operand` stands for the sum
    and every load has one flat index. Steps at which one of `guards` is negative are left out:
    they would multiply by zeros that are nowhere. `given` are the task's (`Task.given`).
    """

    axes: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    operands: tuple[int, int]
    factors: tuple[Affine, Affine]
    dtype: DType
    result: Expr
    epilogue: Expr
    stage_operand: int
    prologue: Prologue | None = None
    guards: tuple[Affine, ...] = ()
    given: frozenset[int] = frozenset()

    def constant(self, task: Task) -> tuple[bool, bool]:
        """Whether each factor is known at compile time."""
        first, second = (n < len(task.inputs) and task.constant[n] for n in self.operands)
        return first, second

    def reads_given(self, factor: int) -> bool:
        """Whether a factor is read in an array of callers: not in a prologue's copy of one."""
        copied = self.prologue is not None and self.prologue.factor == factor
        return self.operands[factor] in self.given and not copied


def contraction_of(task: Task) -> Contraction | None:
    """The task as a contraction with an optional elementwise epilogue, and an optional prologue
    that makes one of its operands; None if it is not one."""
    return _contraction_of(task, str(task))


@lru_cache(maxsize=256)
def _contraction_of(task: Task, axis_names: str) -> Contraction | None:
    """The same, made once for all schedules of a task. Equal tasks may differ in
    `axis_names`, which become those of loops."""
    if len(task.stages) > 3 or task.outputs != (len(task.stages) - 1,):
        return None
    first = 1 if is_padding(task.stages[0]) else 0
    if not first < len(task.stages) <= first + 2:
        return None
    stage = task.stages[first]
    body = stage.body
    if not (isinstance(body, Reduce) and body.fold is Fold.SUM):
        return None
    if body.dtype not in (float32, float64) or any(axis.extent == 0 for axis in body.axes):
        return None
    match body.body:
        case Apply(op=op, args=(Load() as left, Load() as right)) if op.name == "mul":
            pass
        case _:
            return None
    if stage.type.size == 0:
        return None
    made = [n for n, load in enumerate((left, right)) if load.operand >= len(task.inputs)]
    if len(made) != first:
        return None
    epilogue = _epilogue(task, first)
    if epilogue is None:
        return None
    result, value = epilogue
    terms = [flat_index(load.indices, load.type.shape) for load in (left, right)]
    places = [index for n in made for index in (left, right)[n].indices]
    names = itertools.count(SPLIT_BASE)
    axes, values = split_axes([*terms, *places], (*stage.axes, *body.axes), names)
    reduction = tuple(axis for axis in axes if axis in _all_free(values, body.axes))
    axes = tuple(axis for axis in axes if axis not in reduction)
    terms = [simplify(term, values) for term in terms]
    result, value = simplify(result, values), simplify(value, values)
    factors = [affine(term) for term in terms]
    if any(not isinstance(atom, Axis) for factor in factors for atom, _ in factor.terms):
        return None
    prologue = None
    if made:
        places = [simplify(place, values) for place in places]
        prologue = prologue_of(made[0], task.stages[0], places)
        if prologue is None:
            return None
    ones = {axis: const(0, int64) for axis in (*axes, *reduction) if axis.extent == 1}
    return Contraction(
        tuple(axis for axis in axes if axis.extent != 1),
        tuple(axis for axis in reduction if axis.extent != 1),
        (left.operand, right.operand),
        (factors[0], factors[1]),
        body.dtype,
        simplify(result, dict(ones)),
        flat_loads(simplify(value, dict(ones))),
        len(task.inputs) + first,
        prologue,
        given=task.given,
    )


def split_axes(
    terms: Iterable[Expr], axes: Sequence[Axis], numbers: Iterator[int]
) -> tuple[tuple[Axis, ...], dict[Axis, Expr]]:
    """Split every axis that occurs as `axis // c` or `axis % c`, where `c` divides its extent.

    Gives the new axes, outer before inner in place of the old, and the value of each old axis that
    is gone.
    """
    current = list(axes)
    values: dict[Axis, Expr] = {}
    remaining = list(terms)
    while (split := _next_split(remaining, current)) is not None:
        axis, size = split
        outer = Axis(next(numbers), axis.extent // size, f"{axis.name}_g")
        inner = Axis(next(numbers), size, axis.name)
        position = current.index(axis)
        current[position : position + 1] = [outer, inner]
        step: dict[Axis, Expr] = {axis: outer * size + inner}
        remaining = [simplify(term, step) for term in remaining]
        values = {old: simplify(value, step) for old, value in values.items()}
        if axis in axes:
            values[axis] = step[axis]
    return tuple(current), values


def _next_split(terms: Iterable[Expr], axes: Sequence[Axis]) -> tuple[Axis, int] | None:
    for term in terms:
        for part in walk(term):
            match part:
                case Apply(op=op, args=(Axis() as axis, Const(value=value))) if (
                    op.name in ("floordiv", "mod")
                    and axis in axes
                    and axis.extent % int(value) == 0
                ):
                    return axis, int(value)
                case _:
                    pass
    return None


def _all_free(values: dict[Axis, Expr], axes: Sequence[Axis]) -> frozenset[Axis]:
    """The axes that stand for `axes` after splitting."""
    return frozenset().union(*(free_axes(values.get(axis, axis)) for axis in axes))


def _epilogue(task: Task, position: int) -> tuple[Expr, Expr] | None:
    """Flat index and value of the result in terms of the axes of the sum, which is the stage at
    `position`; None if the result's elements do not correspond one to one to the sum's."""
    count = len(task.inputs) + position
    stage = task.stages[position]
    if len(task.stages) == position + 1:
        index = flat_index(stage.axes, stage.type.shape)
        return index, Load(count, stage.type, stage.axes)
    last = task.stages[position + 1]
    made = [load for load in loads(last.body) if load.operand >= len(task.inputs)]
    sums = [load for load in made if load.operand == count]
    if len(sums) != 1 or made != sums or any(isinstance(term, Reduce) for term in walk(last.body)):
        return None
    axes, values = split_axes(sums[0].indices, last.axes, itertools.count(EPILOGUE_BASE))
    indices = [simplify(index, values) for index in sums[0].indices]
    inverse = inverse_axes(indices, stage.axes, axes)
    if inverse is None:
        return None
    positions = {axis: simplify(values.get(axis, axis), inverse) for axis in last.axes}
    value = substitute(
        last.body,
        lambda t: (
            Load(count, stage.type, stage.axes)
            if t == sums[0]
            else positions.get(t)
            if isinstance(t, Axis)
            else None
        ),
    )
    index = flat_index(last.axes, last.type.shape)
    return simplify(index, positions), simplify(value)


def inverse_axes(
    indices: Sequence[Expr], inner: Sequence[Axis], outer: Sequence[Axis]
) -> dict[Axis, Expr] | None:
    """Solve `inner[d] = indices[d](outer)` for the outer axes.

    Each index must be a mixed-radix number whose digits are outer axes, each axis used once: what
    transposes and reshapes make. None otherwise.
    """
    solution: dict[Axis, Expr] = {}
    for index, axis in zip(indices, inner, strict=True):
        form = affine(simplify(index))
        digits: list[tuple[Axis, int]] = []
        for atom, factor in form.terms:
            if not isinstance(atom, Axis):
                return None
            digits.append((atom, factor))
        weight = 1
        for digit, factor in sorted(digits, key=lambda item: item[1]):
            if factor != weight or digit in solution:
                return None
            position: Expr = axis
            if weight != 1:
                position = position // weight
            if weight * digit.extent != axis.extent:
                position = position % digit.extent
            solution[digit] = position
            weight *= digit.extent
        if weight != axis.extent or form.constant:
            return None
    for axis in outer:
        if axis.extent == 1:
            solution[axis] = const(0, int64)
        elif axis not in solution:
            return None
    return {axis: simplify(position) for axis, position in solution.items()}


@dataclass(frozen=True, slots=True)
class Roles:
    """The axes of a contraction by role, for one choice of the vector factor.

    The innermost row axis and the innermost vector axis are tiled; `reduction` is shared, the
    longest axis innermost: a tile's few instructions cost less than to enter a loop of three.
    `contraction` has its adjacent axes merged where this role assignment allows it.
    """

    contraction: Contraction
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    vectors: tuple[Axis, ...]
    reduction: tuple[Axis, ...]

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes that loops go over as a whole."""
        return (*self.batch, *self.rows[:-1], *self.vectors[:-1])


def assign_roles(contraction: Contraction, vector: int) -> Roles:
    """Roles of the axes if factor `vector` lies along the lanes."""
    broadcast = contraction.factors[1 - vector]
    lanes = contraction.factors[vector]

    def role(axis: Axis) -> str:
        in_rows, in_vectors = broadcast.coefficient(axis) != 0, lanes.coefficient(axis) != 0
        return "batch" if in_rows == in_vectors else "row" if in_rows else "vector"

    groups: dict[str, list[Axis]] = {"batch": [], "row": [], "vector": []}
    for axis in contraction.axes:
        groups[role(axis)].append(axis)
    for name, axes in groups.items():
        contraction, groups[name] = _merged(contraction, axes)
    contraction, reduction = _merged(contraction, list(contraction.reduction))
    return Roles(
        contraction,
        tuple(groups["batch"]),
        tuple(groups["row"]),
        tuple(groups["vector"]),
        tuple(sorted(reduction, key=lambda axis: axis.extent)),
    )


WINDOW = 32
"""Without rows that share them, sums of at most so many products are loops, not tiles."""


def has_tiles(contraction: Contraction) -> bool:
    """True if a register tile pays: some axis can lie along the lanes, and either another reuses
    what was loaded or the sum is long."""
    depth = prod(axis.extent for axis in contraction.reduction)
    for vector in (0, 1):
        roles = assign_roles(contraction, vector)
        if roles.vectors and (roles.rows or depth > WINDOW):
            return True
    return False


def _merged(contraction: Contraction, axes: list[Axis]) -> tuple[Contraction, list[Axis]]:
    """Merge neighbours in `axes` that every access walks in step."""
    for position in range(len(axes) - 2, -1, -1):
        outer, inner = axes[position], axes[position + 1]
        terms = [
            contraction.result,
            *index_terms(contraction.epilogue),
            *(factor.expr for factor in contraction.factors),
            *(index.expr for index in _read_at(contraction)),
            *(guard.expr for guard in contraction.guards),
        ]
        if not mergeable(outer, inner, terms):
            continue
        merged = Axis(inner.position, outer.extent * inner.extent, merged_name(outer, inner))
        values: dict[Axis, Expr] = {outer: const(0, int64), inner: merged}
        first, second = (affine(simplify(f.expr, values)) for f in contraction.factors)
        prologue = contraction.prologue
        if prologue is not None:
            places = tuple(affine(simplify(i.expr, values)) for i in prologue.indices)
            prologue = replace(prologue, indices=places)
        contraction = replace(
            contraction,
            prologue=prologue,
            axes=tuple(merged if a == inner else a for a in contraction.axes if a != outer),
            reduction=tuple(
                merged if a == inner else a for a in contraction.reduction if a != outer
            ),
            factors=(first, second),
            result=simplify(contraction.result, values),
            epilogue=simplify(contraction.epilogue, values),
            guards=tuple(affine(simplify(g.expr, values)) for g in contraction.guards),
        )
        axes = [*axes[:position], merged, *axes[position + 2 :]]
    return contraction, axes


def _read_at(contraction: Contraction) -> tuple[Affine, ...]:
    """Where the contraction reads its prologue, if it has one."""
    return () if contraction.prologue is None else contraction.prologue.indices
