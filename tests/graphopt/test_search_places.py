"""Places carried over to a rewritten graph are those found from scratch."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.graph import Graph, Node
from graphopt.ops import OP
from graphopt.rewrite import find_matches
from graphopt.search.moves import Position, Successor
from graphopt.search.places import Ground, RuleIndex
from tests.graphs_for_search import (
    add,
    assert_same_values,
    attention_inputs,
    graph_of,
    matmul,
    random_products,
    relu,
    rules_named,
    search_rules,
    shared_input,
    tensor,
    weight,
)

INDEX = RuleIndex(search_rules())


def keys(position: Position) -> list[object]:
    return [place.key for place in position.places]


def walk(graph: Graph, seed: int, steps: int) -> list[Successor]:
    """A random walk, each position derived from the one before."""
    rng = np.random.default_rng(seed)
    position = Position(graph, INDEX)
    taken: list[Successor] = []
    for _ in range(steps):
        position.places  # noqa: B018 - what follows is derived from these
        choices = list(position.successors())
        if not choices:
            break
        step = choices[int(rng.integers(len(choices)))]
        taken.append(step)
        position = Position(step.graph, INDEX, position, step)
        assert keys(position) == keys(Position(step.graph, INDEX))
    return taken


@pytest.mark.parametrize("seed", range(12))
def test_places_after_a_rewrite_are_those_found_from_scratch(seed: int) -> None:
    walk(random_products(seed, 9), seed, 6)


def test_places_in_an_attention() -> None:
    walk(attention_inputs(), 1, 8)


@pytest.mark.parametrize("seed", range(6))
def test_rewriting_keeps_what_a_graph_computes(seed: int) -> None:
    graph = random_products(seed, 7)
    for step in walk(graph, seed, 4):
        assert_same_values(graph, step.graph, exact=False)


@pytest.mark.parametrize("seed", range(6))
def test_places_are_those_of_the_rewrite_engine(seed: int) -> None:
    """Every match of the plain matcher is a successor, and the other way round."""
    graph = random_products(seed, 9)
    rules = rules_named("matmul-join-columns", "matmul-factor", "add-associate", "matmul-assoc")
    found = {
        tuple(value.digest for value in (*match.roots, *match.replacements))
        for match in find_matches(graph, rules)
    }
    mine = {
        tuple(v.digest for v in (*s.application.roots, *s.application.replacements))
        for s in Position(graph, RuleIndex(rules)).successors()
    }
    assert mine == found


def test_results_that_depend_on_each_other_are_no_place() -> None:
    x, w = tensor(0, 4, 4), weight(1, 4, 4)
    first = matmul(x, w)
    second = matmul(first, w)
    ground = Ground(graph_of(second))
    assert not ground.independent((first, second))
    assert not ground.independent((second, first))
    index = RuleIndex(rules_named("matmul-join-rows"))
    assert Position(graph_of(second), index).places == ()
    beside = matmul(tensor(1, 4, 4), w)
    assert len(Position(graph_of(first, beside), index).places) == 2


def test_results_joined_through_others_are_no_place() -> None:
    """One product reads the other by way of several operators."""
    x, w = tensor(0, 4, 4), weight(1, 4, 4)
    first = matmul(x, w)
    second = matmul(add(relu(first), x), w)
    assert Position(graph_of(second), RuleIndex(rules_named("matmul-join-rows"))).places == ()


def test_nothing_is_tried_among_weights() -> None:
    x, w, v = tensor(0, 4, 4), weight(1, 4, 4), weight(2, 4, 4)
    graph = graph_of(matmul(x, add(add(matmul(w, v), w), v)))
    for place in Position(graph, INDEX).places:
        assert all(not INDEX.is_weight(root) for root in place.roots)


def test_one_rule_everywhere() -> None:
    x = tensor(0, 2, 8)
    graph = graph_of(*(matmul(x, weight(n, 8, 8)) for n in range(5)))
    index = RuleIndex(rules_named("matmul-join-columns"))
    start = Position(graph, index)
    position, applications = start.apply_everywhere(0, len(start.places))
    assert len(applications) == 4
    products = [node for node in position.graph.nodes if node.op.name == "matmul"]
    assert [node.type.shape for node in products] == [(2, 40)]
    assert_same_values(graph, position.graph)
    stopped, fewer = start.apply_everywhere(0, 2)
    assert len(fewer) == 2
    assert_same_values(graph, stopped.graph)


def test_merged_values_are_matched_again() -> None:
    """Two values that become one make new places far from the rewrite."""
    x, w, v = tensor(0, 4, 4), weight(1, 4, 4), weight(2, 4, 4)
    chain = matmul(matmul(x, w), v)
    other = matmul(x, matmul(w, v))
    graph = graph_of(add(matmul(OP["tanh"](chain), w), matmul(OP["tanh"](other), v)))
    position = Position(graph, INDEX)
    position.places  # noqa: B018 - what follows is derived from these
    for step in position.successors():
        assert keys(Position(step.graph, INDEX, position, step)) == keys(
            Position(step.graph, INDEX)
        )


def test_levels_above() -> None:
    a = relu(tensor(0, 3))
    b, c = OP["tanh"](a), OP["exp"](a)
    d = add(b, c)
    ground = Ground(graph_of(OP["neg"](d)))
    assert set(ground.above([a], 0)) == {a}
    assert set(ground.above([a], 1)) == {a, b, c}
    assert set(ground.above([a], 2)) == {a, b, c, d}
    assert ground.readers(a) == (b, c)


def test_places_are_in_a_fixed_order() -> None:
    first = Position(shared_input(8), INDEX).places
    second = Position(shared_input(8), RuleIndex(search_rules())).places
    assert [place.key for place in first] == [place.key for place in second]
    assert all(isinstance(root, Node) for place in first for root in place.roots)
