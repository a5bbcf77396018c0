"""Partition: attention is one kernel, as exporters write it, and only where it may be."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt.compiler import compile_graph, overwritable_inputs
from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from graphopt.partition import partition
from graphopt.reference import evaluate_graph
from graphopt.search.kernels import Kernels
from tensorgen.attention import attention_of
from tensorgen.target import Target
from tensorgen.types import Array, TensorType, float32
from tests.compiled_kernels import evaluate_task
from tests.random_graphs import inputs_for

HEADS, ROWS, KEYS, DEPTH = 2, 6, 9, 4


def tensor(position: int, *shape: int) -> Input:
    return Input(position, TensorType(float32, shape))


def graph_of(*outputs: Value) -> Graph:
    """A graph over the inputs that its outputs need."""
    names = tuple(f"y{n}" for n in range(len(outputs)))
    found = {v.position: v for v in Graph((), outputs, (), names).values if isinstance(v, Input)}
    inputs = tuple(found[position] for position in sorted(found))
    return Graph(inputs, outputs, tuple(f"x{v.position}" for v in inputs), names)


def scalar(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


def softmax(x: Value, axis: int) -> Value:
    top = OP["reduce_max"](x, axes=(axis,), keepdims=True)
    power = OP["exp"](OP["sub"](x, top))
    return OP["div"](power, OP["reduce_sum"](power, axes=(axis,), keepdims=True))


def heads(x: Value, permutation: tuple[int, ...]) -> Value:
    """(rows, heads * depth) as (heads, rows, depth), permuted."""
    split = OP["reshape"](x, shape=(x.type.shape[0], HEADS, DEPTH))
    return OP["transpose"](split, perm=permutation)


Q, K, V = (tensor(n, ROWS if n == 0 else KEYS, HEADS * DEPTH) for n in range(3))


def scores() -> Value:
    return OP["matmul"](heads(Q, (1, 0, 2)), heads(K, (1, 2, 0)))


def mixed(weights: Value) -> Value:
    product = OP["matmul"](weights, heads(V, (1, 0, 2)))
    merged = OP["transpose"](product, perm=(1, 0, 2))
    return OP["reshape"](merged, shape=(ROWS, HEADS * DEPTH))


def causal() -> Constant:
    allowed = np.tril(np.ones((ROWS, KEYS), bool))
    return Constant(np.where(allowed, 0, -np.inf).astype(np.float32))


FORMS: dict[str, Value] = {
    "divided": mixed(softmax(OP["div"](scores(), scalar(2)), 2)),
    "multiplied": mixed(softmax(OP["mul"](scores(), scalar(0.5)), 2)),
    "queries scaled before": mixed(
        softmax(OP["matmul"](OP["mul"](heads(Q, (1, 0, 2)), scalar(0.5)), heads(K, (1, 2, 0))), 2)
    ),
    "masked": mixed(softmax(OP["add"](OP["div"](scores(), scalar(2)), causal()), 2)),
    "mask given": mixed(softmax(OP["add"](scores(), tensor(3, 1, 1, KEYS)), 2)),
    "chosen": mixed(
        softmax(
            OP["where"](OP["lt"](tensor(3, 1, ROWS, KEYS), scalar(0)), scores(), scalar(-np.inf)),
            2,
        )
    ),
    "without values": softmax(scores(), 2),
    "more after it": OP["add"](mixed(softmax(scores(), 2)), tensor(3, HEADS * DEPTH)),
}


@pytest.mark.parametrize("name", FORMS)
def test_is_one_kernel(name: str) -> None:
    graph = graph_of(FORMS[name])
    steps = partition(graph)
    assert len([step for step in steps if attention_of(step.task) is not None]) == 1
    # Queries that are scaled beforehand are stored: factors stay plain loads.
    assert len(steps) == (2 if name == "queries scaled before" else 1)
    assert [task.digest for task in Kernels().tasks(graph)] == [step.task.digest for step in steps]
    arrays = inputs_for(graph, 1)
    known: dict[Value, Array] = {
        value: arrays[name] for name, value in zip(graph.input_names, graph.inputs, strict=True)
    }
    for step in steps:
        operands = [v.array if isinstance(v, Constant) else known[v] for v in step.inputs]
        known.update(zip(step.outputs, evaluate_task(step.task, operands), strict=True))
    (expected,) = evaluate_graph(graph, arrays)
    np.testing.assert_allclose(known[graph.outputs[0]], expected, rtol=1e-5, atol=1e-6)


def weights() -> Value:
    return softmax(scores(), 2)


SHARED_SCORES, SHARED_WEIGHTS = scores(), weights()

STORED: dict[str, tuple[tuple[Value, ...], bool]] = {
    "scores are a result": ((mixed(softmax(SHARED_SCORES, 2)), SHARED_SCORES), False),
    "scores are read twice": (
        (mixed(softmax(SHARED_SCORES, 2)), OP["mul"](SHARED_SCORES, SHARED_SCORES)),
        False,
    ),
    "weights are a result": ((mixed(SHARED_WEIGHTS), SHARED_WEIGHTS), True),
    "a part of the scores is a result": (
        (
            mixed(softmax(SHARED_SCORES, 2)),
            OP["slice"](SHARED_SCORES, starts=(0, 0, 0), steps=(1, 1, 1), sizes=(1, ROWS, KEYS)),
        ),
        False,
    ),
    "over the heads": ((mixed(softmax(scores(), 0)),), False),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_what_others_need_is_stored(name: str) -> None:
    outputs, joins = STORED[name]
    steps = partition(graph_of(*outputs))
    found = [attention_of(step.task) for step in steps]
    joined = [attention for attention in found if attention is not None]
    assert bool(joined) == joins
    assert all(attention.weighted is None for attention in joined)


def test_the_result_overwrites_no_input_that_other_blocks_read() -> None:
    """What is added at the end stands where the result does; keys and queries may not."""
    square = tensor(0, ROWS, HEADS * DEPTH)
    own = OP["matmul"](heads(square, (1, 0, 2)), heads(square, (1, 2, 0)))
    product = OP["matmul"](softmax(own, 2), heads(square, (1, 0, 2)))
    merged = OP["reshape"](OP["transpose"](product, perm=(1, 0, 2)), shape=(ROWS, HEADS * DEPTH))
    (step,) = partition(graph_of(OP["add"](merged, square)))
    assert attention_of(step.task) is not None
    assert overwritable_inputs(step.task) == frozenset()


def test_scores_leave_the_arena() -> None:
    size = 64

    def part(position: int) -> Value:
        return OP["transpose"](tensor(position, size, 8, 32), perm=(1, 0, 2))

    product = OP["matmul"](part(0), OP["transpose"](part(1), perm=(0, 2, 1)))
    graph = graph_of(OP["matmul"](softmax(product, 2), part(2)))
    found = compile_graph(
        graph, name="attention", target=Target.named("x86-64-v3"), threads=1, strict=False,
        weights=None, metadata={},
    )  # fmt: skip
    assert [kernel.name.split("_")[0] for kernel in found.kernels] == ["attention"]
    assert found.arena.arena_bytes < 8 * size * size * 4 / 4
