"""The search in the front door: what it is asked, what it did, and whether that is kept.

What it does: checks the settings, has `graphopt.search` look for a cheaper graph, runs the graphs
beside each other, and drops a result that measures slower than the graph it came from. Compares
what is kept with the model as imported, in its own types and in double precision.
What it does not: search, or report.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphopt.graph import Graph
from graphopt.onnx_import.errors import printable
from graphopt.search import (
    DEFAULT_SETTINGS,
    AnalyticCost,
    CostModel,
    KernelRecords,
    RecordedCost,
    SearchResult,
    SearchSettings,
    StopReason,
    machine_for,
    measured_search,
    search,
    search_rules,
)
from graphopt.search.kernels import Kernels
from graphopt.search.precision import NoDoubles, in_float64
from tasor.errors import UsageError, one_line
from tasor.graph_difference import NO_DIFFERENCE, Difference, difference
from tasor.running_graph import Running, timed_graphs
from tasor.turns import Timings
from tensorgen.build import BuildError, ToolMissing, cache_folder
from tensorgen.simplify import Memory, remembering
from tensorgen.target import Target
from tensorgen.types import Array

TIMING_SECONDS = 1.0
"""Graphs take turns for about so long, all together."""

MOST_GRAPHS = 10**6


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What the search may use and how its result is judged.

    `settings` are those of `graphopt.search`; `measure` weighs measured kernels, which the machine
    times where it has not yet; `winograd` allows minimal filtering by rules, in place of that by
    kernels; `discovered` adds the rules that enumeration found; `run` runs the graphs: without it
    nothing is timed or compared.
    """

    settings: SearchSettings = DEFAULT_SETTINGS
    measure: bool = False
    winograd: bool = False
    discovered: bool = False
    run: bool = True


def search_options(
    budget: float | None = None,
    graphs: int | None = None,
    alpha: float | None = None,
    *,
    measure: bool = False,
    winograd: bool = False,
    discovered: bool = False,
    run: bool = True,
) -> SearchOptions:
    """Options with defaults filled in. UsageError for values that make no sense."""
    default = DEFAULT_SETTINGS
    seconds = default.seconds if budget is None else budget
    count = default.graphs if graphs is None else graphs
    relaxation = default.alpha if alpha is None else alpha
    if not (isinstance(seconds, int | float) and seconds >= 0):
        raise UsageError(
            f"budget: expected seconds, at least 0, got {printable(budget)}; choose 10, say"
        )
    if not (type(count) is int and 0 <= count <= MOST_GRAPHS):
        raise UsageError(
            f"graphs: expected a whole number from 0 to {MOST_GRAPHS}, got {printable(graphs)}; "
            f"choose {default.graphs}, say"
        )
    if not (isinstance(relaxation, int | float) and 1 <= relaxation < math.inf):
        raise UsageError(
            f"alpha: expected a number of at least 1, got {printable(alpha)}; choose "
            f"{default.alpha}, say"
        )
    settings = SearchSettings(alpha=float(relaxation), seconds=float(seconds), graphs=count)
    return SearchOptions(settings, measure, winograd, discovered, run)


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times of whole graphs, in turns: as imported, after the rules, after the search.

    Equal graphs share one measurement. `searched` is None if the search changed nothing.
    """

    imported: Timings
    optimized: Timings
    searched: Timings | None
    target: str
    threads: int


@dataclass(frozen=True, slots=True)
class NotRun:
    """Why graphs were not run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Differences:
    """How far the outputs of the graph that is kept are from those of the model as imported, in
    its own types and in double precision.

    Weights that were computed at compile time were rounded to the model's own types; in double
    precision that rounding is what remains.
    """

    own: Difference
    double: Difference | NotRun


@dataclass(frozen=True, slots=True)
class KernelChange:
    """A kernel of which the search's result runs more (`count` above 0) or fewer, and the seconds
    that one run of it was expected to take."""

    count: int
    seconds: float
    expression: str


@dataclass(frozen=True, slots=True)
class GraphSearch:
    """What the search did to an optimized graph.

    `kept` tells whether its result is the graph returned; `why` says so in words. `measured_costs`
    tells whether the predicted costs are sums of measured kernels; `timed_kernels` how many were
    timed for it.
    """

    result: SearchResult
    settings: SearchSettings
    measured_costs: bool
    timed_kernels: int
    kernels: tuple[KernelChange, ...]
    times: Times | NotRun
    differences: Differences | NotRun
    kept: bool
    why: str


def searched_graph(
    imported: Graph,
    optimized: Graph,
    options: SearchOptions,
    target: Target,
    threads: int,
    begins: Callable[[str], None],
) -> tuple[Graph, GraphSearch]:
    """The graph to return, and how it came about. `begins` is told of each step.

    Raises ToolMissing and BuildError if kernels are to be measured and cannot be built.
    """
    begins("search")
    rules = search_rules(winograd=options.winograd, discovered=options.discovered)
    # Filtering is the rules' business or that of the kernels, not of both.
    filtering = not options.winograd
    machine = machine_for(optimized, target, threads)
    costs: CostModel = AnalyticCost(target, threads, machine, filtering=filtering)
    measured, timed_kernels = False, 0
    if options.measure:
        records = KernelRecords(cache_folder() / "kernels.sqlite", target, threads)
        costs = recorded = RecordedCost(records)
        found = measured_search(optimized, rules, recorded, options.settings)
        result, measured, timed_kernels = found.result, found.measured, found.timed
    else:
        result = search(optimized, rules, costs, options.settings)
    changed = result.graph is not optimized
    not_run = NotRun("it was not asked for")
    times: Times | NotRun = not_run
    differences: Differences | NotRun = not_run
    kept, why = changed, _predicted(result)
    if options.run:
        # Graphs that are run and forgotten: most of their indices are the same.
        with remembering(Memory()):
            begins("time")
            times = _times(imported, optimized, result.graph, target, threads, filtering)
            if isinstance(times, Times) and times.searched is not None:
                factor = times.searched.times_as_fast_as(times.optimized)
                kept = factor >= 1.0
                verdict = "kept" if kept else "dropped: the graph measures slower than without it"
                why = f"{verdict} ({factor:.3f} times as fast, measured)"
            begins("compare")
            final = result.graph if kept else optimized
            differences = _differences(imported, final, target, threads)
    final = result.graph if kept else optimized
    return final, GraphSearch(
        result,
        options.settings,
        measured,
        timed_kernels,
        _kernel_changes(optimized, result.graph, costs),
        times,
        differences,
        kept,
        why,
    )


def _predicted(result: SearchResult) -> str:
    if not result.applied:
        if result.stop is StopReason.EXHAUSTED:
            return "nothing cheaper is within reach of the rules"
        return "nothing cheaper was found within the budget"
    factor = result.cost_before / result.cost_after
    return f"kept ({factor:.3f} times as fast, predicted; not measured)"


def _kernel_changes(before: Graph, after: Graph, costs: CostModel) -> tuple[KernelChange, ...]:
    """Kernels that one graph has and the other has not, the dearest first."""
    if before is after:
        return ()
    kernels = Kernels()
    counts = Counter(kernels.tasks(after))
    counts.subtract(kernels.tasks(before))
    found = (KernelChange(n, costs.cost(task), str(task)) for task, n in counts.items() if n)
    return tuple(
        sorted(found, key=lambda k: (k.count > 0, -k.seconds * abs(k.count), k.expression))
    )


def _times(
    imported: Graph,
    optimized: Graph,
    found: Graph,
    target: Target,
    threads: int,
    filtering: bool,
) -> Times | NotRun:
    distinct = list({graph.digest: graph for graph in (imported, optimized, found)}.values())
    try:
        running = [Running(graph, target, threads, filtering=filtering) for graph in distinct]
        timings = timed_graphs(running, TIMING_SECONDS)
    except (UsageError, ToolMissing, BuildError) as error:
        return NotRun(one_line(error))
    by_digest = dict(zip((graph.digest for graph in distinct), timings, strict=True))
    return Times(
        by_digest[imported.digest],
        by_digest[optimized.digest],
        None if found is optimized else by_digest[found.digest],
        target.name,
        threads,
    )


def _differences(
    imported: Graph, final: Graph, target: Target, threads: int
) -> Differences | NotRun:
    if imported.digest == final.digest:
        return Differences(NO_DIFFERENCE, NO_DIFFERENCE)
    pair = (imported, final)
    try:
        own = _difference(pair, target, threads)
        try:
            wide = [in_float64(graph) for graph in pair]
        except NoDoubles as error:
            return Differences(own, NotRun(str(error)))
        return Differences(own, _difference(wide, target, threads))
    except (UsageError, ToolMissing, BuildError) as error:
        return NotRun(one_line(error))


def _difference(graphs: Sequence[Graph], target: Target, threads: int) -> Difference:
    """The difference of what two graphs compute, one library in memory at a time."""
    expected, actual = (_outputs(graph, target, threads) for graph in graphs)
    return difference(expected, actual)


def _outputs(graph: Graph, target: Target, threads: int) -> tuple[Array, ...]:
    running = Running(graph, target, threads, filtering=False)
    return running.outputs(running.sample(0))
