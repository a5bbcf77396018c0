"""`tasor run`: a model or a folder with a library, run on given or random inputs, and timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from tasor.command_compile import CompileOptions
from tasor.compiled_model import check_runs_here
from tasor.library_folder import LibraryFolder, read_library_folder
from tasor.options import as_stored, check_names
from tasor.output_file import check_writable, write_files
from tasor.peer_worker import Timed, time_turn
from tasor.pipeline import Question, library_name, settings_of
from tasor.reporter import Reporter
from tasor.sample_inputs import sample_inputs
from tasor.specialize import compile_for
from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.ports import Port, unique_identifiers
from tensorgen.types import Array

_ANY_FILE = "output.npy"

_SECONDS = 1.0
"""For how long the model is run to time it; once at least."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run gave. `random` names the inputs that were drawn; `files` are the outputs'."""

    outputs: tuple[tuple[Port, Array], ...]
    random: tuple[str, ...]
    timed: Timed
    files: tuple[str, ...]


def run_model(
    model: str,
    given: Mapping[str, Array],
    options: CompileOptions,
    seed: int,
    folder: Path | None,
    reporter: Reporter,
) -> Ran:
    """Compiles and runs a model. Sizes that it leaves open come from the inputs given."""
    if folder is not None:
        check_writable(folder / _ANY_FILE)
    settings = settings_of(
        options.target, options.threads, strict=options.strict, weights=options.weights,
        machine=options.machine, observer=reporter,
    )  # fmt: skip
    check_runs_here(settings.target)
    question = Question(model, library_name(model), options.shapes, options.bindings)
    compiled = compile_for(question, settings, given, reporter)
    bound = compiled.question.bindings
    arrays = {name: array for name, array in given.items() if name not in bound}
    reporter.begins("build")
    library = compiled.library
    return _run(library, arrays, seed, folder, reporter)


def run_folder(
    path: Path, given: Mapping[str, Array], seed: int, folder: Path | None, reporter: Reporter
) -> Ran:
    """Builds and runs the sources in a folder that `tasor compile` wrote."""
    if folder is not None:
        check_writable(folder / _ANY_FILE)
    stored = read_library_folder(path)
    check_names(given, tuple(port.name for port in stored.inputs))
    check_runs_here(stored.target)
    for name in stored.changed_files():
        reporter.say(f"note: {name} is not as Tasor wrote it")
    reporter.begins("build")
    return _run(_built(stored), given, seed, folder, reporter)


def _built(stored: LibraryFolder) -> Library:
    weights = f"{stored.name}.weights"
    embedded = weights if stored.weights == "object" else None
    sources: dict[str, str | bytes] = {
        name: stored.file(name)
        for name in sorted(stored.digests)
        if name in stored.source_flags or name.endswith(".h") or name == embedded
    }
    library = build_library(
        sources,
        target=stored.target,
        source_flags=stored.source_flags,
        strict=stored.strict,
        threads=stored.threads,
    )
    mapped = stored.path / weights if stored.weights == "file" else None
    return Library(library, stored.name, stored.inputs, stored.outputs, stored.arena_bytes, mapped)


def _run(
    library: Library,
    given: Mapping[str, Array],
    seed: int,
    folder: Path | None,
    reporter: Reporter,
) -> Ran:
    reporter.begins("run")
    arrays: dict[str, Array] = sample_inputs(library.inputs, seed)
    random = tuple(name for name in arrays if name not in given)
    for port in library.inputs:
        if port.name in given:
            array = as_stored(given[port.name], port.type.dtype.numpy)
            arrays[port.name] = np.require(array, requirements=["C", "A"])
    ordered = [arrays[port.name] for port in library.inputs]
    outputs = library.run(ordered)
    timed = _timed(library, ordered, outputs)
    named = tuple(zip(library.outputs, outputs, strict=True))
    files: Mapping[str, bytes] = {} if folder is None else output_files(named)
    if folder is not None:
        write_files(folder, files)
    return Ran(named, random, timed, tuple(files))


def _timed(library: Library, inputs: Sequence[Array], outputs: Sequence[Array]) -> Timed:
    return time_turn(library.bind(inputs, outputs), _SECONDS)


def output_files(outputs: Sequence[tuple[Port, Array]]) -> dict[str, bytes]:
    """A .npy file for each output, named for it as far as file systems allow."""
    names = unique_identifiers([port.name for port, _ in outputs])
    files: dict[str, bytes] = {}
    for name, (_, array) in zip(names, outputs, strict=True):
        stream = BytesIO()
        np.save(stream, array, allow_pickle=False)
        files[f"{name}.npy"] = stream.getvalue()
    return files
