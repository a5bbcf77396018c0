"""Inputs that nobody gave an array for."""

from __future__ import annotations

import numpy as np

from tasor.sample_inputs import sample_inputs
from tensorgen.ports import Port
from tensorgen.types import TensorType, float32, int64

PORTS = (
    Port("x", TensorType(float32, (3, 7))),
    Port("i", TensorType(int64, (1000,)), domain=5),
)


def test_values_follow_from_the_seed_and_stay_in_the_domain() -> None:
    first, again, other = (sample_inputs(PORTS, seed) for seed in (3, 3, 4))
    for name in ("x", "i"):
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
    assert first["x"].dtype == np.float32
    assert first["i"].dtype == np.int64
    assert (first["i"].min(), first["i"].max()) == (0, 4)


def test_arrays_begin_at_a_line_of_the_cache() -> None:
    for array in sample_inputs(PORTS, 0).values():
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
