"""Files of TASO's substitutions for tests: the one that TASO ships, and made ones.

The shipped file is `graph_subst.pb` (133 substitutions, Apache-2.0), no part of this repository.
The environment variable TASO_SUBSTITUTIONS names it, else it is looked for beside the checkout.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphopt.taso_schema import Parameter, collection_class

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "taso_graph_subst.pb"


def taso_file() -> Path:
    """The path of the file; the test is skipped where there is none."""
    path = Path(os.environ.get("TASO_SUBSTITUTIONS", _BESIDE))
    if not path.is_file():
        pytest.skip("TASO's graph_subst.pb is not here; TASO_SUBSTITUTIONS may name it")
    return path


FALSE_FOR_ORDINARY = (99, 100, 130, 131)
"""Substitutions (from 0) that are false even where all convolutions have one group."""

FALSE_FOR_GROUPED = (98, 99, 100, 105, 125, 126, 127, 128, 129, 130, 131)
"""Substitutions that are false for convolutions of any groups, as TASO's matcher accepts them."""


Ports = Sequence[tuple[int, int]]
Params = dict[Parameter, int]
Described = tuple[int, Ports, Params]


def op(type: int, inputs: Ports, params: Params | None = None) -> Described:
    """An operator of a made file; operands are (operator, output), variables below 0."""
    return type, inputs, {} if params is None else params


def encoded(
    sources: Sequence[Described],
    targets: Sequence[Described],
    outputs: Sequence[tuple[int, int, int, int]] | None = None,
) -> bytes:
    """A file of one substitution; outputs are (source, its output, target, its output)."""
    collection = collection_class()()
    rule = collection.rule.add()
    for side, operators in ((rule.srcOp, sources), (rule.dstOp, targets)):
        for type, inputs, params in operators:
            added = side.add(type=type)
            for number, output in inputs:
                added.input.add(opId=number, tsId=output)
            for key, value in params.items():
                added.para.add(key=key, value=value)
    last = (len(sources) - 1, 0, len(targets) - 1, 0)
    for source, source_output, target, target_output in [last] if outputs is None else outputs:
        rule.mappedOutput.add(
            srcOpId=source, srcTsId=source_output, dstOpId=target, dstTsId=target_output
        )
    data: bytes = collection.SerializeToString()
    return data
