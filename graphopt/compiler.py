"""From an optimized graph to the module that becomes a C library: the pipeline's last stretch.

partition → lay out storage → memory orders → schedule → lower → pack constants → plan the arena →
print kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from types import MappingProxyType

import numpy as np

from graphopt.graph import Constant, Graph, Input, Value
from graphopt.index_domains import index_domains
from graphopt.onnx_import.errors import quoted
from graphopt.orders import in_better_orders
from graphopt.search.cost import AnalyticCost, machine_for
from graphopt.search.kernels import Kernels
from graphopt.shared_constants import Layouts, Read, shared_reads, splitting
from graphopt.step import Step
from graphopt.storage import ArenaUse, Layout, lay_out, plan_storage, with_given
from graphopt.sweeps import backward_schedule, backward_steps
from tensorgen.attention import attention_of
from tensorgen.contraction import contraction_of
from tensorgen.emit import Spelling, emit_kernel
from tensorgen.evaluate import evaluate
from tensorgen.expr import Apply, Load, Reduce, loads, walk
from tensorgen.flat import flat_index
from tensorgen.lower import Lowered, lower
from tensorgen.machine import Machine
from tensorgen.memory import Plan
from tensorgen.module import default_weights
from tensorgen.module_spec import (
    Arena,
    Call,
    Kernel,
    Module,
    Place,
    WeightMode,
)
from tensorgen.module_spec import Constant as ConstantPlace
from tensorgen.module_spec import Input as InputPlace
from tensorgen.module_spec import Output as OutputPlace
from tensorgen.ports import Port, c_identifier
from tensorgen.schedule import RegisterTile, Schedule
from tensorgen.scratch import scratch_layout
from tensorgen.sketch import default_schedule, shared_rows
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel for people: what it computes, how, how often, and what that costs.

    `flops` counts one run's additions and multiplications inside reductions, `bytes` what one run
    reads and writes at least.
    """

    name: str
    expression: str
    schedule: str
    calls: int
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compilation:
    """A module ready to print, and what the compiler knows of it: `schedules` and `runs` of each
    distinct task, the latter how often one run of the module computes it."""

    module: Module
    kernels: tuple[KernelRecord, ...]
    arena: Plan
    tasks: tuple[Task, ...]
    schedules: tuple[Schedule, ...]
    runs: tuple[int, ...]
    weight_bytes: int


def compile_graph(
    graph: Graph,
    *,
    name: str,
    target: Target,
    threads: int,
    strict: bool,
    weights: WeightMode | None,
    metadata: Mapping[str, object],
    machine: Machine | None = None,
    filtering: bool = True,
    schedules: Mapping[Task, Schedule] = MappingProxyType({}),
) -> Compilation:
    """The C library of a graph, as a module. Deterministic.

    Tasks that `schedules` does not have are scheduled by the constants of `machine`; None means
    those typical for the target. So are tasks whose schedules there would lay out a constant, which
    others read, more often than without them (`shared_constants`).
    `filtering` lets convolutions be filtered with fewer products, which rounds more; never if
    `strict`. Raises TargetError if the target cannot address so much memory.
    """
    if strict:
        target = target.exact()
    machine = machine_for(graph, target, threads, machine)
    layout = lay_out(graph, *Kernels().cut(graph))
    if not strict:
        cost = AnalyticCost(target, threads, machine, filtering)
        layout = in_better_orders(layout, cost.cost)
    layout = with_given(layout)
    kernels = _lower_tasks(
        layout,
        schedules,
        partial(
            default_schedule,
            target=target, threads=threads, machine=machine, filtering=filtering and not strict,
        ),
    )  # fmt: skip
    counts = Counter(step.task for step in layout.steps)
    constants = _Constants()
    arguments = [
        _packed_inputs(step, kernels[step.task], layout, constants) for step in layout.steps
    ]
    arena = _plan(layout, kernels, threads)
    backwards = backward_steps(
        layout.steps, {task: entry.backward_schedule for task, entry in kernels.items()}
    )
    runs = [(step.task, number in backwards) for number, step in enumerate(layout.steps)]
    printed = _print_kernels(dict.fromkeys(runs), kernels, target, strict)
    calls = tuple(
        Call(
            printed[runs[n]].name,
            (
                *(_place(value, packed, graph, layout, arena) for value, packed in arguments[n]),
                *(_place(value, None, graph, layout, arena) for value in step.outputs),
                *_scratch_places(kernels[step.task].lowered, arena, n, threads),
            ),
            _label(step),
        )
        for n, step in enumerate(layout.steps)
    )
    total = sum(array.nbytes for array in constants.arrays)
    _check_sizes(target, graph, arena.plan.arena_bytes, total)
    module = Module(
        name=c_identifier(name),
        inputs=tuple(
            Port(name, value.type, domain)
            for name, value, domain in zip(
                graph.input_names, graph.inputs, index_domains(graph), strict=True
            )
        ),
        outputs=tuple(
            Port(name, value.type)
            for name, value in zip(graph.output_names, graph.outputs, strict=True)
        ),
        constants=tuple(constants.arrays),
        kernels=tuple(printed.values()),
        calls=calls,
        arena_bytes=arena.plan.arena_bytes,
        target=target,
        threads=threads,
        strict=strict,
        weights=weights if weights is not None else default_weights(total),
        self_test=None,
        metadata=metadata,
    )
    return Compilation(
        module,
        _records(runs, printed),
        arena.plan,
        tuple(kernels),
        tuple(entry.schedule for entry in kernels.values()),
        tuple(counts[task] for task in kernels),
        total,
    )


def _check_sizes(target: Target, graph: Graph, arena_bytes: int, weight_bytes: int) -> None:
    for kind, names, values in (
        ("input", graph.input_names, graph.inputs),
        ("output", graph.output_names, graph.outputs),
    ):
        for name, value in zip(names, values, strict=True):
            target.check_size(f"{kind} {quoted(name)}", value.type.bytes)
    target.check_size("the arena", arena_bytes)
    target.check_size("the weights", weight_bytes)


# Kernels


@dataclass(frozen=True, slots=True)
class _Entry:
    """A task's schedule, its loops, and which of its inputs its result may overwrite.

    `backward_schedule` is for every second run over the same weights, None if it is no better.
    """

    schedule: Schedule
    lowered: Lowered
    overwritable: frozenset[int]
    backward_schedule: RegisterTile | None


def _lower_tasks(
    layout: Layout, schedules: Mapping[Task, Schedule], usual: Callable[[Task], Schedule]
) -> dict[Task, _Entry]:
    """Every distinct task, scheduled and lowered once."""
    tasks = dict.fromkeys(step.task for step in layout.steps)
    result = {task: _entry(task, schedules.get(task) or usual(task)) for task in tasks}

    @cache
    def without_trials(task: Task) -> _Entry:
        return _entry(task, usual(task)) if task in schedules else result[task]

    given_up = splitting(
        shared_reads(_constant_reads(layout)),
        lambda task: _layouts(without_trials(task)),
        {task: _layouts(entry) for task, entry in result.items()},
    )
    return result | {task: without_trials(task) for task in given_up}


def _entry(task: Task, schedule: Schedule) -> _Entry:
    return _Entry(
        schedule,
        lower(task, schedule),
        overwritable_inputs(task),
        backward_schedule(task, schedule),
    )


def _layouts(entry: _Entry) -> Layouts:
    return tuple(b"" if way is None else way.digest for way in entry.lowered.packing)


def _constant_reads(layout: Layout) -> Iterator[Read]:
    for step in layout.steps:
        for position, value in enumerate(step.inputs):
            digest = _constant_digest(value, layout)
            if digest is not None:
                yield Read(digest, step.task, position)


def overwritable_inputs(task: Task) -> frozenset[int]:
    """The inputs of which the single result may take over the storage.

    Each element of such an input is read, at last, right where the result's element of the same
    number is written, and all its earlier reads are in the same row of a fused row task.
    """
    if len(task.outputs) != 1 or task.outputs[0] != len(task.stages) - 1:
        return frozenset()
    last = task.stages[-1]
    target = flat_index(last.axes, last.type.shape)
    if any(isinstance(term, Reduce) for term in walk(last.body)):
        return frozenset()
    found = set()
    for position, type in enumerate(task.inputs):
        if task.constant[position] or type.dtype != last.type.dtype:
            continue
        in_last = [load for load in loads(last.body) if load.operand == position]
        earlier = [
            load
            for stage in task.stages[:-1]
            for load in loads(stage.body)
            if load.operand == position
        ]
        aligned = all(flat_index(load.indices, load.type.shape) == target for load in in_last)
        same_rows = not earlier or (
            contraction_of(task) is None
            and attention_of(task) is None
            and all(_row_bound(load, task) for load in earlier)
        )
        if in_last and aligned and same_rows and type.size == last.type.size:
            found.add(position)
    return frozenset(found)


def _row_bound(load: Load, task: Task) -> bool:
    """True if an earlier stage reads only in the row that is being computed."""
    depth = shared_rows(task)
    stage = next(s for s in task.stages if any(term == load for term in loads(s.body)))
    return depth > 0 and load.indices[:depth] == stage.axes[:depth]


_Run = tuple[Task, bool]
"""What one kernel does: a task, and whether it goes through its weights backwards."""


def _print_kernels(
    runs: Iterable[_Run], kernels: Mapping[Task, _Entry], target: Target, strict: bool
) -> dict[_Run, Kernel]:
    printed: dict[_Run, Kernel] = {}
    for task, backwards in runs:
        entry = kernels[task]
        schedule, loops, name = entry.schedule, entry.lowered.kernel, _kernel_name(task)
        if backwards:
            assert entry.backward_schedule is not None
            schedule, name = entry.backward_schedule, name + "_backwards"
            loops = lower(task, schedule).kernel
        spelling = Spelling(target.isa, strict, bool(entry.overwritable))
        printed[task, backwards] = emit_kernel(loops, name, spelling, str(task), str(schedule))
    return printed


def _kernel_name(task: Task) -> str:
    """What it does, on what, and the digest that tells it from all others."""
    result = task.output_types[0]
    shape = "x".join(map(str, result.shape)) or "scalar"
    return f"{_kind(task)}_{result.dtype.name}_{shape}__{task.digest.hex()[:8]}"


def _kind(task: Task) -> str:
    if contraction_of(task) is not None:
        return "contraction"
    if attention_of(task) is not None:
        return "attention"
    if len(task.stages) > 1:
        return "rows"
    body = task.stages[0].body
    if any(isinstance(term, Reduce) for term in walk(body)):
        return "reduction"
    return "copy" if isinstance(body, Load) else "elementwise"


# Constants


class _Constants:
    """The library's constants, equal ones once."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._known: dict[bytes, int] = {}

    def add(self, digest: bytes, array: Array) -> int:
        """The number of a constant, under the digest of how it was made."""
        if digest not in self._known:
            self._known[digest] = len(self.arrays)
            self.arrays.append(array)
        return self._known[digest]

    def known(self, digest: bytes) -> int | None:
        return self._known.get(digest)


def _constant_digest(value: Value, layout: Layout) -> bytes | None:
    """What a constant is known by, as it is; None for a value that is none."""
    base = layout.part(value).base
    if not isinstance(base, Constant):
        return None
    return base.digest if base.type.size == value.type.size else value.digest


def _packed_inputs(
    step: Step, entry: _Entry, layout: Layout, constants: _Constants
) -> list[tuple[Value, int | None]]:
    """Each input of a step with the number of the constant that stands for it, if it is one."""
    result: list[tuple[Value, int | None]] = []
    for value, packing in zip(step.inputs, entry.lowered.packing, strict=True):
        digest = _constant_digest(value, layout)
        if digest is None:
            assert packing is None, "only constants are relaid"
            result.append((value, None))
            continue
        if packing is not None:
            digest += packing.digest
        number = constants.known(digest)
        if number is None:
            part = layout.part(value)
            assert isinstance(part.base, Constant), "it has a digest"
            array = part.base.array.reshape(-1)[part.offset : part.offset + value.type.size]
            if packing is not None:
                array = evaluate(packing, [array])
            number = constants.add(digest, np.ascontiguousarray(array))
        result.append((value, number))
    return result


# Places


def _plan(layout: Layout, kernels: Mapping[Task, _Entry], threads: int) -> ArenaUse:
    scratch = [
        scratch_layout(kernels[step.task].lowered.kernel, threads).size for step in layout.steps
    ]

    def may_take_over(number: int, value: Value) -> bool:
        step = layout.steps[number]
        entry = kernels[step.task]
        positions = [i for i, other in enumerate(step.inputs) if other == value]
        return len(positions) == 1 and positions[0] in entry.overwritable

    return plan_storage(layout, scratch, may_take_over)


def _scratch_places(
    lowered: Lowered, arena: ArenaUse, number: int, threads: int
) -> tuple[Place, ...]:
    begin = arena.scratch.get(number, 0)
    return tuple(Arena(begin + place) for place in scratch_layout(lowered.kernel, threads).places)


def _place(
    value: Value, packed: int | None, graph: Graph, layout: Layout, arena: ArenaUse
) -> Place:
    if packed is not None:
        return ConstantPlace(packed)
    part = layout.part(value)
    base = part.base
    if isinstance(base, Input):
        return InputPlace(graph.inputs.index(base), part.offset)
    if base in layout.ports:
        return OutputPlace(layout.ports[base], part.offset)
    assert not isinstance(base, Constant), "constants are numbered"
    return Arena(arena.offsets[base] + part.offset * base.type.dtype.bytes)


def _label(step: Step) -> str:
    """What the step stores, as it lies in memory."""
    return str(step.task.output_types[0])


def _records(runs: Sequence[_Run], printed: Mapping[_Run, Kernel]) -> tuple[KernelRecord, ...]:
    return tuple(
        KernelRecord(
            printed[run].name,
            str(run[0]),
            printed[run].schedule,
            count,
            flops(run[0]),
            _bytes(run[0]),
        )
        for run, count in Counter(runs).items()
    )


def flops(task: Task) -> int:
    """Additions and multiplications inside the reductions of a task, for one run."""
    total = 0
    for stage in task.stages:
        for term in walk(stage.body):
            if isinstance(term, Reduce):
                points = prod(axis.extent for axis in term.axes)
                operations = sum(
                    isinstance(inner, Apply) and inner.dtype == term.dtype
                    for inner in walk(term.body)
                )
                total += stage.type.size * points * (operations + 1)
    return total


def _bytes(task: Task) -> int:
    return sum(type.bytes for type in (*task.inputs, *task.output_types))
