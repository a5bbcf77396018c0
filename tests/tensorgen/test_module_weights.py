"""The block of constants: its layout, its bytes, and how it is kept."""

from __future__ import annotations

import hashlib

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.module_spec import Call, Kernel, Module, Output, Parameter, WeightMode
from tensorgen.module_weights import default_weights, stored_values, weight_block, weight_layout
from tensorgen.ports import Port
from tensorgen.target import Target
from tensorgen.types import Array, TensorType, float32

DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int64, np.bool_)


def module_with(constants: tuple[Array, ...], weights: WeightMode) -> Module:
    kernel = Kernel("k", "", (Parameter("y", float32, True),), (), "", "", False)
    return Module(
        "m", (), (Port("y", TensorType(float32, ())),), constants, (kernel,),
        (Call("k", (Output(0),), ""),), 0, Target.named("c99"), 1, False, weights, None, {},
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(DTYPES), st.integers(0, 100)), max_size=6),
    st.sampled_from(["c", "object", "file"]),
)
def test_constants_lie_where_the_layout_says(
    kinds: list[tuple[type, int]], weights: WeightMode
) -> None:
    constants: tuple[Array, ...] = tuple(np.arange(size).astype(dtype) for dtype, size in kinds)
    layout = weight_layout(module_with(constants, weights))
    block = weight_block(constants, layout)
    assert len(block) == layout.bytes
    assert layout.bytes % 64 == 0
    end = 64 if weights == "file" else 0
    for constant, offset in zip(constants, layout.offsets, strict=True):
        assert offset % 64 == 0
        assert offset >= end
        end = offset + constant.nbytes
        assert block[offset:end] == constant.tobytes()
    assert end <= len(block)


def test_file_header_names_its_content() -> None:
    constants = (np.arange(5, dtype=np.int32),)
    block = weight_block(constants, weight_layout(module_with(constants, "file")))
    assert block[:8] == b"TASORW01"
    assert int.from_bytes(block[8:16], "little") == len(block) - 64 == 64
    assert block[16:48] == hashlib.sha256(block[64:]).digest()
    assert block[48:64] == bytes(16)


def test_a_library_without_constants_has_none() -> None:
    assert weight_layout(module_with((), "object")).bytes == 0
    assert weight_layout(module_with((), "file")).bytes == 64


def test_payloads_of_nan_are_dropped_and_only_these() -> None:
    bits = np.array([0xFFC12345, 0x7F800001, 0x80000000, 1], np.uint32)
    stored = stored_values(bits.view(np.float32)).view(np.uint32)
    assert stored.tolist() == [0x7FC00000, 0x7FC00000, 0x80000000, 1]
    half = np.array([0xFE01], np.uint16)
    assert stored_values(half.view(np.float16)).view(np.uint16).tolist() == [0xFE01]


def test_default_weights_by_size() -> None:
    assert default_weights(0) == "c"
    assert default_weights(2**20) == "object"
    assert default_weights(400 * 10**6) == "object"
    assert default_weights(2**31) == "file"
