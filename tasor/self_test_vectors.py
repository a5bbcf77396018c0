"""The self-test that a library carries: inputs and the outputs that it should give.

What it does: computes the expected outputs with something that shares no code with what Tasor
emits: each operator's numpy reference on the graph as imported, before any rewriting; for models
that this would take minutes for, ONNX Runtime, if it is installed. What it does not: run the
library itself, which could only agree with itself.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from graphopt.graph import Graph
from graphopt.onnx_import.errors import printable
from graphopt.reference import evaluate_in_float64
from tasor.pipeline import Question
from tensorgen.module_self_test import generated_input
from tensorgen.module_spec import SelfTest
from tensorgen.ports import Port
from tensorgen.types import Array, type_of

REFERENCE_FLOPS = 2 * 10**9
"""Above this work the numpy references would take minutes."""

REFERENCE_BYTES = 2**31
"""Above this sum of all values the numpy references would take too much memory."""

MOST_PORT_BYTES = 2**30
"""Above this sum of all inputs and outputs a test would take more memory than many have."""

MOST_BYTES = 2**34
"""Above this sum of all values even ONNX Runtime, which drops them early, may find no memory."""

_SHARE = 1e-4
_SHARE_OF_HALF = 1e-2


@dataclass(frozen=True, slots=True)
class NoSelfTest:
    """Why a library gets no self-test."""

    reason: str


def self_test_of(
    question: Question, graph: Graph, ports: Sequence[Port], flops: int
) -> SelfTest | NoSelfTest:
    """The self-test of a model whose graph, as imported, does that much work, for those inputs.

    Its tolerance is relative to each value and to the largest one: float32 sums in another order
    differ by that much.
    """
    memory = sum(value.type.bytes for value in graph.values)
    at_ports = sum(value.type.bytes for value in (*graph.inputs, *graph.outputs))
    if at_ports > MOST_PORT_BYTES or memory > MOST_BYTES:
        return NoSelfTest(
            f"its inputs and outputs take {at_ports} bytes and all its values {memory}, at most "
            f"{MOST_PORT_BYTES} and {MOST_BYTES} are tested"
        )
    inputs = tuple(
        generated_input(port.type, position, port.domain) for position, port in enumerate(ports)
    )
    if flops <= REFERENCE_FLOPS and memory <= REFERENCE_BYTES:
        named = dict(zip(graph.input_names, inputs, strict=True))
        with np.errstate(all="ignore"):
            outputs = tuple(map(_kept_bits, evaluate_in_float64(graph, named)))
    else:
        computed = _runtime_outputs(question, graph, inputs)
        if isinstance(computed, NoSelfTest):
            return computed
        outputs = computed
    halves = any(port.type.dtype.is_half for port in (*graph.inputs, *graph.outputs))
    share = _SHARE_OF_HALF if halves else _SHARE
    return SelfTest(inputs, outputs, share * _largest(outputs), 10 * share)


def _kept_bits(output: Array) -> Array:
    """Doubles with 30 bits: the last ones depend on the processor, and no comparison needs them."""
    if output.dtype != np.float64:
        return output
    mantissas, exponents = np.frexp(output)
    return np.asarray(np.ldexp(np.rint(mantissas * 2.0**30) * 2.0**-30, exponents))


def _largest(outputs: tuple[Array, ...]) -> float:
    """The largest finite magnitude of the floating-point outputs; 0 without any."""
    largest = 0.0
    for array in outputs:
        if np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_:
            continue
        finite = np.abs(array.astype(np.float64))
        finite = finite[np.isfinite(finite)]
        largest = max(largest, float(finite.max(initial=0.0)))
    return largest


def _runtime_outputs(
    question: Question, graph: Graph, inputs: tuple[Array, ...]
) -> tuple[Array, ...] | NoSelfTest:
    if importlib.util.find_spec("onnxruntime") is None:
        return NoSelfTest(
            "the model is too large for the numpy references and ONNX Runtime is not installed "
            "(pip install onnxruntime)"
        )
    runtime = importlib.import_module("onnxruntime")
    model = question.model
    feed = dict(zip(graph.input_names, inputs, strict=True)) | dict(question.bindings)
    settings = runtime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1  # sums do not depend on how many cores this machine has
    try:
        session = runtime.InferenceSession(
            model.SerializeToString() if isinstance(model, onnx.ModelProto)
            else str(model) if isinstance(model, Path) else model,
            settings,
            providers=["CPUExecutionProvider"],
        )  # fmt: skip
        outputs = tuple(np.asarray(array) for array in session.run(None, feed))
    except Exception as error:  # the runtime's exceptions have no common base
        return NoSelfTest(f"ONNX Runtime could not run the model: {printable(error)}")
    if tuple(map(type_of, outputs)) != tuple(value.type for value in graph.outputs):
        return NoSelfTest("ONNX Runtime gave outputs of other types than the model declares")
    return outputs
