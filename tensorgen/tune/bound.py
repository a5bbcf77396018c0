"""The least time that a task can take on a machine: its roofline.

Arithmetic at the peak of multiply-adds, or what must be moved at the bandwidth of where it lies,
whichever takes longer. Convolutions count the products of the filter with the fewest; transforms
and whatever else is not multiplied and added count nothing, so that the bound is below what any
schedule reaches, if the machine's constants were measured. (Williams, Waterman and Patterson,
"Roofline", CACM 2009.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tensorgen.attention import attention_of
from tensorgen.contraction import Contraction, contraction_of
from tensorgen.expr import Apply, Fold, Reduce, walk
from tensorgen.loop_cycles import bytes_moved
from tensorgen.machine import Machine
from tensorgen.sketch_winograd import MOST_POINTS
from tensorgen.task import Task
from tensorgen.types import float64
from tensorgen.winograd import FilterGrid, filtered_contraction


@dataclass(frozen=True, slots=True)
class Bound:
    """The least seconds of arithmetic and of moving."""

    arithmetic: float
    moving: float

    @property
    def seconds(self) -> float:
        """The least seconds of one call."""
        return max(self.arithmetic, self.moving)

    def share(self, seconds: float) -> float:
        """The part of the bound's speed that so many seconds reach."""
        return self.seconds / seconds


def bound_of(task: Task, machine: Machine, threads: int, *, winograd: bool = True) -> Bound:
    """The bound of a task on so many threads of a machine, its operands in the nearest caches that
    hold them."""
    products = 0.0
    for stage in task.stages:
        folds = {term for term in walk(stage.body) if isinstance(term, Reduce)}
        for fold in folds:
            if fold.fold is Fold.SUM and fold.dtype.is_float and _is_product(fold):
                slower = 2.0 if fold.dtype == float64 else 1.0
                depth = prod(axis.extent for axis in fold.axes)
                products += stage.type.size * depth * slower
    if winograd and attention_of(task) is None:
        contraction = contraction_of(task)
        if contraction is not None:
            products /= _saving(task, contraction)
    return Bound(
        2.0 * products / machine.peak_flops(threads),
        max(machine.read_seconds(bytes_moved(task), threads)),
    )


def _is_product(fold: Reduce) -> bool:
    return isinstance(fold.body, Apply) and fold.body.op.name == "mul"


def _saving(task: Task, contraction: Contraction) -> float:
    """How many times fewer products minimal filtering takes, at most."""
    form = filtered_contraction(contraction, contraction.constant(task))
    if form is None:
        return 1.0
    saved = 1.0
    for window in form.filtered:
        grids = (FilterGrid.of(window, n) for n in range(2, MOST_POINTS - window.taps + 2))
        fewest = (grid.results * window.tap.extent / grid.products for grid in grids)
        saved *= max(1.0, *fewest)
    return saved
