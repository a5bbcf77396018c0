"""The interpreter of loops: what it computes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tensorgen.expr import Cast, apply, cast, const, select
from tensorgen.loop import (
    Allocate,
    Buffer,
    Declare,
    Fill,
    For,
    If,
    LoopKernel,
    MultiplyAdd,
    Numbers,
    Register,
    Space,
    Stmt,
    Store,
    VectorLoad,
    VectorStore,
)
from tensorgen.loop_eval import LoopError, run_kernel
from tensorgen.types import Array, DType, bfloat16, float32, int8, int32, int64, uint16

ZERO = const(0, int64)


class Kernel:
    """A kernel of one input and one output under construction."""

    def __init__(self, size: int, result: int, dtype: DType = float32, out: DType = float32):
        self.numbers = Numbers()
        self.x = self.numbers.buffer("x", dtype, size, Space.INPUT)
        self.out = self.numbers.buffer("out", out, result, Space.OUTPUT)

    def run(self, array: Array, *body: Stmt, scratch: tuple[Buffer, ...] = ()) -> Array:
        return run_kernel(LoopKernel((self.x,), (self.out,), scratch, body), [array])[0]


FOUR = np.arange(4, dtype=np.float32)


def test_loops_and_stores() -> None:
    k = Kernel(4, 4)
    i = k.numbers.axis("i", 4)
    result = k.run(FOUR, For(i, (Store(k.out, i, k.x.at(3 - i) * 2.0),)))
    assert result.tolist() == [6, 4, 2, 0]


def test_conditions() -> None:
    k = Kernel(4, 4)
    i = k.numbers.axis("i", 4)
    stores = For(i, (Store(k.out, i, const(0, float32)), If(i < 2, (Store(k.out, i, k.x.at(i)),))))
    assert k.run(FOUR, stores).tolist() == [0, 1, 0, 0]


def test_vectors() -> None:
    k = Kernel(4, 3)
    x, y, total = (Register(name, float32, 4) for name in ("x0", "y0", "t0"))
    result = k.run(
        FOUR,
        Declare(
            (x, y, total),
            (
                Fill(total, const(1, float32)),
                Fill(y, const(3, float32)),
                VectorLoad(x, k.x, const(1, int64), 2),
                MultiplyAdd(total, x, y),
                VectorStore(k.out, ZERO, total, 3),
            ),
        ),
    )
    # Lanes beyond those loaded are zero.
    assert result.tolist() == [4, 7, 1]


def test_only_the_branch_taken_is_evaluated() -> None:
    k = Kernel(4, 6)
    i = k.numbers.axis("i", 6)
    inside = select(i < 4, k.x.at(i), const(-1, float32))
    result = k.run(FOUR, For(i, (Store(k.out, i, inside),)))
    assert result.tolist() == [0, 1, 2, 3, -1, -1]


@pytest.mark.parametrize("position", [-1, 4])
def test_a_load_outside_is_refused(position: int) -> None:
    k = Kernel(4, 1)
    message = rf"x: expected an index in 0\.\.3, got {position}"
    with pytest.raises(LoopError, match=message):
        k.run(FOUR, Store(k.out, ZERO, k.x.at(const(position, int64))))


def test_a_store_outside_is_refused() -> None:
    k = Kernel(4, 1)
    with pytest.raises(LoopError, match=r"out: expected an index in 0\.\.0, got 1"):
        k.run(FOUR, Store(k.out, const(1, int64), const(0, float32)))


def test_a_vector_load_over_the_end_is_refused() -> None:
    k = Kernel(4, 1)
    with pytest.raises(LoopError, match=r"x: expected an index in 0\.\.3, got 4"):
        k.run(FOUR, VectorLoad(Register("r", float32, 4), k.x, const(1, int64), 4))


def test_a_vector_store_over_the_end_is_refused() -> None:
    k = Kernel(4, 3)
    register = Register("r", float32, 4)
    with pytest.raises(LoopError, match=r"out: expected an index in 0\.\.2, got 3"):
        k.run(FOUR, Fill(register, const(1, float32)), VectorStore(k.out, ZERO, register, 4))


def test_reading_what_nobody_wrote_is_refused() -> None:
    k = Kernel(4, 1)
    local = k.numbers.buffer("row", float32, 2, Space.STACK)
    body = Allocate(local, (Store(k.out, ZERO, local.at(const(1, int64))),))
    with pytest.raises(LoopError, match="row: element 1 is read before it is written"):
        k.run(FOUR, body)


def test_a_buffer_is_empty_at_each_allocation() -> None:
    k = Kernel(4, 2)
    i = k.numbers.axis("i", 2)
    local = k.numbers.buffer("row", float32, 1, Space.SCALAR)
    inside = (
        If(i < 1, (Store(local, ZERO, const(5, float32)),)),
        Store(k.out, i, local.at(ZERO)),
    )
    with pytest.raises(LoopError, match="row: element 0 is read before it is written"):
        k.run(FOUR, For(i, (Allocate(local, inside),)))


def test_a_result_with_a_hole_is_refused() -> None:
    k = Kernel(4, 2)
    with pytest.raises(LoopError, match="some elements of the result are never written"):
        k.run(FOUR, Store(k.out, ZERO, const(0, float32)))


def test_integers_wrap() -> None:
    k = Kernel(1, 1, int8, int8)
    total = apply("add", k.x.at(ZERO), k.x.at(ZERO))
    assert k.run(np.array([100], np.int8), Store(k.out, ZERO, total)).tolist() == [-56]


@pytest.mark.parametrize(
    ("value", "whole"), [(2.9, 2), (-2.9, -2), (np.nan, 0), (np.inf, 2**31 - 1), (-3e9, -(2**31))]
)
def test_conversion_to_integers_saturates(value: float, whole: int) -> None:
    k = Kernel(1, 1, float32, int32)
    result = k.run(np.array([value], np.float32), Store(k.out, ZERO, cast(k.x.at(ZERO), int32)))
    assert result.tolist() == [whole]


def test_halves_round_once_when_stored() -> None:
    k = Kernel(1, 1, bfloat16, bfloat16)
    value = Cast(cast(k.x.at(ZERO), float32) * 1.01 * 1.01, bfloat16)
    array = np.array([1.5], bfloat16.numpy)
    expected = np.float32(np.float32(1.5) * np.float32(1.01) * np.float32(1.01))
    assert k.run(array, Store(k.out, ZERO, value))[0] == expected.astype(bfloat16.numpy)


def test_bits_are_reinterpreted() -> None:
    k = Kernel(1, 1, bfloat16, uint16)
    array = np.array([1.5], bfloat16.numpy)
    result = k.run(array, Store(k.out, ZERO, Cast(k.x.at(ZERO), uint16, bits=True)))
    assert result.tolist() == array.view(np.uint16).tolist()
