"""Attention: the rows of one contraction, worked on and contracted again, without storing them.

`scores[b, i, j] = sum(d) q[b, i, d] * k[b, j, d]`, stages on the rows of it (a scale, a mask, a
softmax: each reads only its own row) and perhaps `sum(j) row[b, i, j] * v[b, j, e]`. What it does:
recognises this from the indices, whatever operators it came from, and says which axes of the two
contractions are the same. What it does not: choose tiles (`sketch_attention`) or print loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.composition import renumber_operands
from tensorgen.contraction import Contraction, Roles, assign_roles, contraction_of, has_tiles
from tensorgen.expr import Apply, Axis, Load, Reduce, TensorExpr, loads, walk
from tensorgen.simplify import affine, simplify
from tensorgen.task import Task

FEWEST_SHARING = 4
"""Fewer rows do not pay for packing the keys that they share."""

FEWEST_ROWS = 8
"""Rows whose scores must fit the cache together: fewer do not pay for reading all keys."""

SCORES_BYTES = 512 << 10
"""Of the second-level cache, what scores may take."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A task as scores, stages on their rows, and what the rows weigh.

    `scores` are the roles of the first contraction: its last row axis and its only vector axis are
    the rows and columns of the scores, which are the stage at `scored`; `row_stages` are the
    positions of the stages on them. `weighted` are the roles of the second contraction, whose
    broadcast factor, numbered after the task's inputs, is the last of these stages; None without.
    `scores_vector` and `weighted_vector` number the factors along the lanes.
    """

    scores: Roles
    scores_vector: int
    scored: int
    row_stages: range
    weighted: Roles | None
    weighted_vector: int

    @property
    def row(self) -> Axis:
        """The axis of the first contraction whose values are the rows that share their keys."""
        return self.scores.rows[-1]

    @property
    def outer(self) -> tuple[Axis, ...]:
        """The axes of the first contraction around those rows."""
        return (*self.scores.batch, *self.scores.rows[:-1])


def attention_of(task: Task) -> Attention | None:
    """The task as attention; None if it is not."""
    if len(task.stages) < 2 or task.outputs != (len(task.stages) - 1,):
        return None
    if not isinstance(task.stages[0].body, Reduce):
        return None
    # A scale after the sum may be part of the contraction or a stage on its rows, which is cheaper.
    return next(
        (
            found
            for scored in (0, 1)
            for end in (len(task.stages) - 2, len(task.stages) - 1, len(task.stages))
            if end > scored + 1
            and (found := _attention(task, scored, range(scored + 1, end))) is not None
        ),
        None,
    )


def _attention(task: Task, scored: int, row_stages: range) -> Attention | None:
    """The task as attention if the stages at `row_stages` are those on rows; None if not."""
    if not _stay_in_rows(task, scored, row_stages):
        return None
    count, end = len(task.inputs), row_stages.stop
    first = _part(task, range(scored + 1), None)
    contraction = None if first is None else contraction_of(first)
    if contraction is None or contraction.prologue is not None:
        return None
    if any(task.constant[operand] for operand in contraction.operands):
        return None
    found = _scores_roles(contraction, task.stages[scored])
    if found is None or not has_tiles(contraction):
        return None
    scores, scores_vector = found
    if end == len(task.stages):
        return Attention(scores, scores_vector, scored, row_stages, None, 0)
    second = _part(task, range(end, len(task.stages)), end - 1)
    contraction = None if second is None else contraction_of(second)
    if contraction is None or contraction.prologue is not None:
        return None
    if count not in contraction.operands:
        return None
    vector = 1 - contraction.operands.index(count)
    if contraction.operands[vector] == count or task.constant[contraction.operands[vector]]:
        return None
    weighted = assign_roles(contraction, vector)
    stride = affine(scores.contraction.result).coefficient(scores.rows[-1])
    row_number = stride // task.stages[scored].axes[-1].extent
    last = task.stages[end - 1]
    if len(last.axes) != len(task.stages[scored].axes):
        return None
    if not _weighs(weighted, vector, last, scores.rows[-1].extent, row_number):
        return None
    return Attention(scores, scores_vector, scored, row_stages, weighted, vector)


def _part(task: Task, positions: range, before: int | None) -> Task | None:
    """Some consecutive stages as a task over the inputs and, behind them, the stage at `before`;
    None if they read others."""
    count = len(task.inputs)
    numbers = {position: position for position in range(count)}
    extra = () if before is None else (task.stages[before].type,)
    if before is not None:
        numbers[count + before] = count
    for number, position in enumerate(positions):
        numbers[count + position] = count + len(extra) + number
    stages = [task.stages[position] for position in positions]
    if any(load.operand not in numbers for stage in stages for load in loads(stage.body)):
        return None
    return Task(
        (*task.inputs, *extra),
        tuple(renumber_operands(stage, numbers) for stage in stages),
        (len(stages) - 1,),
        (*task.constant, *(False for _ in extra)),
    )


def _stay_in_rows(task: Task, scored: int, row_stages: range) -> bool:
    """True if the stages, one of which reduces, read the inputs and, of the scores and each other,
    their own rows: all axes but the last of the scores. Products of two tensors are not summed
    there, which register tiles do better."""
    count = len(task.inputs)
    if not task.stages[scored].axes:
        return False
    rows = task.stages[scored].axes[:-1]
    stages = [task.stages[position] for position in row_stages]
    local = {count + scored, *(count + position for position in row_stages)}
    if not any(isinstance(term, Reduce) for stage in stages for term in walk(stage.body)):
        return False
    if any(_sums_products(stage) for stage in stages):
        return False
    size = task.stages[scored].axes[-1].extent * task.stages[scored].type.dtype.bytes
    if FEWEST_ROWS * size > SCORES_BYTES:
        return False
    return all(
        [axis.extent for axis in stage.axes[: len(rows)]] == [axis.extent for axis in rows]
        and all(
            load.operand < count
            or (load.operand in local and _in_row(load, stage.axes[: len(rows)]))
            for load in loads(stage.body)
        )
        for stage in stages
    )


def _sums_products(stage: TensorExpr) -> bool:
    match stage.body:
        case Reduce(body=Apply(op=op, args=(Load(operand=left), Load(operand=right)))):
            return op.name == "mul" and left != right
        case _:
            return False


def _in_row(load: Load, rows: Sequence[Axis]) -> bool:
    return all(
        simplify(index) == simplify(axis)
        for index, axis in zip(load.indices[: len(rows)], rows, strict=True)
    )


def _scores_roles(contraction: Contraction, scored: TensorExpr) -> tuple[Roles, int] | None:
    """The roles in which the lanes of the scores' tiles run along their rows, and the factor."""
    length = scored.axes[-1].extent
    for vector in (0, 1):
        roles = assign_roles(contraction, vector)
        if len(roles.vectors) != 1 or not roles.rows or roles.vectors[0].extent != length:
            continue
        if roles.rows[-1].extent < FEWEST_SHARING:
            continue
        result = affine(roles.contraction.result)
        outer = [*roles.batch, *roles.rows]
        known = {roles.vectors[0], *outer}
        if (
            result.coefficient(roles.vectors[0]) == 1
            and not result.constant
            and all(atom in known for atom, _ in result.terms)
            and all(result.coefficient(axis) % length == 0 for axis in outer)
            and result.coefficient(roles.rows[-1]) > 0
        ):
            return roles, vector
    return None


def _weighs(roles: Roles, vector: int, rows: TensorExpr, count: int, row_number: int) -> bool:
    """True if a contraction's broadcast factor reads all rows, each by one combination of its outer
    axes: `count` of them, `row_number` apart, along its last row axis."""
    factor = roles.contraction.factors[1 - vector]
    length = rows.axes[-1].extent
    if not roles.vectors or not roles.rows or factor.constant:
        return False
    reach = sum((axis.extent - 1) * factor.coefficient(axis) for axis in roles.reduction)
    outer = sorted((*roles.batch, *roles.rows), key=factor.coefficient)
    weight = length
    for axis in outer:
        if factor.coefficient(axis) != weight:
            return False
        weight *= axis.extent
    return (
        weight == rows.type.size
        and all(factor.coefficient(axis) > 0 for axis in roles.reduction)
        and reach < length
        and factor.coefficient(roles.rows[-1]) == row_number * length
        and roles.rows[-1].extent % count == 0
    )
