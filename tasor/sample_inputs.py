"""Random inputs for a compiled model, the same for the same seed.

What it does: draws plausible values for ports that nobody gave an array for. What it does not:
know what a model expects of its inputs, beyond the domain of what it uses as indices; other
integers are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorgen.module_self_test import choices
from tensorgen.ports import Port
from tensorgen.types import Array, Kind


def sample_inputs(ports: Sequence[Port], seed: int) -> dict[str, Array]:
    """Arrays by name: floats standard normal, integers uniform in the port's domain."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for port in ports:
        dtype = port.type.dtype
        if dtype.kind is Kind.FLOAT:
            values: Array = rng.standard_normal(port.type.shape)
        else:
            values = rng.integers(0, choices(dtype, port.domain), port.type.shape)
        arrays[port.name] = np.asarray(values).astype(dtype.numpy)
    return arrays
