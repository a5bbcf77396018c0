"""`tasor compile` and `tasor optimize`: a model in, files out, and what to say about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

import tasor
from graphopt.onnx_import.errors import printable
from tasor.compiled_model import CompiledModel, Saved
from tasor.optimized_model import OptimizationReport, OptimizedModel
from tasor.output_file import check_file_place, write_file
from tasor.output_folder import check_output_folder
from tasor.reporter import Reporter
from tasor.tables import operators_table, rules_table
from tensorgen.module_spec import WeightMode
from tensorgen.ports import Port
from tensorgen.types import Array, Shape


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What `tasor compile`, `run` and `show` have in common."""

    shapes: Mapping[str, Shape]
    bindings: Mapping[str, Array]
    target: str
    threads: int | None
    trials: int
    strict: bool
    weights: WeightMode | None
    name: str | None


def compiled(model: str, options: CompileOptions, reporter: Reporter) -> CompiledModel:
    """The model, compiled as the options say."""
    return tasor.compile(
        model,
        shapes=options.shapes,
        bindings=options.bindings,
        target=options.target,
        threads=options.threads,
        trials=options.trials,
        strict=options.strict,
        weights=options.weights,
        name=options.name,
        observer=reporter,
    )


def compile_into(
    model: str, folder: Path, options: CompileOptions, reporter: Reporter
) -> tuple[CompiledModel, Saved]:
    """Compiles a model and writes its library; refuses the folder before it does any work."""
    check_output_folder(folder)
    result = compiled(model, options, reporter)
    reporter.begins("save")
    return result, result.save(folder)


def saved_line(model: CompiledModel, saved: Saved) -> str:
    """What was written, on one line."""
    compilation = model.stages.compilation
    return (
        f"{printable(saved.folder)}: {len(saved.files)} files of the library "
        f"{model.module.name} for {model.module.target.name}, {model.module.threads} threads; "
        f"{len(compilation.kernels)} kernels, arena {model.arena_bytes} bytes, "
        f"weights {compilation.weight_bytes} bytes"
    )


def port_values(ports: tuple[Port, ...]) -> list[dict[str, object]]:
    """Ports as JSON values."""
    return [
        {"name": port.name, "dtype": port.type.dtype.name, "shape": list(port.type.shape)}
        for port in ports
    ]


def compilation_document(model: CompiledModel) -> dict[str, object]:
    """What is known of a compiled model, as JSON values."""
    compilation, module = model.stages.compilation, model.module
    return {
        "name": module.name,
        "target": module.target.name,
        "threads": module.threads,
        "strict": module.strict,
        "inputs": port_values(model.inputs),
        "outputs": port_values(model.outputs),
        "arena_bytes": model.arena_bytes,
        "arena_lower_bound": compilation.arena.lower_bound,
        "weight_bytes": compilation.weight_bytes,
        "weights": module.weights,
        "calls": len(module.calls),
        "kernels": [
            {
                "name": kernel.name,
                "expression": kernel.expression,
                "schedule": kernel.schedule,
                "calls": kernel.calls,
                "flops": kernel.flops,
                "bytes": kernel.bytes,
            }
            for kernel in compilation.kernels
        ],
        "rules_applied": [
            {"rule": rule, "count": count} for rule, count in model.stages.optimized.applied
        ],
    }


def saved_document(model: CompiledModel, saved: Saved) -> dict[str, object]:
    """The same with what was written."""
    return compilation_document(model) | {
        "folder": str(saved.folder),
        "files": list(saved.files),
        "self_test": saved.no_self_test is None,
        "no_self_test": saved.no_self_test,
    }


def optimize_into(
    model: str,
    output: Path,
    report: Path | None,
    shapes: Mapping[str, Shape],
    bindings: Mapping[str, Array],
    reporter: Reporter,
) -> OptimizedModel:
    """Optimizes a model and writes it, and the report where one is wanted."""
    for path in (output, *(() if report is None else (report,))):
        check_file_place(path)
    result = tasor.optimize(model, shapes=shapes, bindings=bindings, observer=reporter)
    reporter.begins("save")
    page = None if report is None else report_page(result.report)
    result.save(output)
    if report is not None and page is not None:
        write_file(report, page.encode())
    return result


def report_page(report: OptimizationReport) -> str:
    """The report as an HTML page of its own."""
    console = Console(record=True, width=120, file=StringIO(), highlight=False)
    console.print(str(report).partition("\n")[0], markup=False)
    console.print(operators_table(report))
    console.print(rules_table(report))
    return console.export_html(theme=DEFAULT_TERMINAL_THEME, inline_styles=True)


def report_document(report: OptimizationReport) -> dict[str, object]:
    """The report as JSON values."""
    return {
        "operators": [
            {"operator": name, "before": before, "after": after}
            for name, before, after in report.operators
        ],
        "rules_applied": [{"rule": rule, "count": count} for rule, count in report.applied],
        "seconds": report.seconds,
        "stopped": report.stopped,
    }
