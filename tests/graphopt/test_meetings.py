"""Where the uses of a value meet."""

from __future__ import annotations

from graphopt.graph import Graph, Input, Node, Value
from graphopt.meetings import MOST_BETWEEN, Meeting, meetings
from graphopt.ops import OP
from tensorgen.types import TensorType, float32

X = Input(0, TensorType(float32, (4, 8)))


def graph_of(*outputs: Value) -> Graph:
    return Graph((X,), outputs, ("x",), tuple(f"y{n}" for n in range(len(outputs))))


def node(value: Value) -> Node:
    assert isinstance(value, Node)
    return value


def test_both_uses_end_in_one_node() -> None:
    value = node(OP["exp"](X))
    gate = node(OP["sigmoid"](value))
    product = node(OP["mul"](value, gate))
    assert meetings(graph_of(product)) == {product: (Meeting(value, frozenset({gate})),)}


def test_the_last_one_computed_is_first() -> None:
    first = node(OP["exp"](X))
    second = node(OP["add"](first, OP["neg"](first)))
    third = node(OP["mul"](second, OP["mul"](OP["abs"](second), first)))
    [(place, found)] = meetings(graph_of(third)).items()
    assert place == third
    assert [meeting.value for meeting in found] == [second, first]
    assert second in found[1].between


def test_uses_that_do_not_meet() -> None:
    value = OP["exp"](X)
    left, right = OP["neg"](value), OP["abs"](value)
    assert not meetings(graph_of(left, right))
    assert not meetings(graph_of(OP["add"](left, right), value))
    assert not meetings(graph_of(OP["add"](left, right), left))
    summed = OP["reduce_sum"](left, axes=(0,), keepdims=True)
    assert not meetings(graph_of(OP["add"](summed, right)))


def test_uses_are_not_followed_for_ever() -> None:
    def around(length: int) -> Graph:
        value: Value = OP["exp"](X)
        longer = value
        for _ in range(length):
            longer = OP["neg"](longer)
        return graph_of(OP["add"](longer, value))

    assert len(meetings(around(MOST_BETWEEN))) == 1
    assert not meetings(around(MOST_BETWEEN + 1))
