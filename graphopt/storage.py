"""Storage: where each value of a partitioned graph lives, and the arena plan.

Views (reshapes, contiguous slices) share the storage of what they view. The operands of a
concatenation along the outermost axis are computed right into their part of its result. A value
that leaves the graph is computed right into the caller's buffer.

What it does not: plan offsets itself (`tensorgen.memory`) or choose kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.ops.layout import reshape
from graphopt.step import Step
from tensorgen.expr import Tensor, TensorExpr, compute
from tensorgen.memory import Buffer, Plan, plan_arena
from tensorgen.task import Task
from tensorgen.types import TensorType

ALIGNMENT = 64

REMEMBERED_TYPES = 256
"""Copies of so many types are remembered: concatenations copy many tensors of one."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value's place: `offset` elements into the storage of `base`."""

    base: Value
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Steps to run and the storage of every value they touch.

    `parts` gives the storage of each value that is not its own base. `ports` gives, for bases that
    live in a caller's buffer, the number of the graph's output. All other bases that are nodes are
    in the arena.
    """

    steps: tuple[Step, ...]
    parts: Mapping[Value, Part]
    ports: Mapping[Value, int]
    copies: Mapping[int, int]
    """For a step that copies a value into a port: step number to output number."""

    def part(self, value: Value) -> Part:
        """Base and offset of a value."""
        found, offset = value, 0
        while found in self.parts:
            step = self.parts[found]
            found, offset = step.base, offset + step.offset
        return Part(found, offset)


def lay_out(
    graph: Graph, steps: Sequence[Step], views: Mapping[Value, tuple[Value, int]]
) -> Layout:
    """Storage for the values of `steps`; concatenations become parts where they can."""
    parts: dict[Value, Part] = {
        value: Part(source, offset) for value, (source, offset) in views.items()
    }
    made = {value for step in steps for value in step.outputs}
    kept: list[Step] = []
    for step in steps:
        joined = _joined(step, parts, made)
        if joined is None:
            kept.append(step)
            continue
        result = step.outputs[0]
        for operand, offset in joined:
            if _may_move(operand, parts, made, result):
                root, start = _root(operand, parts)
                parts[root] = Part(result, offset - start)
            else:
                kept.append(_copy_into(operand, result, offset, parts))
    return _assign_ports(graph, kept, parts)


def with_given(layout: Layout) -> Layout:
    """The layout with tasks that know which of their inputs are in arrays of callers, in all steps
    that share a kernel."""
    given: dict[Task, frozenset[int]] = {}
    for step in layout.steps:
        bases = [layout.part(value).base for value in step.inputs]
        own = frozenset(n for n, base in enumerate(bases) if isinstance(base, Input))
        given[step.task] = given.get(step.task, own) & own
    marked = {task: replace(task, given=known) for task, known in given.items() if known}
    steps = tuple(replace(s, task=marked.get(s.task, s.task)) for s in layout.steps)
    return replace(layout, steps=steps)


def _root(value: Value, parts: Mapping[Value, Part]) -> tuple[Value, int]:
    offset = 0
    while value in parts:
        part = parts[value]
        value, offset = part.base, offset + part.offset
    return value, offset


def _may_move(operand: Value, parts: Mapping[Value, Part], made: set[Value], result: Value) -> bool:
    """True if the storage of an operand can become a part of the result's."""
    root, start = _root(operand, parts)
    return (
        root in made
        and root != result
        and start == 0
        and root.type.size == operand.type.size
        and root.type.dtype == operand.type.dtype
    )


def _joined(
    step: Step, parts: Mapping[Value, Part], made: set[Value]
) -> list[tuple[Value, int]] | None:
    """The operands of a concatenation with their offsets in its result, if they are contiguous
    there and at least one of them need not be copied."""
    result = step.outputs[0]
    if not isinstance(result, Node) or result.op.name != "concat" or len(step.outputs) != 1:
        return None
    if step.inputs != tuple(dict.fromkeys(result.inputs)) or len(step.inputs) != len(result.inputs):
        return None
    axis = int(result.keywords["axis"])  # type: ignore[arg-type]
    if prod(result.type.shape[:axis]) != 1:
        return None
    placed: list[tuple[Value, int]] = []
    offset = 0
    for operand in result.inputs:
        placed.append((operand, offset))
        offset += operand.type.size
    roots = [_root(operand, parts)[0] for operand in result.inputs]
    if len(set(roots)) != len(roots):
        return None
    return placed if any(_may_move(o, parts, made, result) for o in result.inputs) else None


def _copy_into(operand: Value, result: Value, offset: int, parts: dict[Value, Part]) -> Step:
    """A step that copies a value into its part of a concatenation."""
    copied = copy_of(operand, f"{result.digest.hex()}:{offset}")
    parts[copied] = Part(result, offset)
    return Step(copy_task(operand), (operand,), (copied,))


def copy_task(value: Value) -> Task:
    """The task that copies a value unchanged."""
    return Task((value.type,), (identity(value.type),), (0,), (isinstance(value, Constant),))


@lru_cache(REMEMBERED_TYPES)
def identity(type: TensorType) -> TensorExpr:
    """`out[i] = x[i]`, over the elements of a tensor."""
    operand = Tensor(0, type)
    return compute(type.shape, lambda *axes: operand[axes])


def copy_of(value: Value, purpose: str) -> Value:
    """A value equal to another but with storage of its own, one for each purpose."""
    node = reshape(value, shape=value.type.shape)
    return Node(node.op, node.inputs, (*node.params, ("copy", purpose)), node.type)


def _assign_ports(graph: Graph, steps: list[Step], parts: dict[Value, Part]) -> Layout:
    """Give each graph output the caller's buffer, by a copy where storage is shared."""
    made = {value for step in steps for value in step.outputs} | {
        part.base for part in parts.values() if isinstance(part.base, Node)
    }
    ports: dict[Value, int] = {}
    copies: dict[int, int] = {}
    for number, output in enumerate(graph.outputs):
        root, offset = _root(output, parts)
        whole = offset == 0 and root.type.size == output.type.size
        if whole and isinstance(root, Node) and root in made and root not in ports:
            ports[root] = number
            continue
        copied = copy_of(output, f"output {number}")
        steps.append(Step(copy_task(output), (output,), (copied,)))
        ports[copied] = number
        copies[len(steps) - 1] = number
    return Layout(tuple(steps), parts, ports, copies)


@dataclass(frozen=True, slots=True)
class ArenaUse:
    """The arena: offset of each base in bytes, offset of each step's scratch, and the plan."""

    offsets: Mapping[Value, int]
    scratch: Mapping[int, int]
    plan: Plan


def plan_storage(
    layout: Layout,
    scratch_bytes: Sequence[int],
    may_take_over: Callable[[int, Value], bool],
) -> ArenaUse:
    """Plan the arena by liveness over the steps.

    `scratch_bytes[s]` is needed during step `s` only. `may_take_over(s, value)` tells that step
    `s` may write its (single) result over input `value`.
    """
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}

    def touch(value: Value, step: int) -> None:
        part = layout.part(value)
        base = part.base
        if isinstance(base, Input | Constant) or base in layout.ports:
            return
        first.setdefault(base, step)
        last[base] = step

    for number, step in enumerate(layout.steps):
        for value in (*step.inputs, *step.outputs):
            touch(value, number)
    names = {base: f"value {position}" for position, base in enumerate(first)}
    buffers = []
    for base, name in names.items():
        takes = _take_over(layout, base, first, last, names, may_take_over)
        buffers.append(Buffer(name, base.type.bytes, first[base], last[base], takes))
    for number, size in enumerate(scratch_bytes):
        if size:
            buffers.append(Buffer(f"scratch {number}", size, number, number))
    plan = plan_arena(buffers, alignment=ALIGNMENT)
    offsets = dict(plan.offsets)
    return ArenaUse(
        {base: offsets[name] for base, name in names.items()},
        {n: offsets[f"scratch {n}"] for n, size in enumerate(scratch_bytes) if size},
        plan,
    )


def _take_over(
    layout: Layout,
    base: Value,
    first: Mapping[Value, int],
    last: Mapping[Value, int],
    names: Mapping[Value, str],
    may_take_over: Callable[[int, Value], bool],
) -> tuple[str, ...]:
    """The buffers that `base` may take over in the step that writes it."""
    number = first[base]
    step = layout.steps[number]
    if step.outputs != (base,):
        return ()
    found: Iterable[Value] = (
        layout.part(value).base
        for value in step.inputs
        if layout.part(value) == Part(layout.part(value).base, 0) and may_take_over(number, value)
    )
    return tuple(
        names[other]
        for other in dict.fromkeys(found)
        if other in names
        and last[other] == number
        and first[other] < number
        and other.type.bytes >= base.type.bytes
    )
