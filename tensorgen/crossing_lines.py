"""Lines of the cache that go from core to core between kernels.

Threads that share the outermost axis of a tensor in memory have a piece of it each, and most
kernels share work so: what a thread reads, it has made. Where threads share another axis, lines of
what they read are with the cores that made them, and lines of what they make with those that read
it last, and will again. Of tensors that the cores' own caches do not hold, no line is with a core.
What it does not: know what a line costs (`machine.Core.crossing_cycles`), or who shares what.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorgen.expr import Axis, Reduce, loads, walk
from tensorgen.flat import flat_loads
from tensorgen.simplify import Affine, affine
from tensorgen.task import Task

READ_ELSEWHERE = 0.5
"""The part of what tiles read from other cores that they wait for: they ask for some of it ahead,
and several kernels read the same."""

ALIKE = 0.5
"""The part of what tiles make by axes of the data that other threads go on with, though it lies in
no pieces: the next kernel may be one of tiles that share work in the same way."""


def lies_in_pieces(index: Affine, axes: Sequence[Axis], shared: Axis) -> bool:
    """Whether threads that share an axis have a piece of memory each: no other axis makes longer
    steps there."""
    steps = [abs(index.coefficient(axis)) for axis in axes if axis.extent > 1]
    return abs(index.coefficient(shared)) >= max(steps, default=0)


def bytes_read_elsewhere(
    amount: int, index: Affine, axes: Sequence[Axis], shared: Axis, threads: int
) -> float:
    """Of `amount` bytes, which a kernel reads at an index, those that each thread reads and equal
    parts of which every thread has made."""
    if not index.coefficient(shared):
        return float(amount)
    return bytes_made_elsewhere(amount, index, axes, shared, threads)


def bytes_made_elsewhere(
    amount: int, index: Affine, axes: Sequence[Axis], shared: Axis, threads: int
) -> float:
    """Of `amount` bytes of results, those that each thread makes and every thread reads a part
    of."""
    return 0.0 if lies_in_pieces(index, axes, shared) else amount / threads


def task_bytes_elsewhere(task: Task, threads: int, held: float) -> float:
    """Of all operands of a task that threads share by the outermost axes of its stages, those that
    each thread reads and equal parts of which every thread has made; of operands of at most `held`
    bytes."""
    found: dict[int, float] = {}
    for stage in task.stages:
        shared = next((axis for axis in stage.axes if axis.extent > 1), None)
        if shared is None:
            continue
        body = flat_loads(stage.body)
        folded = (term.axes for term in walk(body) if isinstance(term, Reduce))
        axes = (*stage.axes, *(axis for some in folded for axis in some))
        for load in loads(body):
            if load.operand >= len(task.inputs) or task.constant[load.operand]:
                continue
            type = task.inputs[load.operand]
            amount = type.size * type.dtype.bytes
            if amount <= held:
                index = affine(load.indices[0])
                moved = bytes_read_elsewhere(amount, index, axes, shared, threads)
                found[load.operand] = max(found.get(load.operand, 0.0), moved)
    return sum(found.values())
