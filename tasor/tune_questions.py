"""Which of the inputs that are fixed on a command line belong to which of several models.

What it does: reads the names of the models' inputs, and leaves each model its own. What it does
not: check shapes or values, or say what is wrong with a file; both is done when it is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from graphopt.onnx_import.errors import printable
from tasor.errors import UsageError
from tasor.pipeline import Question


def questions_of(questions: Sequence[Question]) -> list[Question]:
    """The questions with the shapes and bindings of inputs that their models have, where there are
    several. All have been given the same. UsageError for a name that no model has."""
    given = {name for question in questions for name in (*question.shapes, *question.bindings)}
    if len(questions) < 2 or not given:
        # What a single model lacks is told with the names that it has.
        return list(questions)
    names = [_input_names(question) for question in questions]
    if None not in names:
        known = frozenset[str]().union(*(own for own in names if own is not None))
        for name in sorted(given):
            if not _is_of(name, known):
                raise UsageError(
                    f"--shape or --bind: expected the name of an input of a model, got "
                    f"{printable(name)!r}, which none has; correct it"
                )
    return [
        question if own is None else _with_inputs(question, own)
        for question, own in zip(questions, names, strict=True)
    ]


def _with_inputs(question: Question, names: frozenset[str]) -> Question:
    return replace(
        question,
        shapes={n: shape for n, shape in question.shapes.items() if _is_of(n, names)},
        bindings={n: array for n, array in question.bindings.items() if _is_of(n, names)},
    )


def _is_of(name: str, inputs: frozenset[str]) -> bool:
    """Whether a name is one of these inputs, or an item of one that is a sequence."""
    return name in inputs or name.partition("[")[0] in inputs


def _input_names(question: Question) -> frozenset[str] | None:
    """The names of the inputs of a model; None if its file cannot be read."""
    assert isinstance(question.model, str | Path), "a path"
    try:
        model = onnx.load(question.model, load_external_data=False)
    except Exception:  # protobuf's exceptions have no common base
        return None
    return frozenset(value.name for value in model.graph.input)
