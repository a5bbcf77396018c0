"""How many trials a second tuning makes, for each case by itself and for all together.

    python -m benchmarks.tuning_rate --suite operators --trials 64 --threads 2 --markdown rate.md

What it does: tunes each case as `tasor tune` does, from nothing but the schedules with zero trials,
and tells how many trials that were in how many seconds, and how many candidates were at fault.
What it does not: look at what trials found (`tuning_curves`, `tuning_networks`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of, table_lines
from benchmarks.tuning_runs import USUAL_SEARCH, Prepared, prepared, tuning_of
from benchmarks.tuning_tables import asked_cases, parser_of
from tasor.pipeline import Settings, settings_of
from tensorgen.own_process import set_up_own_process
from tensorgen.target import host_target
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.measurer import Measurer
from tensorgen.tune.outcome import FAULTS, parts_of

PROGRAM = "benchmarks.tuning_rate"

SHORT = 1e-3
"""Seconds of a call up to which a kernel is short: of longer ones calls take the time, and not what
tuning does besides."""

TITLES = ("case", "longest kernel", "trials", "at fault", "seconds", "trials a second")


@dataclass(frozen=True, slots=True)
class Tuned:
    """One tuning of a case: the seconds of a call of its longest kernel with zero trials, how many
    trials all kernels had in how many seconds, and how many of them were at fault."""

    case: str
    longest: float
    trials: int
    faults: int
    seconds: float


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = parser_of(PROGRAM, "How many trials a second tuning makes.", "operators", "")
    parser.set_defaults(seeds=1)
    arguments = parser.parse_args(words)
    if words is None:
        set_up_own_process()
    progress = Console(stderr=True, highlight=False)
    cases = asked_cases(arguments, PROGRAM, progress)
    if not cases:
        return 64
    settings = settings_of("host", arguments.threads)
    found: list[Tuned] = []
    with LocalMeasurer(settings.target, settings.threads, prints_apart=True) as measurer:
        for case in prepared(cases, settings):
            for seed in range(arguments.seeds):
                found.append(tuned(case, seed, arguments.trials, settings, measurer))
                progress.print(", ".join(_row(found[-1])), markup=False)
    lines = tuple(rows(found))
    table = Table(*TITLES)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(lines, arguments), encoding="utf-8")
    write_json(
        arguments.json, {"threads": arguments.threads, "tunings": [asdict(one) for one in found]}
    )
    return 0


def tuned(case: Prepared, seed: int, trials: int, settings: Settings, measurer: Measurer) -> Tuned:
    """One tuning, which knows of no other. Raises MeasureError."""
    with tuning_of(case, USUAL_SEARCH, seed, trials, settings) as tuning:
        for _ in tuning.run(measurer):
            pass
        outcomes = [outcome for search in tuning.searches.values() for outcome in search.outcomes]
        return Tuned(
            case.name,
            max(tuning.history.before.values(), default=0.0),
            len(outcomes),
            sum(parts_of(outcome)[0] in FAULTS for outcome in outcomes),
            tuning.history.seconds,
        )


def rows(found: Sequence[Tuned]) -> Iterator[tuple[str, ...]]:
    """A row for each tuning, one for those whose kernels are all short, and one for all."""
    yield from map(_row, found)
    short = [one for one in found if one.longest <= SHORT]
    if short:
        yield _row(_together(f"up to {SHORT * 1e3:g} ms", short))
    yield _row(_together("all", found))


def _together(name: str, found: Sequence[Tuned]) -> Tuned:
    return Tuned(
        name,
        max(one.longest for one in found),
        sum(one.trials for one in found),
        sum(one.faults for one in found),
        sum(one.seconds for one in found),
    )


def _row(one: Tuned) -> tuple[str, ...]:
    return (
        one.case,
        f"{one.longest * 1e3:.3g} ms",
        str(one.trials),
        str(one.faults),
        f"{one.seconds:.1f}",
        f"{one.trials / one.seconds:.0f}" if one.seconds else "",
    )


def markdown(lines: Sequence[tuple[str, ...]], arguments: argparse.Namespace) -> str:
    """The table as a page."""
    options = options_of(arguments, "suite", "only", "seeds", "trials", "threads")
    return "\n".join([
        "# How many trials a second tuning makes",
        "",
        made_by(PROGRAM, options),
        f"{host_target().name}, threads: {arguments.threads}, seeds: {arguments.seeds}.",
        "",
        "Each case is tuned by itself as `tasor tune` does, from nothing but the schedules with",
        "zero trials; seconds are those until the last trial is measured, the race in the end is",
        "not among them. A kernel is finished before its trials are used up where it is near its",
        "bound, where its space has no more points, or where it no longer gets faster.",
        "",
        *table_lines(TITLES, lines),
        "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
