"""What a graph costs: the sum over the kernels that Tasor would emit for it.

What it does: gives each task seconds, analytically (`AnalyticCost`: cycles of the register tile or
of the loops, bytes moved, a fixed overhead for each kernel, on stated constants) or from
measurements with the analytic figure where there is none (`RecordedCost`); and each graph the sum
over its kernels and what copies of weights cost (`KernelCost`), or the sum over its operators one
by one (`OperatorCost`), which knows no fusion and serves where an additive cost is needed.

What it does not: run anything (`measure`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.search.kernels import Kernels
from graphopt.search.promised import Promise, WeightOnly
from graphopt.search.weight_copies import WeightBytes, WeightCopies
from graphopt.work import work
from tensorgen.attention import attention_of
from tensorgen.crossing_lines import Team, task_bytes_elsewhere
from tensorgen.expr import Reduce
from tensorgen.loop_cycles import StageCycles, bytes_moved
from tensorgen.machine import Machine
from tensorgen.sketch import (
    attention_estimate,
    contraction_estimate,
    core_of,
    is_shared,
    shared_rows,
    stage_loops,
    tiled_window_of,
)
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import float32
from tensorgen.typical_machine import typical_machine
from tensorgen.window_sketch import window_cycles, window_schedule, window_share


class CostModel(Protocol):
    """Gives tasks seconds. Deterministic while a search runs."""

    def cost(self, task: Task) -> float:
        """Expected seconds of one run of a task's kernel."""
        ...

    def copying(self, weights: WeightBytes) -> float:
        """Expected seconds that a run takes longer for weights which it has several times."""
        ...


GraphCost = Callable[[Graph], float]
"""Gives graphs seconds: expected for one run."""


KERNEL_SECONDS = 0.05e-6
"""What a kernel costs that does nothing."""


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
            computing = tiles / self._loops.frequency
            # Tiles read many rows at once, more than prefetchers follow in main memory.
            return overhead + max(computing, sum(near)) + far
        if workers > 1:
            loops = 1 if shared_rows(task) else len(task.stages)
            overhead += loops * self.constants.barrier_seconds
            overhead += self._crossing_seconds(task, workers)
        computing = self._cycles(task, workers) / self._loops.frequency
        return overhead + max(computing, sum(near) + far)

    def copying(self, weights: WeightBytes) -> float:
        """How much longer all weights take to be read than the model's own would."""
        machine, threads = self.constants, self.threads
        own = sum(machine.read_seconds(weights.own, threads))
        return sum(machine.read_seconds(weights.own + weights.copies, threads)) - own

    @property
    def _loops(self) -> StageCycles:
        return StageCycles(self.target, self.constants)

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
        loops = self._loops
        rest = sum(loops.along_result(stage, held) for stage in task.stages[summed + 1 :])
        return best.cycles + rest / workers

    def _crossing_seconds(self, task: Task, workers: int) -> float:
        """How long lines take to come to one worker that others have made."""
        core = core_of(self.target, float32, workers, self.machine)
        if core is None:
            return 0.0
        moved = task_bytes_elsewhere(task, Team.of(core, workers))
        return core.crossing_cycles(moved, workers) / core.frequency

    def _cycles(self, task: Task, workers: int) -> float:
        """Cycles of the busiest worker for windows and loops."""
        window = tiled_window_of(task)
        if window is None:
            rows = shared_rows(task) if len(task.stages) > 1 else 0
            lanes = (stage_loops(stage, rows, False, False).lanes for stage in task.stages)
            return sum(map(self._loops.along, lanes, task.stages)) / workers
        core = core_of(self.target, window.dtype, 1, self.machine)
        assert core is not None, "windows are of types that have vectors"
        schedule = window_schedule(window, core.dialect, workers)
        return window_cycles(window, schedule, core) * window_share(window, schedule, workers)

    def _rest_of_attention(self, task: Task) -> float:
        """Cycles of one core for the stages of attention that are no contractions."""
        attention = attention_of(task)
        assert attention is not None, "what has an estimate is attention"
        contractions = (0, attention.row_stages.stop)
        return sum(
            self._loops.along_result(stage)
            for position, stage in enumerate(task.stages)
            if position not in contractions
        )


class KernelCost:
    """The seconds of a graph's kernels, fused as the compiler fuses them, and of copies of weights:
    each kernel reads its own, but the caches must hold all."""

    def __init__(self, model: CostModel, kernels: Kernels | None = None) -> None:
        self.model = model
        self.kernels = Kernels() if kernels is None else kernels
        self._weights = WeightCopies(self.kernels.is_weight)
        self._seconds: dict[bytes, float] = {}
        self._copying: dict[str, float] = {}

    def __call__(self, graph: Graph) -> float:
        """The sum over the graph's kernels, and what its copies of weights cost."""
        kernels = sum(self.of_task(task) for task in self.kernels.tasks(graph))
        return kernels + self.of_copies(graph)

    def of_copies(self, graph: Graph) -> float:
        """What the graph's copies of weights cost; asked once."""
        known = self._copying.get(graph.digest)
        if known is None:
            weights = self._weights(graph)
            known = self.model.copying(weights) if weights.copies else 0.0
            self._copying[graph.digest] = known
        return known

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
