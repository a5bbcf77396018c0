"""Which importer reads which operator: the family tables merged.

To add a family, write its table and name it in `FAMILIES`. Operators that ONNX defines through
others need no entry; an entry for one of these stands only where Tasor has a shorter equivalent.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.onnx_import import (
    contraction,
    control,
    conversion,
    detection,
    elementwise,
    generation,
    indexing,
    linear_algebra,
    machine_learning,
    n_grams,
    normalization,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    sampling,
    sequences,
    shape,
    signal,
    tensor_sequences,
    training,
    tree_ensemble,
    unfolding,
)
from graphopt.onnx_import.node import Importer

OperatorKey = tuple[str, str]
"""(domain, operator); the domain of standard operators is ""."""

FAMILIES: tuple[Mapping[OperatorKey, Importer], ...] = (
    elementwise.TABLE,
    conversion.TABLE,
    contraction.TABLE,
    pooling.TABLE,
    reduction.TABLE,
    shape.TABLE,
    indexing.TABLE,
    generation.TABLE,
    normalization.TABLE,
    control.TABLE,
    resize.TABLE,
    sampling.TABLE,
    regions.TABLE,
    recurrent.TABLE,
    quantization.TABLE,
    signal.TABLE,
    linear_algebra.TABLE,
    sequences.TABLE,
    tensor_sequences.TABLE,
    unfolding.TABLE,
    n_grams.TABLE,
    detection.TABLE,
    random.TABLE,
    machine_learning.TABLE,
    tree_ensemble.TABLE,
    training.TABLE,
)

ONLY_BEFORE: Mapping[OperatorKey, int] = {
    # From these opsets on the operator has another meaning and a body of its own.
    ("", "Softmax"): 13,
    ("", "LogSoftmax"): 13,
}


def _merged() -> dict[OperatorKey, Importer]:
    merged: dict[OperatorKey, Importer] = {}
    for family in FAMILIES:
        repeated = sorted(merged.keys() & family.keys())
        assert not repeated, f"operators in two families: {repeated}"
        merged.update(family)
    return merged


TABLE: Mapping[OperatorKey, Importer] = _merged()


def importer_for(domain: str, op_type: str, version: int) -> Importer | None:
    """The importer of an operator at an opset version; None if it has none."""
    key = (domain, op_type)
    if version >= ONLY_BEFORE.get(key, version + 1):
        return None
    return TABLE.get(key)
