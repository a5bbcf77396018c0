"""The demonstration, `make demo`: two trained models, from ONNX to C, beside their peers.

What it does: compiles PP-OCR's text orientation and recognition models, shows their graphs before
and after the optimization, the kernels and the memory, runs them beside ONNX Runtime and OpenVINO,
and prints the largest difference between the outputs and the time of one run. Exit codes: 0 shown,
1 an engine failed or disagreed, 69 a package or the C compiler is missing.
What it does not: tune, or hide a model that is slower.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx
from rich.console import Console

import tasor
from tasor.command_bench import all_agree
from tasor.command_show import model_views
from tasor.errors import EXIT_DONE, EXIT_NO, exit_code, one_line
from tasor.peer_cases import write_case
from tasor.peer_engines import ONNX_READERS, MissingPackage, require_engines
from tasor.peer_report import failure_lines, table
from tasor.peers import Comparison, Row, Timing
from tasor.suites.real_models import REAL_MODELS, RealModel

MODELS = ("ppocr-angle", "ppocr-recognition")
ENGINES = ("tasor", *ONNX_READERS)
KERNELS = 12
THREADS = 1
SECONDS = 2.0
ROUNDS = 5


def show(model: RealModel, console: Console) -> None:
    """Compiles the model and prints what it becomes."""
    compiled = tasor.compile(model.path(), shapes=model.shapes_by_name, threads=THREADS)
    console.rule(model.name)
    for view in model_views(compiled, kernels=KERNELS):
        console.print(view)


def measure(model: RealModel, engines: tuple[str, ...], folder: Path) -> Row:
    """The model on every engine, in turns."""
    case = write_case(
        folder / f"{model.name}.onnx",
        onnx.load(model.path()),
        name=model.name,
        group="trained models",
        shapes=model.shapes_by_name,
        inputs=model.inputs(),
    )
    with Comparison(engines, THREADS) as comparison:
        return comparison.measure(case, seconds=SECONDS, rounds=ROUNDS)


def difference_lines(rows: Sequence[Row]) -> tuple[str, ...]:
    """For each model how far Tasor's outputs are from those of ONNX Runtime."""
    return tuple(
        f"{row.case}: outputs differ from ONNX Runtime's by at most {timing.deviation:.1e} of "
        "their range"
        for row in rows
        if isinstance(timing := row.timing("tasor"), Timing) and timing.deviation is not None
    )


def available_engines() -> tuple[str, ...]:
    """Tasor and those of its peers that are installed; MissingPackage without ONNX Runtime."""
    require_engines(("onnxruntime",))
    found = []
    for engine in ENGINES:
        try:
            require_engines((engine,))
        except MissingPackage:
            continue
        found.append(engine)
    return tuple(found)


def main() -> int:
    """Runs the demonstration; returns the exit code."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    chosen = [model for model in REAL_MODELS if model.name in MODELS]
    try:
        engines = available_engines()
        for model in chosen:
            show(model, console)
        with tempfile.TemporaryDirectory(prefix="tasor-demo-") as folder:
            rows = [measure(model, engines, Path(folder)) for model in chosen]
    except Exception as error:
        print(f"demo: {type(error).__name__}: {one_line(error)}", file=sys.stderr)
        return exit_code(error)
    console.rule(f"one run, {THREADS} thread")
    console.print(table(rows, engines))
    for line in (*difference_lines(rows), *failure_lines(rows)):
        console.print(line, markup=False, soft_wrap=True)
    return EXIT_DONE if all_agree(rows) else EXIT_NO


if __name__ == "__main__":
    sys.exit(main())
