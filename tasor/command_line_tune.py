"""The command `tasor tune`: what may be typed, and what is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tasor.command_line_options import (
    Bindings,
    NoWinograd,
    Quiet,
    Shapes,
    Strict,
    TargetName,
    Threads,
)
from tasor.errors import UsageError
from tasor.options import named_arrays, named_numbers, named_shapes
from tasor.output_file import check_file_place, write_file
from tasor.pipeline import Question, checked_shapes, library_name, settings_of
from tasor.reporter import Reporter, Verbosity
from tasor.terminal import draw, progress_bar
from tensorgen.tune.measurer import MeasureError

DEFAULT_TRIALS = 64
"""Trials for each kernel, where no other number is asked for."""


def tune(
    models: Annotated[list[str], typer.Argument(metavar="MODEL…", help="ONNX files")],
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", min=0, help="for each kernel, on average")
    ] = DEFAULT_TRIALS,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE.sqlite", help="default: one in the cache folder"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="a folder for each tuned library"),
    ] = None,
    shape: Shapes = [],  # noqa: B006
    bind: Bindings = [],  # noqa: B006
    target: TargetName = "host",
    threads: Threads = None,
    no_winograd: NoWinograd = False,
    strict: Strict = False,
    weight: Annotated[
        list[str],
        typer.Option("--weight", metavar="MODEL=2.5", help="count its time so many times"),
    ] = [],  # noqa: B006
    latency: Annotated[
        list[str],
        typer.Option(
            "--latency", metavar="MODEL=MS", help="milliseconds at which it gets no more trials"
        ),
    ] = [],  # noqa: B006
    mean_speed: Annotated[
        bool, typer.Option("--mean-speed", help="count models alike, however long they take")
    ] = False,
    patience: Annotated[
        int | None,
        typer.Option("--patience", metavar="N", help="stop a kernel after N trials without a gain"),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="staged, evolution, descent, random-descent or random",
        ),
    ] = "staged",
    no_cost_model: Annotated[
        bool, typer.Option("--no-cost-model", help="choose by estimates, not by what was measured")
    ] = False,
    equal_trials: Annotated[
        bool,
        typer.Option("--equal-trials", help="give each kernel as many, worth it or not"),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="ADDRESS", help="measure on the workers of a dask scheduler"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="fixes all randomness")
    ] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="write the result as JSON")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", "--html", metavar="FILE.html", help="write a page with plots"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure schedules for models' kernels, on this machine or a cluster, equal kernels once."""
    # Loaded when it runs: the learned model brings what no other command needs.
    from tasor.command_tune import (
        failures_table,
        library_folders,
        models_table,
        save_models,
        tasks_table,
        tune_document,
        tune_models,
    )
    from tasor.measuring_place import check_cluster
    from tasor.model_tuning import FailedModel
    from tasor.tune_questions import questions_of
    from tasor.tune_report import tune_page
    from tasor.tune_request import TuneRequest, check_request

    for file in (json_file, report):
        if file is not None:
            check_file_place(file)
    shapes = checked_shapes(named_shapes(shape))
    bindings = named_arrays(bind, "--bind")
    questions = questions_of(
        [Question(model, library_name(model), shapes, bindings) for model in models]
    )
    request = TuneRequest(
        trials,
        records,
        seed,
        weights=named_numbers(weight, "--weight"),
        latencies=named_numbers(latency, "--latency"),
        mean_speed=mean_speed,
        patience=patience,
        strategy=strategy,
        learned=not no_cost_model,
        gradient=not equal_trials,
        cluster=cluster,
    )
    check_request(request, questions)
    folders = library_folders(output, questions)
    check_cluster(cluster)
    settings = settings_of(target, threads, strict=strict, winograd=not no_winograd)
    with (
        Reporter(Verbosity(0, not quiet)) as reporter,
        progress_bar("trials", shown=not quiet) as advance,
    ):
        result = tune_models(questions, settings, request, reporter, advance)
    saved = save_models(result, folders)
    if json_file is not None:
        write_file(json_file, f"{json.dumps(tune_document(result, saved), indent=1)}\n".encode())
    if report is not None:
        write_file(report, tune_page(result, settings, request).encode())
    if not quiet:
        found = (tasks_table(result), models_table(result), failures_table(result))
        draw(*(table for table in found if table is not None))
    failed = [model for model in result.models if isinstance(model, FailedModel)]
    if len(failed) == len(result.models):
        raise UsageError(failed[0].reason)
    if result.stopped is not None:
        raise MeasureError(f"{result.stopped}; tune again with the same records to go on")
