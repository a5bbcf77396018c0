"""Storage: no live value is overwritten, by running the steps on the planned memory."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from graphopt.partition import partition, stored_views
from graphopt.reference import evaluate_graph
from graphopt.storage import ArenaUse, Layout, copy_of, copy_task, lay_out, with_given
from tensorgen.types import TensorType, float32
from tests.compiled_kernels import evaluate_task
from tests.planned_memory import Memory, planned
from tests.random_graphs import inputs_for, random_graph


def layout_of(graph: Graph) -> Layout:
    return lay_out(graph, partition(graph), stored_views(graph))


def check(graph: Graph, seed: int = 0) -> tuple[Layout, ArenaUse]:
    """The outputs are right after all steps have run in the planned memory."""
    layout = layout_of(graph)
    arena = planned(layout)
    arrays = inputs_for(graph, seed)
    memory = Memory(graph, layout, arena, {name: array.copy() for name, array in arrays.items()})
    memory.run()
    for number, expected in enumerate(evaluate_graph(graph, arrays)):
        found = memory.ports[number].view(expected.dtype).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
    return layout, arena


@pytest.mark.parametrize("seed", range(150))
def test_no_live_value_is_overwritten(seed: int) -> None:
    check(random_graph(seed, size=8 + seed % 12), seed)


def tensor(*shape: int, position: int = 0) -> Input:
    return Input(position, TensorType(float32, shape))


def graph_of(inputs: tuple[Input, ...], *outputs: Value) -> Graph:
    names = tuple(f"x{n}" for n in range(len(inputs)))
    return Graph(inputs, outputs, names, tuple(f"y{n}" for n in range(len(outputs))))


def test_channels_are_joined_without_a_copy() -> None:
    x, y = tensor(1, 2, 3), tensor(1, 4, 3, position=1)
    joined = OP["concat"](OP["matmul"](x, _weight(3, 3)), OP["matmul"](y, _weight(3, 3)), axis=1)
    layout, _ = check(graph_of((x, y), joined))
    assert len(layout.steps) == 2
    assert [layout.part(step.outputs[0]).offset for step in layout.steps] == [0, 6]
    assert set(layout.ports) == {joined}


def _weight(*shape: int) -> Constant:
    return Constant(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 3)


def test_joining_several_images_copies() -> None:
    x, y = tensor(2, 2, 3), tensor(2, 4, 3, position=1)
    products = [OP["matmul"](value, _weight(3, 3)) for value in (x, y)]
    layout, _ = check(graph_of((x, y), OP["concat"](*products, axis=1)))
    assert len(layout.steps) == 3


def test_a_value_joined_twice_is_right() -> None:
    x = tensor(1, 2, 3)
    product = OP["matmul"](x, _weight(3, 3))
    one = OP["concat"](product, product, axis=1)
    other = OP["concat"](product, one, axis=1)
    check(graph_of((x,), one, other, product))


def test_joining_an_input_copies_only_that() -> None:
    x = tensor(1, 2, 3)
    joined = OP["concat"](x, OP["matmul"](x, _weight(3, 3)), axis=1)
    layout, _ = check(graph_of((x,), joined))
    assert len(layout.steps) == 2


def test_tasks_know_what_callers_give_if_all_their_steps_read_it() -> None:
    """The first of three equal products reads the caller's array, but they share a kernel; that of
    a part of an array has one of its own."""
    x, y = tensor(4, 4), tensor(8, 6, position=1)
    value: Value = x
    for _ in range(3):
        value = OP["matmul"](value, _weight(4, 4))
    part = OP["slice"](y, starts=(4, 0), steps=(1, 1), sizes=(4, 6))
    layout = with_given(layout_of(graph_of((x, y), value, OP["matmul"](part, _weight(6, 4)))))
    assert [sorted(step.task.given) for step in layout.steps] == [[], [], [], [0]]
    assert len({step.task for step in layout.steps}) == 2


def test_outputs_go_right_to_the_caller() -> None:
    x = tensor(4, 5)
    product = OP["matmul"](x, _weight(5, 5))
    layout, arena = check(graph_of((x,), OP["reshape"](product, shape=(20,))))
    assert len(layout.steps) == 1
    assert list(layout.ports.values()) == [0]
    assert arena.plan.arena_bytes == 0


def test_outputs_that_share_storage_are_copied() -> None:
    x = tensor(4, 5)
    product = OP["matmul"](x, _weight(5, 5))
    flat = OP["reshape"](product, shape=(20,))
    layout, _ = check(graph_of((x,), product, flat, x, product, _weight(3)))
    assert set(layout.copies.values()) == {1, 2, 3, 4}


def test_a_view_of_a_constant_is_an_output() -> None:
    check(graph_of((tensor(2),), OP["reshape"](_weight(2, 3), shape=(6,))))


def test_elementwise_results_take_over_their_operand() -> None:
    x = tensor(8, 16)
    product = OP["matmul"](x, _weight(16, 16))
    value: Value = product
    # The product is read twice, so that its reader is a kernel of its own. All numbers are whole:
    # numpy rounds sums of others by where its arrays begin.
    value = OP["mul"](OP["abs"](OP["min"](product, _weight(1))), product)
    final = OP["matmul"](value, _weight(16, 16))
    _, arena = check(graph_of((x,), final))
    assert arena.plan.arena_bytes <= 8 * 16 * 4 + 64 * 2


def test_a_copy_has_storage_of_its_own() -> None:
    x = tensor(3)
    assert len({x, copy_of(x, "a"), copy_of(x, "b")}) == 3
    assert copy_of(x, "a") == copy_of(x, "a")
    array = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(evaluate_task(copy_task(x), [array])[0], array)
