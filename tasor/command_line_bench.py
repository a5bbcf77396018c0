"""The command `tasor bench`: Tasor beside its peers, in turns, with the same threads.

What it does: reads the options, has `command_bench` measure, and writes what came out where it was
asked for: the terminal, JSON, Markdown, a page. What it does not: measure, or choose words for it.
The modules that do it are loaded when the command runs: suites, peers and pages would make every
other command of Tasor start slower.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tasor.command_line_options import Bindings, NoWinograd, Quiet, Shapes
from tasor.errors import EXIT_NO
from tasor.options import named_arrays, named_shapes
from tasor.output_file import check_file_place, write_file
from tasor.reporter import Reporter, Verbosity
from tasor.terminal import draw, print_line

# Options of `bench` that take one or more values, and what such a value looks like.
_REPEATED = {
    "--suite": re.compile(r"[^-].*", re.DOTALL),
    "--threads": re.compile(r"[0-9]+"),
    "--batch": re.compile(r"[0-9]+"),
}


def with_repeated_options(words: Sequence[str]) -> list[str]:
    """`--threads 1 2` as `--threads 1 --threads 2`, for the options of `bench` that allow it."""
    if "bench" not in words[:1]:
        return list(words)
    result: list[str] = []
    current, wants_value = None, False
    for word in words:
        if word in _REPEATED:
            current, wants_value = word, True
        elif wants_value:
            wants_value = False
        elif current is not None and _REPEATED[current].fullmatch(word):
            result.append(current)
        else:
            current = None
        result.append(word)
    return result


def bench(
    models: Annotated[list[str], typer.Argument(metavar="[MODEL]...", help="ONNX files")] = [],  # noqa: B006
    suite: Annotated[
        list[str],
        typer.Option(
            "--suite",
            metavar="operators|networks|modern|layers|real|MODEL...",
            help="what to measure",
        ),
    ] = [],  # noqa: B006
    threads: Annotated[
        list[int], typer.Option("--threads", metavar="N...", help="one round for each number")
    ] = [1],  # noqa: B006
    against: Annotated[
        list[str], typer.Option("--against", metavar="A,B", help="among onnxruntime,openvino,torch")
    ] = ["onnxruntime,openvino"],  # noqa: B006
    batch: Annotated[
        list[int], typer.Option("--batch", metavar="N...", help="of the suite operators")
    ] = [1],  # noqa: B006
    only: Annotated[
        str, typer.Option("--only", metavar="REGEX", help="the cases of a suite to measure")
    ] = "",
    shape: Shapes = [],  # noqa: B006
    bind: Bindings = [],  # noqa: B006
    target: Annotated[
        str, typer.Option("--target", metavar="T", help="what Tasor compiles for; runs here")
    ] = "host",
    no_winograd: NoWinograd = False,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials", metavar="N", min=0, help="Tasor once more, tuned by N for each kernel"
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            "--records", metavar="FILE.sqlite", help="trials on file; alone, the best of these"
        ),
    ] = None,
    peak: Annotated[
        bool, typer.Option("--peak", help="plain multiply-adds take turns; shares are of theirs")
    ] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="for each case and engine")] = 1.0,
    rounds: Annotated[int, typer.Option("--rounds", help="turns of each engine")] = 5,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="write what was found")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="the same as a page of tables")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", "--html", metavar="FILE.html", help="the same as a page with plots"
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure Tasor beside its peers, in turns, with the same threads on the same cores."""
    from tasor.bench_report import bench_page
    from tasor.command_bench import (
        BenchOptions,
        all_agree,
        check_options,
        checked_engines,
        measure,
        measured_ceilings,
        sources_of,
    )
    from tasor.peer_markdown import markdown
    from tasor.peer_report import document, failure_lines, group_means, summary, table

    if trials is None and records is not None:
        trials = 0
    options = BenchOptions(
        suites=(*suite, *models),
        threads=tuple(threads),
        batches=tuple(batch),
        only=only,
        engines=checked_engines(against, tuned=trials is not None),
        shapes=named_shapes(shape),
        bindings=named_arrays(bind, "--bind"),
        target=target,
        winograd=not no_winograd,
        seconds=seconds,
        rounds=rounds,
        trials=trials,
        records=records,
        peak=peak,
    )
    check_options(options)
    for file in (json_file, markdown_file, report):
        if file is not None:
            check_file_place(file)
    sources = sources_of(options)
    with Reporter(Verbosity(0, not quiet)) as reporter:
        rows = measure(sources, options, reporter)
        ceilings = measured_ceilings(options, reporter)
    if not quiet:
        draw(table(rows, options.engines, ceilings))
        for line in failure_lines(rows):
            print_line(line)
        if group_means(rows):
            draw(summary(rows))
    settings = {
        "suites": list(options.suites),
        "batches": list(options.batches),
        "seconds": seconds,
        "rounds": rounds,
        "target": target,
        "winograd": not no_winograd,
        **({} if trials is None else {"trials": trials}),
        **({"peak": "in turns"} if peak else {}),
    }
    if markdown_file is not None:
        text = markdown(rows, options.engines, settings, ceilings)
        write_file(markdown_file, text.encode())
    if report is not None:
        page = bench_page(rows, options.engines, settings, ceilings)
        write_file(report, page.encode())
    if json_file is not None:
        content = document(rows, options.engines, settings, ceilings)
        write_file(json_file, f"{json.dumps(content, indent=1)}\n".encode())
    if not all_agree(rows):
        raise typer.Exit(EXIT_NO)
