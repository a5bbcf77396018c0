"""Operators that draw random numbers: refused, since a compiled model is a function.

They are named here so that the message gives the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.graph import Value
from graphopt.onnx_import.node import Importer, OnnxNode

RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)


def _random(node: OnnxNode) -> tuple[Value, ...]:
    raise node.unsupported(
        "operators whose results their operands determine",
        node.op_type,
        "give the random numbers to the model as an input",
    )


TABLE: Mapping[tuple[str, str], Importer] = {("", name): _random for name in RANDOM}
