"""Paths without what they do not need."""

from __future__ import annotations

from collections import Counter

import pytest

from graphopt.graph import Graph
from graphopt.ops import OP
from graphopt.search.backtracking import Budget, backtrack
from graphopt.search.moves import Application, Position, applied
from graphopt.search.needed import needed_applications
from graphopt.search.places import RuleIndex
from tests.graphs_for_search import (
    add,
    assert_same_values,
    attention_inputs,
    graph_of,
    kernel_cost,
    matmul,
    random_products,
    rules_named,
    search_rules,
    tensor,
    weight,
)


def names(path: tuple[Application, ...]) -> Counter[str]:
    return Counter(application.rule.name for application in path)


def cheaper(without: Graph, instead: Graph) -> bool:
    return kernel_cost()(instead) < kernel_cost()(without)


def beside() -> Graph:
    """Two products of one input, and a sum of three that has nothing to do with them."""
    x, y = tensor(0, 1, 64), tensor(1, 4, 8)
    total = add(add(y, OP["tanh"](y)), OP["exp"](y))
    return graph_of(matmul(x, weight(1, 64, 64)), matmul(x, weight(2, 64, 64)), total)


def test_what_does_not_pay_is_left_out() -> None:
    graph = beside()
    path: list[Application] = []
    current = graph
    for prefix in ("add-associate", "matmul-join-columns"):
        step = next(Position(current, RuleIndex(rules_named(prefix))).successors())
        path.append(step.application)
        current = step.graph
    best, kept = needed_applications(graph, path, cheaper)
    assert names(kept) == Counter({"matmul-join-columns": 1})
    assert kernel_cost()(best) <= kernel_cost()(current)
    assert_same_values(graph, best, exact=False)
    # The applications that are kept lead from the graph to the result.
    again = graph
    for application in kept:
        again = applied(again, application).graph
    assert again.digest == best.digest


def test_what_others_build_on_stays() -> None:
    graph = attention_inputs()
    found = backtrack(
        graph, RuleIndex(search_rules()), kernel_cost(), Budget(seconds=60, graphs=60)
    )
    best, kept = needed_applications(graph, found.applications, cheaper)
    assert kernel_cost()(best) <= found.cost
    assert kept
    assert_same_values(graph, best, exact=False)


@pytest.mark.parametrize("seed", range(6))
def test_the_end_is_never_dearer_and_computes_the_same(seed: int) -> None:
    graph = random_products(seed, 10)
    found = backtrack(
        graph, RuleIndex(search_rules()), kernel_cost(), Budget(seconds=60, graphs=60)
    )
    best, kept = needed_applications(graph, found.applications, cheaper)
    assert kernel_cost()(best) <= found.cost
    assert len(kept) <= len(found.applications)
    again = graph
    for application in kept:
        again = applied(again, application).graph
    assert again.digest == best.digest
    assert_same_values(graph, best, exact=False)


def test_an_empty_path() -> None:
    graph = beside()
    assert needed_applications(graph, (), cheaper) == (graph, ())


def test_what_pays_nowhere_is_left_out() -> None:
    graph = attention_inputs()
    found = backtrack(
        graph, RuleIndex(search_rules()), kernel_cost(), Budget(seconds=60, graphs=60)
    )
    assert needed_applications(graph, found.applications, lambda a, b: False) == (graph, ())
