"""What stages cost as plain loops: cycles of one core, counted term by term.

What it does not: know tiles (`sketch_tiles`, `window_sketch`), or run anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import assert_never

from tensorgen.crossing import crossing
from tensorgen.expr import (
    Apply,
    Axis,
    Expr,
    Load,
    Reduce,
    Select,
    TensorExpr,
    children,
    free_axes,
    loads,
    walk,
)
from tensorgen.flat import flat_loads
from tensorgen.machine import Core, Machine
from tensorgen.schedule import Lanes
from tensorgen.simplify import affine
from tensorgen.target import LINE_BYTES, Target
from tensorgen.task import Task
from tensorgen.types import float32, int64

COSTLY_CYCLES = 12.0
"""Cycles for one vector of a function that is no single instruction: exp, tanh, erf."""

SCATTERED_CYCLES = 4.0
"""Cycles to read one vector of elements that do not lie next to each other, but near."""

LINE_CYCLES = 8.0
"""Cycles for a line of the caches where every element lies in another one: a pool over channels
together, whose results are row-major, takes 9."""

TURNED_CYCLES = 6.0
"""Cycles to read one vector across the lanes where blocks are transposed in registers."""

CHOICE_CYCLES, CUT_CYCLES = 8.0, 1.0
"""Cycles of a choice that differs within a vector; the second where it changes at places that are
known, as padding does: loops are cut there."""

FOLDED_LANES_CYCLES = 12.0
"""Cycles to fold the lane accumulators of a reduction into its result."""


@dataclass(frozen=True, slots=True)
class StageCycles:
    """Cycles of one core of a machine for stages as loop nests."""

    target: Target
    machine: Machine

    @property
    def frequency(self) -> float:
        """Cycles in a second."""
        core = Core.of(self.target.isa, float32, self.machine)
        assert core is not None, "there are vectors of float32, if of one element"
        return core.frequency

    def lanes(self, stage: TensorExpr) -> int:
        """Elements of a vector of results."""
        return max(self.target.vector_lanes(stage.type.dtype.bits), 1)

    def along(self, lanes: Lanes, stage: TensorExpr) -> float:
        """Cycles of a stage whose lanes run along something."""
        match lanes:
            case Lanes.OUTPUT:
                return self.along_result(stage)
            case Lanes.REDUCTION:
                return self.along_reduction(stage)
            case Lanes.NONE:
                return self.along_result(stage, lanes=1)
            case _:
                assert_never(lanes)

    def along_result(
        self, stage: TensorExpr, held: int | None = None, lanes: int | None = None
    ) -> float:
        """Cycles of a stage whose lanes run along the last axis of its result; vectors have as many
        as the target's, or so many `lanes`. What it reads of the operand `held` comes from
        registers, in whatever order."""
        lanes = self.lanes(stage) if lanes is None else lanes
        last = next((axis for axis in reversed(stage.axes) if axis.extent != 1), None)
        vectors = stage.type.size / lanes
        if last is not None and last.extent:
            vectors *= -(-last.extent // lanes) * lanes / last.extent
        terms = _Terms(self, stage, last, lanes, held, set())
        return vectors * (1.0 + terms.cycles(stage.body))

    def along_reduction(self, stage: TensorExpr) -> float:
        """Cycles of a stage whose lanes run along the last axis of each of its reductions."""
        lanes = self.lanes(stage)
        folds = [term for term in walk(stage.body) if isinstance(term, Reduce) and term.axes]
        total = 1.0
        for fold in folds:
            *outer, inner = fold.axes
            steps = prod(axis.extent for axis in outer) * -(-inner.extent // lanes)
            terms = _Terms(self, stage, inner, lanes, None, set())
            total += steps * (1.0 + terms.cycles(fold.body)) + FOLDED_LANES_CYCLES
        return stage.type.size * total

    def division(self, lanes: int) -> float:
        """Cycles of a vector of divisions by divisors that differ."""
        return self.frequency * lanes / self.machine.divisions.alone


@dataclass(frozen=True, slots=True)
class _Terms:
    """Cycles of vectors of terms, whose lanes run along `last`. What was `seen` is left out."""

    loops: StageCycles
    stage: TensorExpr
    last: Axis | None
    lanes: int
    held: int | None
    seen: set[bytes]

    def cycles(self, term: Expr) -> float:
        """Cycles of a vector of a term."""
        if term.digest in self.seen:
            return 0.0
        self.seen.add(term.digest)
        last, cycles = self.last, self.cycles
        match term:
            case Reduce():
                return prod(axis.extent for axis in term.axes) * (1.0 + cycles(term.body))
            case Load(operand=operand) if operand == self.held:
                return 1.0
            case Load():
                return self._read_cycles(term)
            case Select():
                chosen = cycles(term.then), cycles(term.otherwise)
                if last is not None and last in free_axes(term.condition):
                    cut = _changes_at_places(term.condition, last)
                    return (CUT_CYCLES if cut else CHOICE_CYCLES) + sum(chosen)
                # The choice is made outside the inner loop, which runs one of both.
                return max(chosen)
            case Apply():
                if (
                    term.op.name == "div"
                    and term.dtype.is_float
                    and last in free_axes(term.args[1])
                ):
                    return self.loops.division(self.lanes) + sum(map(cycles, term.args))
                simple = bool(term.op.symbol) or term.op.name in ("max", "min", "neg", "abs")
                own = 1.0 if simple else COSTLY_CYCLES
                return own + sum(map(cycles, term.args))
            case _:
                return sum(map(cycles, children(term)))

    def _read_cycles(self, load: Load) -> float:
        """Cycles of a vector of reads."""
        last = self.last
        if last is None or not any(last in free_axes(index) for index in load.indices):
            return 1.0
        flat = _flat(load)
        form = affine(flat.indices[0])
        if not all(isinstance(atom, Axis) for atom, _ in form.terms):
            return SCATTERED_CYCLES
        step = form.coefficient(last)
        if step in (0, 1):
            return 1.0
        if flat in _turned(self.stage):
            return TURNED_CYCLES
        if self.held is not None or abs(step) * load.dtype.bytes < LINE_BYTES:
            # What stands behind a sum in registers is transposed with it.
            return SCATTERED_CYCLES
        return LINE_CYCLES * self.lanes


def _turned(stage: TensorExpr) -> tuple[Load, ...]:
    """The reads of a stage, flat, that are transposed in blocks."""
    axes = [axis for axis in stage.axes if axis.extent != 1]
    found = crossing(axes, flat_loads(stage.body))
    return () if found is None else found.loads


def _flat(load: Load) -> Load:
    """The load with one flat index."""
    flat = flat_loads(load)
    assert isinstance(flat, Load)
    return flat


def _changes_at_places(condition: Expr, axis: Axis) -> bool:
    """Whether a condition changes along an axis only where the axis passes known numbers."""
    match condition:
        case Apply(op=op, args=(left, right)) if op.name in ("lt", "le") and left.dtype == int64:
            difference = affine(left).plus(affine(right).scaled(-1))
            return axis not in free_axes(condition) or all(
                atom == axis for atom, _ in difference.terms
            )
        case Apply(op=op, args=args) if op.name in ("and", "or", "not"):
            return all(_changes_at_places(part, axis) for part in args)
        case _:
            return axis not in free_axes(condition)


def bytes_moved(task: Task) -> int:
    """Bytes of the results and of those parts of the inputs that are read."""
    read: dict[int, int] = {}
    for stage in task.stages:
        for load in loads(stage.body):
            axes = {
                term for index in load.indices for term in walk(index) if isinstance(term, Axis)
            }
            count = prod(axis.extent for axis in axes) * load.type.dtype.bytes
            read[load.operand] = read.get(load.operand, 0) + count
    inputs = (min(type.bytes, read.get(position, 0)) for position, type in enumerate(task.inputs))
    return sum(inputs) + sum(type.bytes for type in task.output_types)
