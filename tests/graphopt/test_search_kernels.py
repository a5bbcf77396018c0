"""Kernels found with a memory of neighbourhoods are those that the compiler emits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from graphopt.graph import Constant, Graph, Input, Param, Value
from graphopt.matching import equals_literal
from graphopt.ops import OP
from graphopt.optimize import prepare
from graphopt.partition import partition, stored_views
from graphopt.pattern import Literal
from graphopt.search.kernels import Kernels
from graphopt.search.moves import Position, applied
from graphopt.search.places import RuleIndex
from graphopt.search.promised import Promise, WeightOnly, is_promisable
from graphopt.storage import lay_out
from tensorgen.task import Task
from tensorgen.types import TensorType, float32
from tests.graphs_for_search import (
    add,
    attention_inputs,
    conv,
    graph_of,
    matmul,
    relu,
    residual_blocks,
    search_rules,
    tensor,
    weight,
)
from tests.random_graphs import random_graph

SHARED = Kernels()
"""One memory for all tests: what one graph teaches must be right for the others."""


def emitted(graph: Graph) -> Counter[Task]:
    """The tasks of the compiler, without copies into outputs."""
    prepared = prepare(graph)
    inside = Graph(prepared.inputs, (), prepared.input_names, ())
    layout = lay_out(inside, partition(prepared), stored_views(prepared))
    return Counter(step.task for step in layout.steps)


@pytest.mark.parametrize("seed", range(30))
def test_kernels_are_those_of_the_compiler(seed: int) -> None:
    graph = prepare(random_graph(seed, 12))
    assert Counter(SHARED.tasks(graph)) == emitted(graph)


@pytest.mark.parametrize("graph", [residual_blocks(3), attention_inputs()], ids=str)
def test_kernels_of_structured_graphs(graph: Graph) -> None:
    assert Counter(SHARED.tasks(graph)) == emitted(graph)


@pytest.mark.parametrize(("taps", "parts"), [(4, 1), (3, 5)])
def test_transposed_convolutions_are_taken_apart(taps: int, parts: int) -> None:
    """Into one contraction, which makes its padding; or four, and a pass that interleaves them."""
    params: dict[str, Param] = {
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "groups": 1,
    }
    y = OP["conv_transpose"](tensor(0, 1, 4, 5, 6), weight(0, 3, 4, taps, taps), **params)
    graph = graph_of(relu(y))
    kernels = SHARED.tasks(graph)
    assert Counter(kernels) == emitted(graph)
    assert len(kernels) == parts


def test_contractions_that_differ_in_their_padding_are_different_tasks() -> None:
    """What is absorbed behind layout is part of the neighbourhood by which tasks are remembered."""
    kernels = Kernels()
    for front in (1, 2):
        pads = (front, 1, 3 - front, 1)
        plain: dict[str, Param] = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}
        x, w = tensor(0, 1, 8, 9, 9), weight(0, 16, 8, 3, 3)
        graph = graph_of(OP["conv"](x, w, pads=pads, **plain))
        (task,) = kernels.tasks(graph)
        assert len(task.stages) == 2
        assert Counter([task]) == emitted(graph)


def test_after_a_rewrite_only_its_neighbourhood_is_decided_anew() -> None:
    graph = residual_blocks(6)
    kernels = Kernels()
    kernels.tasks(graph)
    known = kernels.neighbourhoods
    index = RuleIndex([rule for rule in search_rules() if rule.name == "conv-widen"])
    for step in Position(graph, index).successors():
        before = kernels.neighbourhoods
        assert Counter(kernels.tasks(step.graph)) == Counter(Kernels().tasks(step.graph))
        assert kernels.neighbourhoods - before <= 6
    # Equal blocks are decided once.
    assert known < len(graph.nodes) / 2


def test_what_weights_alone_decide_is_no_kernel() -> None:
    x = tensor(0, 8, 16)
    joined = OP["concat"](weight(1, 16, 16), weight(2, 16, 16), axis=1)
    tasks = SHARED.tasks(graph_of(matmul(x, joined)))
    assert len(tasks) == 1
    assert tasks[0].constant == (False, True)


def test_stored_values_are_those_between_kernels() -> None:
    x = tensor(0, 1, 4, 8, 8)
    y = conv(x, weight(1, 4, 4, 3, 3), 1)
    shifted = add(y, weight(2, 4, 1, 1))
    result = relu(shifted)
    stored = SHARED.stored(graph_of(relu(conv(result, weight(3, 4, 4, 1, 1)))))
    assert stored(result)
    assert stored(x)
    assert not stored(y)
    assert not stored(shifted)


def test_the_order_of_graphs_changes_nothing() -> None:
    graphs = [random_graph(seed, 10) for seed in range(8)]
    forward, backward = Kernels(), Kernels()
    first = [forward.tasks(graph) for graph in graphs]
    second = [backward.tasks(graph) for graph in reversed(graphs)]
    assert first == second[::-1]


# Promises


def test_a_promise_is_a_constant_that_no_literal_equals() -> None:
    for shape in ((), (3,), (2, 5), (100, 100)):
        promise = Promise(TensorType(float32, shape), b"which")
        assert promise.type == TensorType(float32, shape)
        assert isinstance(promise, Constant)
        assert promise == Promise(TensorType(float32, shape), b"which")
        assert promise != Promise(TensorType(float32, shape), b"other")
        if shape:
            for value in (0, 1, 2, 0.5):
                assert not equals_literal(promise, Literal(value))


def test_a_large_promise_takes_no_memory() -> None:
    promise = Promise(TensorType(float32, (1 << 20, 1 << 12)), b"large")
    assert promise.array.base is not None
    assert promise.array.strides == (0, 0)


def test_literals_and_indices_are_not_promised() -> None:
    assert is_promisable(weight(1, 3, 3))
    assert not is_promisable(Constant(np.asarray(2, np.float32)))
    assert not is_promisable(Constant(np.full((4, 4), 2, np.float32)))
    assert not is_promisable(Constant(np.arange(5)))


def test_weight_only_values() -> None:
    x, w = tensor(0, 3, 3), weight(1, 3, 3)
    is_weight = WeightOnly()
    deep: Value = w
    for _ in range(3000):
        deep = add(deep, w)
    assert is_weight(w)
    assert is_weight(deep)
    assert not is_weight(x)
    assert not is_weight(matmul(x, deep))
    assert isinstance(x, Input)


def test_applying_keeps_equal_values_one() -> None:
    x = tensor(0, 4, 4)
    y = relu(x)
    graph = graph_of(add(matmul(y, weight(1, 4, 4)), matmul(y, weight(2, 4, 4))))
    index = RuleIndex([rule for rule in search_rules() if rule.name == "matmul-factor-left[add]"])
    step = next(Position(graph, index).successors())
    assert applied(graph, step.application).graph == step.graph
    assert [node.op.name for node in step.graph.nodes] == ["max", "add", "matmul"]
