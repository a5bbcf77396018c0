"""What a graph costs: the sum over the kernels that Tasor would emit for it.

What it does: gives each task seconds, analytically (`AnalyticCost`: cycles of the register tile or
of the loops, bytes moved, a fixed overhead for each kernel, on stated constants) or from
measurements with the analytic figure where there is none (`RecordedCost`); and each graph the sum
over its kernels (`KernelCost`), or over its operators one by one (`OperatorCost`), which knows no
fusion and serves where an additive cost is needed.

What it does not: run anything (`measure`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Protocol

from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.search.kernels import Kernels
from graphopt.search.promised import Promise, WeightOnly
from tensorgen.contraction import contraction_of, has_tiles
from tensorgen.dialects import vector_dialect
from tensorgen.expr import Apply, Axis, Expr, Load, Reduce, TensorExpr, children, loads, walk
from tensorgen.sketch import PARALLEL_WORK, register_tiles
from tensorgen.target import Target
from tensorgen.task import Task


class CostModel(Protocol):
    """Gives tasks seconds. Deterministic while a search runs."""

    def cost(self, task: Task) -> float:
        """Expected seconds of one run of a task's kernel."""
        ...


GraphCost = Callable[[Graph], float]
"""Gives graphs seconds: expected for one run."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Constants of a machine, for one core.

    `bandwidths` holds, for each level of memory from the nearest, what the target says of its size
    left open: bytes a second while everything a kernel touches fits the level; the last one is main
    memory. `kernel_seconds` is what a kernel costs that does nothing, `wake_seconds` what it costs
    to share one among threads.
    """

    frequency: float = 3.0e9
    bandwidths: tuple[float, float, float, float] = (120e9, 60e9, 25e9, 12e9)
    kernel_seconds: float = 0.3e-6
    wake_seconds: float = 2.0e-6
    costly_cycles: float = 12.0
    """Cycles for one vector of a function that is no single instruction: exp, tanh, erf."""


DEFAULT_MACHINE = Machine()


@dataclass(frozen=True, slots=True)
class AnalyticCost:
    """Seconds by counting: no kernel is compiled. Ranks alternatives; does not promise times."""

    target: Target
    threads: int = 1
    machine: Machine = DEFAULT_MACHINE

    def cost(self, task: Task) -> float:
        """The larger of computing and moving, and the overhead of a kernel."""
        moved = self._seconds_to_move(task)
        cycles, shared = self._cycles(task)
        overhead = self.machine.kernel_seconds + (self.machine.wake_seconds if shared else 0.0)
        return overhead + max(cycles / self.machine.frequency, moved)

    def _seconds_to_move(self, task: Task) -> float:
        total = bytes_moved(task)
        sizes = (self.target.l1_bytes, self.target.l2_bytes, self.target.l3_bytes)
        levels = zip(sizes, self.machine.bandwidths, strict=False)
        rate = next((rate for size, rate in levels if total <= size), self.machine.bandwidths[-1])
        return total / rate

    def _cycles(self, task: Task) -> tuple[float, bool]:
        """Cycles of the busiest thread, and whether several take part."""
        stages = [self._stage_cycles(stage) for stage in task.stages]
        parallel = self.threads > 1 and sum(stages) >= PARALLEL_WORK / 4
        workers = self.threads if parallel else 1
        contraction = contraction_of(task)
        if contraction is not None and has_tiles(contraction):
            dialect = vector_dialect(self.target.isa, contraction.dtype)
            if dialect is not None:
                tiles = register_tiles(task, contraction, dialect, workers)
                cycles = min((tile.cycles for tile in tiles), default=None)
                if cycles is not None:
                    return cycles + sum(stages[1:]) / workers, parallel
        return sum(stages) / workers, parallel

    def _stage_cycles(self, stage: TensorExpr) -> float:
        """Cycles of one core for a stage as a loop nest, all lanes in use."""
        total = stage.type.size * 1.0
        seen: set[bytes] = set()
        pending: list[tuple[Expr, int]] = [(stage.body, stage.type.size)]
        while pending:
            term, times = pending.pop()
            if term.digest in seen:
                continue
            seen.add(term.digest)
            match term:
                case Reduce():
                    times *= prod(axis.extent for axis in term.axes)
                    total += times
                    pending.append((term.body, times))
                case Load():
                    total += times
                case _:
                    total += times * self._operator_cycles(term)
                    pending.extend((part, times) for part in children(term))
        return total / max(self.target.vector_lanes(stage.type.dtype.bits), 1)

    def _operator_cycles(self, term: Expr) -> float:
        if not isinstance(term, Apply):
            return 0.0
        simple = bool(term.op.symbol) or term.op.name in ("max", "min", "neg", "abs")
        return 1.0 if simple else self.machine.costly_cycles


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


class KernelCost:
    """The seconds of a graph's kernels, fused as the compiler fuses them."""

    def __init__(self, model: CostModel, kernels: Kernels | None = None) -> None:
        self.model = model
        self.kernels = Kernels() if kernels is None else kernels
        self._seconds: dict[bytes, float] = {}

    def __call__(self, graph: Graph) -> float:
        """The sum over the graph's kernels."""
        return sum(self.of_task(task) for task in self.kernels.tasks(graph))

    def of_task(self, task: Task) -> float:
        """What the model says of a task; asked once."""
        known = self._seconds.get(task.digest)
        if known is None:
            known = self.model.cost(task)
            self._seconds[task.digest] = known
        return known


class OperatorCost:
    """The seconds of a graph's operators, each as a kernel of its own; views cost nothing."""

    def __init__(self, model: CostModel) -> None:
        self._kernels = KernelCost(model)
        self._seconds: dict[tuple[object, ...], float] = {}

    def __call__(self, graph: Graph) -> float:
        """The sum over the graph's distinct operators that do not depend on weights alone."""
        return sum(self.of_node(node) for node in graph.nodes)

    def of_node(self, node: Node) -> float:
        """The seconds of one operator."""
        is_weight = self._kernels.kernels.is_weight
        if is_weight(node):
            return 0.0
        distinct = list(dict.fromkeys(node.inputs))
        operands = tuple(
            (distinct.index(value), value.type, is_weight(value)) for value in node.inputs
        )
        key = (node.op.name, node.params, operands)
        known = self._seconds.get(key)
        if known is None:
            known = self._kernels(_alone(node, is_weight))
            self._seconds[key] = known
        return known


def _alone(node: Node, is_weight: WeightOnly) -> Graph:
    """The graph of one operator, its operands inputs or weights."""
    replaced: dict[Value, Value] = {}
    for value in node.inputs:
        if isinstance(value, Constant) and value.type.size == 1:
            replaced[value] = value
        elif is_weight(value):
            replaced[value] = Promise(value.type, value.digest)
        else:
            replaced.setdefault(value, Input(len(replaced), value.type))
    inputs = tuple(value for value in replaced.values() if isinstance(value, Input))
    alone = node.op(*(replaced[value] for value in node.inputs), **node.keywords)
    return Graph(inputs, (alone,), ("x",) * len(inputs), ("y",))
