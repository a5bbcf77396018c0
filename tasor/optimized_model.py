"""The result of the graph stage alone: an optimized graph, and what was done to get it.

What it does: reports operators before and after, the rules applied and what the search found, as
text, and writes the graph as ONNX. What it does not: compile, or draw (`optimize_report`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from graphopt.graph import Graph
from graphopt.onnx_export import save_model
from graphopt.optimize import Optimized
from tasor.graph_difference import Difference
from tasor.graph_search import GraphSearch, NotRun
from tasor.graph_text import operator_counts
from tasor.output_file import check_file_place, created_folders
from tensorgen.version import tasor_version


@dataclass(frozen=True, slots=True)
class OptimizationReport:
    """What the optimization did.

    `operators` holds (name, count before, count after), most frequent first; `applied` holds
    (rule, how often) of the rules that always apply; `stopped` says why these ended. `search` is
    what the search by cost did, None if it was left out. str() of it is text for people.
    """

    operators: tuple[tuple[str, int, int], ...]
    applied: tuple[tuple[str, int], ...]
    seconds: float
    stopped: str
    search: GraphSearch | None = None

    @property
    def nodes_before(self) -> int:
        return sum(before for _, before, _ in self.operators)

    @property
    def nodes_after(self) -> int:
        return sum(after for _, _, after in self.operators)

    @property
    def searched(self) -> tuple[tuple[str, int], ...]:
        """How often the search used each rule in what is kept, by name."""
        if self.search is None or not self.search.kept:
            return ()
        return tuple(sorted(Counter(item.rule for item in self.search.result.applied).items()))

    def __str__(self) -> str:
        changed = [
            f"  {name}: {before} -> {after}"
            for name, before, after in self.operators
            if before != after
        ]
        rules = [f"  {count} x {rule}" for rule, count in self.applied]
        chosen = [f"  {count} x {rule}" for rule, count in self.searched]
        return "\n".join(
            [
                f"{self.nodes_before} -> {self.nodes_after} operators in {self.seconds:.2f} s "
                f"({self.stopped})",
                *(["operators that changed:", *changed] if changed else []),
                *(["rules applied:", *rules] if rules else []),
                *([] if self.search is None else search_lines(self.search)),
                *(["rules that the search applied:", *chosen] if chosen else []),
            ]
        )


def search_lines(search: GraphSearch) -> list[str]:
    """What the search did, in a few lines."""
    result = search.result
    lines = [
        f"search: {counted(result.explored, 'graph')} in {result.seconds:.2f} s "
        f"({result.stop.value}); {search.why}"
    ]
    if search.kept:
        lines.append(
            f"predicted: {result.cost_before * 1e3:.4g} -> {result.cost_after * 1e3:.4g} ms"
        )
    if isinstance(search.times, NotRun):
        lines.append(f"not measured: {search.times.reason}")
    else:
        times = search.times
        last = times.searched if search.kept and times.searched is not None else times.optimized
        lines.append(
            f"measured on {times.target}, {counted(times.threads, 'thread')}: "
            f"{times.imported.milliseconds:.4g} -> {last.milliseconds:.4g} ms"
        )
    if not isinstance(search.differences, NotRun):
        own, double = search.differences.own, search.differences.double
        wide = "" if isinstance(double, NotRun) else f"; in float64 {ulps_text(double)}"
        lines.append(f"largest difference to the model: {ulps_text(own)}{wide}")
    if result.refuted:
        lines.append(f"refuted by a spot check, not used: {', '.join(result.refuted)}")
    return lines


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ulps_text(found: Difference) -> str:
    """A difference in words."""
    share = f"{found.ulps_of_largest:.3g} at the size of the largest element"
    return f"{found.ulps:.4g} ULP ({share})"


def report_of(
    imported: Graph, optimized: Optimized, graph: Graph, search: GraphSearch | None = None
) -> OptimizationReport:
    """The report on one optimization whose result is `graph`."""
    before, after = dict(operator_counts(imported)), dict(operator_counts(graph))
    names = sorted(before.keys() | after.keys(), key=lambda name: (-before.get(name, 0), name))
    return OptimizationReport(
        tuple((name, before.get(name, 0), after.get(name, 0)) for name in names),
        tuple(optimized.applied),
        optimized.seconds,
        optimized.stop.value,
        search,
    )


class OptimizedModel:
    """An optimized graph. `graph` is the graph itself, `report` what was done to `imported`;
    `optimized` is the graph between the rules and the search."""

    def __init__(
        self,
        imported: Graph,
        optimized: Optimized,
        graph: Graph | None = None,
        search: GraphSearch | None = None,
    ) -> None:
        self.imported = imported
        self.optimized = optimized.graph
        self.graph = optimized.graph if graph is None else graph
        self.report = report_of(imported, optimized, self.graph, search)

    def save(self, path: str | Path) -> None:
        """Writes the graph as an ONNX file that any ONNX runtime can run.

        Constants that are too many for one file go into a second one beside it. OutputError if the
        place cannot be written, ExportError if the names in the model are none that ONNX allows.
        """
        place = Path(path)
        check_file_place(place)
        with created_folders(place.parent):
            save_model(self.graph, place, producer_version=tasor_version())
