"""Reductions, positions of extremes and cumulative folds as ONNX.

Where a maximum or its position meets NaN, ONNX leaves the result open.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.graph import Node
from graphopt.onnx_export.parameters import integer, integers
from graphopt.onnx_export.term import (
    Exporter,
    Term,
    call,
    elementwise,
    identity,
    padded,
    reduced,
)
from graphopt.onnx_export.widening import (
    MODULAR,
    ORDERED,
    Widening,
    computed_in,
)
from graphopt.terms import integers as vector
from graphopt.terms import scalar
from tensorgen.types import TensorType, int64


def _fold(op_type: str, widening: Widening) -> Exporter:
    def export(node: Node, x: Term) -> Term:
        axes = integers(node, "axes")
        return reduced(op_type, x, axes, bool(node.param("keepdims"))) if axes else identity(x)

    return computed_in(widening, export)


def _position(op_type: str) -> Exporter:
    def export(node: Node, x: Term) -> Term:
        return call(
            op_type,
            x,
            type=node.type,
            axis=integer(node, "axis"),
            keepdims=0,
            select_last_index=int(bool(node.param("last"))),
        )

    return computed_in(ORDERED, export)


def _cumulative_sum(node: Node, x: Term) -> Term:
    return call(
        "CumSum",
        x,
        scalar(integer(node, "axis"), int64),
        type=x.type,
        exclusive=int(bool(node.param("exclusive"))),
        reverse=int(bool(node.param("reverse"))),
    )


def _cumulative_product(node: Node, x: Term) -> Term:
    """Products of the last 1, 2, 4, … elements: ONNX has no operator for it before opset 26."""
    axis, reverse = integer(node, "axis"), bool(node.param("reverse"))
    extent = x.type.shape[axis]
    result = _shifted(x, axis, 1, reverse) if node.param("exclusive") and extent else x
    distance = 1
    while distance < extent:
        result = elementwise("Mul", result, _shifted(result, axis, distance, reverse))
        distance *= 2
    return identity(result) if result is x else result


def _shifted(x: Term, axis: int, distance: int, backwards: bool) -> Term:
    """Each element moved along an axis, ones following."""
    extent = x.type.shape[axis]
    start, end = (distance, extent) if backwards else (0, extent - distance)
    shape = (*x.type.shape[:axis], extent - distance, *x.type.shape[axis + 1 :])
    kept = call(
        "Slice",
        x,
        vector((start,)),
        vector((end,)),
        vector((axis,)),
        type=TensorType(x.type.dtype, shape),
    )
    nothing = (0,) * x.type.rank
    moved = (*nothing[:axis], distance, *nothing[axis + 1 :])
    before, after = (nothing, moved) if backwards else (moved, nothing)
    return padded(kept, before, after, scalar(1, x.type.dtype))


TABLE: Mapping[str, Exporter] = {
    "reduce_sum": _fold("ReduceSum", MODULAR),
    "reduce_prod": _fold("ReduceProd", MODULAR),
    "reduce_max": _fold("ReduceMax", ORDERED),
    "reduce_min": _fold("ReduceMin", ORDERED),
    "argmax": _position("ArgMax"),
    "argmin": _position("ArgMin"),
    "cumulative_sum": computed_in(MODULAR, _cumulative_sum),
    "cumulative_product": computed_in(MODULAR, _cumulative_product),
}
