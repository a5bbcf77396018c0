"""Importers of reductions along axes: folds, means, positions of extremes, cumulative folds.

The norms and log-sums are left to the bodies that ONNX gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphopt.graph import Value
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import cast, mean, reduced, reshape
from tensorgen.types import Shape, boolean, uint8

Fold = Callable[[Value, Shape, bool], Value]


def reduced_axes(node: OnnxNode, rank: int) -> Shape:
    """The axes to reduce, sorted: from the second operand or the attribute, all if neither.

    None at all for empty axes where `noop_with_empty_axes` says so.
    """
    if node.optional(1) is not None:
        given: Shape = node.integers_of(1, "the axes")
    else:
        given = node.integers("axes", ())
    if given:
        return node.axes(given, rank)
    return () if node.integer("noop_with_empty_axes", 0) else tuple(range(rank))


def _fold(fold: Fold) -> Importer:
    def importer(node: OnnxNode) -> tuple[Value, ...]:
        x = node.input(0)
        return (fold(x, reduced_axes(node, x.type.rank), node.integer("keepdims", 1) != 0),)

    return importer


def _named(name: str) -> Importer:
    return _fold(lambda x, axes, keepdims: reduced(name, x, axes, keepdims))


def _extreme(name: str) -> Importer:
    """Maximum or minimum; of booleans too, with false < true."""

    def fold(x: Value, axes: Shape, keepdims: bool) -> Value:
        if x.type.dtype != boolean:
            return reduced(name, x, axes, keepdims)
        return cast(reduced(name, cast(x, uint8), axes, keepdims), boolean)

    return _fold(fold)


def _position(name: str) -> Importer:
    def importer(node: OnnxNode) -> tuple[Value, ...]:
        x = node.input(0)
        axis = node.axis(node.integer("axis", 0), x.type.rank)
        last = node.integer("select_last_index", 0) != 0
        result: Value = OP[name](x, axis=axis, last=last)
        if node.integer("keepdims", 1):
            result = reshape(result, (*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :]))
        return (result,)

    return importer


def _cumulative(name: str) -> Importer:
    def importer(node: OnnxNode) -> tuple[Value, ...]:
        x = node.input(0)
        axis = node.axis(node.integer_of(1, "the axis"), x.type.rank)
        exclusive, reverse = node.integer("exclusive", 0) != 0, node.integer("reverse", 0) != 0
        return (OP[name](x, axis=axis, exclusive=exclusive, reverse=reverse),)

    return importer


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "ArgMax"): _position("argmax"),
    ("", "ArgMin"): _position("argmin"),
    ("", "CumProd"): _cumulative("cumulative_product"),
    ("", "CumSum"): _cumulative("cumulative_sum"),
    ("", "ReduceMax"): _extreme("reduce_max"),
    ("", "ReduceMean"): _fold(mean),
    ("", "ReduceMin"): _extreme("reduce_min"),
    ("", "ReduceProd"): _named("reduce_prod"),
    ("", "ReduceSum"): _named("reduce_sum"),
}
