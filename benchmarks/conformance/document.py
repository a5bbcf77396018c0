"""docs/operators.md: what Tasor imports of ONNX, measured, and Tasor's own operators, from OPS.

What it does: makes the text, the same for the same outcomes. What it does not: run a case.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import onnx

from benchmarks.conformance.cases import GROUPS, Group
from benchmarks.conformance.outcome import Failed, Passed, Record, Rounded, Unsupported
from graphopt.onnx_import.narrow import ENCODINGS
from graphopt.ops import OPS, OpSpec
from tensorgen.types import DTYPES

_TITLES: Mapping[Group, str] = {
    "node": "single operators",
    "simple": "simple models",
    "pytorch-converted": "layers converted from PyTorch",
    "pytorch-operator": "operators converted from PyTorch",
    "light": "whole networks",
}

_OPENING = """\
# Operators

Written by `python -m benchmarks.conformance --write-docs`; do not edit.

1. [ONNX operators, measured](#onnx-operators-measured)
2. [What does not pass, and why](#what-does-not-pass-and-why)
3. [Values](#values)
4. [Tasor's own operators](#tasors-own-operators)
"""

_MEASURED = """\
## ONNX operators, measured

The `onnx` package brings test cases along: a model, inputs and the outputs they must give. Each is
compiled by Tasor to C, built by the C compiler, loaded and run; every output must have the expected
element type, shape and values, within the package's own tolerances.

A case counts under *fixed* if some of its inputs decide about shapes, loops or branches: they are
compiled in as constants, and other values would be compiled anew. What depends on constants alone
is computed while compiling, and the C holds the result.
"""

_NOT_PASSED = """\
## What does not pass, and why

Cases whose name ends in `_expanded`, with or without a version, spell an operator out through
others.
"""

_VALUES = (
    "Tasor computes with tensors of {computed}. 16-bit floats are computed in float32 and rounded "
    "when they are stored, so a chain of operators that becomes one kernel is rounded once.",
    "Values of {narrow} can be converted, quantized, dequantized and moved. A library takes and "
    "gives them as one byte each (uint8), with the bit pattern of the value in the low bits.",
    "A sequence x at a model's border becomes its items, x[0], x[1] and so on, each a tensor of "
    "its own; its length, `--shape x=LENGTH`, is fixed when it is compiled, and so are all "
    "positions in sequences. An optional input is one that is given.",
)

_OWN = """\
## Tasor's own operators

An ONNX model becomes a graph over these; everything else is said through them. Tensors are
positional, parameters are keywords, shapes are static. `any` operands means one or more.
"""


def outcome_counts(records: Sequence[Record]) -> Iterator[str]:
    """A line for each group: how many of its cases passed, and how the others ended."""
    for group in GROUPS:
        chosen = [record for record in records if record.group == group]
        if chosen:
            counts = Counter(type(record.outcome).__name__.lower() for record in chosen)
            others = "".join(
                f", {counts[kind]} {kind}"
                for kind in ("unsupported", "rounded", "failed")
                if counts[kind]
            )
            yield f"{group}: {counts['passed']} of {len(chosen)} passed{others}"


def operators_document(records: Sequence[Record]) -> str:
    """The whole document, from the records of every case."""
    measured, not_passed = _measured(records), _not_passed(records)
    return "\n".join((_OPENING, _MEASURED, measured, _NOT_PASSED, not_passed, unmeasured_part()))


def unmeasured_part() -> str:
    """The document from its third section on, which no case has to be run for."""
    computed = ", ".join(dtype.name for dtype in DTYPES)
    narrow = ", ".join(name.lower() for name in ENCODINGS)
    values = "\n\n".join(
        textwrap.fill(text.format(computed=computed, narrow=narrow), 100) for text in _VALUES
    )
    return "\n".join((f"## Values\n\n{values}\n", *_own_operators()))


def _own_operators() -> list[str]:
    families: dict[str, list[OpSpec]] = defaultdict(list)
    for op in OPS:
        families[op.family].append(op)
    parts = [_OWN]
    for family, members in families.items():
        rows = [
            (
                f"`{op.name}`",
                "any" if op.arity is None else str(op.arity),
                ", ".join(f"`{name}`" for name in op.params),
                op.doc,
            )
            for op in members
        ]
        header = ("operator", "operands", "parameters", "meaning")
        parts.append(f"### {family.capitalize()}\n\n{_table(header, rows)}")
    return parts


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell or " " for cell in line) + " |\n" for line in lines)


def _measured(records: Sequence[Record]) -> str:
    header = ("passed", "of", "fixed")
    groups = [
        (_TITLES[group], *_counts([record for record in records if record.group == group]))
        for group in GROUPS
    ]
    by_operator: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.group == "node":
            by_operator[record.operator].append(record)
    operators = [(name, *_counts(by_operator[name])) for name in sorted(by_operator)]
    return (
        f"The cases of onnx {onnx.__version__}:\n\n{_table(('cases', *header), groups)}\n"
        f"The cases of single operators:\n\n{_table(('operator', *header), operators)}"
    )


def _counts(records: Sequence[Record]) -> tuple[str, str, str]:
    passed = [record.outcome for record in records if isinstance(record.outcome, Passed)]
    fixed = sum(bool(outcome.fixed) for outcome in passed)
    return str(len(passed)), str(len(records)), str(fixed or "")


def _not_passed(records: Sequence[Record]) -> str:
    by_reason: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        reason = _reason(record)
        if reason is not None:
            by_reason[reason][record.operator or _TITLES[record.group]].append(record)
    order = sorted(by_reason, key=lambda reason: (-_size(by_reason[reason]), reason))
    return "\n".join(_section(reason, by_reason[reason]) for reason in order)


def _reason(record: Record) -> str | None:
    match record.outcome:
        case Passed():
            return None
        case Unsupported(reason, _):
            return reason
        case Rounded():
            return "right but for rounding, beyond the package's tolerance"
        case Failed():
            return "defects"
        case _:
            assert_never(record.outcome)


def _size(operators: Mapping[str, Sequence[Record]]) -> int:
    return sum(map(len, operators.values()))


def _section(reason: str, operators: Mapping[str, Sequence[Record]]) -> str:
    lines = []
    for operator in sorted(operators):
        names = ", ".join(f"`{record.name}`" for record in operators[operator])
        lines.append(f"- {operator}: {names}\n")
    title = reason[0].upper() + reason[1:]
    return f"### {title}: {_size(operators)}\n\n{''.join(lines)}"
