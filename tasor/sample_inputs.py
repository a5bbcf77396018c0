"""Random inputs for a compiled model, the same for the same seed.

What it does: draws plausible values for ports that nobody gave an array for, and has arrays begin
where caches do, so that times of them do not depend on luck. What it does not: know what a model
expects of its inputs, beyond the domain of what it uses as indices; other integers are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorgen.arena import empty_array
from tensorgen.module_self_test import choices
from tensorgen.ports import Port
from tensorgen.target import LINE_BYTES
from tensorgen.types import Array, Kind


def sample_inputs(ports: Sequence[Port], seed: int) -> dict[str, Array]:
    """Arrays by name: floats standard normal, integers uniform in the port's domain. Each begins at
    a line of the cache."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for port in ports:
        dtype = port.type.dtype
        if dtype.kind is Kind.FLOAT:
            values: Array = rng.standard_normal(port.type.shape)
        else:
            values = rng.integers(0, choices(dtype, port.domain), port.type.shape)
        arrays[port.name] = at_a_line(np.asarray(values).astype(dtype.numpy))
    return arrays


def at_a_line(array: Array) -> Array:
    """A copy that begins at a line of the cache.

    Numpy's own arrays begin anywhere in one, another place in each process: in three of four every
    vector read lies across two lines. (Softmax of 256 x 256: 13.7 or 14.3 to 16.1 us.)
    """
    copy = empty_array(array.shape, array.dtype, LINE_BYTES)
    copy[...] = array
    return copy
