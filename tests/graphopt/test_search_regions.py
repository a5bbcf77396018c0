"""Cutting graphs into regions and putting results in their place."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence

import pytest

from graphopt.graph import Constant, Graph, Value
from graphopt.ops import OP
from graphopt.search.kernels import Kernels
from graphopt.search.promised import Promise
from graphopt.search.regions import Region, became, regions
from tests.graphs_for_search import (
    add,
    assert_same_values,
    attention_inputs,
    conv,
    graph_of,
    matmul,
    random_products,
    relu,
    residual_blocks,
    tensor,
    weight,
)
from tests.random_graphs import random_graph

KERNELS = Kernels()


def cut(graph: Graph, most_nodes: int = 256) -> tuple[Region, ...]:
    return regions(graph, KERNELS.stored(graph), most_nodes)


def reassembled(graph: Graph, parts: Sequence[Region]) -> Graph:
    """The graph with each region's own graph put in its place."""
    current: dict[Value, Value] = {}
    for part in parts:
        current.update(part.transplanted(part.graph, current))
    return graph.with_outputs(became(output, current) for output in graph.outputs)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("most_nodes", [6, 256])
def test_regions_put_together_are_the_graph(seed: int, most_nodes: int) -> None:
    graph = random_graph(seed, 14)
    parts = cut(graph, most_nodes)
    assert reassembled(graph, parts).digest == graph.digest


@pytest.mark.parametrize("seed", range(10))
def test_every_node_is_in_one_region(seed: int) -> None:
    graph = random_products(seed, 12)
    parts = cut(graph, 5)
    assert sum(len(part.graph.nodes) for part in parts) == len(graph.nodes)
    stored = KERNELS.stored(graph)
    for part in parts:
        assert all(stored(output) for output in part.outputs)


def test_equal_blocks_are_equal_regions() -> None:
    parts = cut(residual_blocks(7))
    digests = [part.graph.digest for part in parts]
    assert len(parts) >= 7
    assert len(set(digests)) <= 3
    assert max(map(digests.count, digests)) >= 5


def test_blocks_of_other_sizes_are_other_regions() -> None:
    first, second = cut(residual_blocks(1)), cut(residual_blocks(1, channels=6))
    assert first[0].graph.digest != second[0].graph.digest


def test_literals_are_part_of_the_structure() -> None:
    """max(x, 0) and max(x, 1) are not alike; two weights of one type are."""
    x = tensor(0, 4, 8)

    def parts(bound: float, seed: int) -> str:
        clipped = OP["max"](matmul(x, weight(seed, 8, 8)), Constant(weight(0, 1).array * 0 + bound))
        [part] = cut(graph_of(clipped))
        return part.graph.digest

    assert parts(0, 1) == parts(0, 2)
    assert parts(0, 1) != parts(1, 1)


def test_equal_weights_stay_equal_and_different_ones_different() -> None:
    x, w = tensor(0, 4, 4), weight(1, 4, 4)
    [shared] = cut(graph_of(matmul(matmul(x, w), w)))
    [apart] = cut(graph_of(matmul(matmul(x, w), weight(2, 4, 4))))
    assert shared.graph.digest != apart.graph.digest
    assert sum(isinstance(leaf, Promise) for leaf in shared.leaves) == 1
    assert sum(isinstance(leaf, Promise) for leaf in apart.leaves) == 2


def test_a_result_is_transplanted_onto_other_weights() -> None:
    """A region rewritten once, put in place of an equal one with other weights and inputs."""
    graph = residual_blocks(4)
    parts = cut(graph)
    digests = [part.graph.digest for part in parts]
    twice = next(n for n, digest in enumerate(digests) if digest in digests[:n])
    first = parts[digests.index(digests[twice])]
    doubled = [add(output, output) for output in first.graph.outputs]
    halved = first.graph.with_outputs(
        OP["mul"](value, Constant(weight(0, 1).array[:1].reshape(()) * 0 + 0.5))
        for value in doubled
    )
    current: dict[Value, Value] = {}
    for number, part in enumerate(parts):
        current.update(part.transplanted(halved if number == twice else part.graph, current))
    changed = graph.with_outputs(current[output] for output in graph.outputs)
    assert changed.digest != graph.digest
    assert_same_values(graph, changed)


def test_no_cut_inside_a_kernel() -> None:
    """Sums and functions that belong to a convolution stay with it."""
    value: Value = tensor(0, 1, 4, 8, 8)
    for number in range(8):
        shifted = add(conv(value, weight(number, 4, 4, 3, 3), 1), weight(50 + number, 4, 1, 1))
        value = relu(shifted)
    for part in cut(graph_of(value)):
        assert part.graph.outputs[0].op.name == "max"  # type: ignore[union-attr]


def test_large_regions_are_divided_where_few_values_cross() -> None:
    x, y = tensor(0, 4, 8), tensor(1, 4, 8)
    a: Value = x
    b: Value = y
    for number in range(12):
        a, b = matmul(a, weight(number, 8, 8)), matmul(b, weight(30 + number, 8, 8))
        a, b = add(a, b), relu(b)
    graph = graph_of(add(a, b))
    whole, divided = cut(graph), cut(graph, 12)
    assert len(divided) > len(whole)
    assert max(len(part.graph.nodes) for part in divided) <= 24
    assert reassembled(graph, divided).digest == graph.digest


def test_a_graph_without_operators_has_no_regions() -> None:
    x = tensor(0, 3)
    assert cut(graph_of(x)) == ()
    assert cut(graph_of(add(weight(1, 3), weight(2, 3)))) == ()


def test_regions_do_not_depend_on_names() -> None:
    graph = attention_inputs()
    renamed = Graph(graph.inputs, graph.outputs, ("other",), ("names",))
    assert [p.graph.digest for p in cut(graph)] == [p.graph.digest for p in cut(renamed)]


def sequence(steps: int) -> Graph:
    """`h = relu(h * w + x[t])` for each row of `x * w`."""
    projected = matmul(tensor(0, steps, 64), weight(1, 64, 64))
    h = relu(projected_row(projected, 0))
    for step in range(1, steps):
        h = relu(add(matmul(h, weight(2, 64, 64)), projected_row(projected, step)))
    return graph_of(h)


def projected_row(x: Value, row: int) -> Value:
    return OP["slice"](x, starts=(row, 0), steps=(1, 1), sizes=(1, 64))


def test_steps_of_a_sequence_are_equal_regions() -> None:
    graph = sequence(40)
    parts = cut(graph, 20)
    assert len(parts) >= 6
    assert len({part.graph.digest for part in parts}) <= len(parts) / 2
    assert reassembled(graph, parts).digest == graph.digest


def test_rows_follow_what_they_are_rows_of() -> None:
    """A result put in the place of the projection is what the steps then read."""
    graph = sequence(12)
    parts = cut(graph, 8)
    projection = next(
        part for part in parts if any(node.type.shape == (12, 64) for node in part.graph.nodes)
    )
    current: dict[Value, Value] = {}
    for part in parts:
        result = part.graph
        if part is projection:
            result = result.with_outputs(
                OP["neg"](OP["neg"](value)) if value.type.shape == (12, 64) else value
                for value in result.outputs
            )
        current.update(part.transplanted(result, current))
    changed = graph.with_outputs(became(output, current) for output in graph.outputs)
    assert sum(node.op.name == "neg" for node in changed.nodes) == 2
    assert sum(node.type.shape == (12, 64) for node in changed.nodes) == 3


def test_long_graphs_are_divided_without_recursion() -> None:
    """Each state leaves the graph, so that the best cut is always the first."""
    states: list[Value] = [tensor(0, 8)]
    for _ in range(1300):
        states.append(OP["tanh"](states[-1]))
    graph = graph_of(*states[1:])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 150)
    try:
        parts = cut(graph, 12)
    finally:
        sys.setrecursionlimit(limit)
    assert max(len(part.graph.nodes) for part in parts) <= 12
    assert sum(len(part.graph.nodes) for part in parts) == 1300


def test_rows_of_a_value_of_the_same_region_are_in_it() -> None:
    """Else it would be computed twice: once as it was, once as it became."""
    double = add(tensor(0, 4, 64), tensor(0, 4, 64))
    summed = add(matmul(projected_row(double, 1), weight(3, 64, 64)), projected_row(double, 2))
    graph = graph_of(relu(summed))
    (part,) = cut(graph)
    assert len(part.graph.nodes) == len(graph.nodes)
