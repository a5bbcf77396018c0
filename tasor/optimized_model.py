"""The result of the graph stage alone: an optimized graph, and what was done to get it.

What it does: reports operators before and after and the rules applied, as text and as an HTML
page, and writes the graph as ONNX. What it does not: compile.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graphopt.graph import Graph
from graphopt.onnx_export import save_model
from graphopt.optimize import Optimized
from tasor.graph_text import operator_counts
from tasor.output_file import check_file_place, created_folders
from tasor.pipeline import tasor_version


@dataclass(frozen=True, slots=True)
class OptimizationReport:
    """What the optimization did.

    `operators` holds (name, count before, count after), most frequent first; `applied` holds
    (rule, how often); `stopped` says why it ended. str() of it is text for people.
    """

    operators: tuple[tuple[str, int, int], ...]
    applied: tuple[tuple[str, int], ...]
    seconds: float
    stopped: str

    @property
    def nodes_before(self) -> int:
        return sum(before for _, before, _ in self.operators)

    @property
    def nodes_after(self) -> int:
        return sum(after for _, _, after in self.operators)

    def __str__(self) -> str:
        changed = [
            f"  {name}: {before} -> {after}"
            for name, before, after in self.operators
            if before != after
        ]
        rules = [f"  {count} x {rule}" for rule, count in self.applied]
        return "\n".join(
            [
                f"{self.nodes_before} -> {self.nodes_after} operators in {self.seconds:.2f} s "
                f"({self.stopped})",
                *(["operators that changed:", *changed] if changed else []),
                *(["rules applied:", *rules] if rules else []),
            ]
        )


def report_of(imported: Graph, optimized: Optimized) -> OptimizationReport:
    """The report on one optimization."""
    before, after = dict(operator_counts(imported)), dict(operator_counts(optimized.graph))
    names = sorted(before.keys() | after.keys(), key=lambda name: (-before.get(name, 0), name))
    return OptimizationReport(
        tuple((name, before.get(name, 0), after.get(name, 0)) for name in names),
        tuple(optimized.applied),
        optimized.seconds,
        optimized.stop.value,
    )


class OptimizedModel:
    """An optimized graph. `graph` is the graph itself, `report` what was done."""

    def __init__(self, imported: Graph, optimized: Optimized) -> None:
        self.imported = imported
        self.graph = optimized.graph
        self.report = report_of(imported, optimized)

    def save(self, path: str | Path) -> None:
        """Writes the graph as an ONNX file that any ONNX runtime can run.

        Constants that are too many for one file go into a second one beside it. OutputError if the
        place cannot be written, ExportError if the names in the model are none that ONNX allows.
        """
        place = Path(path)
        check_file_place(place)
        with created_folders(place.parent):
            save_model(self.graph, place, producer_version=tasor_version())
