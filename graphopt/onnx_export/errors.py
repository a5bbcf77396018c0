"""What can be wrong with an export: one exception, one line: place, expected, got, what to do."""

from __future__ import annotations


class ExportError(ValueError):
    """The graph cannot be written as an ONNX model, or the file not to its place."""
