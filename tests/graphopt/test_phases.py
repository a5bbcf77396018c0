"""Transposed convolutions taken apart: the same values, and nothing multiplied that is zero."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphopt.graph import Graph, Input, Node, Value
from graphopt.ops import OP, expression_of
from graphopt.optimize import prepare
from graphopt.partition import partition
from graphopt.phases import in_phases
from graphopt.reference import evaluate_graph
from tensorgen.contraction import contraction_of
from tensorgen.expr import Reduce, walk
from tensorgen.target import Target
from tensorgen.types import ShapeError, TensorType, float32, int64

WIDE, NARROW = Target.named("x86-64-v4"), Target.named("c99")


@st.composite
def transposed(draw: st.DrawFn) -> Node:
    """A transposed convolution of integers: any rank, stride, dilation, groups and pads."""
    rank = draw(st.integers(1, 2 if draw(st.booleans()) else 3))
    groups = draw(st.integers(1, 2))
    sizes = [draw(st.integers(1, 5 if rank < 3 else 2)) for _ in range(rank)]
    strides = tuple(draw(st.integers(1, 4 if rank < 3 else 2)) for _ in range(rank))
    kernel = [
        draw(st.sampled_from((stride, 2 * stride, draw(st.integers(1, 5))))) for stride in strides
    ]
    dilations = tuple(draw(st.sampled_from((1, 1, 1, 2, 3))) for _ in range(rank))
    pads = tuple(draw(st.integers(-2, 3)) for _ in range(2 * rank))
    x = TensorType(int64, (draw(st.integers(1, 2)), 2 * groups, *sizes))
    w = TensorType(int64, (draw(st.integers(1, 2)) * groups, 2, *kernel))
    try:
        return OP["conv_transpose"](
            Input(0, x), Input(1, w), strides=strides, pads=pads, dilations=dilations, groups=groups
        )
    except ShapeError:
        assume(False)
        raise AssertionError from None


def graph_of(node: Node) -> Graph:
    inputs = tuple(value for value in node.inputs if isinstance(value, Input))
    return Graph(inputs, (node,), ("x", "w"), ("y",))


@settings(deadline=None, max_examples=300)
@given(transposed(), st.integers(0, 99))
def test_values_are_kept(node: Node, seed: int) -> None:
    graph = graph_of(node)
    random = np.random.default_rng(seed)
    arrays = {
        name: random.integers(-9, 10, value.type.shape)
        for name, value in zip(graph.input_names, graph.inputs, strict=True)
    }
    (expected,) = evaluate_graph(graph, arrays)
    apart = [graph.with_outputs((part,)) for part in (in_phases(node), taps_first(node))]
    for lowered in (*apart, prepare(graph)):
        assert all(value.op.name != "conv_transpose" for value in lowered.nodes)
        (found,) = evaluate_graph(lowered, arrays)
        np.testing.assert_array_equal(found, expected)


def taps_first(node: Node) -> Value:
    """The same by all products of elements with taps, where that can be, whether it pays or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graphopt.phases._taps_first", lambda node, axes, target: True)
        return in_phases(node, WIDE)


def products(graph: Graph) -> int:
    """Multiplications of all sums of products in a graph."""
    total = 0
    for node in graph.nodes:
        if node.op.name in ("conv", "einsum"):
            expression = expression_of(node)
            [body] = [term for term in walk(expression.body) if isinstance(term, Reduce)]
            total += expression.type.size * prod(axis.extent for axis in body.axes)
    return total


def floats(x: tuple[int, ...], w: tuple[int, ...], stride: int, pads: tuple[int, ...]) -> Node:
    rank = len(x) - 2
    return OP["conv_transpose"](
        Input(0, TensorType(float32, x)),
        Input(1, TensorType(float32, w)),
        strides=(stride,) * rank,
        pads=pads,
        dilations=(1,) * rank,
        groups=1,
    )


@pytest.mark.parametrize(
    ("x", "w", "stride", "pads", "each"),
    [
        ((1, 3, 5, 5), (2, 3, 4, 4), 2, (1, 1, 1, 1), 3 * 4),
        ((1, 3, 5, 5), (2, 3, 2, 2), 2, (0, 0, 0, 0), 3),
        ((1, 3, 5), (2, 3, 8), 4, (2, 2), 3 * 2),
        ((1, 3, 5), (2, 3, 6), 3, (0, 3), 3 * 2),
    ],
)
def test_equal_phases_are_one_contraction(
    x: tuple[int, ...], w: tuple[int, ...], stride: int, pads: tuple[int, ...], each: int
) -> None:
    node = floats(x, w, stride, pads)
    prepared = prepare(graph_of(node))
    assert [value.op.name for value in prepared.nodes].count("einsum") == 1
    assert products(prepared) == node.type.size * each
    contractions = [step for step in partition(prepared) if contraction_of(step.task)]
    assert len(contractions) == 1
    assert contractions[0].task.output_types[0].size == node.type.size


@pytest.mark.parametrize(
    ("x", "w", "target", "first"),
    [
        ((1, 64, 32, 32), (3, 64, 4, 4), WIDE, True),
        ((1, 64, 32, 32), (3, 64, 4, 4), NARROW, False),  # fills the registers of plain C
        ((1, 64, 32, 32), (8, 64, 4, 4), WIDE, False),  # enough accumulators
        ((1, 64, 80, 80), (3, 64, 4, 4), WIDE, False),  # likewise: a long row
        ((1, 4, 32, 32), (1, 4, 4, 4), WIDE, False),  # too little work for another pass
        ((1, 64, 32, 32), (1, 64, 2, 2), WIDE, False),  # no products meet
    ],
)
def test_few_output_channels_are_multiplied_by_all_taps_first(
    x: tuple[int, ...], w: tuple[int, ...], target: Target, first: bool
) -> None:
    graph = graph_of(floats(x, w, 2, ((w[2] - 2) // 2,) * 4))
    prepared = prepare(graph, target)
    (contraction,) = (s for s in partition(prepared) if contraction_of(s.task) is not None)
    made = prod(x[2:]) * prod(w[2:]) * w[0]
    assert contraction.task.output_types[0].size == (made if first else made // prod(w[2:]) * 4)


def test_other_phases_have_their_own_taps() -> None:
    """Of 3 taps 2 apart, one phase has 2 and the other 1."""
    node = floats((1, 3, 5, 5), (2, 3, 3, 3), 2, (1, 1, 0, 0))
    prepared = prepare(graph_of(node))
    assert [value.op.name for value in prepared.nodes].count("conv") == 4
    assert products(prepared) == 2 * 3 * 25 * (1 + 2 + 2 + 4)
