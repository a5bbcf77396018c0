"""Compilation for the inputs at hand: their shapes, and where need be their values.

What it does: takes the shapes that a model leaves open from the arrays it is to be run on, and
fixes to their values those inputs that decide about shapes, loops or branches. What it does not:
keep anything; who compiles for many inputs remembers the results by their key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphopt.onnx_import.errors import NeedsConstant
from tasor.compiled_model import CompiledModel
from tasor.pipeline import SILENT, Observer, Question, Settings, run_stages
from tensorgen.types import Array


def compile_for(
    question: Question,
    settings: Settings,
    inputs: Mapping[str, Array],
    observer: Observer = SILENT,
) -> CompiledModel:
    """The model compiled for these inputs; those that had to be fixed are no inputs of it.

    Raises as `run_stages`; NeedsConstant only if `inputs` lacks what it asks for.
    """
    shapes = {name: array.shape for name, array in inputs.items()} | dict(question.shapes)
    current = replace(question, shapes=shapes)
    while True:
        try:
            return CompiledModel(current, run_stages(current, settings, observer))
        except NeedsConstant as error:
            known = {
                name: inputs[name]
                for name in error.inputs
                if name in inputs and name not in current.bindings
            }
            if not known:
                raise
        bindings = {**current.bindings, **known}
        shapes = {name: shape for name, shape in current.shapes.items() if name not in bindings}
        current = replace(current, shapes=shapes, bindings=bindings)
