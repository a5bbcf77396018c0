"""What differs between two graphs: found where it is, alike changes once, limits kept."""

from __future__ import annotations

from graphopt.graph import Graph, Value
from graphopt.ops import OP
from tasor.graph_changes import MOST_BOXES, changes, whole
from tests.graphs_for_search import add, conv, graph_of, matmul, relu, tensor, weight


def chain(count: int, replaced: tuple[int, ...] = ()) -> Graph:
    """relu after relu; tanh in some places."""
    value: Value = tensor(0, 4)
    for number in range(count):
        value = OP["tanh"](value) if number in replaced else relu(value)
    return graph_of(value)


def test_equal_graphs_do_not_differ() -> None:
    assert changes(chain(5), chain(5)) == ()


def test_a_change_is_found_in_the_middle() -> None:
    [change] = changes(chain(9), chain(9, (4,)))
    assert (change.count, change.operators_before, change.operators_after) == (1, 1, 1)
    marked = [box.label for box in change.after.boxes if box.marked]
    assert [label.partition("\n")[0] for label in marked] == ["tanh"]
    # With what it reads and what reads it.
    assert sum(box.kind == "operator" for box in change.after.boxes) == 3


def test_changes_alike_are_counted() -> None:
    [change] = changes(chain(20), chain(20, (3, 9, 15)))
    assert change.count == 3


def test_changes_next_to_each_other_are_one() -> None:
    [change] = changes(chain(9), chain(9, (4, 5)))
    assert (change.count, change.operators_before, change.operators_after) == (1, 2, 2)


def test_what_has_gone_is_a_change() -> None:
    x, w = tensor(0, 1, 4, 5, 5), weight(0, 4, 4, 1, 1)
    scaled = OP["mul"](conv(x, w), weight(1, 4, 1, 1))
    [change] = changes(graph_of(relu(scaled)), graph_of(relu(conv(x, weight(2, 4, 4, 1, 1)))))
    assert change.operators_before == 2
    assert {box.kind for box in change.before.boxes} == {"operator", "input", "constant"}


def test_pictures_have_a_limit() -> None:
    picture = whole(chain(MOST_BOXES + 30))
    assert picture.left_out == 30
    assert len([box for box in picture.boxes if box.kind == "operator"]) == MOST_BOXES
    ids = {box.id for box in picture.boxes}
    assert all({edge.source, edge.target} <= ids for edge in picture.edges)


def test_a_whole_graph_has_its_inputs_and_results() -> None:
    x, y = tensor(0, 2, 3), tensor(1, 2, 3)
    picture = whole(graph_of(add(x, y), matmul(x, weight(0, 3, 4))))
    kinds = [box.kind for box in picture.boxes]
    assert (kinds.count("input"), kinds.count("result"), kinds.count("constant")) == (2, 2, 1)
    assert not any(box.marked for box in picture.boxes)
