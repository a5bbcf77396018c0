"""`tasor optimize`: a model in, an optimized model and a report out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tasor
from tasor.graph_difference import Difference
from tasor.graph_search import GraphSearch, NotRun, Times
from tasor.optimize_report import report_page
from tasor.optimized_model import OptimizationReport, OptimizedModel
from tasor.output_file import check_file_place, write_file
from tasor.reporter import Reporter
from tasor.turns import Timings
from tensorgen.types import Array, Shape


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """What `tasor optimize` is asked for; None takes the default of `tasor.optimize`."""

    shapes: Mapping[str, Shape]
    bindings: Mapping[str, Array]
    target: str
    threads: int | None
    search: bool
    budget: float | None
    graphs: int | None
    alpha: float | None
    measure: bool
    winograd: bool
    discovered: bool
    run: bool


def optimize_into(
    model: str, output: Path, report: Path | None, options: OptimizeOptions, reporter: Reporter
) -> OptimizedModel:
    """Optimizes a model and writes it, and the report where one is wanted: both or none.

    Refuses places that cannot be written before it does any work.
    """
    for path in (output, *(() if report is None else (report,))):
        check_file_place(path)
    result = tasor.optimize(
        model,
        shapes=options.shapes,
        bindings=options.bindings,
        target=options.target,
        threads=options.threads,
        search=options.search,
        budget=options.budget,
        graphs=options.graphs,
        alpha=options.alpha,
        measure=options.measure,
        winograd=options.winograd,
        discovered=options.discovered,
        run=options.run,
        observer=reporter,
    )
    reporter.begins("save")
    if report is None:
        result.save(output)
        return result
    write_file(report, report_page(result, Path(model).name).encode())
    try:
        result.save(output)
    except BaseException:
        report.unlink(missing_ok=True)
        raise
    return result


def report_document(report: OptimizationReport) -> dict[str, object]:
    """The report as JSON values."""
    return {
        "operators": [
            {"operator": name, "before": before, "after": after}
            for name, before, after in report.operators
        ],
        "rules_applied": [{"rule": rule, "count": count} for rule, count in report.applied],
        "seconds": report.seconds,
        "stopped": report.stopped,
        "search": None if report.search is None else _search_document(report.search),
    }


def _search_document(search: GraphSearch) -> dict[str, object]:
    result, settings = search.result, search.settings
    return {
        "kept": search.kept,
        "why": search.why,
        "stopped": result.stop.value,
        "alpha": settings.alpha,
        "budget_seconds": settings.seconds if math.isfinite(settings.seconds) else None,
        "budget_graphs": settings.graphs,
        "graphs": result.explored,
        "regions": len(result.regions),
        "regions_searched": result.regions_searched,
        "seconds": result.seconds,
        "predicted_ms": {"before": result.cost_before * 1e3, "after": result.cost_after * 1e3},
        "costs": "measured" if search.measured_costs else "estimated",
        "measured_ms": _times_document(search.times),
        "difference": None
        if isinstance(search.differences, NotRun)
        else {
            "own_types": _difference_document(search.differences.own),
            "float64": None
            if isinstance(search.differences.double, NotRun)
            else _difference_document(search.differences.double),
        },
        "applied": [
            {"rule": item.rule, "op": item.op, "type": item.type, "region": item.region}
            for item in result.applied
        ],
        "spot_checks": {
            "agreed": result.checked,
            "too_large": result.unchecked,
            "refuted": list(result.refuted),
        },
    }


def _times_document(times: Times | NotRun) -> dict[str, object]:
    if isinstance(times, NotRun):
        return {"reason": times.reason}
    return {
        "target": times.target,
        "threads": times.threads,
        "imported": _timings_document(times.imported),
        "rules": _timings_document(times.optimized),
        "search": None if times.searched is None else _timings_document(times.searched),
    }


def _timings_document(timings: Timings) -> dict[str, object]:
    return {"median": timings.milliseconds, "turns": list(timings.turns)}


def _difference_document(found: Difference) -> dict[str, object]:
    # As text where there is no number: JSON knows no infinity.
    return {
        "ulps": found.ulps if math.isfinite(found.ulps) else str(found.ulps),
        "ulps_of_largest": found.ulps_of_largest
        if math.isfinite(found.ulps_of_largest)
        else str(found.ulps_of_largest),
    }
