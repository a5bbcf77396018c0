"""How long whole networks take to tune, and what after how long.

    python -m benchmarks.tuning_networks --seeds 1 --trials 64 --markdown networks.md

What it does: tunes each network as `tasor tune` does, from nothing but the schedules with zero
trials, and tells how fast its kernels were for who stopped earlier. What it does not: compare
searches (`tuning_curves`, `tuning_ablation`) or engines (`tasor bench --trials`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of, table_lines
from benchmarks.tuning_runs import USUAL_SEARCH, Run, milestones, prepared, runs
from benchmarks.tuning_tables import asked_cases, median_gains, parser_of, runs_document
from tasor.pipeline import settings_of
from tensorgen.own_process import set_up_own_process
from tensorgen.target import host_target

PROGRAM = "benchmarks.tuning_networks"

NETWORKS = "^(resnet50|bert|mobilenetv2)$"
"""Those that are tuned by default."""

NEAR = 0.95
"""What has this share of the speed that a network has in the end is near it."""

TITLES = ("network", "kernels", "trials for each", "seconds", "times as fast", "share of the best")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = parser_of(PROGRAM, "How long networks take to tune.", "networks", NETWORKS)
    parser.set_defaults(seeds=1)
    arguments = parser.parse_args(words)
    if words is None:
        set_up_own_process()
    progress = Console(stderr=True, highlight=False)
    cases = asked_cases(arguments, PROGRAM, progress)
    if not cases:
        return 64
    settings = settings_of("host", arguments.threads)
    networks = tuple(prepared(cases, settings))
    found: list[Run] = []
    for run in runs(networks, [USUAL_SEARCH], arguments.seeds, arguments.trials, settings):
        found.append(run)
        progress.print(f"{run.case}, seed {run.seed}: {run.seconds:.1f} s", markup=False)
    kernels = {network.name: len(network.tasks) for network in networks}
    lines = rows(found, kernels, arguments.trials)
    table = Table(*TITLES)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(found, lines, arguments), encoding="utf-8")
    write_json(arguments.json, runs_document(arguments, [USUAL_SEARCH], found))
    return 0


def rows(found: Sequence[Run], kernels: dict[str, int], trials: int) -> tuple[tuple[str, ...], ...]:
    """A row for no trials and for each milestone of each network, medians over seeds."""
    lines = []
    for case in dict.fromkeys(run.case for run in found):
        own = [run for run in found if run.case == case]
        gains = (1.0, *median_gains(found, case, USUAL_SEARCH.name))
        spent = (0.0, *(median(column) for column in zip(*(r.spent for r in own), strict=True)))
        for count, seconds, gain in zip((0, *milestones(trials)), spent, gains, strict=True):
            lines.append((
                case, str(kernels[case]), str(count), f"{seconds:.0f}", f"{gain:.3f}",
                f"{gain / max(gains):.3f}",
            ))  # fmt: skip
    return tuple(lines)


def seconds_until_near(run: Run) -> float:
    """Seconds of trials until a tuning had NEAR of the best that it found; 0 without trials."""
    enough = NEAR * max(1.0, *run.gains)
    if enough <= 1.0:
        return 0.0
    return next(s for s, gain in zip(run.spent, run.gains, strict=True) if gain >= enough)


def markdown(
    found: Sequence[Run], lines: Sequence[tuple[str, ...]], arguments: argparse.Namespace
) -> str:
    """The table as a page."""
    options = options_of(arguments, "only", "seeds", "trials", "threads")
    near = (
        f"{case} {median(seconds_until_near(run) for run in found if run.case == case):.0f} s"
        for case in dict.fromkeys(run.case for run in found)
    )
    return "\n".join([
        "# How long networks take to tune",
        "",
        made_by(PROGRAM, options),
        f"{host_target().name}, threads: {arguments.threads}, seeds: {arguments.seeds}.",
        "",
        "Each network is tuned from nothing but the schedules with zero trials. A row says how",
        "fast its kernels are together for who stops then: the best schedules so far, built as a",
        "library builds them and raced with those without trials. Seconds are those of trials; the",
        "race in the end is not among them.",
        "",
        f"Seconds until {NEAR:.0%} of the best: {', '.join(near)}.",
        "",
        *table_lines(TITLES, lines),
        "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
