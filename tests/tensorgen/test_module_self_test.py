"""The self-test: the same inputs in Python and in C, and the tolerance it grants."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.module import (
    Call,
    Input,
    Kernel,
    Module,
    Output,
    Parameter,
    SelfTest,
    generated_input,
    module_files,
)
from tensorgen.module_self_test import (
    MOST_CHOICES,
    SAMPLES,
    choices,
    sampled_elements,
    self_test_layout,
)
from tensorgen.ports import Port
from tensorgen.target import Target
from tensorgen.types import (
    DTYPES,
    DType,
    TensorType,
    boolean,
    float16,
    float32,
    int8,
    int32,
    int64,
    uint8,
)


def copy_kernel(index: int, tensor: TensorType) -> Kernel:
    name, c_type = f"copy_{index}", tensor.dtype.c_name
    text = f"""
static void {name}(const {c_type} *restrict x, {c_type} *restrict y)
{{
    for (int i = 0; i < {tensor.size}; ++i) {{
        y[i] = x[i];
    }}
}}
"""
    parameters = (Parameter("x", tensor.dtype, False), Parameter("y", tensor.dtype, True))
    return Kernel(name, text, parameters, (), "", "", False)


def copying(types: tuple[TensorType, ...], test: SelfTest) -> Module:
    return Module(
        name="copy_all",
        inputs=tuple(Port(f"x{index}", tensor) for index, tensor in enumerate(types)),
        outputs=tuple(Port(f"y{index}", tensor) for index, tensor in enumerate(types)),
        constants=(),
        kernels=tuple(copy_kernel(index, tensor) for index, tensor in enumerate(types)),
        calls=tuple(
            Call(f"copy_{index}", (Input(index), Output(index)), "copy")
            for index in range(len(types))
        ),
        arena_bytes=0,
        target=Target.named("c99"),
        threads=1,
        strict=False,
        weights="c",
        self_test=test,
        metadata={},
    )


def printed_by_test(module: Module, folder: Path) -> str:
    """What the library's test program prints."""
    for name, content in module_files(module).items():
        (folder / name).write_bytes(content)
    flags = (
        "BASE_FLAGS=-std=c99 -Wall -Wextra -pedantic -Wconversion -Wshadow -Wmissing-prototypes "
        "-Werror"
    )
    subprocess.run(["make", "-s", flags, "copy_all_test"], cwd=folder, check=True)
    program = folder / "copy_all_test"
    return subprocess.run([program], capture_output=True, text=True, check=False).stdout


def test_c_generates_what_python_generates(tmp_path: Path) -> None:
    types = tuple(TensorType(dtype, (5, 20)) for dtype in DTYPES)
    arrays = tuple(generated_input(tensor, index) for index, tensor in enumerate(types))
    # No tolerance: equal to the last bit.
    assert (
        printed_by_test(copying(types, SelfTest(arrays, arrays, 0.0, 0.0)), tmp_path)
        == "copy_all: OK\n"
    )


def test_c_generates_indices_as_python_does(tmp_path: Path) -> None:
    integers = [dtype for dtype in DTYPES if not dtype.is_float]
    types = tuple(TensorType(dtype, (5, 20)) for dtype in integers)
    domains = (1, 2, 257, 30522, None, 2**40, 0, 3, 1000)
    arrays = tuple(
        generated_input(tensor, index, domain)
        for index, (tensor, domain) in enumerate(zip(types, domains, strict=True))
    )
    test = SelfTest(arrays, arrays, 0.0, 0.0)
    module = copying(types, test)
    ports = tuple(
        replace(port, domain=domain) for port, domain in zip(module.inputs, domains, strict=True)
    )
    module = replace(module, inputs=ports)
    assert all(entry.literals is None for entry in self_test_layout(module, test).inputs)
    assert printed_by_test(module, tmp_path) == "copy_all: OK\n"


@pytest.mark.parametrize(
    ("dtype", "domain", "wanted"),
    [
        (int32, None, 2),
        (int32, 0, 2),
        (int32, 1, 1),
        (int32, 300, 300),
        (int8, 300, 128),
        (uint8, 300, 256),
        (boolean, 300, 2),
        (int64, 2**50, MOST_CHOICES),
    ],
    ids=str,
)
def test_choices_fit_domain_and_type(dtype: DType, domain: int | None, wanted: int) -> None:
    assert choices(dtype, domain) == wanted
    values = generated_input(TensorType(dtype, (4000,)), 0, domain).astype(np.float64)
    assert values.min() == 0 if wanted < 1000 else values.min() >= 0
    assert 0.99 * (wanted - 1) <= values.max() <= wanted - 1


def test_embedded_inputs_of_all_types(tmp_path: Path) -> None:
    types = tuple(TensorType(dtype, (7,)) for dtype in DTYPES)
    values = np.array([0, 1, 2, 3, 100, 7, 0])
    arrays = []
    for tensor in types:
        array = values.astype(tensor.dtype.numpy)
        if tensor.dtype.is_float:
            array[:4] = np.array([np.nan, np.inf, -np.inf, -0.1])
        if tensor.dtype == float16:
            array[4:6] = np.array([6e-8, 65504])
        arrays.append(array)
    test = SelfTest(tuple(arrays), tuple(arrays), 0.0, 0.0)
    assert printed_by_test(copying(types, test), tmp_path) == "copy_all: OK\n"


@pytest.mark.parametrize(
    ("given_value", "wanted", "passes"),
    [
        (1.0, 1.05, True),
        (1.0, 1.2, False),
        (100.0, 105.0, True),
        (100.0, 115.0, False),
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (-np.inf, np.inf, False),
        (3e38, np.inf, False),
        (np.inf, 3e38, False),
    ],
)
def test_tolerance(given_value: float, wanted: float, passes: bool, tmp_path: Path) -> None:
    types = (TensorType(float32, ()),)
    test = SelfTest(
        (np.array(given_value, np.float32),), (np.array(wanted, np.float32),), 0.05, 0.05
    )
    assert (printed_by_test(copying(types, test), tmp_path) == "copy_all: OK\n") == passes


@pytest.mark.parametrize(("absolute", "passes"), [(0.5, False), (1.0, True)])
def test_integers_know_no_relative_tolerance(absolute: float, passes: bool, tmp_path: Path) -> None:
    types = (TensorType(int32, ()),)
    test = SelfTest((np.array(10**6, np.int32),), (np.array(10**6 + 1, np.int32),), absolute, 1.0)
    assert (printed_by_test(copying(types, test), tmp_path) == "copy_all: OK\n") == passes


def test_empty_tensors(tmp_path: Path) -> None:
    types = (TensorType(float32, (0, 4)), TensorType(float32, (2,)))
    arrays = (np.zeros((0, 4), np.float32), np.ones(2, np.float32))
    assert (
        printed_by_test(copying(types, SelfTest(arrays, arrays, 0.0, 0.0)), tmp_path)
        == "copy_all: OK\n"
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_generated_values_have_their_range(dtype: DType) -> None:
    tensor = TensorType(dtype, (4, 500))
    values = generated_input(tensor, 3)
    assert values.dtype == dtype.numpy
    assert values.shape == tensor.shape
    wide = values.astype(np.float64)
    if dtype.is_half:
        assert 0.25 <= np.abs(wide).min() < np.abs(wide).max() < 1
    elif dtype.is_float:
        assert -1 <= wide.min() < -0.99
        assert 0.99 < wide.max() < 1
    else:
        assert set(wide.reshape(-1).tolist()) == {0.0, 1.0}
    assert abs(wide.mean() - (0 if dtype.is_float else 0.5)) < 0.06
    assert not np.array_equal(values, generated_input(tensor, 4))


@given(st.integers(0, 10**12))
def test_samples_are_spread_over_the_output(size: int) -> None:
    elements = sampled_elements(size)
    assert list(elements) == sorted(set(elements))
    assert min(size, SAMPLES // 2) <= len(elements) <= min(size, SAMPLES)
    assert all(0 <= element < size for element in elements)
    if size > SAMPLES:
        assert elements[0] == 0
        assert elements[-1] == size - 1
        assert max(b - a for a, b in pairwise(elements)) <= 2 * size / SAMPLES + 1
