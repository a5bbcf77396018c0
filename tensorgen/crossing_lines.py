"""Lines of the cache that go from core to core between kernels.

Threads that share the outermost axis of a tensor in memory have a piece of it each, and most
kernels share work so: what a thread reads, it has made. Where threads share another axis, lines of
what they read are with the cores that made them, and lines of what they make with those that read
it last, and will again. Of tensors that the cores' own caches do not hold, no line is with a core.
What it does not: know what a line costs (`machine.Core.crossing_cycles`), or who shares what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.expr import Axis, Reduce, loads, walk
from tensorgen.flat import flat_loads
from tensorgen.machine import Core
from tensorgen.simplify import Affine, affine
from tensorgen.target import LINE_BYTES
from tensorgen.task import Task

READ_ELSEWHERE = 0.5
"""The part of what kernels read from other cores that they pay for: they ask for some of it ahead,
and several kernels read the same. Sums in loops pay for all of it: most are means of planes, whose
lines the next kernel writes."""

ALIKE = 0.5
"""The part of what tiles make by axes of the data that other threads go on with, though it lies in
no pieces: the next kernel may be one of tiles that share work in the same way."""

PAIR_BYTES = 2 * LINE_BYTES
"""Bytes in a row of which a core asks for all if it misses some: a thread whose pieces are not
longer takes lines from others who are about to write them."""


def lies_in_pieces(index: Affine, axes: Sequence[Axis], shared: Axis) -> bool:
    """Whether threads that share an axis have a piece of memory each: no other axis makes longer
    steps there."""
    steps = [abs(index.coefficient(axis)) for axis in axes if axis.extent > 1]
    return abs(index.coefficient(shared)) >= max(steps, default=0)


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that share each kernel, and how many bytes of a tensor their own caches `held` from
    the kernel before: of larger ones, no line is with a core."""

    threads: int
    held: float

    @staticmethod
    def of(core: Core, threads: int) -> Team:
        """So many threads, on cores of one kind."""
        return Team(threads, threads * core.near_bytes)

    def read_elsewhere(
        self, amount: int, index: Affine, axes: Sequence[Axis], shared: Axis
    ) -> float:
        """Of `amount` bytes, which a kernel reads at an index, those that each thread reads and
        equal parts of which every thread has made."""
        if amount <= self.held and not index.coefficient(shared):
            return float(amount)
        return self.made_elsewhere(amount, index, axes, shared)

    def made_elsewhere(
        self, amount: int, index: Affine, axes: Sequence[Axis], shared: Axis
    ) -> float:
        """Of `amount` bytes of results, those that each thread makes and every thread reads a part
        of."""
        if amount > self.held or lies_in_pieces(index, axes, shared):
            return 0.0
        return amount / self.threads

    def tears(self, index: Affine, axes: Sequence[Axis], shared: Axis, element_bytes: int) -> bool:
        """Whether threads that share an axis write neighbouring lines, or parts of one."""
        piece = abs(index.coefficient(shared)) * shared.extent * element_bytes / self.threads
        return piece <= PAIR_BYTES and not lies_in_pieces(index, axes, shared)


def task_bytes_elsewhere(task: Task, team: Team) -> float:
    """Of all operands of a task that threads share by the outermost axes of its stages, the bytes
    that it pays for of those that each thread reads and equal parts of which every thread has
    made."""
    found: dict[int, float] = {}
    for stage in task.stages:
        shared = next((axis for axis in stage.axes if axis.extent > 1), None)
        if shared is None:
            continue
        body = flat_loads(stage.body)
        folded = (term.axes for term in walk(body) if isinstance(term, Reduce))
        axes = (*stage.axes, *(axis for some in folded for axis in some))
        paid = 1.0 if isinstance(stage.body, Reduce) else READ_ELSEWHERE
        for load in loads(body):
            if load.operand >= len(task.inputs) or task.constant[load.operand]:
                continue
            type = task.inputs[load.operand]
            amount = type.size * type.dtype.bytes
            index = affine(load.indices[0])
            moved = paid * team.read_elsewhere(amount, index, axes, shared)
            found[load.operand] = max(found.get(load.operand, 0.0), moved)
    return sum(found.values())
