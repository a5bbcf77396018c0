"""The `onnx` package's own node tests, run through import and reference evaluation.

As a script: counts of what passes and why the rest does not:
`PYTHONPATH=. python tests/graphopt/test_onnx_import_node_cases.py [NAME_PART]`.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from graphopt.onnx_import import ModelError, NeedsConstant, UnsupportedOperator, import_model
from graphopt.onnx_import.narrow import BY_NUMPY, stored
from graphopt.reference import evaluate_graph
from tensorgen.types import ShapeError

LEAST_PASSED = 1830
"""Of 1,884 in onnx 1.23; the others use text, images or random numbers."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended: `passed`, or the kind and text of what went wrong."""

    name: str
    kind: str
    text: str = ""

    @property
    def passed(self) -> bool:
        return self.kind == "passed"


def node_cases(part: str = "") -> list[Any]:
    """The library's node test cases whose name contains `part`."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in collect_testcases(None) if part in case.name]


def run_case(case: Any) -> Outcome:
    """Import a case's model and compare what it evaluates to with what the case expects."""
    names = [value.name for value in case.model.graph.input]
    for inputs, expected in case.data_sets:
        given: dict[str, Any] = {}
        for name, item in zip(names, inputs, strict=True):
            if isinstance(item, list):
                given |= {f"{name}[{n}]": stored(_array(element)) for n, element in enumerate(item)}
            elif item is None:
                return Outcome(case.name, "unsupported", "an optional value that is absent")
            else:
                given[name] = stored(_array(item))
        try:
            actual = evaluate(case.model, given)
        except UnsupportedOperator as error:
            return Outcome(case.name, "unsupported", str(error))
        except ModelError as error:
            return Outcome(case.name, "model error", str(error))
        except (ShapeError, KeyError, ValueError, IndexError, TypeError, AssertionError) as error:
            return Outcome(case.name, "crashed", f"{type(error).__name__}: {error}")
        text = difference(expected, actual, case.rtol, case.atol)
        if text:
            return Outcome(case.name, "differs", text)
    return Outcome(case.name, "passed")


def _scale(array: Any) -> float:
    """The largest finite magnitude."""
    wide = np.abs(array.astype(np.float64))
    return float(np.max(wide, initial=0, where=np.isfinite(wide)))


def _array(item: Any) -> Any:
    """Test data as an array; 16-bit and smaller floats are given as `TensorProto`."""
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)


def evaluate(model: onnx.ModelProto, given: dict[str, Any]) -> tuple[Any, ...]:
    """The model's outputs; inputs that must be constant are bound to their value."""
    bindings: dict[str, Any] = {}
    while True:
        shapes = {name: array.shape for name, array in given.items() if name not in bindings}
        try:
            graph = import_model(model, shapes=shapes, bindings=bindings)
        except NeedsConstant as error:
            bindings |= {name: given[name] for name in error.inputs if name not in bindings}
            continue
        return evaluate_graph(graph, given)


def difference(expected: Sequence[Any], actual: Sequence[Any], rtol: float, atol: float) -> str:
    """What is wrong with the outputs; empty if nothing."""
    flat = [item for want in expected for item in (want if isinstance(want, list) else [want])]
    if len(flat) != len(actual):
        return f"expected {len(flat)} outputs, got {len(actual)}"
    for position, (want, got) in enumerate(zip(flat, actual, strict=True)):
        array = _array(want)
        if array.dtype in BY_NUMPY:
            got = got.view(array.dtype)
        if array.shape != got.shape or array.dtype != got.dtype:
            types = f"{array.dtype}{array.shape}, got {got.dtype}{got.shape}"
            return f"output {position}: expected {types}"
        is_float = array.dtype.kind in "fV"
        wide = np.float64 if is_float else array.dtype
        # Half-precision results depend on where intermediate values are rounded.
        coarse = {2: 2**-6 if array.dtype.kind == "V" else 2**-9}.get(array.dtype.itemsize, 0)
        relative = max(rtol, coarse) if is_float else 0
        # Where large terms cancel, what the case expects is rounded no better than we compute.
        absolute = max(atol, coarse / 8, 1e-6 * _scale(array)) if is_float else 0
        try:
            np.testing.assert_allclose(
                got.astype(wide), array.astype(wide), rtol=relative, atol=absolute
            )
        except AssertionError as error:
            return f"output {position}: {' '.join(str(error).split())[:300]}"
    return ""


def test_every_imported_case_is_right_and_most_are_imported() -> None:
    outcomes = [run_case(case) for case in node_cases()]
    wrong = [outcome for outcome in outcomes if outcome.kind in ("crashed", "differs")]
    assert wrong == []
    assert sum(outcome.passed for outcome in outcomes) >= LEAST_PASSED


def main(arguments: Sequence[str]) -> None:
    """Print every case that does not pass, then the counts."""
    warnings.simplefilter("ignore")
    outcomes = [run_case(case) for case in node_cases(*arguments[:1])]
    for outcome in outcomes:
        if not outcome.passed:
            print(f"{outcome.kind:12} {outcome.name}: {outcome.text}")
    print(dict(Counter(outcome.kind for outcome in outcomes)), len(outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
