"""The text form of graphs."""

from __future__ import annotations

import numpy as np

from graphopt.graph import Constant, Graph, Input
from graphopt.ops import OP
from tasor.graph_text import graph_text, operator_counts
from tensorgen.types import TensorType, float32


def graph(name: str = "x", output: str = "y") -> Graph:
    x = Input(0, TensorType(float32, (2, 3)))
    total = OP["add"](x, Constant(np.array([1.0, 2.0, 3.0], np.float32)))
    result = OP["add"](OP["transpose"](total, perm=(1, 0)), Constant(np.zeros((3, 2), np.float32)))
    return Graph((x,), (result, total), (name,), (output, "again"))


def test_one_value_a_line() -> None:
    zeros = Constant(np.zeros((3, 2), np.float32)).array.tolist()
    assert graph_text(graph()).splitlines() == [
        "%in0 = input 'x' : float32[2,3]",
        "%0 = constant [1.0, 2.0, 3.0] : float32[3]",
        "%1 = add(%in0, %0) : float32[2,3]",
        "%2 = transpose(%1, perm=(1, 0)) : float32[3,2]",
        f"%3 = constant {zeros} : float32[3,2]",
        "%4 = add(%2, %3) : float32[3,2]",
        "output 'y' = %4",
        "output 'again' = %1",
    ]


def test_large_constants_are_named_by_their_content() -> None:
    x = Input(0, TensorType(float32, (9,)))
    large = Constant(np.arange(9, dtype=np.float32))
    text = graph_text(Graph((x,), (OP["add"](x, large),), ("x",), ("y",)))
    assert f"constant {large.digest.hex()[:12]} : float32[9]" in text


def test_names_cannot_add_lines_or_control_characters() -> None:
    text = graph_text(graph("a\nb\x1b[31m\u2028" + "z" * 1000, "'\r"))
    assert text.count("\n") == graph_text(graph()).count("\n")
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) < 200


def test_an_output_may_be_an_input_or_a_constant() -> None:
    x = Input(0, TensorType(float32, ()))
    text = graph_text(Graph((x,), (x, Constant(np.array(2.5, np.float32))), ("x",), ("a", "b")))
    assert text.splitlines() == [
        "%in0 = input 'x' : float32[]",
        "%0 = constant 2.5 : float32[]",
        "output 'a' = %in0",
        "output 'b' = %0",
    ]


def test_counts_are_sorted_by_frequency_then_name() -> None:
    assert operator_counts(graph()) == (("add", 2), ("transpose", 1))
