"""Counterexamples: shrunk to the smallest shapes, then the smallest numbers, and shown.

What it does: holds an instance on which both sides of a rule differ; makes it smaller step by step,
keeping what still refutes (delta debugging: Zeller and Hildebrandt, TSE 2002); prints both sides
beside each other with the first differing element marked; and gives all of it as JSON. All of it is
deterministic. What it does not: find counterexamples (see `oracle`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphopt.graph import Param
from graphopt.instances import Instance
from graphopt.pattern import literal_text
from graphopt.rule import Rule, statement_text
from tensorgen.types import Array, dtype_of, type_of
from verify.assignment import Assignment, assignment_of
from verify.difference import Comparison, Difference, text
from verify.exact import Number, Undefined, number

WIDTH = 100
"""Columns of the text."""

MAX_ROWS, MAX_COLUMNS = 9, 7
"""So much of both sides is shown around the difference."""

MAX_LINES = 16
"""So many lines say what names stand for."""

MAX_ELEMENTS = 24
"""Elements of larger tensors are left out."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """What refutes a rule: the choices, both sides' values, and where they first differ."""

    rule: Rule
    assignment: Assignment
    instance: Instance
    sources: tuple[Array, ...]
    targets: tuple[Array, ...]
    difference: Difference

    @staticmethod
    def of(rule: Rule, instance: Instance, comparison: Comparison) -> Counterexample:
        """The counterexample that a comparison found."""
        difference = comparison.difference
        assert difference is not None, "both sides are equal"
        return Counterexample(
            rule, assignment_of(rule, instance), instance, comparison.sources,
            comparison.targets, difference,
        )  # fmt: skip

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """At most about 40 lines: the rule, what its names stand for, and both sides."""
        lines = textwrap.wrap(
            f"{self.rule.name}: {statement_text(self.rule)}", WIDTH, subsequent_indent="    "
        )[:8]
        lines.append("is false for")
        names = [f"  {name} = {_tensor_text(array)}" for name, array in self.assignment.named()]
        names += [f"  {name} = {literal_text(value)}" for name, value in self._params()]
        wrapped = [
            line for name in names for line in textwrap.wrap(name, WIDTH, subsequent_indent="    ")
        ]
        if len(wrapped) > MAX_LINES:
            wrapped = [*wrapped[: MAX_LINES - 1], "  … and more"]
        lines += wrapped
        difference = self.difference
        where = f"[{', '.join(map(str, difference.index))}]"
        of = f" of result {difference.result}" if len(self.sources) > 1 else ""
        lines.append(
            f"the source gives {text(difference.source)}, the target {text(difference.target)} "
            f"at {where}{of}"
        )
        lines += _side_by_side(
            self.sources[difference.result], self.targets[difference.result], difference.index
        )
        return "\n".join(lines)

    def _params(self) -> Iterator[tuple[str, Param]]:
        yield from self.assignment.params
        for _, captured in self.assignment.captured:
            yield from captured

    def as_json(self) -> dict[str, Any]:
        """Everything as what `json.dumps` takes; elements are numbers as text."""
        difference = self.difference
        return {
            "rule": self.rule.name,
            "digest": self.rule.digest,
            "statement": statement_text(self.rule),
            "tensors": {name: _tensor_json(array) for name, array in self.assignment.named()},
            "parameters": {name: _param_json(value) for name, value in self._params()},
            "results": [
                {"source": _tensor_json(source), "target": _tensor_json(target)}
                for source, target in zip(self.sources, self.targets, strict=True)
            ],
            "difference": {
                "result": difference.result,
                "index": list(difference.index),
                "source": text(difference.source),
                "target": text(difference.target),
            },
        }


def _param_json(value: Param) -> Any:
    return [_param_json(item) for item in value] if isinstance(value, tuple) else value


def _element(array: Array, index: tuple[int, ...]) -> str:
    try:
        value: Number = number(array[index], dtype_of(array))
    except Undefined:
        return "undefined"
    return text(value)


def _tensor_json(array: Array) -> dict[str, Any]:
    elements = [_element(array, index) for index in np.ndindex(array.shape)]
    return {
        "type": dtype_of(array).name,
        "shape": list(array.shape),
        "elements": elements,
    }


def _tensor_text(array: Array) -> str:
    """The type and the elements in brackets, as many as fit on a line."""

    def nested(prefix: tuple[int, ...]) -> str:
        if len(prefix) == array.ndim:
            return _element(array, prefix)
        inside = ", ".join(nested((*prefix, n)) for n in range(array.shape[len(prefix)]))
        return f"[{inside}]"

    if array.size > MAX_ELEMENTS:
        return f"{type_of(array)} of {array.size} elements"
    return f"{type_of(array)} {nested(())}"


def _side_by_side(source: Array, target: Array, index: tuple[int, ...]) -> list[str]:
    """Both sides' matrix of the last two axes at an index, whose element stands in > <."""
    outer = index[:-2]
    row, column = (0, 0, *index)[-2:]
    rows = [_rows(array, outer, row, column) for array in (source, target)]
    width = max(len("source"), *(len(line) for line in rows[0]))
    heading = f"  {'source':<{width}}   target"
    if outer:
        heading += f"   (at [{', '.join(map(str, outer))}, …])"
    return [heading, *(f"  {a:<{width}}   {b}".rstrip() for a, b in zip(*rows, strict=True))]


def _rows(array: Array, outer: tuple[int, ...], row: int, column: int) -> list[str]:
    matrix = array[outer]
    matrix = matrix.reshape((1,) * (2 - matrix.ndim) + matrix.shape)
    rows, columns = matrix.shape
    top = max(0, min(row - MAX_ROWS // 2, rows - MAX_ROWS))
    left = max(0, min(column - MAX_COLUMNS // 2, columns - MAX_COLUMNS))
    shown = range(top, min(rows, top + MAX_ROWS))
    across = range(left, min(columns, left + MAX_COLUMNS))
    cells = {(i, j): _element(matrix, (i, j)) for i in shown for j in across}
    width = max(map(len, cells.values()))
    lines = []
    for i in shown:
        line = ""
        for j in across:
            marked = (i, j) == (row, column)
            line += f"{'>' if marked else ' '}{cells[i, j]:>{width}}{'<' if marked else ' '}"
        lines.append(line)
    return lines
