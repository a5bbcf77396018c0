"""Tables of tunings side by side, and the command line that makes them.

Gains are medians over seeds. To sum cases up, each is a share of the largest that any search has
for the case in the end, and shares are averaged geometrically: 1 is a search that always wins.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, pattern
from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of, table_lines
from benchmarks.tuning_runs import Run, Variant, milestones, prepared, runs
from tasor.pipeline import settings_of
from tasor.suites.sources import SUITES, Source, sources
from tensorgen.target import host_target


def median_gains(found: Sequence[Run], case: str, variant: str) -> tuple[float, ...]:
    """The medians over seeds of a case's gains, one for each milestone."""
    own = [run for run in found if (run.case, run.variant) == (case, variant)]
    return tuple(map(median, zip(*(run.gains for run in own), strict=True)))


def mean_shares(found: Sequence[Run], variant: str) -> tuple[float, ...]:
    """The geometric means over cases of the median gains, each over the largest that a search has
    for the case in the end."""
    cases = list(dict.fromkeys(run.case for run in found))
    names = list(dict.fromkeys(run.variant for run in found))
    shares = []
    for case in cases:
        most = max(median_gains(found, case, name)[-1] for name in names)
        shares.append(tuple(gain / most for gain in median_gains(found, case, variant)))
    return tuple(prod(column) ** (1 / len(cases)) for column in zip(*shares, strict=True))


def titles(trials: int) -> list[str]:
    """The columns of a table: trials for each kernel."""
    return [f"{count} trials" for count in milestones(trials)]


def markdown(
    found: Sequence[Run],
    variants: Sequence[Variant],
    arguments: argparse.Namespace,
    program: str,
    own: Sequence[str] = (),
) -> str:
    """The tables as a page; `program` is the module that was asked for them, with its `own`
    options (`compare`)."""
    columns = ("search", *titles(arguments.trials))
    options = options_of(arguments, "suite", "only", "seeds", "trials", "threads", *own)
    seconds = sum(run.seconds for run in found)
    lines = [
        "# Searches for schedules, side by side",
        "",
        made_by(program, options),
        f"{host_target().name}, threads: {arguments.threads}, seeds: {arguments.seeds}; "
        f"{len(found)} tunings, {seconds:.0f} s of trials.",
        "",
        "Each tuning starts with nothing but the schedules with zero trials. Columns are what who",
        "stops after so many trials for each kernel of a case has then: the best schedules so far,",
        "built as a library builds them and raced with those without trials. `random` draws in the",
        "same space, from the same start.",
        "",
        "## All cases",
        "",
        "The gain so far, as a share of the largest that a search has in the end: medians over",
        "seeds, geometric means over cases.",
        "",
        *table_lines(
            columns,
            [(v.name, *(f"{share:.3f}" for share in mean_shares(found, v.name))) for v in variants],
        ),
    ]
    lines += ["", "## Each case", "", "Times as fast as with zero trials, medians over seeds."]
    for case in dict.fromkeys(run.case for run in found):
        gains = [
            (v.name, *map("{:.3f}".format, median_gains(found, case, v.name))) for v in variants
        ]
        lines += ["", f"### {case}", "", *table_lines(columns, gains)]
    return "\n".join([*lines, ""])


def parser_of(program: str, text: str, suite: str, only: str) -> argparse.ArgumentParser:
    """The options of a comparison, with the suite and the cases that it is made for."""
    parser = Parser(prog=program, description=text)
    parser.add_argument("--suite", choices=SUITES, default=suite)
    parser.add_argument(
        "--only", type=pattern, default=pattern(only), metavar="REGEX", help=f"default: {only}"
    )
    parser.add_argument("--seeds", type=count_of, default=5, metavar="N")
    parser.add_argument(
        "--trials", type=count_of, default=64, metavar="N", help="for each kernel, on average"
    )
    parser.add_argument("--threads", type=count_of, default=1, metavar="N")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def asked_cases(
    arguments: argparse.Namespace, program: str, progress: Console
) -> tuple[Source, ...]:
    """The cases of a comparison; a line says so if there are none."""
    cases = sources(arguments.suite, (1,), arguments.only)
    if not cases:
        progress.print(
            f"{program}: --only: expected a case of {arguments.suite}, got none that matches; "
            "choose another expression",
            markup=False,
            soft_wrap=True,
        )
    return cases


def compare(
    arguments: argparse.Namespace,
    variants: Sequence[Variant],
    program: str,
    own: Sequence[str] = (),
) -> int:
    """Measure what is asked for, print the table of all cases, and write the files. `own` are
    options of the program beside those of `parser_of`."""
    progress = Console(stderr=True, highlight=False)
    cases = asked_cases(arguments, program, progress)
    if not cases:
        return 64
    settings = settings_of("host", arguments.threads)
    found: list[Run] = []
    made = runs(prepared(cases, settings), variants, arguments.seeds, arguments.trials, settings)
    for run in made:
        found.append(run)
        progress.print(
            f"{run.case}, {run.variant}, seed {run.seed}: {run.gains[-1]:.3f}, {run.seconds:.1f} s",
            markup=False,
        )
    table = Table("search", *titles(arguments.trials), title="share of the largest gain")
    for variant in variants:
        table.add_row(variant.name, *(f"{share:.3f}" for share in mean_shares(found, variant.name)))
    Console().print(table)
    if arguments.markdown is not None:
        text = markdown(found, variants, arguments, program, own)
        arguments.markdown.write_text(text, encoding="utf-8")
    write_json(arguments.json, runs_document(arguments, variants, found))
    return 0


def runs_document(
    arguments: argparse.Namespace, variants: Sequence[Variant], found: Sequence[Run]
) -> dict[str, object]:
    """Tunings as JSON values."""
    return {
        "threads": arguments.threads,
        "milestones": milestones(arguments.trials),
        "variants": [asdict(variant) for variant in variants],
        "runs": [asdict(run) for run in found],
    }
