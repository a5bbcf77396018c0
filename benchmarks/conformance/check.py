"""One test case, compiled and run: passed, unsupported, or failed.

What it does: runs the case through `tasor.backend` and compares every output in number, element
type, shape and value with what the case expects, by the `onnx` package's own comparison. What it
does not: guard against code that crashes or never ends; `sweep` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from benchmarks.conformance.cases import Case
from benchmarks.conformance.outcome import Failed, Outcome, Passed, Rounded, Unsupported, one_line
from graphopt.onnx_import.errors import ModelError, NeedsConstant, UnpinnedDimension
from tasor.backend import TasorBackend
from tensorgen.library import InputError

_KINDS = {
    "map_type": "maps",
    "sparse_tensor_type": "sparse tensors",
    "optional_type": "optional values that are absent",
    "sequence_type": "sequences",
}
_ELEMENTS = {
    "STRING": "text",
    "COMPLEX64": "complex numbers",
    "COMPLEX128": "complex numbers",
}
_OPERATORS = {
    "Bernoulli": "random numbers",
    "Dropout": "random numbers",
    "RandomUniformLike": "random numbers",
    "ImageDecoder": "image files",
    "Gradient": "derivatives",
}
_ROUNDING_UNITS = 4
"""Rounding alone may move a result by so many units in the last place of its largest element."""


def check(case: Case, target: str, threads: int = 1) -> Outcome:
    """What comes of a case on a target that this machine can run."""
    from onnx.backend.test.runner import Runner

    model, data = case.loaded()
    fixed: tuple[str, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = TasorBackend.prepare(model, threads=threads, target=target)
            for inputs, expected in data:
                outputs = compiled.run(list(inputs))
                fixed = compiled.fixed_inputs
                found, wanted = _tensors(outputs), _tensors(expected)
                if list(map(_length, outputs)) != list(map(_length, expected)):
                    return Failed("the outputs differ in number or in length")
                try:
                    Runner.assert_similar_outputs(wanted, found, case.relative, case.absolute)
                except AssertionError as error:
                    close = all(map(_is_rounded, found, wanted))
                    return Rounded(one_line(error)) if close else Failed(one_line(error))
        except ModelError as error:
            return Unsupported(_reason(model, error), one_line(error))
        except InputError as error:
            foreign = _foreign_values(model)
            return Unsupported(foreign, one_line(error)) if foreign else Failed(one_line(error))
        except Exception as error:  # whatever it is, it is this case's failure
            return Failed(one_line(f"{type(error).__name__}: {error}"))
    return Passed(fixed)


def _tensors(outputs: Sequence[Any]) -> list[Any]:
    """All outputs one after the other, those in sequences too."""
    return [
        np.asarray(item)
        for output in outputs
        for item in (output if isinstance(output, list) else (output,))
    ]


def _length(output: Any) -> int | None:
    """The length of a sequence; None for anything else."""
    return len(output) if isinstance(output, list) else None


def _is_rounded(output: Any, expected: Any) -> bool:
    """True for equal types and for values that are equal but for rounding."""
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return False
    if output.dtype.kind not in "fV" or output.dtype.itemsize == 1:
        return bool(np.array_equal(output, expected))
    unit = 2.0 ** -{2: 7 if output.dtype.kind == "V" else 10, 4: 23, 8: 52}[output.dtype.itemsize]
    found, wanted = output.astype(np.float64), expected.astype(np.float64)
    largest = float(np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted)))
    limit = _ROUNDING_UNITS * unit * largest
    return np.allclose(found, wanted, rtol=0, atol=limit, equal_nan=True)


def _reason(model: onnx.ModelProto, error: ModelError) -> str:
    """Why a model was refused, in a phrase: what it holds if that is foreign, else the error."""
    foreign = _foreign_values(model)
    if foreign:
        return foreign
    match error:
        case NeedsConstant():
            return "a shape, a loop or a branch that depends on computed values"
        case UnpinnedDimension():
            return "sizes that the case leaves open"
        case _:
            found = (_OPERATORS.get(node.op_type) for node in model.graph.node)
            return next(filter(None, found), "an operator or a form of one that is not imported")


def _foreign_values(model: onnx.ModelProto) -> str:
    """What the model's values are that Tasor's are not; empty if there is nothing of that."""
    found = {name for type in _types(model.graph) for name in _foreign(type)}
    order = (*dict.fromkeys(_ELEMENTS.values()), *_KINDS.values())
    return next((name for name in order if name in found), "")


def _types(graph: onnx.GraphProto) -> Iterator[onnx.TypeProto]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.type


def _foreign(type: onnx.TypeProto) -> Iterable[str]:
    kind = type.WhichOneof("value")
    if kind is None:
        return ()
    if kind != "tensor_type":
        return (_KINDS.get(kind, "other values"),)
    element = onnx.TensorProto.DataType.Name(type.tensor_type.elem_type)
    return (_ELEMENTS[element],) if element in _ELEMENTS else ()
