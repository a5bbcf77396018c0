"""Copies of weights: counted, and avoided by the search."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from graphopt.graph import Value
from graphopt.onnx_import import import_model
from graphopt.ops import OP
from graphopt.optimize import optimize
from graphopt.search import AnalyticCost, KernelCost, search
from graphopt.search.cost import machine_for
from graphopt.search.promised import Promise, WeightOnly
from graphopt.search.weight_copies import WeightBytes, WeightCopies
from tasor.pipeline import COMPILE_SEARCH
from tasor.suites.networks import network
from tensorgen.target import Target
from tests.graphs_for_search import (
    MODEL,
    add,
    graph_of,
    matmul,
    search_rules,
    tensor,
    weight,
)

SQUARE = 64 * 64 * 4


def bytes_of(*outputs: Value) -> WeightBytes:
    return WeightCopies(WeightOnly())(graph_of(*outputs))


def joined(*weights: Value) -> Value:
    return OP["concat"](*weights, axis=1)


def test_each_weight_counts_once() -> None:
    x, y = tensor(0, 1, 64), tensor(1, 1, 64)
    first, second = weight(1, 64, 64), weight(2, 64, 64)
    assert bytes_of(matmul(x, first), matmul(y, first)) == WeightBytes(SQUARE, SQUARE)
    assert bytes_of(matmul(x, first), matmul(y, second)) == WeightBytes(2 * SQUARE, 2 * SQUARE)
    assert bytes_of(matmul(x, joined(first, second))) == WeightBytes(2 * SQUARE, 2 * SQUARE)
    assert bytes_of(add(x, y)) == WeightBytes(0, 0)


def test_weights_that_are_joined_and_read_alone_are_there_twice() -> None:
    x, y = tensor(0, 1, 64), tensor(1, 1, 64)
    first, second = weight(1, 64, 64), weight(2, 64, 64)
    found = bytes_of(matmul(x, joined(first, second)), matmul(y, first))
    assert found == WeightBytes(2 * SQUARE, 3 * SQUARE)
    assert found.copies == SQUARE
    turned = bytes_of(matmul(x, joined(first, second)), matmul(y, joined(second, first)))
    assert turned.copies == 2 * SQUARE


def test_a_part_of_a_weight_is_no_copy() -> None:
    x = tensor(0, 1, 64)
    promised = Promise(weight(1, 64, 64).type, b"which")
    assert bytes_of(matmul(x, promised)) == WeightBytes(SQUARE, SQUARE)
    assert WeightBytes(SQUARE, SQUARE // 2).copies == 0


def test_copies_cost_as_much_as_the_caches_say() -> None:
    """Beyond a cache more, and nothing where there are none."""
    megabyte = 1 << 20
    assert MODEL.copying(WeightBytes(megabyte, megabyte)) == 0.0
    near = MODEL.copying(WeightBytes(megabyte, 5 * megabyte))
    far = MODEL.copying(WeightBytes(64 * megabyte, 68 * megabyte))
    assert 0.0 < near < far


@dataclass(frozen=True, slots=True)
class Careless(AnalyticCost):
    """To which copies cost nothing."""

    def copying(self, weights: WeightBytes) -> float:
        return 0.0


@pytest.mark.parametrize("careless", [False, True])
def test_steps_of_a_recurrence_join_the_same_weights(careless: bool) -> None:
    """A product joined with one more gains little by itself: if some steps did without, weights
    would be there twice."""
    graph = optimize(import_model(network("nasrnn"))).graph
    target = Target.named("x86-64-v4")
    machine = machine_for(graph, target, 1)
    model = (Careless if careless else AnalyticCost)(target, 1, machine)
    result = search(graph, search_rules(), model, COMPILE_SEARCH)
    assert result.applied
    before, after = (WeightCopies(WeightOnly())(each).read for each in (graph, result.graph))
    assert (after > before) is careless, "joined weights are folded: no copy is told from a weight"
    if not careless:
        assert result.cost_after == KernelCost(model)(result.graph)
