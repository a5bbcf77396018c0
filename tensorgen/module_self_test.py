"""The test that a library carries with it: inputs, and some elements of the outputs they give.

What it does: generates inputs that a few lines of C generate too, picks the elements to compare,
and lays the tensors out in the caller's buffer. What it does not: compute the expected outputs.
Source: the generator is the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014) on a counter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorgen.module_spec import ARENA_ALIGN, Module, SelfTest
from tensorgen.module_text import number_literals, size_literal
from tensorgen.types import (
    Array,
    DType,
    Kind,
    TensorType,
    boolean,
    dtype_of,
    float64,
    integer_range,
    type_of,
)

SAMPLES = 64
"""Elements of each output that are compared, if it has more."""


MOST_CHOICES = 2**31
"""Generated integers stay below this, so that 64 bits hold the product that scales them."""


def choices(dtype: DType, domain: int | None) -> int:
    """The n such that generated integers of an input (`Port.domain`) are 0 … n-1."""
    if dtype.kind is Kind.BOOL or not domain:
        return 2
    return min(domain, MOST_CHOICES, integer_range(dtype)[1] + 1)


def generated_input(tensor: TensorType, index: int, domain: int | None = None) -> Array:
    """The input that the self-test generates for the port of that index.

    32- and 64-bit floats are uniform in [-1, 1) in steps of 2**-23; 16-bit floats are of either
    sign with a magnitude in [0.25, 1); integers are uniform in the port's domain, and without one,
    as booleans, 0 or 1: indices of any axis that is longer than one.
    """
    bits = _random_bits(tensor.size, index)
    dtype = tensor.dtype
    if dtype.is_half:
        base, mask = (0x3400, 0x7FF) if dtype.name == "float16" else (0x3E80, 0xFF)
        patterns = (bits >> 63 << 15) + base + (bits >> 40 & mask)
        return patterns.astype(np.uint16).view(dtype.numpy).reshape(tensor.shape)
    if dtype.kind is Kind.FLOAT:
        values = (bits >> 40).astype(np.float64) * 2.0**-23 - 1.0
        return values.astype(dtype.numpy).reshape(tensor.shape)
    below = np.uint64(choices(dtype, domain))
    integers = (bits >> np.uint64(32)) * below >> np.uint64(32)
    return integers.astype(dtype.numpy).reshape(tensor.shape)


def _random_bits(count: int, seed: int) -> NDArray[np.uint64]:
    step = np.full(1, 0x9E3779B97F4A7C15, np.uint64)
    bits = np.arange(1, count + 1, dtype=np.uint64) * step + np.uint64(seed << 32)
    bits = (bits ^ bits >> np.uint64(30)) * np.full(1, 0xBF58476D1CE4E5B9, np.uint64)
    bits = (bits ^ bits >> np.uint64(27)) * np.full(1, 0x94D049BB133111EB, np.uint64)
    return np.asarray(bits ^ bits >> np.uint64(31), np.uint64)


def sampled_elements(size: int) -> tuple[int, ...]:
    """Ascending indices of the elements to compare: all if they are few, else an even spread with
    the first, the last, and a varying place in between."""
    if size <= SAMPLES:
        return tuple(range(size))
    stride = size / SAMPLES
    places = _random_bits(SAMPLES, 0).astype(np.float64) / 2.0**64
    middle = (min(size - 1, int((k + float(places[k])) * stride)) for k in range(1, SAMPLES - 1))
    return tuple(sorted({0, size - 1, *middle}))


@dataclass(frozen=True, slots=True)
class SelfTestInput:
    """How one input comes about: `literals` if embedded, else generated into the buffer, integers
    smaller than `below`."""

    tensor: TensorType
    index: int
    below: int
    offset: int
    literals: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SelfTestOutput:
    """Where one output goes in the buffer, and (element, expected value as a C constant)."""

    tensor: TensorType
    offset: int
    samples: tuple[tuple[int, str], ...]

    @property
    def sample_texts(self) -> tuple[str, ...]:
        """Each sample as a C initializer."""
        return tuple(f"{{{size_literal(element)}, {value}}}" for element, value in self.samples)


@dataclass(frozen=True, slots=True)
class SelfTestLayout:
    """The self-test's tensors in the caller's buffer: behind the arena, each at a multiple of 64
    bytes; `bytes` is the size of the whole buffer."""

    inputs: tuple[SelfTestInput, ...]
    outputs: tuple[SelfTestOutput, ...]
    bytes: int


def self_test_layout(module: Module, self_test: SelfTest) -> SelfTestLayout:
    """Lays out the module's self-test."""
    position = _aligned(module.arena_bytes)
    inputs = []
    for index, (array, port) in enumerate(zip(self_test.inputs, module.inputs, strict=True)):
        tensor = type_of(array)
        generated = generated_input(tensor, index, port.domain)
        # Bit patterns, not values: a negative zero is not what the generator makes.
        is_generated = array.tobytes() == generated.tobytes()
        literals = None if is_generated else tuple(number_literals(array))
        below = choices(tensor.dtype, port.domain)
        inputs.append(SelfTestInput(tensor, index, below, position, literals))
        position += _aligned(tensor.bytes) if is_generated else 0
    outputs = []
    for array in self_test.outputs:
        outputs.append(SelfTestOutput(type_of(array), position, _samples(array)))
        position += _aligned(array.nbytes)
    return SelfTestLayout(tuple(inputs), tuple(outputs), position)


def _samples(array: Array) -> tuple[tuple[int, str], ...]:
    elements = sampled_elements(array.size)
    values = array.reshape(-1)[list(elements)]
    dtype = dtype_of(array)
    if dtype.bits == 64 or dtype.is_half:
        values = values.astype(float64.numpy)
    elif dtype == boolean:
        values = values.astype(np.uint8)
    return tuple(zip(elements, number_literals(values), strict=True))


def _aligned(size: int) -> int:
    return -(-size // ARENA_ALIGN) * ARENA_ALIGN
