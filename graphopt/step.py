"""Steps: the kernels that a graph is cut into, and what is asked of their tasks.

What it does not: decide what a kernel computes (`fragments`, `row_groups`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from graphopt.graph import Value
from tensorgen.contraction import contraction_of, has_tiles
from tensorgen.expr import Reduce, TensorExpr, walk
from tensorgen.sketch import tiled_window_of
from tensorgen.task import Task

REMEMBERED_TASKS = 4096
"""Of so many tasks it is remembered how they look, since searches and fusion ask again."""


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel to run: a task, the values it reads, and the values it stores."""

    task: Task
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@lru_cache(REMEMBERED_TASKS)
def is_window(task: Task) -> bool:
    """True if a task is a window over planes, computed in tiles."""
    return tiled_window_of(task) is not None


@lru_cache(REMEMBERED_TASKS)
def is_tiled(task: Task) -> bool:
    """True if a task is a contraction worth a register tile."""
    if is_window(task):
        return False
    contraction = contraction_of(task)
    return contraction is not None and has_tiles(contraction)


@lru_cache(REMEMBERED_TASKS)
def is_contraction(task: Task) -> bool:
    """True if a task is a sum of products, whether its tiles pay or not."""
    return contraction_of(task) is not None


def has_reduction(expr: TensorExpr) -> bool:
    """True if an element is made from a range of others."""
    return any(isinstance(term, Reduce) for term in walk(expr.body))
