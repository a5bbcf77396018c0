"""What an input's elements choose among, read off the graph."""

from __future__ import annotations

import numpy as np

from graphopt.graph import Constant, Graph, Input, Value
from graphopt.index_domains import index_domains
from graphopt.ops import OP
from tensorgen.types import TensorType, float32, int32, int64

INDICES = Input(0, TensorType(int64, (2, 3)))
TABLE = Constant(np.zeros((30, 4), np.float32))


def domain(*outputs: Value, indices: Input = INDICES) -> int | None:
    graph = Graph((indices,), outputs, ("x",), tuple(f"y{n}" for n in range(len(outputs))))
    (found,) = index_domains(graph)
    return found


def test_indices_of_a_table() -> None:
    assert domain(OP["gather"](TABLE, INDICES, axis=0)) == 30
    assert domain(OP["gather"](TABLE, INDICES, axis=1)) == 4


def test_the_smallest_table_counts() -> None:
    short = Constant(np.zeros((7, 2), np.float32))
    both = (OP["gather"](TABLE, INDICES, axis=0), OP["gather"](short, INDICES, axis=0))
    assert domain(*both) == 7


def test_indices_that_wrap_around_and_move() -> None:
    wrapped = OP["where"](
        OP["lt"](INDICES, Constant(np.array(0))),
        OP["add"](INDICES, Constant(np.array(30))),
        INDICES,
    )
    moved = OP["transpose"](OP["cast"](wrapped, to="int32"), perm=(1, 0))
    assert domain(OP["gather"](TABLE, moved, axis=0)) == 30


def test_a_one_hot_by_comparison() -> None:
    indices = Input(0, TensorType(int32, (5,)))
    column = OP["reshape"](indices, shape=(5, 1))
    counted = Constant(np.arange(257, dtype=np.int32).reshape(1, 257))
    gapped = Constant(np.array([[0, 2, 3]], np.int32))
    assert domain(OP["eq"](column, counted), indices=indices) == 257
    assert domain(OP["eq"](column, gapped), indices=indices) is None


def test_index_tuples_and_elements() -> None:
    pairs = Input(0, TensorType(int64, (5, 2)))
    assert domain(OP["gather_nd"](TABLE, pairs, batch_dims=0), indices=pairs) == 4
    rows = Input(0, TensorType(int64, (3, 4)))
    assert domain(OP["gather_elements"](TABLE, rows, axis=0), indices=rows) == 30


def test_what_is_computed_has_no_domain() -> None:
    shifted = OP["add"](INDICES, Constant(np.array(-1)))
    assert domain(OP["gather"](TABLE, shifted, axis=0)) is None


def test_floats_have_none() -> None:
    x = Input(0, TensorType(float32, (3,)))
    assert domain(OP["gather"](TABLE, OP["cast"](x, to="int64"), axis=0), indices=x) is None
