"""Element types that operators are computed in, where ONNX or its runtimes lack the one at hand.

bfloat16 is computed in float32 and rounded once, which is how Tasor defines its arithmetic. Narrow
integers are computed in int32 or int64; the cast back drops the high bits, so results wrap as they
should.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.graph import Node
from graphopt.onnx_export.term import Exporter, Term, cast
from tensorgen.types import (
    DType,
    bfloat16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

Widening = Mapping[DType, DType]
"""The wider type for each element type that is not computed in itself."""

BFLOAT16: Widening = {bfloat16: float32}

SHORT: Widening = {**BFLOAT16, int16: int32, uint16: int32}
"""Most operators have kernels for 8 bits or for 32, but not for 16."""

NARROW: Widening = {**SHORT, int8: int32, uint8: int32}

ORDERED: Widening = {**NARROW, uint32: float64}
"""For operators that compare values; float64 holds 32 bits exactly, and nothing holds uint64."""

MODULAR: Widening = {**NARROW, uint32: int64, uint64: int64}
"""For operators of which only the residue modulo 2**64 matters."""


def computed_in(widening: Widening, export: Exporter) -> Exporter:
    """The exporter on operands of the wider type, its result cast back to the node's.

    Operands that do not have the first one's element type (indices) are left alone.
    """

    def widened(node: Node, *operands: Term) -> Term:
        narrow = operands[0].type.dtype
        wide = widening.get(narrow, narrow)
        cast_operands = (cast(x, wide) if x.type.dtype == narrow else x for x in operands)
        return cast(export(node, *cast_operands), node.type.dtype)

    return widened
