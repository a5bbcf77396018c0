"""How well the cost model ranks schedules: the best of its top 8 among 512 drawn at random.

    python -m benchmarks.cost_model_quality --draws 512 --top 8 --seeds 3 --markdown model.md

What it does: for the longest kernel of each operator, has the tuner's search make its trials, and
measures 512 other points of the space. The model is then fitted to what a tuning may know, and
ranks the draws (`cost_model_ranking`); those at the top race once more with those that were really
fast, so that a lucky figure is not taken for the best.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import count_of
from benchmarks.cost_model_ranking import (
    ENOUGH,
    KNOWLEDGE,
    SEARCH,
    Quality,
    finalists,
    medians,
    quality,
    rankings,
    summary_of,
)
from benchmarks.cost_model_samples import CAREFUL, Asked, raced_again, sampled
from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of, table_lines
from benchmarks.tuning_curves import OPERATORS
from benchmarks.tuning_runs import Prepared, prepared
from benchmarks.tuning_tables import asked_cases, parser_of
from tasor.pipeline import Settings, settings_of
from tensorgen.calibration import calibrated
from tensorgen.target import host_target
from tensorgen.tune.local_measurer import LocalMeasurer

PROGRAM = "benchmarks.cost_model_quality"

LEAST_DRAWS = 4
"""A kernel with fewer draws for each at the top is passed over: its search measures nearly all of
its space, and whatever is named is among the best."""

TITLES = (
    "fitted to", "first", "least", "again", "least", f"from {ENOUGH}", "rank correlation", "fast",
    "seconds",
)  # fmt: skip

CASE_TITLES = ("fitted to", "trials", "first", "again", "rank correlation", "fast", "seconds")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = parser_of(PROGRAM, "How well the cost model ranks.", "operators", OPERATORS)
    parser.add_argument("--draws", type=count_of, default=512, metavar="N", help="of each kernel")
    parser.add_argument("--top", type=count_of, default=8, metavar="N", help="how many it may name")
    parser.set_defaults(seeds=3)
    arguments = parser.parse_args(words)
    progress = Console(stderr=True, highlight=False)
    cases = asked_cases(arguments, PROGRAM, progress)
    if not cases:
        return 64
    settings = settings_of("host", arguments.threads)
    found: list[Quality] = []

    def tell(line: str) -> None:
        progress.print(line, markup=False, soft_wrap=True)

    for judged in measured(tuple(prepared(cases, settings)), arguments, settings, tell):
        found.append(judged)
        tell(
            f"{judged.case}, seed {judged.seed}, fitted to {judged.knowledge}: "
            f"{judged.first:.3f}, again {judged.again:.3f}, "
            f"rank correlation {judged.correlation:.2f}"
        )
    table = Table(*TITLES)
    for knowledge in KNOWLEDGE if found else ():
        table.add_row(*summary_of(found, knowledge).cells())
    Console().print(table)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(found, arguments), encoding="utf-8")
    content = {
        "threads": arguments.threads, "trials": arguments.trials, "draws": arguments.draws,
        "top": arguments.top, "results": [asdict(judged) for judged in found],
    }  # fmt: skip
    write_json(arguments.json, content)
    return 0


def measured(
    cases: Sequence[Prepared],
    arguments: argparse.Namespace,
    settings: Settings,
    tell: Callable[[str], None],
) -> Iterator[Quality]:
    """Every case sampled with every seed, and judged when all are. Raises MeasureError."""
    target, threads = settings.target, settings.threads
    machine = calibrated(target, threads)
    with (
        LocalMeasurer(target, threads) as measurer,
        LocalMeasurer(target, threads, rules=CAREFUL) as careful,
    ):
        for seed in range(arguments.seeds):
            asked = Asked(arguments.trials, arguments.draws, seed)
            samples = []
            for case in cases:
                samples.append(sampled(case, asked, settings, machine, measurer, careful))
                tell(f"{case.name}, seed {seed}: {len(samples[-1].draws)} draws")
            for number, sample in enumerate(samples):
                if len(sample.draws) < LEAST_DRAWS * arguments.top:
                    tell(f"{sample.case}, seed {seed}: passed over, its search leaves too few")
                    continue
                ranked = rankings(samples, number, seed)
                again = raced_again(sample, finalists(sample, ranked, arguments.top), careful)
                for ranking in ranked:
                    yield quality(sample, ranking, again, arguments.top, seed)


def _case_row(found: Sequence[Quality], case: str, knowledge: str) -> tuple[str, ...]:
    row = medians(found, case, knowledge)
    return (
        knowledge, f"{row['learned']:.0f}", f"{row['first']:.3f}", f"{row['again']:.3f}",
        f"{row['correlation']:.2f}", f"{row['fast']:.2f}", f"{row['spent']:.2f}",
    )  # fmt: skip


def markdown(found: Sequence[Quality], arguments: argparse.Namespace) -> str:
    """The tables as a page."""
    options = options_of(arguments, "suite", "only", "draws", "top", "seeds", "trials", "threads")
    known = KNOWLEDGE if found else ()
    lines = [
        "# How well the cost model ranks schedules",
        "",
        made_by(PROGRAM, options),
        f"{host_target().name}, threads: {arguments.threads}, seeds: {arguments.seeds}.",
        "",
        f"Of the longest kernel of each operator, the tuner's search makes {arguments.trials}",
        f"trials; {arguments.draws} other points of the space are drawn at random and measured. A",
        "new model is fitted to the trials of that search, to those of the other operators, to",
        "both, or to as many of the draws, and ranks the draws that it was not fitted to; with",
        "`nothing` it is the estimate, and `the figures` is the order of the first figures, which",
        "says how much of the rest is chance.",
        "",
        f"Of those that a ranking names, its top {arguments.top}, the best one counts: its speed",
        "as a share of that of the best of all draws that are ranked, by the `first` figures, and",
        "`again` by one more race of the tops of all rankings and the fastest draws, in turns.",
        "Rank correlations are Spearman's: of all draws with their first figures, and `fast` of",
        "those in that race with the figures of it. Seconds are those of learning everything at",
        "once and ranking once. Medians over seeds. Kernels of which the search leaves fewer than",
        f"{LEAST_DRAWS * arguments.top} points are passed over.",
        "",
        "## All operators",
        "",
        "Geometric means of shares, and the least of them; how many operators have at least",
        f"{ENOUGH} by the last race; means of the others.",
        "",
        *table_lines(TITLES, (summary_of(found, name).cells() for name in known)),
    ]
    cases = dict.fromkeys(judged.case for judged in found)
    most = max((medians(found, case, SEARCH)["search_share"] for case in cases), default=0.0)
    lines += [
        "",
        f"Learning and scoring took at most {most:.1%} of the time of a search.",
        "",
        "## Each operator",
        "",
        "The best draw and the best of the search are told as times as fast as without trials; the",
        "model's share is that of the time of the search in which its thread was learning and",
        "scoring; it waits, too, while others of the process write kernels.",
    ]
    for case in cases:
        any_of = medians(found, case, KNOWLEDGE[0])
        lines += [
            "",
            f"### {case}",
            "",
            f"{any_of['ranked']:.0f} draws, {any_of['failed']:.0f} without a figure; best draw "
            f"{any_of['draws_gain']:.3f}, search {any_of['search_gain']:.3f}, model's share "
            f"{any_of['search_share']:.1%}.",
            "",
            *table_lines(CASE_TITLES, (_case_row(found, case, name) for name in KNOWLEDGE)),
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
