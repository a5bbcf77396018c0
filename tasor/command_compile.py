"""`tasor compile`: a model in, a library out, and what to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tasor
from graphopt.onnx_import.errors import printable
from tasor.compiled_model import CompiledModel, Saved
from tasor.output_folder import check_output_folder
from tasor.reporter import Reporter
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
    search: bool = True
    winograd: bool = True
    machine: str | None = None
    records: Path | None = None
    seed: int = 0


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
        search=options.search,
        winograd=options.winograd,
        machine=options.machine,
        records=options.records,
        seed=options.seed,
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
            {"rule": rule, "count": count} for rule, count in model.stages.rules_applied
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
