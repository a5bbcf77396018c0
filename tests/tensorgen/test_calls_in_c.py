"""Libraries called by loops in C: the right function, arguments and number of calls."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.calls_in_c import repeated_calls
from tensorgen.library import InputError, Library, RunError
from tensorgen.ports import Port
from tensorgen.target import host_target
from tensorgen.types import TensorType, float32, int32

# Adds to what is there, and refuses once the sum is above 100.
COUNT = """
#include <stddef.h>
int count_run({weights}void *arena, size_t arena_bytes, const int *step, float *sum);
int count_run({weights}void *arena, size_t arena_bytes, const int *step, float *sum)
{{
    if (arena == NULL || arena_bytes != 24) return -3;
    *sum += (float)({step});
    return *sum > 100.0F ? -4 : 0;
}}
"""
STEP, SUM = Port("step", TensorType(int32, ())), Port("sum", TensorType(float32, ()))


def counter(folder: Path, weights: Path | None = None) -> Library:
    parameter, step = "", "*step"
    if weights is not None:
        parameter, step = "const signed char *weights, ", "*step * weights[1]"
    source = COUNT.format(weights=parameter, step=step)
    path = build_library({"count.c": source}, target=host_target(), cache=folder)
    return Library(path, "count", (STEP,), (SUM,), 24, weights)


def test_every_call_is_made(tmp_path: Path) -> None:
    total = np.zeros((), np.float32)
    repeat = repeated_calls(counter(tmp_path), [np.array(3, np.int32)], [total], tmp_path)
    assert total == 0
    repeat(1)
    assert total == 3
    repeat(7)
    assert total == 24
    repeat(0)
    assert total == 24


def test_the_loop_stays_loaded_for_as_long_as_it_may_be_called(tmp_path: Path) -> None:
    total = np.zeros((), np.float32)
    repeat = repeated_calls(counter(tmp_path), [np.array(3, np.int32)], [total], tmp_path)
    gc.collect()
    repeat(2)
    assert total == 6


def test_weights_in_a_file_come_first(tmp_path: Path) -> None:
    file = tmp_path / "count.weights"
    file.write_bytes(bytes([9, 5, 9]))
    total = np.zeros((), np.float32)
    library = counter(tmp_path, file)
    repeated_calls(library, [np.array(2, np.int32)], [total], tmp_path)(4)
    assert total == 40


def test_a_refused_call_is_the_last(tmp_path: Path) -> None:
    total = np.zeros((), np.float32)
    repeat = repeated_calls(counter(tmp_path), [np.array(60, np.int32)], [total], tmp_path)
    with pytest.raises(RunError, match=r"^count_run: expected status 0 .* got -4; "):
        repeat(5)
    assert total == 120


def test_arrays_are_checked_before_c_sees_them(tmp_path: Path) -> None:
    library = counter(tmp_path)
    total = np.zeros((), np.float32)
    with pytest.raises(InputError, match="input 'step': expected int32"):
        repeated_calls(library, [np.array(3, np.int64)], [total], tmp_path)
    with pytest.raises(InputError, match="output 'sum': expected float32"):
        repeated_calls(library, [np.array(3, np.int32)], [np.zeros(2, np.float32)], tmp_path)
