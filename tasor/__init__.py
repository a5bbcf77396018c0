"""The front door: public interface, command line and reports. No algorithm lives here.

model = tasor.compile("m.onnx", shapes={"x": (1, 3, 224, 224)}, threads=2)
y = model(x)
model.save("out/")
tasor.optimize("m.onnx").save("optimized.onnx")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphopt.onnx_import.errors import (
    ModelError,
    NeedsConstant,
    UnpinnedDimension,
    UnsupportedOperator,
    printable,
)
from tasor.compiled_model import CompiledModel
from tasor.errors import InputFileError, OutputError, UsageError
from tasor.graph_search import search_options, searched_graph
from tasor.machine_choice import MachineSource
from tasor.model_tuning import recorded_stages, tuned_stages
from tasor.optimized_model import OptimizedModel
from tasor.pipeline import (
    SILENT,
    ModelSource,
    Observer,
    Question,
    checked_shapes,
    import_stage,
    library_name,
    optimize_stage,
    run_stages,
    settings_of,
)
from tasor.tune_request import TuneRequest
from tensorgen.build import BuildError, ToolMissing
from tensorgen.calibration import CalibrationError
from tensorgen.library import InputError, RunError
from tensorgen.module_spec import WeightMode
from tensorgen.ports import c_identifier
from tensorgen.target import Target, TargetError
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.records import RecordsError
from tensorgen.types import Array, Shape, ShapeError

__all__ = [
    "BuildError",
    "CalibrationError",
    "CompiledModel",
    "InputError",
    "InputFileError",
    "MeasureError",
    "ModelError",
    "NeedsConstant",
    "Observer",
    "OptimizedModel",
    "OutputError",
    "RecordsError",
    "RunError",
    "ShapeError",
    "TargetError",
    "ToolMissing",
    "UnpinnedDimension",
    "UnsupportedOperator",
    "UsageError",
    "compile",
    "optimize",
]


def compile(
    model: ModelSource,
    *,
    shapes: Mapping[str, Shape] | None = None,
    bindings: Mapping[str, Array] | None = None,
    target: str | Target = "host",
    threads: int | None = None,
    trials: int = 0,
    strict: bool = False,
    weights: WeightMode | None = None,
    name: str | None = None,
    search: bool = True,
    winograd: bool = True,
    machine: MachineSource | None = None,
    records: str | Path | None = None,
    seed: int = 0,
    observer: Observer = SILENT,
) -> CompiledModel:
    """Compile an ONNX model (a path, a file's bytes or a proto) to C.

    `shapes` fixes the shapes of inputs that the model leaves open, `bindings` fixes inputs to
    values known now. `threads` None means one for each core of the target. `strict` keeps the
    order of floating-point operations. `weights` says where constants live: "c" source, an
    "object" file, or a "file" of their own. `name` starts the names of all files and functions.
    `search` looks for cheaper graphs by estimated costs; `winograd` lets kernels filter
    convolutions with fewer products where that is faster, which rounds more. `strict` forbids both.

    Schedules are chosen by constants that are typical for the target, so that the same model gives
    the same bytes everywhere. `machine` gives others: "calibrated" measures this machine, once, a
    path names what `tasor calibrate --json` wrote.

    With `trials`, so many schedules for each kernel on average are measured on this machine, and
    those that are faster are taken; `records` is the file that keeps all trials, by default one in
    the cache folder, and a compilation that finds its trials there makes no others. With `records`
    and no trials, schedules on file are taken. `seed` fixes all randomness of the search.

    Raises ModelError, with its subclasses, for anything wrong with the model; TargetError for an
    unknown target; UsageError for other arguments that make no sense; CalibrationError and
    InputFileError for a machine that cannot be measured or read; with trials or records also
    MeasureError and ToolMissing where nothing can be measured, and RecordsError for a file of
    trials that cannot be used.
    """
    if type(trials) is not int or trials < 0:
        raise UsageError(
            f"trials: expected a whole number from 0, got {printable(trials)}; choose 64, say"
        )
    settings = settings_of(
        target, threads, strict=strict, weights=weights, search=search, winograd=winograd,
        machine=machine, observer=observer,
    )  # fmt: skip
    question = _question(model, shapes, bindings, name)
    stages = run_stages(question, settings, observer)
    file = None if records is None else Path(records)
    if trials:
        stages = tuned_stages(question, stages, settings, TuneRequest(trials, file, seed), observer)
    elif file is not None:
        stages = recorded_stages(question, stages, settings, file, observer)
    return CompiledModel(question, stages)


def optimize(
    model: ModelSource,
    *,
    shapes: Mapping[str, Shape] | None = None,
    bindings: Mapping[str, Array] | None = None,
    target: str | Target = "host",
    threads: int | None = None,
    search: bool = True,
    budget: float | None = None,
    graphs: int | None = None,
    alpha: float | None = None,
    measure: bool = False,
    winograd: bool = False,
    discovered: bool = False,
    run: bool = True,
    observer: Observer = SILENT,
) -> OptimizedModel:
    """Run the graph stage alone: rules to a fixed point, then a search for a cheaper graph.

    The search ends after `budget` seconds or `graphs` graphs of each distinct region; `alpha`
    bounds how much more than the best known a graph may cost to be rewritten further (1: none).
    Costs are estimated for `target` and `threads`; with `measure` kernels are timed here.
    `winograd` lets it use minimal filtering for convolutions, which rounds more, `discovered` the
    rules that enumeration found, which takes about twice as long. `run` compiles and runs the
    graphs: a result that measures slower than without the search is dropped, and differences to the
    model are reported. Without a C compiler nothing is run, and the report says so. `search` False
    leaves all of it out.

    Raises as `compile`; with `measure` also ToolMissing, without a C compiler, and BuildError.
    """
    options = search_options(
        budget, graphs, alpha, measure=measure, winograd=winograd, discovered=discovered, run=run
    )
    settings = settings_of(target, threads)
    imported = import_stage(_question(model, shapes, bindings, None), observer)
    optimized = optimize_stage(imported, observer)
    if not search:
        return OptimizedModel(imported, optimized)
    graph, found = searched_graph(
        imported, optimized.graph, options, settings.target, settings.threads, observer.begins
    )
    observer.searched(found.result)
    return OptimizedModel(imported, optimized, graph, found)


def _question(
    model: ModelSource,
    shapes: Mapping[str, Shape] | None,
    bindings: Mapping[str, Array] | None,
    name: str | None,
) -> Question:
    return Question(
        model,
        library_name(model) if name is None else c_identifier(name),
        checked_shapes(shapes),
        {} if bindings is None else dict(bindings),
    )
