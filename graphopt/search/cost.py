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
from graphopt.work import work
from tensorgen.attention import attention_of
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
from tensorgen.flat import flat_index
from tensorgen.machine import Core, Machine
from tensorgen.simplify import affine
from tensorgen.sketch import (
    attention_estimate,
    contraction_estimate,
    is_shared,
    shared_rows,
    target_vectors,
    tiled_window_of,
)
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import float32, int64
from tensorgen.typical_machine import typical_machine
from tensorgen.window_sketch import window_cycles, window_schedule


class CostModel(Protocol):
    """Gives tasks seconds. Deterministic while a search runs."""

    def cost(self, task: Task) -> float:
        """Expected seconds of one run of a task's kernel."""
        ...


GraphCost = Callable[[Graph], float]
"""Gives graphs seconds: expected for one run."""


KERNEL_SECONDS = 0.05e-6
"""What a kernel costs that does nothing."""

COSTLY_CYCLES = 12.0
"""Cycles for one vector of a function that is no single instruction: exp, tanh, erf."""

SCATTERED_CYCLES = 4.0
"""Cycles to read one vector of elements that do not lie next to each other."""

CHOICE_CYCLES, CUT_CYCLES = 8.0, 1.0
"""Cycles of a choice that differs within a vector; the second where it changes at places that are
known, as padding does: loops are cut there."""


def machine_for(
    graph: Graph, target: Target, threads: int, machine: Machine | None = None
) -> Machine:
    """The machine as the kernels of a graph find it: what the caches do not hold of one run is
    gone when the next one comes. None means the constants that are typical for the target."""
    constants = typical_machine(target, threads) if machine is None else machine
    return constants.serving(work(graph).traffic)


@dataclass(frozen=True, slots=True)
class AnalyticCost:
    """Seconds by counting: no kernel is compiled. Ranks alternatives; does not promise times.

    `machine` has the constants to count with; None means those that are typical for the target.
    `filtering` tells whether kernels may filter convolutions with fewer products.
    """

    target: Target
    threads: int = 1
    machine: Machine | None = None
    filtering: bool = True

    @property
    def constants(self) -> Machine:
        """The machine that is counted with."""
        if self.machine is None:
            return typical_machine(self.target, self.threads)
        return self.machine

    def cost(self, task: Task) -> float:
        """Computing and moving, as far as the one does not hide the other, and the overhead of a
        kernel: of a team that is there already, whose threads meet behind it."""
        workers = self.threads if is_shared(task, self.threads) else 1
        overhead = KERNEL_SECONDS
        *near, far = self.constants.read_seconds(bytes_moved(task), workers)
        tiles = self._tile_cycles(task, workers)
        if tiles is not None:
            computing = tiles / self._core.frequency
            # Tiles read many rows at once, more than prefetchers follow in main memory.
            return overhead + max(computing, sum(near)) + far
        if workers > 1:
            loops = 1 if shared_rows(task) else len(task.stages)
            overhead += loops * self.constants.barrier_seconds
        computing = self._cycles(task) / workers / self._core.frequency
        return overhead + max(computing, sum(near) + far)

    @property
    def _core(self) -> Core:
        core = Core.of(self.target.isa, float32, self.constants)
        assert core is not None, "there are vectors of float32, if of one element"
        return core

    def _tile_cycles(self, task: Task, workers: int) -> float | None:
        """Cycles of the busiest worker for a contraction in tiles; None for any other task."""
        if tiled_window_of(task) is not None:
            return None
        best = contraction_estimate(
            task, self.target, workers, machine=self.machine, filtering=self.filtering
        )
        if best is None:
            fused = attention_estimate(task, self.target, workers, machine=self.machine)
            if fused is None:
                return None
            return fused.cycles + self._rest_of_attention(task) / workers
        # The estimate includes what is computed in front of the sum (padding), not what is behind.
        summed = next(n for n, stage in enumerate(task.stages) if isinstance(stage.body, Reduce))
        held = len(task.inputs) + summed
        rest = sum(self._stage_cycles(stage, held) for stage in task.stages[summed + 1 :])
        return best.cycles + rest / workers

    def _cycles(self, task: Task) -> float:
        """Cycles of one core for windows and loops."""
        window = tiled_window_of(task)
        if window is None:
            return sum(self._stage_cycles(stage) for stage in task.stages)
        dialect = target_vectors(self.target, window.dtype)
        assert dialect is not None, "windows are of types that have vectors"
        return window_cycles(window, window_schedule(window, dialect, False), dialect)

    def _division_cycles(self, lanes: int) -> float:
        """Cycles of a vector of divisions by divisors that differ."""
        return self._core.frequency * lanes / self.constants.divisions.alone

    def _rest_of_attention(self, task: Task) -> float:
        """Cycles of one core for the stages of attention that are no contractions."""
        attention = attention_of(task)
        assert attention is not None, "what has an estimate is attention"
        contractions = (0, attention.row_stages.stop)
        return sum(
            self._stage_cycles(stage)
            for position, stage in enumerate(task.stages)
            if position not in contractions
        )

    def _lanes(self, stage: TensorExpr) -> int:
        return max(self.target.vector_lanes(stage.type.dtype.bits), 1)

    def _stage_cycles(self, stage: TensorExpr, held: int | None = None) -> float:
        """Cycles of one core for a stage as a loop nest whose lanes run along the last axis. What
        it reads of the operand `held` comes from registers, in whatever order."""
        lanes = self._lanes(stage)
        last = next((axis for axis in reversed(stage.axes) if axis.extent != 1), None)
        vectors = stage.type.size / lanes
        if last is not None and last.extent:
            vectors *= -(-last.extent // lanes) * lanes / last.extent
        return vectors * (1.0 + self._term_cycles(stage.body, last, lanes, held, set()))

    def _term_cycles(
        self, term: Expr, last: Axis | None, lanes: int, held: int | None, seen: set[bytes]
    ) -> float:
        """Cycles of a vector of a term, what was seen before left out."""
        if term.digest in seen:
            return 0.0
        seen.add(term.digest)

        def cycles(part: Expr) -> float:
            return self._term_cycles(part, last, lanes, held, seen)

        match term:
            case Reduce():
                return prod(axis.extent for axis in term.axes) * (1.0 + cycles(term.body))
            case Load(operand=operand) if operand == held:
                return 1.0
            case Load():
                return 1.0 if _in_order(term, last) else SCATTERED_CYCLES
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
                    return self._division_cycles(lanes) + sum(map(cycles, term.args))
                simple = bool(term.op.symbol) or term.op.name in ("max", "min", "neg", "abs")
                own = 1.0 if simple else COSTLY_CYCLES
                return own + sum(map(cycles, term.args))
            case _:
                return sum(map(cycles, children(term)))


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


def _in_order(load: Load, last: Axis | None) -> bool:
    """Whether lanes along an axis read one element, or elements next to each other."""
    if last is None or not any(last in free_axes(index) for index in load.indices):
        return True
    form = affine(flat_index(load.indices, load.type.shape))
    plain = all(isinstance(atom, Axis) for atom, _ in form.terms)
    return plain and form.coefficient(last) in (0, 1)


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
