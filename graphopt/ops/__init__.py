"""The operators: every OpSpec there is, in one explicit table.

A new operator is one record in its family's module and one name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from graphopt.ops.contraction import CONTRACTION, conv, einsum, matmul
from graphopt.ops.elementwise import ELEMENTWISE, LIFTED, bitcast, cast, where
from graphopt.ops.indexing import INDEXING, gather, gather_elements, gather_nd, one_hot
from graphopt.ops.layout import (
    LAYOUT,
    broadcast_to,
    concat,
    insert_axis,
    pad,
    reshape,
    slice,
    transpose,
    unfold,
)
from graphopt.ops.pooling import POOLING, max_pool, max_pool_index, sum_pool
from graphopt.ops.ranking import RANKING, top_k_indices, top_k_values
from graphopt.ops.reduction import (
    REDUCTION,
    argmax,
    argmin,
    cumulative_product,
    cumulative_sum,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from graphopt.ops.scatter import SCATTER, scatter_elements, scatter_nd
from graphopt.ops.spec import OpSpec, Sample, expression_of, sample
from graphopt.ops.transposed import TRANSPOSED, conv_transpose

OPS: tuple[OpSpec, ...] = (
    *ELEMENTWISE,
    *CONTRACTION,
    *TRANSPOSED,
    *POOLING,
    *REDUCTION,
    *LAYOUT,
    *INDEXING,
    *RANKING,
    *SCATTER,
)
"""Every operator, by family."""

OP: Mapping[str, OpSpec] = MappingProxyType({op.name: op for op in OPS})
"""Every operator by name."""

assert len(OP) == len(OPS), "operator names are unique"

__all__ = [
    "LIFTED",
    "OP",
    "OPS",
    "OpSpec",
    "Sample",
    "argmax",
    "argmin",
    "bitcast",
    "broadcast_to",
    "cast",
    "concat",
    "conv",
    "conv_transpose",
    "cumulative_product",
    "cumulative_sum",
    "einsum",
    "expression_of",
    "gather",
    "gather_elements",
    "gather_nd",
    "insert_axis",
    "matmul",
    "max_pool",
    "max_pool_index",
    "one_hot",
    "pad",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reshape",
    "sample",
    "scatter_elements",
    "scatter_nd",
    "slice",
    "sum_pool",
    "top_k_indices",
    "top_k_values",
    "transpose",
    "unfold",
    "where",
]
