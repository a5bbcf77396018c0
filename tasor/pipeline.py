"""The way from a model to a C library, as a list one can read aloud.

import → optimize → search → compile

What it does: runs the stages one after the other, tells an observer of each, and says in the
metadata where the result comes from. What it does not: know how any stage works.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from graphopt.compiler import Compilation, compile_graph
from graphopt.graph import Graph
from graphopt.onnx_import import import_model
from graphopt.onnx_import.errors import ModelError, printable, quoted
from graphopt.optimize import Optimized, optimize, prepare
from graphopt.search import (
    AnalyticCost,
    SearchResult,
    SearchSettings,
    machine_for,
    search,
    search_rules,
)
from tasor.errors import UsageError
from tasor.machine_choice import MachineSource, chosen_machine
from tensorgen.build import BuildError, ToolMissing, compiler_version, find_compiler
from tensorgen.machine import Machine, machine_document
from tensorgen.module_spec import WeightMode
from tensorgen.ports import c_identifier
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, Shape
from tensorgen.version import tasor_version

ModelSource = onnx.ModelProto | str | Path | bytes
"""A model: an ONNX proto, the path of a file, or a file's bytes."""

MOST_THREADS = 1024

COMPILE_SEARCH = SearchSettings(seconds=math.inf, graphs=60, total_graphs=240, least_gain=0.1)
"""The search of `compile`: estimated costs and a bound in graphs, none in seconds, so that the same
model gives the same bytes. Nothing is measured, so it takes only what estimates do not err about.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be compiled: a model, with the shapes and the values of inputs that are fixed."""

    model: ModelSource
    name: str
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    bindings: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is to be compiled; `weights` None lets their size decide where they are kept.

    `search` looks for cheaper graphs. `winograd` lets kernels filter convolutions with fewer
    products, which rounds more. With `strict` there is neither: both reorder sums. `machine` has
    the constants that schedules are chosen by; None means those that are typical for the target,
    with which the same model gives the same bytes everywhere. `schedules` are those of tasks that
    were tuned.
    """

    target: Target
    threads: int
    strict: bool = False
    weights: WeightMode | None = None
    search: bool = True
    winograd: bool = True
    machine: Machine | None = None
    schedules: Mapping[Task, Schedule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stages:
    """What each stage made of a question."""

    imported: Graph
    optimized: Optimized
    searched: SearchResult | None
    compilation: Compilation

    @property
    def graph(self) -> Graph:
        """The graph that is compiled."""
        return self.optimized.graph if self.searched is None else self.searched.graph

    @property
    def rules_applied(self) -> tuple[tuple[str, int], ...]:
        """How often each rule was applied, by name: those that always are, and the search's."""
        return _rules_applied(self.optimized, self.searched)


def _rules_applied(
    optimized: Optimized, searched: SearchResult | None
) -> tuple[tuple[str, int], ...]:
    counts = Counter(dict(optimized.applied))
    counts.update(item.rule for item in (() if searched is None else searched.applied))
    return tuple(sorted(counts.items()))


class Observer:
    """Is told what happens. This one does nothing with it."""

    def begins(self, step: str) -> None:
        """A step with that name begins; the one before it has ended."""

    def imported(self, graph: Graph) -> None:
        """The model has become a graph."""

    def optimized(self, optimized: Optimized) -> None:
        """The graph has been rewritten."""

    def searched(self, result: SearchResult) -> None:
        """A cheaper graph has been looked for."""

    def compiled(self, compilation: Compilation) -> None:
        """The graph has become a module."""

    def remarks(self, line: str) -> None:
        """Something that is no result, but worth knowing."""


SILENT = Observer()


def settings_of(
    target: str | Target,
    threads: int | None,
    *,
    strict: bool = False,
    weights: WeightMode | None = None,
    search: bool = True,
    winograd: bool = True,
    machine: MachineSource | None = None,
    observer: Observer = SILENT,
) -> Settings:
    """Settings with every default filled in: as many threads as the target has cores.

    Raises TargetError for a target that is not known, what `chosen_machine` does, UsageError for
    the other values.
    """
    chosen = target if isinstance(target, Target) else Target.named(target)
    if threads is None:
        threads = min(chosen.cores, MOST_THREADS)
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise UsageError(
            f"threads: expected a whole number from 1 to {MOST_THREADS}, got {printable(threads)}; "
            "choose the number of cores to use"
        )
    if weights not in (None, "c", "object", "file"):
        raise UsageError(
            f"weights: expected c, object or file, got {printable(weights)}; choose one of these"
        )
    constants = chosen_machine(machine, chosen, threads, observer.remarks)
    return Settings(chosen, threads, strict, weights, search, winograd, constants)


def library_name(model: ModelSource) -> str:
    """A C identifier for a model: from its file's name, else from its graph's."""
    if isinstance(model, onnx.ModelProto):
        return c_identifier(model.graph.name if model.graph.name else "model")
    return "model" if isinstance(model, bytes) else c_identifier(Path(model).stem)


def import_stage(question: Question, observer: Observer = SILENT) -> Graph:
    """The model as a graph. Raises ModelError."""
    observer.begins("import")
    graph = import_model(question.model, shapes=question.shapes, bindings=question.bindings)
    if not graph.outputs:
        raise ModelError("model: expected at least one output, got none; declare its outputs")
    observer.imported(graph)
    return graph


def optimize_stage(graph: Graph, observer: Observer = SILENT) -> Optimized:
    """The graph, rewritten."""
    observer.begins("optimize")
    optimized = optimize(graph)
    observer.optimized(optimized)
    return optimized


def search_stage(
    graph: Graph, settings: Settings, observer: Observer = SILENT
) -> SearchResult | None:
    """The cheapest graph found from an optimized one; None if none is looked for."""
    if settings.strict or not settings.search:
        return None
    observer.begins("search")
    machine = machine_for(graph, settings.target, settings.threads, settings.machine)
    costs = AnalyticCost(settings.target, settings.threads, machine, filtering=settings.winograd)
    result = search(graph, search_rules(), costs, COMPILE_SEARCH)
    observer.searched(result)
    return result


def run_stages(question: Question, settings: Settings, observer: Observer = SILENT) -> Stages:
    """Everything from the model to a module. Raises ModelError and ShapeError."""
    imported = import_stage(question, observer)
    optimized = optimize_stage(imported, observer)
    searched = search_stage(optimized.graph, settings, observer)
    compilation = compile_stage(question, optimized, searched, settings, observer)
    return Stages(imported, optimized, searched, compilation)


def compile_stage(
    question: Question,
    optimized: Optimized,
    searched: SearchResult | None,
    settings: Settings,
    observer: Observer = SILENT,
) -> Compilation:
    """The graph that rules and search have left, as a module. Raises TargetError for one that the
    target cannot address."""
    graph = optimized.graph if searched is None else searched.graph
    observer.begins("compile")
    compilation = compile_graph(
        prepare(graph, None if settings.strict else settings.target),
        name=question.name,
        target=settings.target,
        threads=settings.threads,
        strict=settings.strict,
        weights=settings.weights,
        metadata=_metadata(question, graph, _rules_applied(optimized, searched), settings),
        machine=settings.machine,
        filtering=settings.winograd,
        schedules=settings.schedules,
    )
    observer.compiled(compilation)
    return compilation


def model_sha256(model: ModelSource) -> str:
    """SHA-256 of the model's file, or of the proto as it would be written."""
    if isinstance(model, onnx.ModelProto):
        return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest()
    try:
        with Path(model).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(
            f"model {quoted(Path(model).name)}: expected a readable file, got "
            f"{printable(error.strerror)}; check its path"
        ) from error


def _metadata(
    question: Question, graph: Graph, rules: tuple[tuple[str, int], ...], settings: Settings
) -> dict[str, object]:
    try:
        compiler = compiler_version(find_compiler(settings.target))
    except (ToolMissing, BuildError):
        # The C is the same without a compiler, or with one that does not say what it is.
        compiler = "unknown"
    machine = settings.machine
    return {
        **({} if machine is None else {"machine": machine_document(machine)}),
        "compiler": printable(compiler),
        "fixed_inputs": sorted(question.bindings),
        "graph_digest": graph.digest,
        "model_sha256": model_sha256(question.model),
        "rules_applied": [{"count": count, "rule": name} for name, count in rules],
        "tasor_version": tasor_version(),
        **({"tuned_kernels": len(settings.schedules)} if settings.schedules else {}),
    }


def checked_shapes(shapes: Mapping[str, Shape] | None) -> dict[str, Shape]:
    """Shapes as tuples of whole numbers; UsageError for anything else."""
    result: dict[str, Shape] = {}
    for name, shape in ({} if shapes is None else shapes).items():
        try:
            sizes = tuple(int(size) for size in shape)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"shape of {printable(name)!r}: expected whole numbers, got {printable(shape)}; "
                "give one for each axis"
            ) from error
        result[name] = sizes
    return result
