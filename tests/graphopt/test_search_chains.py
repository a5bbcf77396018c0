"""Rules that only lead to others: applied together, never alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from graphopt.graph import Graph
from graphopt.ops import OP
from graphopt.search import SearchSettings, search, search_rules
from graphopt.search.backtracking import Budget, Found, backtrack
from graphopt.search.places import RuleIndex
from graphopt.search.shipped import CHAINS
from tests.graphs_for_search import (
    MODEL,
    add,
    assert_same_values,
    conv,
    graph_of,
    kernel_cost,
    relu,
    rules_named,
    tensor,
    weight,
)


def image(size: int, channels: int = 64) -> Graph:
    x = tensor(0, 1, channels, size, size)
    kernel = weight(1, channels, channels, 3, 3)
    return graph_of(relu(add(conv(x, kernel, 1), weight(2, channels, 1, 1))))


def names(found: Found) -> Counter[str]:
    return Counter(application.rule.name for application in found.applications)


@pytest.mark.parametrize(("size", "outputs"), [(16, 4), (14, 2)])
def test_minimal_filtering_is_found_where_it_fits(size: int, outputs: int) -> None:
    graph = image(size)
    # Kernels that filter by themselves leave the rules nothing to gain.
    costs = replace(MODEL, filtering=False)
    settings = SearchSettings(seconds=60, graphs=100)
    result = search(graph, search_rules(winograd=True), costs, settings)
    assert {item.rule for item in result.applied} >= {
        f"conv-phases-{outputs}-rows",
        f"winograd-{outputs}",
    }
    assert result.cost_after < 0.9 * result.cost_before
    assert result.refuted == ()
    assert_same_values(graph, result.graph, exact=False)


def test_it_is_not_used_unless_asked_for() -> None:
    graph = image(16)
    result = search(graph, search_rules(), MODEL, SearchSettings(seconds=60))
    assert result.graph is graph
    assert not {*CHAINS, *CHAINS.values()} & {rule.name for rule in search_rules()}


def test_the_first_rule_of_a_chain_is_never_alone() -> None:
    rules = rules_named("concat-unary[tanh]", "conv-join-concat")
    x = tensor(0, 1, 64, 12, 12)
    parts = [OP["tanh"](conv(x, weight(n, 6, 64, 3, 3))) for n in range(2)]
    graph = graph_of(OP["concat"](*parts, axis=1))
    budget = Budget(alpha=1.0, seconds=60)
    alone = backtrack(graph, RuleIndex(rules), kernel_cost(), budget)
    assert alone.graph is graph
    chains = {"concat-unary[tanh]": "conv-join-concat"}
    chained = backtrack(graph, RuleIndex(rules), kernel_cost(), budget, chains=chains)
    assert names(chained) == Counter(["concat-unary[tanh]", "conv-join-concat"])
    assert chained.cost < alone.cost
    assert_same_values(graph, chained.graph, exact=False)


def test_chains_of_rules_that_are_not_there_do_nothing() -> None:
    graph = image(8, 4)
    chains = {"a": "b", "add-associate": "b"}
    found = backtrack(
        graph, RuleIndex(rules_named("add-associate")), kernel_cost(), Budget(), chains=chains
    )
    assert found.graph is graph
