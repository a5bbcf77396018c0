"""ONNX out: a `Graph` as a model that any ONNX runtime can run, and that people can read.

Opset 21, or newer where an operator needs it (`BitCast`). Inputs and outputs keep their names and
order; everything else is named after its operator. The same graph always gives the same bytes.

A model computes what the graph does, up to the rounding of floats and to what ONNX leaves open:
casts of floats to integers that cannot hold them, integer powers that overflow, maxima of NaN,
scattering out of bounds or twice to one place. Tasor defines these, other runtimes may differ.
Arithmetic that runtimes commonly lack (bfloat16, narrow integers) is written in wider types, with
the same results. What it does not: optimize.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import helper

from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.onnx_export.errors import ExportError
from graphopt.onnx_export.fusion import fusions
from graphopt.onnx_export.storage import (
    MAX_MODEL_BYTES,
    External,
    inline_tensor,
    write_atomically,
)
from graphopt.onnx_export.table import EXPORTERS
from graphopt.onnx_export.term import Known, Term, identity
from graphopt.onnx_export.writer import Writer
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.protobuf import element_number
from tensorgen.types import TensorType

__all__ = ["ExportError", "export_model", "save_model"]
