"""`tasor calibrate`: this machine's constants, and how far estimates that go by them are off.

What it does: has `tensorgen.calibration` measure, has `model_error` hold the estimates of a suite
against its kernels, and draws what they found. What it does not: time anything itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from graphopt.onnx_import.errors import printable
from tasor.command_bench import BenchOptions, sources_of
from tasor.model_error import Kernels, ModelError, Prediction, predictions
from tasor.pipeline import Question, Settings, run_stages
from tasor.reporter import Reporter
from tensorgen.calibration import Calibration
from tensorgen.machine import Level, Machine, Rate
from tensorgen.target import KIB, MIB
from tensorgen.types import Shape

MEASURED, TYPICAL = "measured constants", "typical constants"


def model_errors(
    suites: Sequence[str],
    only: str,
    shapes: Mapping[str, Shape],
    calibration: Calibration,
    settings: Settings,
    reporter: Reporter,
) -> dict[str, tuple[Prediction, ...]]:
    """The cases of the suites, or models, under measured constants and under typical ones.

    Raises what `sources_of` and a compilation do.
    """
    options = BenchOptions(
        suites=tuple(suites), threads=(settings.threads,), batches=(1,), only=only, engines=(),
        shapes=shapes, target=settings.target.name, winograd=settings.winograd, seconds=1.0,
        rounds=1,
    )  # fmt: skip
    cases = []
    with tempfile.TemporaryDirectory(prefix="tasor-calibrate-") as folder:
        for source in sources_of(options):
            case = source.write(Path(folder, "case.onnx"))
            question = Question(str(case.model), "case", case.shapes)
            compilation = run_stages(question, settings, reporter).compilation
            calls = (kernel.calls for kernel in compilation.kernels)
            pairs = tuple(zip(compilation.tasks, calls, strict=True))
            cases.append(Kernels(case.name, pairs))
    reporter.begins("time")
    return predictions(
        cases,
        settings.target,
        settings.threads,
        {MEASURED: calibration.machine, TYPICAL: None},
        lambda done, total: reporter.say(f"{done}/{total} kernels timed"),
    )


def machine_table(calibration: Calibration) -> Table:
    """What the machine does in a second, with one thread and with all."""
    machine, identity = calibration.machine, calibration.identity
    together = f"{machine.threads} thread{'s' if machine.threads > 1 else ''}"
    title = f"{printable(identity['processor'])}, {identity['target']}, {together}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in ("1 thread", *((together,) if machine.threads > 1 else ())):
        table.add_column(column, justify="right")
    table.add_column("")
    shown = table.add_row
    shown("peak, float32", *_cells(machine, machine.flops), "Gflop/s")
    shown("divisions, float32", *_cells(machine, machine.divisions), "G/s")
    for level in machine.levels:
        shown(f"read {_level_name(level)}", *_cells(machine, level.bandwidth), "GB/s")
    if machine.threads > 1:
        shown("parallel region", "", f"{machine.region_seconds * 1e6:.2f}", "µs")
        shown("barrier", "", f"{machine.barrier_seconds * 1e6:.2f}", "µs")
    return table


def _cells(machine: Machine, rate: Rate) -> tuple[str, ...]:
    figures = (rate.alone, rate.together) if machine.threads > 1 else (rate.alone,)
    return tuple(f"{figure / 1e9:.4g}" for figure in figures)


def _level_name(level: Level) -> str:
    if level.bytes == float("inf"):
        return level.name
    unit, name = (MIB, "MiB") if level.bytes >= MIB else (KIB, "KiB")
    return f"{level.name} ({level.bytes / unit:g} {name})"


def kept_line(calibration: Calibration) -> str:
    """Where the figures are from."""
    path = printable(calibration.path)
    if calibration.seconds is None:
        return f"from {path}; --again measures anew"
    return f"measured in {calibration.seconds:.1f} s; kept in {path}"


def error_views(found: Mapping[str, tuple[Prediction, ...]]) -> tuple[Table, Table]:
    """Each case, and what they come to."""
    cases = Table(title="one run of a case, estimated and measured", title_justify="left")
    cases.add_column("case")
    for name in found:
        cases.add_column(f"{name}:\npredicted µs", justify="right")
        cases.add_column("\nmeasured µs", justify="right")
        cases.add_column("\nratio", justify="right")
    for row in zip(*found.values(), strict=True):
        cells = [
            cell
            for item in row
            for cell in (
                f"{item.predicted * 1e6:.4g}", f"{item.measured * 1e6:.4g}", f"{item.ratio:.2f}",
            )
        ]  # fmt: skip
        cases.add_row(Text(printable(row[0].name)), *cells)
    summary = Table(title="error of the estimates", title_justify="left")
    summary.add_column("")
    for column in ("bias", "error", "without bias", "worst", "", "rank correlation"):
        summary.add_column(column, justify="right")
    for name, items in found.items():
        error = ModelError.of(items)
        summary.add_row(
            name, f"{error.bias:.3f}", f"{error.error:.3f}", f"{error.scatter:.3f}",
            f"{error.worst.ratio:.2f}", Text(printable(error.worst.name)), f"{error.rank:.4f}",
        )  # fmt: skip
    return cases, summary


def error_document(found: Mapping[str, tuple[Prediction, ...]]) -> dict[str, object]:
    """The same as JSON, in seconds."""
    return {
        name: {
            "bias": error.bias,
            "error": error.error,
            "without_bias": error.scatter,
            "worst_case": error.worst.name,
            "worst_ratio": error.worst.ratio,
            "rank_correlation": error.rank,
            "cases": [
                {
                    "case": item.name,
                    "predicted_seconds": item.predicted,
                    "measured_seconds": item.measured,
                    "ratio": item.ratio,
                }
                for item in items
            ],
        }
        for name, items in found.items()
        for error in (ModelError.of(items),)
    }
