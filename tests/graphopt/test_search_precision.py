"""Graphs in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.graph import Constant
from graphopt.ops import OP
from graphopt.search.precision import NoDoubles, in_float64
from tests.graphs_for_search import assert_same_values, graph_of, matmul, tensor, values_of, weight
from tests.random_graphs import random_graph


def test_every_float_is_wide() -> None:
    x = tensor(0, 2, 4)
    narrow = OP["cast"](matmul(x, weight(0, 4, 3)), to="float16")
    counted = OP["cast"](narrow, to="int32")
    graph = in_float64(graph_of(OP["tanh"](narrow), counted))
    assert [value.type.dtype.name for value in graph.inputs] == ["float64"]
    assert [value.type.dtype.name for value in graph.outputs] == ["float64", "int32"]
    assert not any(value.type.dtype.name in ("float16", "float32") for value in graph.values)


@pytest.mark.parametrize("seed", range(6))
def test_values_agree_with_the_narrow_graph(seed: int) -> None:
    graph = random_graph(seed, 12)
    wide = in_float64(graph)
    for a, b in zip(values_of(graph), values_of(wide), strict=True):
        np.testing.assert_allclose(b, a.astype(b.dtype), rtol=1e-3, atol=1e-3)


def test_integers_stay() -> None:
    graph = graph_of(OP["add"](Constant(np.arange(3)), Constant(np.arange(3))))
    assert_same_values(graph, in_float64(graph))


def test_bits_cannot_be_widened() -> None:
    with pytest.raises(NoDoubles, match="an operator that reads bits"):
        in_float64(graph_of(OP["bitcast"](tensor(0, 3), to="int32")))
