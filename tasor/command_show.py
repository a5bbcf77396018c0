"""`tasor show`: what a model becomes, or what is in a folder with a library, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from graphopt.onnx_import.errors import printable
from tasor.compiled_model import CompiledModel
from tasor.graph_text import graph_text
from tasor.library_folder import LibraryFolder
from tasor.optimized_model import report_of
from tasor.tables import (
    kernels_table,
    memory_table,
    operators_table,
    ports_table,
    rules_table,
)

_LISTED = ("arena_bytes", "weight_bytes", "weights", "target", "threads", "strict", "compiler")


def model_views(
    model: CompiledModel, *, with_graph: bool = False, kernels: int | None = None
) -> tuple[RenderableType, ...]:
    """Ports, operators before and after, rules, kernels and memory; the whole graph if wanted.

    `kernels` limits how many are shown.
    """
    stages = model.stages
    report = report_of(stages.imported, stages.optimized, stages.graph)
    report = replace(report, applied=stages.rules_applied)
    graph = Text(graph_text(stages.graph)) if with_graph else None
    return (
        ports_table(model.inputs, model.outputs),
        operators_table(report),
        *((rules_table(report),) if report.applied else ()),
        *((graph,) if graph is not None else ()),
        kernels_table(stages.compilation.kernels, with_expressions=with_graph, limit=kernels),
        memory_table(stages.compilation),
    )


def folder_views(library: LibraryFolder) -> tuple[RenderableType, ...]:
    """Ports, kernels with their calls, rules applied, memory and where it all came from."""
    description = library.description
    facts = _pairs("library", [(key, description.get(key, "")) for key in _LISTED])
    facts.add_section()
    for key in ("model_sha256", "tasor_version"):
        facts.add_row(key, Text(printable(description.get(key, "unknown"))))
    changed = library.changed_files()
    if changed:
        facts.add_row("not as written", Text(printable(", ".join(changed))))
    calls: dict[str, int] = {}
    for call in _entries(description.get("calls")):
        kernel = printable(call.get("kernel", ""))
        calls[kernel] = calls.get(kernel, 0) + 1
    kernels = Table("kernel", "calls", "schedule", title="kernels", title_justify="left")
    for entry in _entries(description.get("kernels")):
        name = printable(entry.get("name", ""))
        schedule = printable(entry.get("schedule", ""))
        kernels.add_row(Text(name), str(calls.get(name, 0)), Text(schedule))
    rules = [
        (entry.get("rule", ""), entry.get("count", ""))
        for entry in _entries(description.get("rules_applied"))
    ]
    return (
        ports_table(library.inputs, library.outputs),
        *((_pairs("rules applied", rules),) if rules else ()),
        kernels,
        facts,
    )


def _entries(value: Any) -> list[dict[str, Any]]:
    """The objects of a JSON list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _pairs(title: str, pairs: Sequence[tuple[object, object]]) -> Table:
    table = Table("", "", title=title, title_justify="left", show_header=False)
    for key, value in pairs:
        table.add_row(Text(printable(key)), Text(printable(value)))
    return table
