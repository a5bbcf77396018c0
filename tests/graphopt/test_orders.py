"""Memory orders over a graph: results stay, what may change, and what estimates choose."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.compiler import compile_graph
from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from graphopt.orders import in_better_orders
from graphopt.partition import partition, stored_views
from graphopt.reference import evaluate_graph
from graphopt.search.cost import AnalyticCost
from graphopt.storage import Layout, lay_out
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import TensorType, float32
from tests.planned_memory import Memory, planned
from tests.random_graphs import inputs_for, random_graph


def layout_of(graph: Graph) -> Layout:
    return lay_out(graph, partition(graph), stored_views(graph))


class AnyCost:
    """A cost that means nothing, so that every mixture of orders is chosen by some seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, task: Task) -> float:
        rng = np.random.default_rng([self.seed, *task.digest])
        return float(rng.uniform(0.5, 1.5))


def check(graph: Graph, layout: Layout, seed: int) -> None:
    """The outputs are right after all steps have run in the planned memory."""
    arrays = inputs_for(graph, seed)
    copies = {name: array.copy() for name, array in arrays.items()}
    memory = Memory(graph, layout, planned(layout), copies)
    memory.run()
    for number, expected in enumerate(evaluate_graph(graph, arrays)):
        found = memory.ports[number].view(expected.dtype).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)


def changed(layout: Layout, other: Layout) -> int:
    return sum(a.task != b.task for a, b in zip(layout.steps, other.steps, strict=True))


@pytest.mark.parametrize("seed", range(100))
def test_random_graphs_compute_the_same_in_any_orders(seed: int) -> None:
    graph = random_graph(seed, size=8 + seed % 12)
    check(graph, in_better_orders(layout_of(graph), AnyCost(seed)), seed)


def weight(*shape: int) -> Constant:
    rng = np.random.default_rng(sum(shape))
    return Constant(rng.integers(-1, 2, shape).astype(np.float32))


def conv(x: Value, features: int, kernel: int = 1, stride: int = 1) -> Value:
    taps = weight(features, x.type.shape[1], kernel, kernel)
    pad = kernel // 2
    return OP["conv"](
        x, taps, strides=(stride, stride), pads=(pad,) * 4, dilations=(1, 1), groups=1
    )


def network(channels: int = 8, size: int = 9) -> Graph:
    """Convolutions with a residual, padding, a stride and a join of channels."""
    x = Input(0, TensorType(float32, (1, channels, size, size)))
    first = OP["abs"](conv(x, channels, 3))
    second = OP["add"](conv(first, channels), first)
    third = conv(second, 2 * channels, 3, 2)
    joined = OP["concat"](conv(third, channels), conv(third, channels), axis=1)
    last = conv(joined, channels)
    return Graph((x,), (conv(last, channels),), ("x",), ("y",))


@pytest.mark.parametrize("seed", range(12))
def test_convolutions_compute_the_same_in_any_orders(seed: int) -> None:
    graph = network()
    plain = layout_of(graph)
    layout = in_better_orders(plain, AnyCost(seed))
    check(graph, layout, seed)


def test_some_cost_changes_orders() -> None:
    plain = layout_of(network())
    assert any(changed(plain, in_better_orders(plain, AnyCost(seed))) >= 4 for seed in range(12))


def test_what_others_see_stays_row_major() -> None:
    """Inputs, outputs and the parts of a joined value, whatever it costs."""
    graph = network()
    for seed in range(12):
        layout = in_better_orders(layout_of(graph), AnyCost(seed))
        for step in layout.steps:
            for value, type in zip(step.inputs, step.task.inputs, strict=True):
                if value in graph.inputs or value in layout.parts or isinstance(value, Constant):
                    assert type == value.type
            for value, type in zip(step.outputs, step.task.output_types, strict=True):
                if value in layout.ports or value in layout.parts:
                    assert type == value.type


def test_little_gain_changes_nothing() -> None:
    plain = layout_of(network())
    assert in_better_orders(plain, lambda task: 1.0).steps == plain.steps


def test_narrow_vectors_want_channels_together() -> None:
    """On AVX2 a product over many channels of a small plane reads row-major data slowly."""
    x = Input(0, TensorType(float32, (1, 256, 7, 7)))
    value: Value = x
    for features in (1024, 256, 1024, 256):
        value = conv(value, features)
    graph = Graph((x,), (value,), ("x",), ("y",))
    cost = AnalyticCost(Target.named("x86-64-v3"))
    plain = layout_of(graph)
    assert changed(plain, in_better_orders(plain, cost.cost)) == 4


@pytest.mark.parametrize("strict", [False, True])
def test_strict_sums_keep_their_order(strict: bool) -> None:
    x = Input(0, TensorType(float32, (1, 256, 7, 7)))
    graph = Graph((x,), (conv(conv(x, 512), 64),), ("x",), ("y",))
    made = compile_graph(
        graph, name="m", target=Target.named("x86-64-v3"), threads=1, strict=strict,
        weights=None, metadata={},
    )  # fmt: skip
    types = [step.output_types[0].shape for step in made.tasks]
    assert types[0] == ((1, 512, 7, 7) if strict else (1, 7, 7, 512))
