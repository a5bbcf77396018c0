"""Work of a graph: operations by definition, bytes that any run must move."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from graphopt.work import Work, contraction_flops, work
from tensorgen.types import Shape, TensorType, float16, float32, int64

sizes = st.integers(1, 13)


def graph_of(inputs: tuple[Input, ...], *outputs: Value) -> Graph:
    return Graph(
        inputs,
        outputs,
        tuple(f"x{n}" for n in range(len(inputs))),
        tuple(f"y{n}" for n in range(len(outputs))),
    )


def tensor(*shape: int, position: int = 0) -> Input:
    return Input(position, TensorType(float32, shape))


def zeros(*shape: int) -> Constant:
    return Constant(np.zeros(shape, np.float32))


@given(sizes, sizes, sizes, sizes)
def test_a_product_of_matrices(batch: int, m: int, k: int, n: int) -> None:
    x = tensor(batch, m, k)
    product = OP["matmul"](x, zeros(k, n))
    found = work(graph_of((x,), product))
    assert found == Work(2 * batch * m * k * n, 4 * (batch * m * k + k * n + batch * m * n))


@given(sizes, sizes, sizes, sizes)
def test_an_einsum_is_the_product_that_it_spells(b: int, m: int, k: int, n: int) -> None:
    left, right = tensor(b, m, k), tensor(b, k, n, position=1)
    spelled = OP["einsum"](left, right, equation="bmk,bkn->bmn")
    assert contraction_flops(spelled) == contraction_flops(OP["matmul"](left, right))
    outer = OP["einsum"](left, right, equation="bmk,bkn->bmkn")
    assert contraction_flops(outer) == b * m * k * n


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)),
        min_size=1, max_size=3,
    ),
)  # fmt: skip
def test_a_convolution_counts_every_tap(
    groups: int, inputs: int, outputs: int, axes: list[tuple[int, int, int, int]]
) -> None:
    kernel = tuple(axis[0] for axis in axes)
    x = tensor(2, groups * inputs, *(taps + 4 for taps in kernel))
    weights = zeros(groups * outputs, inputs, *kernel)
    convolved = OP["conv"](
        x,
        weights,
        strides=tuple(axis[1] for axis in axes),
        pads=(*(axis[2] for axis in axes), *(axis[3] for axis in axes)),
        dilations=(1,) * len(axes),
        groups=groups,
    )
    assert contraction_flops(convolved) == 2 * convolved.type.size * inputs * prod(kernel)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), sizes)
def test_a_transposed_convolution_counts_every_element_of_its_operand(
    groups: int, inputs: int, outputs: int, kernel: int, size: int
) -> None:
    x = tensor(2, groups * inputs, size)
    weights = zeros(groups * outputs, inputs, kernel)
    spread = OP["conv_transpose"](
        x, weights, strides=(3,), pads=(0, 0), dilations=(1,), groups=groups
    )
    assert contraction_flops(spread) == 2 * x.type.size * outputs * kernel


def test_what_is_no_contraction_has_no_operations() -> None:
    x = tensor(3, 5)
    found = work(graph_of((x,), OP["exp"](OP["reshape"](x, shape=(15,)))))
    assert found == Work(0, 2 * 4 * 15)


def test_a_table_counts_as_far_as_it_is_read() -> None:
    table, indices = zeros(1000, 8), Input(0, TensorType(int64, (3,)))
    rows = OP["gather"](table, indices, axis=0)
    assert work(graph_of((indices,), rows)).traffic == 3 * 8 + 2 * 4 * 3 * 8
    few = OP["gather"](zeros(2, 8), indices, axis=0)
    assert work(graph_of((indices,), few)).traffic == 3 * 8 + 4 * 2 * 8 + 4 * 3 * 8
    tied = OP["matmul"](rows, OP["transpose"](table, perm=(1, 0)))
    whole = 4 * 1000 * 8 + 3 * 8 + 4 * 3 * 1000
    assert work(graph_of((indices,), tied)).traffic == whole


def test_a_value_used_twice_moves_once_and_results_move_each() -> None:
    x = tensor(4, 4)
    square = OP["matmul"](x, x)
    same: Shape = (4, 4)
    assert work(graph_of((x,), square, OP["neg"](square))) == Work(2 * 4**3, 3 * 4 * prod(same))


def test_bytes_go_by_the_element_type() -> None:
    x = Input(0, TensorType(float16, (5,)))
    assert work(graph_of((x,), OP["neg"](x))).traffic == 2 * 2 * 5
