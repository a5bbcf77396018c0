"""A compiled model: called with numpy arrays, or saved as a C library.

What it does: builds the emitted C for this machine at the first call, runs it, and writes the
folder with the library, its self-test and its build files. What it does not: compute anything but
through the emitted C.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from graphopt.onnx_import.errors import printable
from tasor.errors import UsageError
from tasor.output_folder import check_output_folder, write_output_folder
from tasor.pipeline import Question, Stages
from tasor.self_test_vectors import NoSelfTest, self_test_of
from tensorgen.build import build_library
from tensorgen.library import InputError, Library
from tensorgen.module import library_sources, module_files, source_flags
from tensorgen.module_spec import Module
from tensorgen.ports import Port
from tensorgen.target import Target, host_target
from tensorgen.types import Array


@dataclass(frozen=True, slots=True)
class Saved:
    """What `CompiledModel.save` wrote: the folder, its files, and why there is no self-test."""

    folder: Path
    files: tuple[str, ...]
    no_self_test: str | None


def check_runs_here(target: Target) -> None:
    """UsageError if this machine cannot run code for the target."""
    if not (target.hosted and target.runs_on(platform.machine())):
        raise UsageError(
            f"target: expected one that this machine can run, such as {host_target().name}, got "
            f"{target.name}; compile it into a folder and run it there"
        )


def loaded_library(module: Module) -> Library:
    """The module, built for this machine and loaded into this process.

    Raises UsageError for another machine's target, ToolMissing without a compiler, BuildError if
    it refuses the code.
    """
    check_runs_here(module.target)
    files = module_files(module)
    weights = f"{module.name}.weights" if module.weights == "file" else None
    sources = library_sources(module, files)
    path = build_library(
        {name: content for name, content in sources.items() if name != weights},
        target=module.target,
        source_flags=source_flags(module),
        strict=module.strict,
        threads=module.threads,
    )
    ports = (module.inputs, module.outputs)
    if weights is None:
        return Library(path, module.name, *ports, module.arena_bytes)
    # The library holds on to the content of the file, not to its name.
    with TemporaryDirectory() as folder:
        place = Path(folder, weights)
        place.write_bytes(files[weights])
        return Library(path, module.name, *ports, module.arena_bytes, place)


class CompiledModel:
    """A model compiled for fixed shapes. May be called from several threads at once.

    `inputs` and `outputs` are its ports (name and tensor type) in the model's order, `arena_bytes`
    is the scratch memory that one call needs.
    """

    def __init__(self, question: Question, stages: Stages) -> None:
        self.question = question
        self.stages = stages
        self.module = stages.compilation.module
        self.inputs: tuple[Port, ...] = self.module.inputs
        self.outputs: tuple[Port, ...] = self.module.outputs
        self.arena_bytes = self.module.arena_bytes
        self._input_names = tuple(port.name for port in self.inputs)
        self._in_order = _by_name(self._input_names)
        self._output_names = tuple(port.name for port in self.outputs)
        self._library: Library | None = None
        self._lock = threading.Lock()

    @property
    def library(self) -> Library:
        """The loaded library, built when it is first asked for; errors as `loaded_library`."""
        if self._library is None:
            with self._lock:
                if self._library is None:
                    self._library = loaded_library(self.module)
        return self._library

    def __call__(self, *arrays: Array) -> Array | tuple[Array, ...]:
        """The output for inputs in the model's order; a tuple if there are several outputs.

        Arrays may have any strides but need the element type and shape of their port. Raises
        InputError for others, and errors as `library`.
        """
        outputs = self._outputs(arrays)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name for inputs by name; errors as calling the model."""
        outputs = self._outputs(self._ordered(arrays))
        return dict(zip(self._output_names, outputs, strict=True))

    def run_into(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Computes into arrays that the caller keeps; all are contiguous and in the model's order.

        Spares each call the allocation of its outputs. Errors as calling the model.
        """
        self.library.run_into(arrays, outputs)

    def bind(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """A function of nothing that does `run_into` on these arrays, whatever they hold by then.

        They are checked once, here, and kept; each call spares the checks, which take longer than
        the way into the library does. Errors as calling the model.
        """
        return self.library.bind(arrays, outputs)

    def empty_inputs(self) -> tuple[Array, ...]:
        """New arrays for `run_into` and `bind`, of any content, aligned to be quick to read."""
        return self.library.empty_inputs()

    def empty_outputs(self) -> tuple[Array, ...]:
        """New arrays for `run_into` and `bind`, of any content, aligned to be quick to write."""
        return self.library.empty_outputs()

    def _outputs(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        try:
            return self.library.run(arrays)
        except InputError:
            # To look at every array first would cost each call more than the library's own checks.
            return self.library.run([_contiguous(array) for array in arrays])

    def _ordered(self, arrays: Mapping[str, Array]) -> tuple[Array, ...]:
        try:
            ordered = self._in_order(arrays)
        except KeyError:
            ordered = ()
        if not len(arrays) == len(ordered) == len(self._input_names):
            wanted = ", ".join(repr(printable(name)) for name in self._input_names)
            got = ", ".join(repr(printable(name)) for name in arrays)
            raise InputError(
                f"inputs: expected arrays for {wanted or 'nothing'}, got {got or 'none'}; give "
                "exactly one for each"
            )
        return ordered

    def save(self, folder: str | Path) -> Saved:
        """Writes the C library as the whole content of a folder, which appears at once.

        OutputError if the folder holds anything else or cannot be written.
        """
        path = Path(folder)
        check_output_folder(path)
        flops = sum(kernel.flops * kernel.calls for kernel in self.stages.compilation.kernels)
        test = self_test_of(self.question, self.stages.imported, self.inputs, flops)
        if isinstance(test, NoSelfTest):
            module, reason = self.module, test.reason
        else:
            module, reason = replace(self.module, self_test=test), ""
        files = module_files(module)
        write_output_folder(path, files)
        return Saved(path, tuple(sorted(files)), reason if reason else None)


def _by_name(names: tuple[str, ...]) -> Callable[[Mapping[str, Array]], tuple[Array, ...]]:
    """A function that takes these out of a mapping, in this order; KeyError if one is not there."""
    if len(names) < 2:
        return lambda arrays: tuple(arrays[name] for name in names)
    # A third of the time that Python's own loop takes, and every call comes here.
    return itemgetter(*names)


def _contiguous(array: Array) -> Array:
    """The array itself where the library takes it as it is."""
    if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, requirements=["C", "A"])
