"""Memory orders over the whole graph: how each stored value lies in memory.

A kernel reads some orders of its operands faster than others, and stores some orders of its result
faster; what one kernel wishes, its neighbours must read or write, too. So the orders of all values
are chosen together, by the estimated seconds of all kernels: from row-major order everywhere, and
from channels together everywhere, values change their order, all of one type at a time and then one
by one, as long as that makes the sum less. There are no conversions apart from kernels: a value is
stored once, in one order, and whoever reads it reads it so.

What it does not: say what a task on values in other orders is (`tensorgen.memory_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphopt.graph import Node, Value
from graphopt.step import Step
from graphopt.storage import Layout
from tensorgen.contraction import contraction_of
from tensorgen.memory_order import Together, reordered
from tensorgen.simplify import Memory, remembering
from tensorgen.task import Task

LEAST_GAIN = 0.005
"""The part of the time of all kernels that other orders must save: less is within the estimates'
error, and row-major order is easier to look at."""

PASSES = 4
"""Rounds of changes, at most."""

CHANNELS = 1
"""The axis of channels: ONNX's tensors with planes are [batch, channel, plane...]."""

Orders = Mapping[Value, Together]


def in_better_orders(layout: Layout, seconds: Callable[[Task], float]) -> Layout:
    """The layout with tasks that read and write values in the memory orders for which the sum of
    `seconds` is least, as far as local changes find it. Deterministic."""
    search = _Search(layout.steps, _free(layout), seconds)
    chosen = search.best()
    steps = tuple(replace(step, task=_task_in(step, chosen)) for step in layout.steps)
    return replace(layout, steps=steps)


def _free(layout: Layout) -> dict[Value, Together]:
    """The values that may be in another order than row-major, each with that order: those in
    storage of their own, with planes, which only kernels of one result touch."""
    shared = set(layout.parts) | {part.base for part in layout.parts.values()}
    touched: dict[Value, bool] = {}
    for step in layout.steps:
        may = len(step.outputs) == 1 and _may_reorder(step.task)
        for value in (*step.inputs, *step.outputs):
            touched[value] = touched.get(value, True) and may
    return {
        value: Together(CHANNELS, value.type.shape[CHANNELS])
        for value, may in touched.items()
        if may
        and isinstance(value, Node)
        and value not in shared
        and value not in layout.ports
        and _has_planes(value)
    }


def _may_reorder(task: Task) -> bool:
    """True for tasks of one stage and for contractions; fused rows are fused in row-major order."""
    return len(task.stages) == 1 or contraction_of(task) is not None


def _has_planes(value: Value) -> bool:
    shape = value.type.shape
    if len(shape) < 3 or 0 in shape:
        return False
    return shape[CHANNELS] > 1 and any(extent > 1 for extent in shape[CHANNELS + 1 :])


def _task_in(step: Step, orders: Orders) -> Task:
    """The task of a step on values in these orders."""
    places = {n: orders[value] for n, value in enumerate(step.inputs) if value in orders}
    count = len(step.inputs)
    for value, stage in zip(step.outputs, step.task.outputs, strict=True):
        if value in orders:
            places[count + stage] = orders[value]
    return reordered(step.task, places) if places else step.task


@dataclass
class _Search:
    """Descent over the orders of the free values."""

    steps: Sequence[Step]
    free: Orders
    seconds: Callable[[Task], float]

    def __post_init__(self) -> None:
        self._memory = Memory()
        self._known: dict[tuple[bytes, tuple[Together | None, ...]], float] = {}
        self._touching: dict[Value, list[Step]] = {value: [] for value in self.free}
        for step in self.steps:
            for value in dict.fromkeys((*step.inputs, *step.outputs)):
                if value in self.free:
                    self._touching[value].append(step)

    def best(self) -> Orders:
        """The better of two descents, or row-major order if they gain little."""
        if not self.free:
            return {}
        plain = self._total({})
        found = min((self._descended(start) for start in ({}, dict(self.free))), key=self._total)
        return found if self._total(found) <= plain * (1 - LEAST_GAIN) else {}

    def _descended(self, orders: Orders) -> Orders:
        for _ in range(PASSES):
            changed = False
            for group in self._groups():
                candidate = _flipped(orders, group, self.free)
                steps = self._around(group)
                if self._sum(steps, candidate) < self._sum(steps, orders):
                    orders, changed = candidate, True
            if not changed:
                break
        return orders

    def _groups(self) -> Iterator[tuple[Value, ...]]:
        """What changes together: all values of one type, then each value."""
        types: dict[object, list[Value]] = {}
        for value in self.free:
            types.setdefault(value.type, []).append(value)
        for group in types.values():
            if len(group) > 1:
                yield tuple(group)
        for value in self.free:
            yield (value,)

    def _around(self, group: Sequence[Value]) -> list[Step]:
        found = {id(step): step for value in group for step in self._touching[value]}
        return list(found.values())

    def _total(self, orders: Orders) -> float:
        return self._sum(self.steps, orders)

    def _sum(self, steps: Sequence[Step], orders: Orders) -> float:
        return sum(self._of(step, orders) for step in steps)

    def _of(self, step: Step, orders: Orders) -> float:
        key = (
            step.task.digest,
            tuple(orders.get(value) for value in (*step.inputs, *step.outputs)),
        )
        known = self._known.get(key)
        if known is None:
            # No kernel is printed from here.
            with remembering(self._memory):
                known = self.seconds(_task_in(step, orders))
            self._known[key] = known
        return known


def _flipped(orders: Orders, group: Sequence[Value], free: Orders) -> Orders:
    """The orders with each value of the group in the other one."""
    result = dict(orders)
    for value in group:
        if value in result:
            del result[value]
        else:
            result[value] = free[value]
    return result
