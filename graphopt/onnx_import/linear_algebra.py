"""Importer of Det: determinants of small matrices, in closed form or by elimination.

Up to three rows the products of the definition are summed; from four on rows are eliminated one
by one, each time with the largest element of the column as pivot.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import apply, reshape, scalar, slice_axis, tensor
from tensorgen.types import int64

LARGEST_CLOSED_FORM = 3

MAX_ROWS = 128
"""Larger matrices are refused: elimination takes a step per row."""


def _det(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    if x.type.rank < 2 or x.type.shape[-1] != x.type.shape[-2] or not x.type.dtype.is_float:
        raise node.error("square matrices of floats", x.type)
    rows = x.type.shape[-1]
    if not 1 <= rows <= MAX_ROWS:
        raise node.unsupported(f"matrices of 1 to {MAX_ROWS} rows", rows)
    leading = x.type.shape[:-2]
    stack = reshape(x, (prod(leading), rows, rows))
    if rows <= LARGEST_CLOSED_FORM:
        columns = tuple(range(rows))
        result = _expanded(stack, 0, columns)
    else:
        result = _eliminated(stack)
    return (reshape(result, leading),)


def _element(x: Value, row: int, column: int) -> Value:
    """One element of every matrix: (count,)."""
    return reshape(slice_axis(slice_axis(x, 1, row, 1), 2, column, 1), (x.type.shape[0],))


def _expanded(x: Value, row: int, columns: tuple[int, ...]) -> Value:
    """The minor of the rows from `row` on and those columns, expanded along its first row."""
    if len(columns) == 1:
        return _element(x, row, columns[0])
    result: Value | None = None
    for position, column in enumerate(columns):
        others = columns[:position] + columns[position + 1 :]
        term = apply("mul", _element(x, row, column), _expanded(x, row + 1, others))
        sign = "add" if position % 2 == 0 else "sub"
        result = term if result is None else apply(sign, result, term)
    assert result is not None
    return result


def _eliminated(x: Value) -> Value:
    """The product of the pivots, with a change of sign for every exchange of rows."""
    result: Value | None = None
    while True:
        pivot, exchanged, rest = _pivoted(x)
        if result is not None:
            pivot = apply("mul", result, pivot)
        if exchanged is None or rest is None:
            return pivot
        result = OP["where"](exchanged, apply("neg", pivot), pivot)
        x = rest


def _pivoted(x: Value) -> tuple[Value, Value | None, Value | None]:
    """The pivot of the first column, whether its row was exchanged, and what remains.

    The remaining matrices have a row and a column less; None and None if there are none.
    """
    count, rows, _ = x.type.shape
    if rows == 1:
        return reshape(x, (count,)), None, None
    dtype = x.type.dtype
    column = reshape(slice_axis(x, 2, 0, 1), (count, rows))
    place = OP["argmax"](apply("abs", column), axis=1, last=False)
    index = reshape(place, (count, 1))
    pivot_row = OP["gather_nd"](x, index, batch_dims=1)
    pivot = reshape(slice_axis(pivot_row, 1, 0, 1), (count,))
    # The first row takes the place of the pivot's.
    at_place = apply("eq", index, tensor(np.arange(rows), int64))
    swapped = OP["where"](reshape(at_place, (count, rows, 1)), slice_axis(x, 1, 0, 1), x)
    others = slice_axis(swapped, 1, 1, rows - 1)
    heads = slice_axis(others, 2, 0, 1)
    # A pivot of zero means a column of zeros: nothing to eliminate, and a determinant of zero.
    singular = apply("eq", pivot, scalar(0, dtype))
    divisor = OP["where"](singular, scalar(1, dtype), pivot)
    factors = apply("div", heads, reshape(divisor, (count, 1, 1)))
    tails = slice_axis(others, 2, 1, rows - 1)
    pivot_tail = reshape(slice_axis(pivot_row, 1, 1, rows - 1), (count, 1, rows - 1))
    rest = apply("sub", tails, apply("mul", factors, pivot_tail))
    return pivot, apply("ne", place, scalar(0, int64)), rest


TABLE: Mapping[tuple[str, str], Importer] = {("", "Det"): _det}
