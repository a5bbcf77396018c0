"""The steps of a graph run by the interpreter on the memory that was planned for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphopt.compiler import overwritable_inputs
from graphopt.graph import Constant, Graph, Input, Value
from graphopt.storage import ArenaUse, Layout, plan_storage
from tensorgen.types import Array
from tests.compiled_kernels import evaluate_task


def planned(layout: Layout) -> ArenaUse:
    """The plan with in-place results wherever the compiler allows them."""

    def may_take_over(number: int, value: Value) -> bool:
        step = layout.steps[number]
        positions = [n for n, other in enumerate(step.inputs) if other == value]
        return len(positions) == 1 and positions[0] in overwritable_inputs(step.task)

    return plan_storage(layout, [64 * (n % 3) for n in range(len(layout.steps))], may_take_over)


@dataclass
class Memory:
    """The arena, the callers' buffers, the constants; a step sees values as its task types them."""

    graph: Graph
    layout: Layout
    arena: ArenaUse
    inputs: dict[str, Array]
    bytes: Array = field(init=False)
    ports: dict[int, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = np.full(self.arena.plan.arena_bytes, 0xA5, np.uint8)
        self.ports = {
            number: np.full(output.type.bytes, 0xA5, np.uint8)
            for number, output in enumerate(self.graph.outputs)
        }

    def at(self, value: Value) -> Array:
        """The elements of a value, where they lie."""
        part = self.layout.part(value)
        base = part.base
        memory: Array
        if isinstance(base, Input):
            memory = self.inputs[self.graph.input_names[self.graph.inputs.index(base)]]
        elif isinstance(base, Constant):
            memory = base.array
        elif base in self.layout.ports:
            memory = self.ports[self.layout.ports[base]].view(base.type.dtype.numpy)
        else:
            start = self.arena.offsets[base]
            memory = self.bytes[start : start + base.type.bytes].view(base.type.dtype.numpy)
        flat = memory.reshape(-1)[part.offset : part.offset + value.type.size]
        return flat.reshape(value.type.shape)

    def run(self) -> None:
        for number, step in enumerate(self.layout.steps):
            if number in self.arena.scratch:
                start = self.arena.scratch[number]
                self.bytes[start : start + 64 * (number % 3)] = 0x5A
            types = step.task.inputs
            operands = [
                self.at(value).reshape(type.shape)
                for value, type in zip(step.inputs, types, strict=True)
            ]
            results = evaluate_task(step.task, operands)
            for value, result in zip(step.outputs, results, strict=True):
                self.at(value).reshape(result.shape)[...] = result
