"""The report on an optimization: one HTML page that needs nothing else.

What it does: shows the graph before and after, the changes that the rules and the search made,
costs predicted and measured, the rules applied with their places, why the search stopped, and what
is not claimed. Small graphs are drawn whole, of large ones the changed parts with what is around
them, equal changes once. The page loads nothing and runs nothing; all text in it is escaped.
What it does not: optimize, or write files.
"""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from graphopt.graph import Graph
from tasor.graph_changes import Change, Picture, changes, whole
from tasor.graph_difference import Difference
from tasor.graph_drawing import GRAPH_STYLE, graph_svg
from tasor.graph_search import GraphSearch, NotRun, Times
from tasor.optimized_model import OptimizedModel, counted
from tasor.report_page import page_template, printed, shipped_text, source_hash
from tasor.turns import Timings
from tensorgen.version import tasor_version

MOST_DRAWN = 40
"""Graphs of at most so many operators are drawn whole."""

MOST_CHANGES = 12
"""Kinds of changes that are drawn of each stage."""

MOST_ROWS = 400
"""Rows of a table."""

NOT_CLAIMED = (
    "Rules are equations over the real numbers: rounding may differ, and so may overflow and NaN, "
    "by as much as the largest difference above says for the inputs that were tried, and no more "
    "is known of others.",
    "In float64 the graphs differ by what computing weights at compile time has rounded, in the "
    "model's own types; with no such weights they agree to a few units.",
    "Predicted times are sums over kernels, each taken alone; they serve to choose between graphs.",
    "Measured times hold for this machine, these threads and random inputs; other runtimes choose "
    "other kernels for the exported graph.",
    "The search is not exhaustive: a cheaper graph may exist beyond its rules and its budget.",
    "A spot check compares a few elements on whole numbers, exactly; it is no proof.",
)


def report_page(model: OptimizedModel, name: str = "model") -> str:
    """The page on an optimization of the model of that name."""
    report = model.report
    search = report.search
    simplified = model.optimized
    style = f"{shipped_text('report.css')}{GRAPH_STYLE}"
    stages = [_stage("What the rules changed", model.imported, simplified)]
    if search is not None and search.result.applied:
        heading = "What the search changed" if search.kept else "What the search tried, and dropped"
        stages.append(_stage(heading, simplified, search.result.graph))
    page = page_template("optimize_report.html.j2").render(
        name=name,
        version=tasor_version(),
        style=Markup(style),
        style_hash=Markup(source_hash(style)),
        cards=_cards(model),
        verdict="" if search is None else search.why,
        times=[] if search is None else _time_rows(search),
        not_timed=_not_run(search),
        settings="" if search is None else _settings(search),
        refuted=() if search is None else search.result.refuted,
        checks="" if search is None else _checks(search),
        whole=_sides(whole(model.imported), whole(model.graph)) if _is_small(model) else [],
        stages=[stage for stage in stages if stage["changes"]],
        operators=[(op, b, a) for op, b, a in report.operators if b != a],
        rules=report.applied,
        places=_places(search),
        kernels=_kernels(search),
        not_claimed=NOT_CLAIMED,
    )
    return printed(page)


def _is_small(model: OptimizedModel) -> bool:
    return max(len(model.imported.nodes), len(model.graph.nodes)) <= MOST_DRAWN


def _cards(model: OptimizedModel) -> list[tuple[str, str, str]]:
    """Kind, value and name of each figure at the top."""
    report = model.report
    cards = [("", f"{report.nodes_before} → {report.nodes_after}", "operators")]
    search = report.search
    if search is None:
        return cards
    result = search.result
    cards.append(("", str(result.explored), "graphs weighed"))
    if result.applied:
        kind = "proved" if search.kept else "refuted"
        factor = result.cost_before / result.cost_after
        cards.append((kind, f"{factor:.3f} x", "as fast by the search, predicted"))
    if isinstance(search.times, Times):
        times = search.times
        if times.searched is not None:
            factor = times.searched.times_as_fast_as(times.optimized)
            kind = "proved" if search.kept else "refuted"
            cards.append((kind, f"{factor:.3f} x", "as fast by the search, measured"))
        final = times.searched if search.kept and times.searched is not None else times.optimized
        factor = final.times_as_fast_as(times.imported)
        cards.append(("", f"{factor:.3f} x", "as fast as the model as it came, measured"))
    if not isinstance(search.differences, NotRun):
        cards.append(_difference_card(search.differences.own, "to the model"))
        double = search.differences.double
        if not isinstance(double, NotRun):
            cards.append(_difference_card(double, "in float64"))
    return cards


def _difference_card(found: Difference, where: str) -> tuple[str, str, str]:
    share = f"{found.ulps_of_largest:.3g} at the size of the largest element"
    return ("", f"{found.ulps:.3g} ULP", f"largest difference {where}; {share}")


def _time_rows(search: GraphSearch) -> list[tuple[str, str, str, str, str]]:
    """Stage, predicted and measured milliseconds, their span, and the speed-up."""
    result = search.result
    before, after = f"{result.cost_before * 1e3:.4g}", f"{result.cost_after * 1e3:.4g}"
    if isinstance(search.times, NotRun):
        rows = [("after the rules", before, "", "", "")]
        return [*rows, ("after the search", after, "", "", "")] if result.applied else rows
    times = search.times
    rows = [
        ("as imported", "", *_measured(times.imported, times.imported)),
        ("after the rules", before, *_measured(times.optimized, times.imported)),
    ]
    if times.searched is not None:
        rows.append(("after the search", after, *_measured(times.searched, times.imported)))
    return rows


def _measured(timings: Timings, first: Timings) -> tuple[str, str, str]:
    span = f"{min(timings.turns):.4g} … {max(timings.turns):.4g}"
    return f"{timings.milliseconds:.4g}", span, f"{timings.times_as_fast_as(first):.3f} x"


def _not_run(search: GraphSearch | None) -> str:
    if search is None:
        return "The search was left out."
    if isinstance(search.times, NotRun):
        return f"Not measured: {search.times.reason}."
    return (
        f"Measured on {search.times.target}, {counted(search.times.threads, 'thread')}, in turns."
    )


def _settings(search: GraphSearch) -> str:
    result, settings = search.result, search.settings
    costs = "measured kernels" if search.measured_costs else "estimated kernels"
    timed = f" ({search.timed_kernels} timed now)" if search.timed_kernels else ""
    regions = f"{counted(len(result.regions), 'region')}, {result.regions_searched} searched"
    return (
        f"{counted(result.explored, 'graph')} weighed in {result.seconds:.2f} s over {regions}, "
        f"on {costs}{timed}; alpha {settings.alpha:g}, at most {settings.graphs} graphs a region "
        f"and {settings.seconds:g} s in all. It stopped because {result.stop.value}."
    )


def _checks(search: GraphSearch) -> str:
    result = search.result
    if not result.checked and not result.unchecked:
        return ""
    skipped = f", {result.unchecked} were too large for it" if result.unchecked else ""
    return f"{counted(result.checked, 'application')} passed the spot check{skipped}."


def _places(search: GraphSearch | None) -> list[tuple[str, str, str, int]]:
    """Rule, operator and type, region, and how often there."""
    if search is None:
        return []
    counts = Counter(
        (item.rule, f"{item.op} {item.type}", str(item.region)) for item in search.result.applied
    )
    return [(*place, count) for place, count in list(counts.items())[:MOST_ROWS]]


def _kernels(search: GraphSearch | None) -> list[tuple[str, str, str]]:
    """How many more or fewer, microseconds of one, and what it computes."""
    if search is None:
        return []
    return [
        (f"{change.count:+d}", f"{change.seconds * 1e6:.4g}", change.expression)
        for change in search.kernels[:MOST_ROWS]
    ]


def _stage(heading: str, before: Graph, after: Graph) -> dict[str, object]:
    found = changes(before, after)
    drawn = found[:MOST_CHANGES]
    return {
        "heading": heading,
        "changes": [{"title": _title(c), "sides": _sides(c.before, c.after)} for c in drawn],
        "left_out": len(found) - len(drawn),
    }


def _title(change: Change) -> str:
    places = "in one place" if change.count == 1 else f"in {change.count} places"
    return f"{change.operators_before} → {change.operators_after} operators, {places}"


def _sides(before: Picture, after: Picture) -> list[tuple[str, Markup]]:
    return [
        (side, _drawn(side, picture)) for side, picture in (("before", before), ("after", after))
    ]


def _drawn(side: str, picture: Picture) -> Markup:
    if not picture.boxes:
        return Markup("<p>nothing</p>")
    rest = f"<p>… and {picture.left_out} operators more</p>" if picture.left_out else ""
    return Markup(graph_svg(picture.boxes, picture.edges, f"the graph {side}") + rest)
