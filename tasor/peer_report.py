"""Says what a comparison found: geometric means, a table for the terminal, a JSON document.

What it does not: measure.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import exp, fsum, log
from pathlib import Path
from typing import assert_never

from rich.markup import escape
from rich.table import Table

from tasor.peer_engines import TUNED, engine_version
from tasor.peers import Failure, Row, Timing
from tasor.roofline import (
    Ceiling,
    flops_per_second,
    percent,
    share_of_fed_peak,
    share_of_peak,
)

Json = Mapping[str, object]

Ratio = Callable[[Row], float | None]

RATIOS: Mapping[str, Ratio] = {
    "ratio": lambda row: row.ratio,
    "tuned ratio": lambda row: row.tuned_ratio,
    "gain": lambda row: row.gain,
}
"""What is said of a case: best peer over Tasor, best peer over Tasor as tuned, and Tasor with zero
trials over Tasor as tuned."""

AGREEMENT = 1e-3
"""Outputs further apart than this share of their range are shown as wrong."""

_NOISY = 0.1
"""Turns further apart than this share of their median are shown as unsteady."""


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers; ValueError if there are none or one is not."""
    if not values or any(value <= 0 for value in values):
        raise ValueError(f"geometric mean: expected positive numbers, got {list(values)}")
    return exp(fsum(map(log, values)) / len(values))


def group_means(
    rows: Sequence[Row], ratio_of: Ratio = RATIOS["ratio"]
) -> dict[tuple[str, int], float]:
    """Geometric mean of the ratios per group and number of threads, and over `all` groups.

    Rows without a ratio are left out. It is that of zero trials, unless another is asked for.
    """
    ratios: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        ratio = ratio_of(row)
        if ratio is not None:
            for group in (row.group, "all"):
                ratios.setdefault((group, row.threads), []).append(ratio)
    ordered = sorted(ratios, key=lambda key: (key[0] == "all", *key))
    return {key: geometric_mean(ratios[key]) for key in ordered}


def ratios_of(rows: Sequence[Row]) -> dict[str, Ratio]:
    """Those of RATIOS that a comparison has: all where Tasor took part as tuned."""
    is_tuned = any(result.engine == TUNED for row in rows for result in row.results)
    return {name: ratio for name, ratio in RATIOS.items() if is_tuned or name == "ratio"}


def ratio_text(ratio: float | None) -> str:
    """A ratio for a table; nothing for None."""
    return "" if ratio is None else f"{ratio:.2f}"


def is_unsteady(timing: Timing) -> bool:
    """Whether the turns disagreed, or the engine kept the processor busy between them."""
    return not timing.quiet or timing.slowest - timing.fastest > _NOISY * timing.milliseconds


def threads_text(threads: int) -> str:
    """`1 thread`, `2 threads`."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def _figure(result: Timing | Failure) -> str:
    match result:
        case Failure():
            return "[red]failed[/red]"
        case Timing():
            mark = " ~" if is_unsteady(result) else ""
            wrong = result.deviation is not None and not result.deviation <= AGREEMENT
            figure = f"{result.milliseconds:.4g}{mark}"
            return f"[red]{figure} off by {result.deviation:.1g}[/red]" if wrong else figure
        case _:
            assert_never(result)


def table(rows: Sequence[Row], engines: Sequence[str], ceilings: Sequence[Ceiling] = ()) -> Table:
    """Median times in milliseconds; `~` marks a figure whose turns disagreed.

    There is a column for the share that Tasor reached of each peak that was measured.
    """
    ratios = ratios_of(rows)
    more = "; gain = tasor / tasor tuned" if "gain" in ratios else ""
    drawn = Table(title=f"median time of one run in ms; ratio = best peer / tasor{more}")
    drawn.add_column("case")
    drawn.add_column("threads", justify="right")
    measured = bool(ceilings) or any(row.peak is not None for row in rows)
    fed = any(row.fed_peak is not None for row in rows)
    shares = [*(["of peak"] if measured else []), *(["of fed peak"] if fed else [])]
    for engine in (*engines, *ratios, *shares):
        drawn.add_column(engine, justify="right")
    for row in rows:
        figures = [_figure(result) for result in row.results]
        figures += [ratio_text(ratio(row)) for ratio in ratios.values()]
        figures += [percent(share_of_peak(row, ceilings))] if measured else []
        figures += [percent(share_of_fed_peak(row))] if fed else []
        drawn.add_row(escape(row.case), str(row.threads), *figures)
    return drawn


def failure_lines(rows: Sequence[Row]) -> tuple[str, ...]:
    """One line for each engine that failed on a case: which, where and why."""
    return tuple(
        f"{result.engine} failed on {row.case!r} with {threads_text(row.threads)}: {result.message}"
        for row in rows
        for result in row.results
        if isinstance(result, Failure)
    )


def summary(rows: Sequence[Row]) -> Table:
    """Geometric mean of the ratios per group."""
    drawn = Table(title="geometric mean of the ratios")
    drawn.add_column("group")
    drawn.add_column("threads", justify="right")
    for name in ratios_of(rows):
        drawn.add_column(name, justify="right")
    for (group, threads), means in mean_ratios(rows).items():
        figures = ("" if mean is None else f"{mean:.3f}" for mean in means.values())
        drawn.add_row(escape(group), str(threads), *figures)
    return drawn


def mean_ratios(rows: Sequence[Row]) -> dict[tuple[str, int], dict[str, float | None]]:
    """The geometric means of all ratios that a comparison has, by name, for each group that has a
    ratio to its peers."""
    means = {name: group_means(rows, ratio) for name, ratio in ratios_of(rows).items()}
    return {key: {name: means[name].get(key) for name in means} for key in means["ratio"]}


def machine() -> Json:
    """What the figures depend on: when, processor, CPUs this process may use, load, system."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "time": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": _processor(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count() if cpus is None else len(cpus),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor()


def _key(name: str) -> str:
    return name.replace(" ", "_")


def _row_document(row: Row, ceilings: Sequence[Ceiling], ratios: Mapping[str, Ratio]) -> Json:
    return {
        "case": row.case,
        "group": row.group,
        "threads": row.threads,
        "flops": row.flops,
        "traffic_bytes": row.traffic,
        "flops_per_second": flops_per_second(row),
        "peak_flops": row.peak,
        "share_of_peak": share_of_peak(row, ceilings),
        "fed_peak_flops": row.fed_peak,
        "share_of_fed_peak": share_of_fed_peak(row),
        **{_key(name): ratio(row) for name, ratio in ratios.items()},
        "engines": {result.engine: _result_document(result) for result in row.results},
    }


def _result_document(result: Timing | Failure) -> Json:
    match result:
        case Failure(_, message):
            return {"failure": message}
        case Timing():
            return {
                "median_ms": result.milliseconds,
                "fastest_turn_ms": result.fastest,
                "slowest_turn_ms": result.slowest,
                "calls": result.calls,
                "load_seconds": result.load_seconds,
                # JSON knows no infinity.
                "deviation": str(result.deviation)
                if result.deviation == float("inf")
                else result.deviation,
                "quiet": result.quiet,
                "in_c_ms": result.in_c,
            }
        case _:
            assert_never(result)


def document(
    rows: Sequence[Row],
    engines: Sequence[str],
    settings: Json,
    ceilings: Sequence[Ceiling] = (),
) -> Json:
    """Everything that was found, as JSON values; `settings` says how it was measured.

    Rates are in flop/s and bytes/s; shares of the peak are null where none was measured.
    """
    return {
        "machine": machine(),
        "versions": {engine: engine_version(engine) for engine in engines},
        "settings": settings,
        "ceilings": [
            {
                "threads": ceiling.threads,
                "peak_flops": ceiling.peak,
                "bandwidths": {item.level: item.bytes_per_second for item in ceiling.bandwidths},
            }
            for ceiling in ceilings
        ],
        "rows": [_row_document(row, ceilings, ratios_of(rows)) for row in rows],
        "geometric_means": [
            {
                "group": group,
                "threads": threads,
                **{_key(name): mean for name, mean in means.items()},
            }
            for (group, threads), means in mean_ratios(rows).items()
        ],
    }
