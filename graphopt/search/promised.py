"""Weights as promises: constants of which only the type matters.

What it does: stands in for weights, and for what is computed from weights alone, where a cost or a
structure is asked for and the elements are not. A promise is a `Constant`, so every rule and the
partition treat it as one, but nothing is allocated or digested. Its elements are NaN (the first is
1), so that it is equal to no literal and never taken for a tensor of equal elements.

What it does not: have elements that anybody may compute with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphopt.graph import Constant, Node, Value
from tensorgen.types import Array, TensorType

UNIFORM_ELEMENTS = 4096
"""Constants of up to so many elements are looked at; larger ones may repeat one element."""


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Promise(Constant):
    """A constant of a type whose elements are not known yet; `digest` says which it is."""

    def __init__(self, type: TensorType, digest: bytes) -> None:
        object.__setattr__(self, "array", _stand_in(type))
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "digest", digest)


def _stand_in(type: TensorType) -> Array:
    """An array of the type that no literal equals, in a few bytes if it is large."""
    unknown = np.asarray(np.nan if type.dtype.is_float else 0).astype(type.dtype.numpy)
    whole: Array = np.broadcast_to(unknown, type.shape)
    if 1 < type.size <= UNIFORM_ELEMENTS:
        whole = whole.copy()
        whole.reshape(-1)[0] = 1
        whole.flags.writeable = False
    return whole


def is_promisable(constant: Constant) -> bool:
    """Whether only the type of a constant can matter to rules and kernels.

    Indices, truth values and constants that repeat one element (literals) are what they are.
    """
    if not constant.type.dtype.is_float or constant.type.size < 2:
        return False
    if constant.type.size > UNIFORM_ELEMENTS:
        return True
    flat = constant.array.reshape(-1)
    return bool((flat != flat[0]).any())


class WeightOnly:
    """Which values depend on constants alone; remembers its answers."""

    def __init__(self) -> None:
        self._known: dict[bytes, bool] = {}

    def __call__(self, value: Value) -> bool:
        """Whether a value is a constant or a node over nothing but constants."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current.digest in self._known:
                pending.pop()
            elif not isinstance(current, Node):
                self._known[current.digest] = isinstance(current, Constant)
            else:
                missing = [v for v in current.inputs if v.digest not in self._known]
                if missing:
                    pending.extend(missing)
                else:
                    self._known[current.digest] = all(self._known[v.digest] for v in current.inputs)
        return self._known[value.digest]
