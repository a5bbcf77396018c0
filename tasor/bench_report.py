"""The report on a comparison with peers: one HTML page that needs nothing else.

What it does: shows geometric means and their spread by group, each case's times as bars with all
figures, what share of the measured peak was reached, and a roofline plot for each number of
threads. The page loads nothing; its script only sorts and hides rows; all text in it is escaped.
What it does not: measure (`peers`), or write files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from markupsafe import Markup

from tasor.peer_engines import PEERS, TUNED, engine_version
from tasor.peer_report import (
    AGREEMENT,
    RATIOS,
    failure_lines,
    geometric_mean,
    group_means,
    is_unsteady,
    machine,
    ratio_text,
    threads_text,
)
from tasor.peers import Failure, Row, Timing
from tasor.ratio_bars import (
    Bar,
    Dot,
    Lane,
    RatioScale,
    bars_axis,
    bars_svg,
    dots_axis,
    dots_svg,
    ratio_scale,
)
from tasor.report_page import page_template, printed, shipped_text, source_hash
from tasor.roofline import (
    Ceiling,
    flops_per_second,
    intensity,
    percent,
    share_of_fed_peak,
    share_of_peak,
)
from tasor.roofline_plot import PLOT_STYLE, Point, Standing, roofline_svg

_EVEN = 0.05
"""Ratios within this of 1 are called even: as near as two runs of one engine come."""

_KINDS = 3
"""Colours of peers, and of numbers of threads; more take them again."""

NAMES = {
    "tasor": "Tasor",
    TUNED: "Tasor tuned",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "torch": "PyTorch",
}

NOT_CLAIMED = (
    "The figures hold for this machine, these versions, sizes, threads and batch sizes; other "
    "machines choose other kernels.",
    "Every engine computes in float32 and its outputs were compared with the reference's; how "
    "accurate the reference is, nobody measured here.",
    "Medians of repeated runs on data that stays where the run before left it: a first run, or one "
    "after other work, is slower on every engine.",
    "The peak is that of multiply-adds in registers, as a calibration reached it just before or "
    "some time ago: clocks change, and a share may be off by a few percent.",
    "Rates of Tasor are those of calls from C; times and ratios, with all engines, of calls from "
    "Python.",
    "The roofline counts what a run must move at least. Data that stays in a cache between runs "
    "comes faster than memory can send it, and points may lie above the slope of memory.",
)


def bench_page(
    rows: Sequence[Row],
    engines: Sequence[str],
    settings: Mapping[str, object],
    ceilings: Sequence[Ceiling] = (),
) -> str:
    """The page on a comparison; without `ceilings` there are no shares of the peak and no plots."""
    host = machine()
    shared = f"{shipped_text('report.css')}{shipped_text('measured.css')}"
    style = f"{shared}{PLOT_STYLE}{shipped_text('bench_report.css')}"
    script = shipped_text("row_table.js")
    scale = ratio_scale([row.ratio for row in rows if row.ratio is not None])
    page = page_template("bench_report.html.j2").render(
        style=Markup(style),
        style_hash=Markup(source_hash(style)),
        script=Markup(script),
        script_hash=Markup(source_hash(script)),
        heading=_heading(engines),
        facts=_facts(rows, engines, settings, host),
        cards=[(threads_text(n), _cards(rows, n, ceilings)) for n in _thread_numbers(rows)],
        threads=_thread_numbers(rows),
        eager="torch" in engines,
        tuned=TUNED in engines,
        groups=_groups(rows, scale),
        group_axis=dots_axis(scale),
        plots=[
            (
                threads_text(ceiling.threads),
                roofline_svg(points, ceiling, threads_text(ceiling.threads)),
            )
            for ceiling in ceilings
            if (points := _points(rows, ceiling))
        ],
        ceilings=[_ceiling(ceiling) for ceiling in ceilings],
        standings=_standings(rows),
        legend=[(f"engine-{_kind(engine, engines)}", _name(engine)) for engine in engines],
        filters=_filters(rows),
        engines=[_name(engine) for engine in engines],
        bar_axis=bars_axis(),
        cases=[_case(row, engines, ceilings) for row in rows],
        above=any((share_of_peak(row, ceilings) or 0) > 1 for row in rows),
        fed=any(row.fed_peak is not None for row in rows),
        failures=failure_lines(rows),
        not_claimed=NOT_CLAIMED,
    )
    return printed(page)


def _name(engine: str) -> str:
    return NAMES.get(engine, engine)


def _kind(engine: str, engines: Sequence[str]) -> str:
    """The colour of an engine: one of Tasor's own, or one of the peers'."""
    if engine in PEERS:
        return f"peer-{_peers(engines).index(engine) % _KINDS}"
    return "tuned" if engine == TUNED else "own"


def _peers(engines: Sequence[str]) -> list[str]:
    return [engine for engine in engines if engine in PEERS]


def _thread_numbers(rows: Sequence[Row]) -> list[int]:
    return sorted({row.threads for row in rows})


def _heading(engines: Sequence[str]) -> str:
    peers = [_name(engine) for engine in _peers(engines)]
    match peers:
        case []:
            return "Tasor, measured"
        case [only]:
            return f"Tasor beside {only}"
        case [*most, last]:
            return f"Tasor beside {', '.join(most)} and {last}"
        case _:
            raise AssertionError("a list is empty or has a last element")


def _facts(
    rows: Sequence[Row],
    engines: Sequence[str],
    settings: Mapping[str, object],
    host: Mapping[str, object],
) -> list[tuple[str, str]]:
    """What was measured, with what, on what, and how: name and value of each fact."""
    load = host["load_average"]
    packages = [engine for engine in engines if engine != TUNED]
    threads = ", ".join(map(str, _thread_numbers(rows)))
    facts = [
        ("Measured", str(host["time"]).replace("T", " ").replace("+00:00", " UTC")),
        ("Versions", ", ".join(f"{_name(name)} {engine_version(name)}" for name in packages)),
        ("Processor", f"{host['processor']}, {host['architecture']}"),
        ("Threads", f"{threads} of {host['cpus']} CPUs, pinned"),
        ("System", f"{host['system']}, Python {host['python']}"),
    ]
    facts += [(name.capitalize(), _plain(value)) for name, value in settings.items()]
    return facts if load is None else [*facts, ("Load average", f"{load:.2f} at the end")]


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _cards(
    rows: Sequence[Row], threads: int, ceilings: Sequence[Ceiling]
) -> list[tuple[str, str, str]]:
    """Kind, value and name of each figure at the top, for one number of threads."""
    own = [row for row in rows if row.threads == threads]
    cards: list[tuple[str, str, str]] = []
    ratios = [(row.ratio, row.case) for row in own if row.ratio is not None]
    if ratios:
        mean = group_means(own)["all", threads]
        label = f"as fast as the best peer, geometric mean, {threads_text(threads)}"
        cards.append((_verdict(mean), f"{mean:.2f} x", label))
        wins = sum(ratio >= 1 for ratio, _ in ratios)
        cards.append(("", f"{wins} of {len(ratios)}", "cases at least as fast"))
    means = group_means(own, RATIOS["tuned ratio"])
    if ("all", threads) in means:
        mean = means["all", threads]
        label = f"as fast as the best peer as tuned, geometric mean, {threads_text(threads)}"
        cards.append((_verdict(mean), f"{mean:.2f} x", label))
    gains = [row.gain for row in own if row.gain is not None]
    if gains:
        mean = geometric_mean(gains)
        label = "as fast tuned as with zero trials, geometric mean"
        cards.append(("", f"{mean:.2f} x", label))
    if len(ratios) > 1:
        for word, (ratio, case) in (("best", max(ratios)), ("worst", min(ratios))):
            cards.append((_verdict(ratio), f"{ratio:.2f} x", f"{word} case, {case}"))
    shares = [(share, row.case) for row in own if (share := share_of_peak(row, ceilings))]
    if shares:
        share, case = max(shares)
        label = f"of the measured peak, {case}"
        fewer = ", with fewer operations than are counted" if share > 1 else ", the largest share"
        cards.append(("", percent(share), label + fewer))
    if failed := sum(isinstance(result, Failure) for row in own for result in row.results):
        cards.append(("refuted", str(failed), f"failed, {threads_text(threads)}"))
    return cards


def _standing(row: Row) -> Standing:
    if row.ratio is None:
        return "alone"
    if row.ratio >= 1 + _EVEN:
        return "faster"
    return "slower" if row.ratio < 1 - _EVEN else "even"


def _verdict(ratio: float) -> str:
    """The style of a ratio's figure."""
    return "proved" if ratio >= 1 else "refuted" if ratio < 1 - _EVEN else "unknown"


def _groups(rows: Sequence[Row], scale: RatioScale) -> list[dict[str, object]]:
    """A line of the table of groups each, the line of all last, where there is more than one."""
    means = group_means(rows)
    names = list(dict.fromkeys(group for group, _ in means))
    if len(names) == 2:
        names.remove("all")
    numbers = _thread_numbers(rows)
    found = []
    for name in names:
        lanes = []
        for threads in numbers:
            if (name, threads) not in means:
                continue
            dots = tuple(
                Dot(row.ratio, f"{row.case}, {threads_text(threads)}: {row.ratio:.2f}")
                for row in rows
                if row.threads == threads and name in (row.group, "all") and row.ratio is not None
            )
            kind = f"lane-{numbers.index(threads) % _KINDS}"
            lanes.append(Lane(kind, threads_text(threads), dots, means[name, threads]))
        found.append(
            {
                "name": "all groups" if name == "all" else name,
                "cases": max(len(lane.dots) for lane in lanes),
                "drawing": dots_svg(lanes, scale),
                "means": [
                    (f"{means[name, n]:.2f}", _verdict(means[name, n]))
                    if (name, n) in means
                    else ("", "")
                    for n in numbers
                ],
            }
        )
    return found


def _points(rows: Sequence[Row], ceiling: Ceiling) -> list[Point]:
    """The cases with that many threads whose work is known: first those that are slower."""
    found = []
    for row in rows:
        rate, flop_per_byte = flops_per_second(row), intensity(row)
        if row.threads == ceiling.threads and rate and flop_per_byte:
            ratio = "" if row.ratio is None else f", {row.ratio:.2f} x as fast as the best peer"
            share = percent(rate / ceiling.peak)
            tooltip = (
                f"{row.case}, {threads_text(row.threads)}: {rate / 1e9:.4g} Gflop/s, {share} of "
                f"the peak, at {flop_per_byte:.3g} flop/byte{ratio}"
            )
            found.append(Point(row.case, flop_per_byte, rate, _standing(row), tooltip))
    order: Mapping[Standing, int] = {"slower": 0, "even": 1, "faster": 2, "alone": 3}
    return sorted(found, key=lambda point: order[point.standing])


def _standings(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The shapes in the plots: style and what it stands for."""
    words: Mapping[Standing, str] = {
        "faster": "faster than the best peer",
        "even": f"within {_EVEN:.0%} of it".replace("%", " %"),
        "slower": "slower",
        "alone": "without a peer",
    }
    present = {_standing(row) for row in rows}
    return [(kind, text) for kind, text in words.items() if kind in present]


def _ceiling(ceiling: Ceiling) -> tuple[str, str, list[tuple[str, str]]]:
    """Threads, peak in Gflop/s, and name and GB/s of each bandwidth."""
    levels = [(item.level, f"{item.bytes_per_second / 1e9:.3g}") for item in ceiling.bandwidths]
    return str(ceiling.threads), f"{ceiling.peak / 1e9:.4g}", levels


def _filters(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """The buttons: kind, name, and how many cases it leaves."""
    numbers = _thread_numbers(rows)
    found = [("all", "all", len(rows))]
    if len(numbers) > 1:
        for threads in numbers:
            count = sum(row.threads == threads for row in rows)
            found.append((f"threads-{threads}", threads_text(threads), count))
    for kind, name in (("faster", "faster"), ("even", "even"), ("slower", "slower")):
        if count := sum(_standing(row) == kind for row in rows):
            found.append((kind, name, count))
    return found


def _case(row: Row, engines: Sequence[str], ceilings: Sequence[Ceiling]) -> dict[str, object]:
    """A line of the table of cases."""
    rate, share, density = flops_per_second(row), share_of_peak(row, ceilings), intensity(row)
    fed = share_of_fed_peak(row)
    return {
        "name": row.case,
        "group": row.group,
        "threads": row.threads,
        "kinds": f"all threads-{row.threads} {_standing(row)}",
        "bars": _bars(row, engines),
        "ratio": _sortable(row.ratio, ratio_text(row.ratio)),
        "tuned_ratio": _sortable(row.tuned_ratio, ratio_text(row.tuned_ratio)),
        "gain": _sortable(row.gain, ratio_text(row.gain)),
        "verdict": "" if row.ratio is None else _verdict(row.ratio),
        "times": [_time(result) for result in row.results],
        "rate": _sortable(rate, "" if rate is None else f"{rate / 1e9:.3g}"),
        "share": _sortable(share, percent(share)),
        "above": share is not None and share > 1,
        "fed_share": _sortable(fed, percent(fed)),
        "intensity": _sortable(density, "" if density is None else f"{density:.3g}"),
    }


def _sortable(value: float | None, text: str) -> tuple[str, str]:
    """What a cell is sorted by, and what it shows."""
    return "" if value is None else f"{value:.6g}", text


def _bars(row: Row, engines: Sequence[str]) -> Markup:
    timings = [timing for engine in engines if (timing := row.timing(engine)) is not None]
    peers = [timing.milliseconds for timing in timings if timing.engine in PEERS]
    if not timings:
        return Markup("")
    best = min(peers) if peers else min(timing.milliseconds for timing in timings)
    return bars_svg(
        [
            Bar(
                _name(timing.engine),
                f"engine-{_kind(timing.engine, engines)}",
                timing.milliseconds / best,
                timing.milliseconds,
            )
            for timing in timings
        ]
    )


def _time(result: Timing | Failure) -> dict[str, str]:
    """A cell: what to sort by, what to show, and what is said against it."""
    match result:
        case Failure(_, message):
            return {"value": "", "text": "failed", "kind": "wrong", "title": message}
        case Timing():
            figure = f"{result.milliseconds:.4g}"
            turns = f"turns from {result.fastest:.4g} to {result.slowest:.4g} ms"
            cell = {
                "value": f"{result.milliseconds:.6g}",
                "text": figure,
                "kind": "",
                "title": turns,
            }
            if result.deviation is not None and not result.deviation <= AGREEMENT:
                return {**cell, "text": f"{figure} off by {result.deviation:.1g}", "kind": "wrong"}
            if is_unsteady(result):
                return {**cell, "text": f"{figure} ~"}
            return cell
        case _:
            assert_never(result)
