"""The search as a whole: regions, results in place, and what it reports."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from graphopt.graph import Constant, Graph
from graphopt.ops import OP
from graphopt.optimize import optimize
from graphopt.rules import read_rules
from graphopt.search import (
    KernelCost,
    KernelRecords,
    RecordedCost,
    SearchResult,
    SearchSettings,
    StopReason,
    measured_search,
    search,
)
from graphopt.search.spot_check import Checked
from graphopt.search.weight_copies import WeightBytes
from tensorgen.target import host_target
from tensorgen.task import Task
from tests.graphs_for_search import (
    MODEL,
    TARGET,
    add,
    assert_same_values,
    attention_inputs,
    conv,
    distributed,
    graph_of,
    matmul,
    random_products,
    relu,
    residual_blocks,
    search_rules,
    shared_input,
    tensor,
    weight,
)
from tests.random_graphs import random_graph

SETTINGS = SearchSettings(seconds=60, graphs=40, least_gain=0.0)


def searched(graph: Graph, settings: SearchSettings = SETTINGS) -> SearchResult:
    return search(graph, search_rules(), MODEL, settings)


def layers(count: int) -> Graph:
    """Layers of two products of one input, alike up to weights; only together do their columns fill
    vectors."""
    x = tensor(0, 4, 64)
    value = relu(x)
    for number in range(count):
        left, right = (matmul(value, weight(2 * number + n, 64, 12)) for n in (0, 1))
        value = relu(add(OP["tanh"](left), OP["sigmoid"](right)))
        value = relu(matmul(value, weight(90 + number, 12, 64)))
    return graph_of(value)


@pytest.mark.parametrize(
    "graph", [shared_input(), attention_inputs(), distributed()], ids=["shared", "qkv", "factor"]
)
def test_known_improvements_are_found(graph: Graph) -> None:
    result = searched(graph)
    assert result.cost_after < result.cost_before == KernelCost(MODEL)(graph)
    assert result.cost_after == KernelCost(MODEL)(result.graph)
    assert result.applied
    assert result.checked == len(result.applied)
    assert (result.unchecked, result.refuted) == (0, ())
    assert_same_values(graph, result.graph, exact=False)


@pytest.mark.parametrize("seed", range(8))
def test_the_result_is_never_dearer_and_computes_the_same(seed: int) -> None:
    graph = optimize(random_graph(seed, 14)).graph
    result = searched(graph)
    assert result.cost_after <= result.cost_before
    assert_same_values(graph, result.graph, exact=False)


def test_equal_regions_are_searched_once() -> None:
    graph = layers(6)
    result = searched(graph)
    assert len(result.regions) >= 6
    assert result.regions_searched <= 3
    reused = [r for number, r in enumerate(result.regions) if r.same_as != number]
    assert len(reused) >= 4
    assert all(region.explored == 0 for region in reused)
    # What improves one layer improves all, each at its own place.
    assert Counter(item.rule for item in result.applied)["matmul-join-columns"] == 6
    assert len({item.region for item in result.applied}) == 6
    assert_same_values(graph, result.graph, exact=False)


def test_the_same_search_gives_the_same_result() -> None:
    graph = random_products(6, 12)
    first, second = searched(graph), searched(graph)
    assert first.graph.digest == second.graph.digest
    assert first.applied == second.applied
    assert (first.explored, first.stop, first.regions) == (
        second.explored, second.stop, second.regions,
    )  # fmt: skip


def test_a_graph_that_cannot_improve_is_returned_itself() -> None:
    graph = residual_blocks(2)
    result = searched(graph)
    assert result.graph is graph
    assert result.applied == ()
    assert result.cost_after == result.cost_before


def test_a_graph_without_operators() -> None:
    graph = graph_of(tensor(0, 3))
    result = searched(graph)
    assert result.graph is graph
    assert (result.regions, result.explored) == ((), 0)
    assert result.stop is StopReason.EXHAUSTED


def test_a_budget_of_graphs_holds_for_each_region() -> None:
    result = searched(random_products(13, 12), SearchSettings(alpha=2.0, seconds=60, graphs=5))
    assert result.stop is StopReason.GRAPHS
    assert all(region.explored <= 5 for region in result.regions)


def test_a_budget_of_graphs_holds_for_all_regions_together() -> None:
    graph = layers(6)
    settings = SearchSettings(seconds=60, graphs=40, total_graphs=7)
    result = searched(graph, settings)
    assert result.stop is StopReason.GRAPHS
    # Shares are rounded up.
    assert 7 <= result.explored <= 7 + result.regions_searched
    assert searched(graph, SearchSettings(seconds=60, total_graphs=0)).explored == 0


def test_what_gains_little_is_left_alone() -> None:
    graph = distributed()
    for least, changes in ((0.1, True), (0.99, False)):
        result = searched(graph, SearchSettings(seconds=60, graphs=40, least_gain=least))
        assert (result.graph is not graph) == changes


def test_no_seconds_no_change() -> None:
    graph = shared_input()
    result = searched(graph, SearchSettings(seconds=0.0))
    assert result.graph is graph
    assert result.stop is StopReason.SECONDS
    assert result.explored == 0


def test_a_false_rule_is_refuted_and_not_used() -> None:
    false = read_rules("forget: add(matmul(x, w), y) => matmul(x, w)")
    x = tensor(0, 8, 64)
    graph = graph_of(add(matmul(x, weight(1, 64, 64)), tensor(1, 8, 64)))
    result = search(graph, false, MODEL, SETTINGS)
    assert result.refuted == ("forget",)
    assert result.graph is graph
    beside = search(distributed(), (*false, *search_rules()), MODEL, SETTINGS)
    assert beside.refuted == ("forget",)
    assert beside.cost_after < beside.cost_before
    assert_same_values(distributed(), beside.graph)


def test_checks_can_be_replaced_or_left_out() -> None:
    seen: list[str] = []

    def skipping(application: object) -> Checked:
        seen.append(str(application))
        return Checked.SKIPPED

    result = searched(shared_input(), SearchSettings(seconds=60, graphs=40, check=skipping))
    assert seen
    assert (result.checked, result.unchecked) == (0, len(result.applied))
    unchecked = searched(shared_input(), SearchSettings(seconds=60, graphs=40, check=None))
    assert (unchecked.checked, unchecked.unchecked) == (0, 0)
    assert unchecked.graph.digest == result.graph.digest


def test_places_are_reported() -> None:
    result = searched(shared_input())
    [item] = result.applied
    assert str(item) == "matmul-join-columns at matmul float32[1,64] in region 0"
    assert len(item.value) == 32


def test_joined_weights_are_computed() -> None:
    """A 1 x 1 kernel that meets a 3 x 3 one, at a price that makes this pay."""
    x = tensor(0, 1, 64, 8, 8)
    graph = graph_of(
        *(
            add(conv(x, weight(n, 96, 64, k, k), k // 2), weight(n, 96, 1, 1))
            for n, k in ((1, 1), (2, 3))
        )
    )

    class PerKernel:
        def cost(self, task: Task) -> float:
            return 1.0

        def copying(self, weights: WeightBytes) -> float:
            return 0.0

    result = search(
        graph, search_rules(), PerKernel(), SearchSettings(alpha=2.0, seconds=60, graphs=150)
    )
    assert "conv-widen" in {item.rule for item in result.applied}
    assert result.cost_after < result.cost_before
    assert all(any(not isinstance(v, Constant) for v in n.inputs) for n in result.graph.nodes)
    assert_same_values(graph, result.graph)


def test_the_optimizer_folds_what_the_search_joined() -> None:
    result = searched(attention_inputs())
    folded = optimize(result.graph).graph
    assert KernelCost(MODEL)(folded) <= result.cost_after * (1 + 1e-9)
    assert_same_values(attention_inputs(), folded, exact=False)


def test_measured_costs_decide(tmp_path: Path) -> None:
    """A record that makes the joined product dear keeps the search from it."""
    graph = shared_input()
    costs = RecordedCost(KernelRecords(tmp_path / "kernels.sqlite", TARGET, 1))
    joined = search(graph, search_rules(), costs, SETTINGS)
    assert joined.applied
    kernels = KernelCost(MODEL).kernels
    # Machines as fast as estimated, but for the joined product.
    sizes = [shared_input(size) for size in (16, 24, 32, 64)]
    costs.add({task: MODEL.cost(task) for each in sizes for task in kernels.tasks(each)})
    costs.add({task: 1.0 for task in kernels.tasks(joined.graph) if any(task.constant)})
    again = search(graph, search_rules(), costs, SETTINGS)
    assert again.graph is graph
    assert again.cost_after < 1.0


def test_a_search_on_measured_kernels_ends_with_measured_kernels(tmp_path: Path) -> None:
    graph = layers(2)
    costs = RecordedCost(KernelRecords(tmp_path / "kernels.sqlite", host_target(), 1))
    found = measured_search(graph, search_rules(), costs, SETTINGS, rounds=6, cache=tmp_path)
    assert found.measured
    assert 1 <= found.rounds <= 6
    for task in KernelCost(costs).kernels.tasks(found.result.graph):
        assert costs.is_measured(task)
    assert found.result.cost_after <= found.result.cost_before
    assert found.result.cost_before == pytest.approx(KernelCost(costs)(graph))
    assert_same_values(graph, found.result.graph, exact=False)
    again = measured_search(graph, search_rules(), costs, SETTINGS, cache=tmp_path)
    assert again.timed == 0
    assert again.result.graph.digest == found.result.graph.digest


def test_a_search_without_time_to_measure_says_so(tmp_path: Path) -> None:
    costs = RecordedCost(KernelRecords(tmp_path / "kernels.sqlite", host_target(), 1))
    found = measured_search(
        shared_input(), search_rules(), costs, SETTINGS, measure_seconds=0.0, cache=tmp_path
    )
    assert not found.measured
    assert found.timed == 0
