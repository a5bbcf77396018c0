"""The conformance sweep: what it says of right, wrong, refused, crashing and endless cases."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.conformance.__main__ import DOCUMENT, EXIT_USAGE, main
from benchmarks.conformance.cases import Case, all_cases, cases_of
from benchmarks.conformance.check import check
from benchmarks.conformance.document import operators_document, outcome_counts, own_operators
from benchmarks.conformance.outcome import Failed, Passed, Record, Unsupported, one_line
from benchmarks.conformance.sweep import sweep

LEAST_PASSED = {"node": 1500, "light": 9}
LEAST_MODELS = 125
"""Of the 140 simple and converted models."""

SAMPLE_STRIDE = 11
"""Every eleventh node case is checked by `make test`."""


def addition(expected: float = 3.0, name: str = "addition") -> Case:
    """A case that adds 1 and 2 and expects some result."""
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1,)) for n in "xyz"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], name, value[:2],
                              value[2:])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    data = tuple(np.array([number], np.float32) for number in (1.0, 2.0, expected))
    return Case(name, "node", 1e-3, 1e-7, "Add", model, ((data[:2], data[2:]),))
