"""The command `tasor calibrate`: what may be typed, and what is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tasor.command_line_options import Quiet, Shapes
from tasor.options import named_shapes
from tasor.output_file import check_file_place, write_file
from tasor.pipeline import settings_of
from tasor.reporter import Reporter, Verbosity
from tasor.terminal import draw, print_line
from tensorgen.calibration import calibrate as measured_machine
from tensorgen.target import host_target


def calibrate(
    target: Annotated[
        str, typer.Option("--target", metavar="T", help="the code to measure with")
    ] = "host",
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", help="default: the machine's cores")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="measure even if there are figures on file")
    ] = False,
    error: Annotated[
        list[str],
        typer.Option("--error", metavar="SUITE|MODEL", help="time its kernels, too: minutes"),
    ] = [],  # noqa: B006
    only: Annotated[
        str, typer.Option("--only", metavar="REGEX", help="the cases of a suite to time")
    ] = "",
    shape: Shapes = [],  # noqa: B006
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="write what --machine reads")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure this machine: peak, bandwidths, cost of threads; and how far estimates are off."""
    # Loaded when it runs: the suites bring what no other command needs.
    from tasor.command_calibrate import (
        error_document,
        error_views,
        kept_line,
        machine_table,
        model_errors,
    )

    if json_file is not None:
        check_file_place(json_file)
    shapes = named_shapes(shape)
    settings = settings_of(target, host_target().cores if threads is None else threads)
    with Reporter(Verbosity(0, not quiet)) as reporter:
        found = measured_machine(
            settings.target, settings.threads, again=again, tell=reporter.remarks
        )
        if not quiet:
            draw(machine_table(found))
            print_line(kept_line(found))
        errors = model_errors(error, only, shapes, found, settings, reporter) if error else {}
    if errors and not quiet:
        draw(*error_views(errors))
    if json_file is not None:
        content = found.document() | ({"error": error_document(errors)} if errors else {})
        write_file(json_file, f"{json.dumps(content, indent=1)}\n".encode())
