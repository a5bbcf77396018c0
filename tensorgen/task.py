"""Task: what one kernel computes, before anyone decides how.

A task is a short list of tensor expressions (stages) over input tensors. Stage `s` may read the
inputs, operands 0 … n-1, and the stages before it, operands n … n+s-1. The stages in `outputs` are
results; the others exist only inside the kernel. The unit of scheduling, tuning and caching.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tensorgen.digest import Identified
from tensorgen.expr import TensorExpr, loads
from tensorgen.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Task(Identified):
    """Stages over inputs.

    `constant[i]` tells that input `i` is known at compile time, so that a kernel may ask for it in
    any layout. `outputs` are positions in `stages`, in the order of the kernel's results. `given`
    are the inputs that are in arrays of callers, which begin anywhere: others begin with a line of
    the cache.
    """

    inputs: tuple[TensorType, ...]
    stages: tuple[TensorExpr, ...]
    outputs: tuple[int, ...]
    constant: tuple[bool, ...]
    given: frozenset[int] = frozenset()
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert len(self.constant) == len(self.inputs)
        assert self.given <= {n for n, fixed in enumerate(self.constant) if not fixed}
        assert self.outputs, "a task has at least one result"
        for position, stage in enumerate(self.stages):
            for load in loads(stage.body):
                assert load.operand < len(self.inputs) + position, "a stage reads a later one"
                assert load.type == self.operand_type(load.operand), "a load misstates its operand"
        state = hashlib.blake2b(digest_size=16)
        state.update(repr((self.inputs, self.outputs, self.constant)).encode())
        if self.given:
            state.update(repr(sorted(self.given)).encode())
        for stage in self.stages:
            state.update(stage.digest)
        object.__setattr__(self, "digest", state.digest())

    def operand_type(self, operand: int) -> TensorType:
        """The type of an operand: an input or an earlier stage."""
        count = len(self.inputs)
        return self.inputs[operand] if operand < count else self.stages[operand - count].type

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(self.stages[position].type for position in self.outputs)

    def __str__(self) -> str:
        return "; ".join(str(stage) for stage in self.stages)
