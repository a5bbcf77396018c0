"""Windows: folds over a few neighbours in a plane, each plane with weights of its own or none.

What counts as a plane is decided by memory: its columns are the innermost axis of the result, which
may have no neighbours in the window, as channels do where they lie next to each other.

Depthwise convolution and pooling, of any stride along the rows and 1 or 2 along the columns,
dilated or not, padded or not, are one thing here:
`out[o…, r, c] = fold(k…, i, j) x[affine(o, k, r, c, i, j)] * w[o…, k…, i, j]`, with an elementwise
epilogue. A tap outside the plane is the neutral element of the fold.

What it does not: choose tiles (`window_sketch`) or make loops (`lower_window`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tensorgen.conditions import all_nonnegative
from tensorgen.expr import (
    Apply,
    Axis,
    Const,
    Expr,
    Fold,
    Load,
    Reduce,
    Select,
    const,
    free_axes,
    neutral_element,
    substitute,
    walk,
)
from tensorgen.flat import flat_index, flat_loads
from tensorgen.simplify import Affine, simplify, simplify_index
from tensorgen.task import Task
from tensorgen.types import DType, TensorType, float32, float64, int64

LEAST_COLUMNS = 4
"""Narrower planes are left to plain loops: most lanes would idle."""

MOST_TAPS = 128
"""Larger windows are left to plain loops: their taps would be written out."""

COLUMN_STRIDES = (1, 2)
"""Steps between lanes that vectors are read with."""

NO_AXIS = Axis(1 << 15, 1, "r")
"""Stands for an axis that a window does not have; numbered behind those of any expression."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`position * output + tap * kernel + constant >= 0`, for an output and a kernel position."""

    position: int
    tap: int
    constant: int

    def holds(self, output: int, kernel: int) -> bool:
        return self.position * output + self.tap * kernel + self.constant >= 0


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a plane: the axis of the result, that of the window, and when a tap is
    inside. `step` and `tap` are the distances in elements between neighbours along the two."""

    output: Axis
    kernel: Axis
    step: int
    tap: int
    inside: tuple[Condition, ...]

    def holds(self, output: int, kernel: int) -> bool:
        """True if the tap `kernel` of the window at `output` is inside the plane."""
        return all(condition.holds(output, kernel) for condition in self.inside)


@dataclass(frozen=True, slots=True)
class Window:
    """`fold(depth, rows.kernel, columns.kernel) operand[index] * weight` for all `outer`,
    `rows.output` and `columns.output`.

    `index`, `weight` and `result` are flat. The taps of a point of `depth` are inside only where
    all of `guards`, in terms of `outer` and `depth`, are at least 0. `epilogue` is the result's
    value, in which a load of `window_operand` stands for the fold; its other loads have one flat
    index.
    """

    outer: tuple[Axis, ...]
    rows: Direction
    columns: Direction
    depth: tuple[Axis, ...]
    guards: tuple[Affine, ...]
    fold: Fold
    dtype: DType
    operand: int
    index: Expr
    weight: Load | None
    result: Expr
    epilogue: Expr
    window_operand: int

    @property
    def taps(self) -> int:
        return self.rows.kernel.extent * self.columns.kernel.extent

    @property
    def weighs_columns(self) -> bool:
        """True if each column has a weight of its own."""
        return self.weight is not None and self.columns.output in free_axes(self.weight)

    @property
    def outside(self) -> float:
        """What a tap outside the plane is."""
        value = neutral_element(self.fold, self.dtype).value
        return float(value)


def window_of(task: Task) -> Window | None:
    """The task as a window with an optional elementwise epilogue; None if it is not one."""
    if len(task.stages) != 1 or task.stages[0].type.size == 0:
        return None
    stage = task.stages[0]
    folds = {term for term in walk(stage.body) if isinstance(term, Reduce)}
    if len(folds) != 1:
        return None
    (fold,) = folds
    if fold.dtype not in (float32, float64) or any(axis.extent == 0 for axis in fold.axes):
        return None
    *outer, column = [axis for axis in stage.axes if axis.extent != 1] or [NO_AXIS]
    if column.extent < LEAST_COLUMNS:
        return None
    parts = _factors(fold, column, task.constant)
    if parts is None:
        return None
    data, conditions, weight = parts
    reduction = [axis for axis in fold.axes if axis.extent != 1]
    columns = _direction(data, conditions, column, reduction)
    if columns is None or columns.step not in COLUMN_STRIDES:
        return None
    row = outer[-1] if outer else NO_AXIS
    in_weight = weight is not None and row in free_axes(weight)
    rows = None if in_weight else _direction(data, conditions, row, reduction)
    if rows is None or rows.kernel == columns.kernel != NO_AXIS:
        rows = Direction(NO_AXIS, NO_AXIS, 0, 0, ())
    else:
        outer = outer[:-1]
    depth = tuple(axis for axis in reduction if axis not in (rows.kernel, columns.kernel))
    guards = tuple(
        form
        for form in conditions
        if not any(_is_of(form, way.output, way.kernel) for way in (rows, columns))
    )
    if any(atom not in (*outer, *depth) for form in guards for atom, _ in form.terms):
        return None
    taps = rows.kernel.extent * columns.kernel.extent
    if not 1 < taps <= MOST_TAPS:
        return None
    # Without a plane for each position outside, what is loaded would serve several: a contraction.
    if any(axis not in free_axes(data) for axis in outer) or _has_operand(weight, data.operand):
        return None
    count = len(task.inputs)
    stand_in = Load(count, TensorType(fold.dtype, (1,)), (const(0, int64),))
    epilogue = substitute(stage.body, lambda term: stand_in if term == fold else None)
    return Window(
        tuple(outer),
        rows,
        columns,
        depth,
        guards,
        fold.fold,
        fold.dtype,
        data.operand,
        flat_index(data.indices, data.type.shape),
        None if weight is None else _flat(weight),
        flat_index(stage.axes, stage.type.shape),
        flat_loads(simplify(epilogue)),
        count,
    )


def window_work(window: Window) -> int:
    """Taps of all windows together."""
    axes = (*window.outer, window.rows.output, window.columns.output, *window.depth)
    return window.taps * prod(axis.extent for axis in axes)


def _flat(load: Load) -> Load:
    flat = flat_loads(load)
    assert isinstance(flat, Load)
    return flat


def _has_operand(weight: Load | None, operand: int) -> bool:
    return weight is not None and weight.operand == operand


def _factors(
    fold: Reduce, column: Axis, constant: Sequence[bool]
) -> tuple[Load, tuple[Affine, ...], Load | None] | None:
    """What is folded: the load that moves along the columns, the forms that must be at least 0 for
    it to be inside the plane, and the weight, if there is one. If both factors move along the
    columns, the weight is the constant one, since it is relaid."""
    weight: Load | None = None
    data: Expr = fold.body
    match fold:
        case Reduce(fold=Fold.SUM, body=Apply(op=op, args=(left, right))) if op.name == "mul":
            data, other = (left, right) if column in free_axes(left) else (right, left)
            if column in free_axes(other) and not _is_constant(other, constant):
                data, other = other, data
            if not isinstance(other, Load):
                return None
            if column in free_axes(other) and not _is_constant(other, constant):
                return None
            weight = other
        case _:
            pass
    conditions: tuple[Affine, ...] | None = ()
    match data:
        case Select(condition=condition, then=Load() as inner, otherwise=Const() as outside):
            if outside != neutral_element(fold.fold, fold.dtype):
                return None
            data, conditions = inner, all_nonnegative(condition)
        case _:
            pass
    if not isinstance(data, Load) or conditions is None:
        return None
    indices = [*data.indices, *(() if weight is None else weight.indices)]
    if any(isinstance(term, Load) for index in indices for term in walk(index)):
        return None
    return data, conditions, weight


def _is_constant(term: Expr, constant: Sequence[bool]) -> bool:
    """True for a load of an input that is known at compile time."""
    return isinstance(term, Load) and term.operand < len(constant) and constant[term.operand]


def _is_of(form: Affine, output: Axis, kernel: Axis) -> bool:
    """True if a condition is about one direction of the plane only."""
    return {atom for atom, _ in form.terms} <= {output, kernel}


def _direction(
    data: Load, conditions: Sequence[Affine], output: Axis, reduction: Sequence[Axis]
) -> Direction | None:
    """How a load moves along an axis of the result; None if not by equal steps in one dimension,
    together with one axis of the window at most."""
    dimensions = [index for index in data.indices if output in free_axes(index)]
    if output != NO_AXIS and len(dimensions) != 1:
        return None
    kernels = [a for a in reduction if any(a in free_axes(index) for index in dimensions)]
    if len(kernels) > 1:
        return None
    kernel = kernels[0] if kernels else NO_AXIS
    flat = simplify_index(flat_index(data.indices, data.type.shape))
    step, tap = flat.coefficient(output), flat.coefficient(kernel)
    hidden = [atom for atom, _ in flat.terms if not isinstance(atom, Axis)]
    if step <= 0 or tap < 0 or any({output, kernel} & free_axes(atom) for atom in hidden):
        return None
    own = [form for form in conditions if _is_of(form, output, kernel)]
    # What is inside must be a matter of the element that is read.
    if any(form.coefficient(output) * tap != form.coefficient(kernel) * step for form in own):
        return None
    inside = tuple(
        Condition(form.coefficient(output), form.coefficient(kernel), form.constant) for form in own
    )
    return Direction(output, kernel, step, tap, inside)
