"""The engines of a comparison, each behind the same two calls: run once, and give the outputs.

What it does: opens one model in Tasor, ONNX Runtime, OpenVINO or PyTorch with the same number of
threads and float32 arithmetic, inputs and outputs bound to memory beforehand where the engine
allows it.
What it does not: time anything. The engines are imported when they are opened, not before.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from tasor.peer_cases import Case
from tasor.peer_torch import torch_program
from tensorgen.calls_in_c import repeated_calls
from tensorgen.types import Array

Outputs = tuple[Array, ...]


class MissingPackage(RuntimeError):
    """A peer is not installed. The message names the package and how to get it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model ready to run: `run` is one inference, `outputs` what the last one computed.

    `in_c` gives a loop in C that makes so many inferences, which has to be compiled; None for an
    engine that has no C to call.
    """

    run: Callable[[], object]
    outputs: Callable[[], Outputs]
    in_c: Callable[[], Callable[[int], None]] | None = None


Opener = Callable[[Case, int, Mapping[str, object]], Opened]
"""Opens a case in an engine, with so many threads and with options."""

TUNED = "tasor tuned"
"""Tasor once more, with the schedules that trials found."""


def _open_tasor(case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    compiled = importlib.import_module("tasor").compile(
        str(case.model), shapes=case.shapes, threads=threads, **options
    )
    return _opened(compiled, case)


def _open_tuned(case: Case, threads: int, options: Mapping[str, Any]) -> Opened:
    """As `_open_tasor`; `schedules` among the options are those of tasks that were tuned."""
    pipeline = importlib.import_module("tasor.pipeline")
    question = pipeline.Question(str(case.model), pipeline.library_name(case.model), case.shapes)
    others = {name: value for name, value in options.items() if name != "schedules"}
    target = others.pop("target", "host")
    settings = replace(
        pipeline.settings_of(target, threads, **others), schedules=options["schedules"]
    )
    stages = pipeline.run_stages(question, settings)
    compiled = importlib.import_module("tasor.compiled_model").CompiledModel(question, stages)
    return _opened(compiled, case)


def _opened(model: Any, case: Case) -> Opened:
    """A compiled model with its inputs and outputs bound."""
    given = dict(case.inputs)
    inputs = [given[port.name] for port in model.inputs]
    buffers = model.empty_outputs()
    bound = {port.name: array for port, array in zip(model.outputs, buffers, strict=True)}
    return Opened(
        model.bind(inputs, buffers),
        lambda: tuple(bound[name].copy() for name in case.outputs),
        lambda: repeated_calls(model.library, inputs, buffers),
    )


def _open_onnxruntime(case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    assert not options
    runtime = importlib.import_module("onnxruntime")
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.log_severity_level = 3
    session = runtime.InferenceSession(
        str(case.model), settings, providers=["CPUExecutionProvider"]
    )
    inputs = dict(case.inputs)
    binding = session.io_binding()
    for name, array in case.inputs:
        binding.bind_cpu_input(name, array)
    # Buffers of the right sizes spare each run the allocation of its outputs.
    for name, array in zip(case.outputs, session.run(list(case.outputs), inputs), strict=True):
        binding.bind_ortvalue_output(name, runtime.OrtValue.ortvalue_from_numpy(array))
    return Opened(
        lambda: session.run_with_iobinding(binding),
        lambda: tuple(binding.copy_outputs_to_cpu()),
    )


def _open_openvino(case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    assert not options
    openvino = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(str(case.model), "CPU", settings)
    request = compiled.create_infer_request()
    inputs = dict(case.inputs)
    for port in compiled.inputs:
        name = next(name for name in sorted(port.get_names()) if name in inputs)
        request.set_tensor(port, openvino.Tensor(inputs[name], shared_memory=True))

    def outputs() -> Outputs:
        request.infer(share_outputs=True)
        return tuple(
            np.array(request.get_output_tensor(position).data)
            for position in range(len(case.outputs))
        )

    return Opened(lambda: request.infer(share_outputs=True), outputs)


def _open_torch(case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    """Eager calls of PyTorch's functions: it reads no ONNX."""
    assert not options
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    program = torch_program(onnx.load(case.model), torch, case.model.parent)
    inputs = {name: torch.from_numpy(np.array(array)) for name, array in case.inputs}

    def run() -> tuple[Any, ...]:
        with torch.inference_mode():
            return program.run(inputs)

    return Opened(run, lambda: tuple(np.array(output.numpy()) for output in run()))


_OPENERS: Mapping[str, Opener] = {
    "tasor": _open_tasor,
    TUNED: _open_tuned,
    "onnxruntime": _open_onnxruntime,
    "openvino": _open_openvino,
    "torch": _open_torch,
}

ENGINES: tuple[str, ...] = tuple(name for name in _OPENERS if name != TUNED)
"""Tasor, then its peers, by the names of their packages."""

PEERS: tuple[str, ...] = tuple(name for name in ENGINES if name != "tasor")

ONNX_READERS = ("onnxruntime", "openvino")
"""The peers that take any ONNX model as it is."""


def open_model(engine: str, case: Case, threads: int, options: Mapping[str, object]) -> Opened:
    """`case` in the engine of that name; `options` go to `tasor.compile`, with `schedules` for
    TUNED (peers take none)."""
    return _OPENERS[engine](case, threads, options)


def require_engines(engines: tuple[str, ...]) -> None:
    """Raise ValueError for an unknown engine, MissingPackage for one that is not installed."""
    for engine in engines:
        if engine not in _OPENERS:
            raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")
        if importlib.util.find_spec(_package(engine)) is None:
            raise MissingPackage(
                f"engine {engine!r}: expected its package, got none; pip install {engine}"
            )


def engine_version(engine: str) -> str:
    """The installed version, or `unpackaged` for one that runs from its source tree."""
    try:
        return importlib.metadata.version(_package(engine))
    except importlib.metadata.PackageNotFoundError:
        return "unpackaged"


def _package(engine: str) -> str:
    return "tasor" if engine == TUNED else engine
