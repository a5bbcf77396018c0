"""ONNX out: a `Graph` as a model that any ONNX runtime can run, and that people can read.

Opset 21, or newer where an operator needs it (`BitCast`). Inputs and outputs keep their names and
order; everything else is named after its operator. The same graph always gives the same bytes.

A model computes what the graph does, up to the rounding of floats and to what ONNX leaves open:
casts of floats to integers that cannot hold them, integer sums, products and powers that overflow,
maxima of NaN, scattering out of bounds or twice to one place. Tasor defines these; runtimes differ.
Arithmetic that runtimes commonly lack (bfloat16, narrow integers) is written in wider types, with
the same results. What it does not: optimize.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import onnx

from graphopt.graph import Graph
from graphopt.onnx_export.errors import ExportError
from graphopt.onnx_export.model import draft
from graphopt.onnx_export.storage import ExternalFile, inline_tensor, replaced

__all__ = ["MAX_INLINE_BYTES", "ExportError", "export_model", "save_model"]

MAX_INLINE_BYTES = 3 * 2**29
"""Constants of more bytes in all (1.5 GiB) are kept in a file beside the model."""


def export_model(graph: Graph, *, producer_version: str = "") -> onnx.ModelProto:
    """The graph as one ONNX message, constants included.

    ExportError if input and output names are none for ONNX (empty, or one name for two values), if
    the constants exceed `MAX_INLINE_BYTES`, or if the installed `onnx` is too old.
    """
    parts = draft(graph)
    if parts.constant_bytes > MAX_INLINE_BYTES:
        raise ExportError(
            f"model: expected at most {MAX_INLINE_BYTES} bytes of constants in one message, got "
            f"{parts.constant_bytes}; use save_model, which puts them in a file of their own"
        )
    return parts.model(inline_tensor, producer_version)


def save_model(
    graph: Graph,
    path: str | Path,
    *,
    producer_version: str = "",
    max_inline_bytes: int = MAX_INLINE_BYTES,
) -> None:
    """Writes the graph as an ONNX file, which appears whole or not at all.

    Constants of more than `max_inline_bytes` in all go into a second file in the same folder, whose
    name is the model's and the graph's digest. ExportError as in `export_model`, and if a file
    cannot be written; whatever was at `path` is then still there.
    """
    parts = draft(graph)
    place = Path(path)
    with ExitStack() as files:
        file = files.enter_context(replaced(place))
        store = inline_tensor
        if parts.constant_bytes > max_inline_bytes:
            beside = place.with_name(f"{place.name}.{graph.digest[:16]}.data")
            # Opened last, it takes its place first: a model never lacks its constants.
            store = ExternalFile(files.enter_context(replaced(beside)), beside.name).tensor
        model = parts.model(store, producer_version)
        file.write(model.SerializeToString(deterministic=True))
