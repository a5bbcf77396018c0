"""ONNX in: a model becomes a `Graph` with static shapes and no functions, subgraphs or shape
arithmetic left.

Covers opset 7 to the newest that the `onnx` library knows (older models are converted), on the 13
element types of `tensorgen.types`. Does not: optimize, or keep what a compiled model has no use
for (names of inner values, training information).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from graphopt.graph import Graph
from graphopt.onnx_import.errors import (
    ModelError,
    NeedsConstant,
    UnpinnedDimension,
    UnsupportedOperator,
)
from graphopt.onnx_import.loading import check, load, modernised
from graphopt.onnx_import.signature import pin
from graphopt.onnx_import.translation import translate
from tensorgen.types import Array, Shape

__all__ = [
    "ModelError",
    "NeedsConstant",
    "UnpinnedDimension",
    "UnsupportedOperator",
    "import_model",
]

NO_SHAPES: Mapping[str, Shape] = {}
NO_BINDINGS: Mapping[str, Array] = {}


def import_model(
    model: onnx.ModelProto | str | Path | bytes,
    *,
    shapes: Mapping[str, Shape] = NO_SHAPES,
    bindings: Mapping[str, Array] = NO_BINDINGS,
) -> Graph:
    """The graph of an ONNX model, given as a path, its bytes, or a proto (left unchanged).

    `shapes` fixes the shapes of inputs that the model leaves open; `bindings` fixes inputs to
    constants, which are then no inputs of the graph any more. Initializers are constants, even
    where the model also lists them as inputs.

    Raises ModelError for anything wrong with the model; of its subclasses, UnsupportedOperator
    for what Tasor does not import, UnpinnedDimension for sizes left open, and NeedsConstant, with
    the names of the inputs to bind, for a value that must be known at compile time.
    """
    loaded = load(model)
    check(loaded)
    current = modernised(loaded)
    signature = pin(current.proto.graph, shapes, bindings)
    return translate(current, signature)
