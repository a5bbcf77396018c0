"""Search on measured kernels: search, measure what the result would run, search again.

What it does: measures the kernels of the graph, then alternates: a search on what is known, and a
measurement of the kernels of its result that were estimated. It ends when a result consists of
measured kernels, so that its cost and the input's are both sums of measurements.

What it does not: run whole graphs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphopt.graph import Graph
from graphopt.rule import Rule
from graphopt.search.backtracking import Clock
from graphopt.search.kernels import Kernels
from graphopt.search.measure import measure
from graphopt.search.records import RecordedCost
from graphopt.search.search import DEFAULT_SETTINGS, SearchResult, SearchSettings, search


@dataclass(frozen=True, slots=True)
class MeasuredSearch:
    """The last result, how many kernels were timed, how many searches were made, and whether all
    kernels of the input and of the result are measured."""

    result: SearchResult
    timed: int
    rounds: int
    measured: bool


def measured_search(
    graph: Graph,
    rules: Sequence[Rule],
    costs: RecordedCost,
    settings: SearchSettings = DEFAULT_SETTINGS,
    rounds: int = 4,
    measure_seconds: float = 60.0,
    cache: Path | None = None,
    clock: Clock = time.monotonic,
) -> MeasuredSearch:
    """Search until the result's kernels are measured, at most `rounds` times, at least once.

    `settings.seconds` holds for each search, `measure_seconds` for all measuring together. Raises
    what `measure` raises.
    """
    kernels = Kernels()
    deadline = clock() + measure_seconds
    outcome = measure(kernels.tasks(graph), costs, measure_seconds, cache, clock)
    timed, left = outcome.timed, outcome.left
    made = 0
    while True:
        made += 1
        result = search(graph, rules, costs, settings, clock)
        wanted = kernels.tasks(result.graph)
        outcome = measure(wanted, costs, deadline - clock(), cache, clock)
        timed += outcome.timed
        if outcome.timed == 0 or made >= rounds:
            break
    costs.save()
    # Costs of a result that were estimates when it was found are not sums of measurements.
    measured = left == outcome.timed == outcome.left == 0
    return MeasuredSearch(result, timed, made, measured)
