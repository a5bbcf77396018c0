"""The buffers through which a kernel is given its task's inputs and results."""

from __future__ import annotations

from tensorgen.expr import operand_name
from tensorgen.loop import Buffer, Numbers, Space
from tensorgen.task import Task


def parameter_buffers(
    task: Task, numbers: Numbers
) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    """Buffers for the task's inputs and results."""
    inputs = tuple(
        numbers.buffer(operand_name(position), type.dtype, type.size, Space.INPUT)
        for position, type in enumerate(task.inputs)
    )
    outputs = tuple(
        numbers.buffer("out", type.dtype, type.size, Space.OUTPUT) for type in task.output_types
    )
    return inputs, outputs
