"""Gathers, one-hot, rankings and scatters as ONNX.

What ONNX leaves open stays open: an update out of bounds (Tasor drops it), and updates that target
one element without a reduction (in Tasor the last one wins).
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.graph import Node
from graphopt.onnx_export.parameters import integer, text
from graphopt.onnx_export.term import (
    Exporter,
    Term,
    call,
    cast,
    expand,
    reshape,
    take,
)
from graphopt.onnx_export.widening import BFLOAT16, Widening, computed_in
from graphopt.terms import integers as vector
from graphopt.terms import scalar
from tensorgen.types import TensorType, float16, float32, float64, int32, int64, uint16, uint32

_RANKED: Widening = {**BFLOAT16, uint16: int32, uint32: float64}
_ACCUMULATED: Widening = {**BFLOAT16, float16: float32}


# Reading


def _gather(node: Node, x: Term, indices: Term) -> Term:
    return call("Gather", x, indices, type=node.type, axis=integer(node, "axis"))


def _gather_elements(node: Node, x: Term, indices: Term) -> Term:
    return call("GatherElements", x, indices, type=node.type, axis=integer(node, "axis"))


def _gather_nd(node: Node, x: Term, indices: Term) -> Term:
    batch, shape = integer(node, "batch_dims"), indices.type.shape
    if shape[-1] == 0:
        # Empty tuples select everything.
        ones = (1,) * (len(shape) - 1 - batch)
        kept = reshape(x, (*x.type.shape[:batch], *ones, *x.type.shape[batch:]))
        return expand(kept, node.type.shape)
    return call("GatherND", x, cast(indices, int64), type=node.type, batch_dims=batch)


def _one_hot(node: Node, indices: Term, values: Term) -> Term:
    """Of the element types of `values`, runtimes have few; the others are looked up."""
    depth, axis = integer(node, "depth"), integer(node, "axis")
    scalar_index = indices.type.rank == 0
    shape = (1, depth) if scalar_index else node.type.shape
    native = values.type.dtype in (float32, int64)
    hot = call(
        "OneHot",
        cast(reshape(indices, (1,)) if scalar_index else indices, int64),
        scalar(depth, int64),
        values if native else vector((0, 1)),
        type=TensorType(values.type.dtype if native else int64, shape),
        axis=1 if scalar_index else axis,
    )
    chosen = hot if native else take(values, hot, 0)
    return reshape(chosen, node.type.shape) if scalar_index else chosen


# Ranking


def _top_k(output: int) -> Exporter:
    def export(node: Node, x: Term) -> Term:
        return call(
            "TopK",
            x,
            vector((integer(node, "k"),)),
            type=TensorType(int64 if output else x.type.dtype, node.type.shape),
            output=output,
            axis=integer(node, "axis"),
            largest=int(bool(node.param("largest"))),
            sorted=1,
        )

    return computed_in(_RANKED, export)


# Writing


def _scatter(op_type: str) -> Exporter:
    """Without a reduction elements only move; with one, 16-bit floats are accumulated wider."""

    def export(node: Node, x: Term, indices: Term, updates: Term) -> Term:
        reduction = text(node, "reduction")
        axis = {"axis": integer(node, "axis")} if op_type == "ScatterElements" else {}
        operands = (x, indices if axis else cast(indices, int64), updates)
        return call(op_type, *operands, type=x.type, reduction=reduction, **axis)

    accumulating = computed_in(_ACCUMULATED, export)

    def chosen(node: Node, *operands: Term) -> Term:
        moving = text(node, "reduction") == "none"
        return (export if moving else accumulating)(node, *operands)

    return chosen


TABLE: Mapping[str, Exporter] = {
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "one_hot": _one_hot,
    "top_k_values": _top_k(0),
    "top_k_indices": _top_k(1),
    "scatter_elements": _scatter("ScatterElements"),
    "scatter_nd": _scatter("ScatterND"),
}
