"""Hand-built and random graphs for the tests of the search, and the rules that it is given."""

from __future__ import annotations

from functools import cache

import numpy as np

from graphopt.data_files import data_path
from graphopt.evaluation import evaluate
from graphopt.graph import Constant, Graph, Input, Node, Value, rebuild
from graphopt.ops import OP
from graphopt.rule import Rule
from graphopt.rules import load_rules
from graphopt.search import AnalyticCost, KernelCost
from tensorgen.target import Target
from tensorgen.types import Array, TensorType, float32

TARGET = Target.named("x86-64-v3")
MODEL = AnalyticCost(TARGET)


@cache
def search_rules() -> tuple[Rule, ...]:
    """The shipped rules of the search."""
    return load_rules(data_path("rules", "search.rules"))


def rules_named(*names: str) -> tuple[Rule, ...]:
    """The shipped rules whose names begin so."""
    return tuple(rule for rule in search_rules() if rule.name.startswith(names))


@cache
def kernel_cost() -> KernelCost:
    """Analytic kernel costs, remembered among tests: they depend on nothing else."""
    return KernelCost(MODEL)


def tensor(position: int, *shape: int) -> Input:
    return Input(position, TensorType(float32, shape))


def weight(seed: int, *shape: int) -> Constant:
    """Small whole numbers: sums and products of some are exact."""
    rng = np.random.default_rng(seed)
    return Constant(rng.integers(-2, 3, shape).astype(np.float32))


def graph_of(*outputs: Value) -> Graph:
    """The graph of some values, its inputs those that they need."""
    found: dict[int, Input] = {}
    names = tuple(f"y{n}" for n in range(len(outputs)))
    for value in Graph((), outputs, (), names).values:
        if isinstance(value, Input):
            found[value.position] = value
    inputs = tuple(found[position] for position in sorted(found))
    return Graph(inputs, outputs, tuple(f"x{n.position}" for n in inputs), names)


def values_of(graph: Graph, seed: int = 0) -> tuple[Array, ...]:
    """What a graph computes on small whole numbers."""
    rng = np.random.default_rng(seed)
    fed: dict[Value, Value] = {
        value: Constant(rng.integers(-2, 3, value.type.shape).astype(value.type.dtype.numpy))
        for value in graph.inputs
    }

    def on_data(node: Node) -> Value:
        return node.op(*(fed.get(v, v) for v in node.inputs), **node.keywords)

    outputs = rebuild(graph, on_data).outputs
    return evaluate(tuple(fed.get(output, output) for output in outputs))


def assert_same_values(before: Graph, after: Graph, exact: bool = True) -> None:
    """Both graphs compute the same."""
    for a, b in zip(values_of(before), values_of(after), strict=True):
        assert a.dtype == b.dtype
        rounding = 0.0 if exact else 1e-5 * float(np.abs(a).max(initial=1.0))
        np.testing.assert_allclose(a, b, rtol=10 * rounding, atol=rounding)


def matmul(x: Value, y: Value) -> Node:
    return OP["matmul"](x, y)


def add(x: Value, y: Value) -> Node:
    return OP["add"](x, y)


def relu(x: Value) -> Node:
    return OP["max"](x, Constant(np.asarray(0, np.float32)))


def conv(x: Value, w: Value, pad: int = 0) -> Node:
    return OP["conv"](x, w, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), groups=1)


def shared_input(size: int = 64) -> Graph:
    """Two products of one input."""
    x = tensor(0, 1, size)
    return graph_of(matmul(x, weight(1, size, size)), matmul(x, weight(2, size, size)))


def attention_inputs(rows: int = 16, size: int = 48) -> Graph:
    """The three products before an attention, each with its shift and its heads."""
    x = tensor(0, rows, size)
    heads = []
    for number in range(3):
        shifted = add(matmul(x, weight(number, size, size)), weight(10 + number, size))
        split = OP["reshape"](shifted, shape=(rows, 4, size // 4))
        heads.append(OP["transpose"](split, perm=(1, 0, 2)))
    query, key, value = heads
    scores = matmul(query, OP["transpose"](key, perm=(0, 2, 1)))
    return graph_of(matmul(OP["tanh"](scores), value))


def distributed(size: int = 32) -> Graph:
    """x·w + y·w, which is (x + y)·w."""
    x, y, w = tensor(0, size, size), tensor(1, size, size), weight(3, size, size)
    return graph_of(add(matmul(x, w), matmul(y, w)))


def residual_blocks(count: int, channels: int = 4, size: int = 8) -> Graph:
    """Blocks of two convolutions with a sum around them, alike up to their weights."""
    value: Value = tensor(0, 1, channels, size, size)
    for number in range(count):
        w, v = (weight(2 * number + n, channels, channels, 3, 3) for n in (0, 1))
        b, c = (weight(100 + 2 * number + n, channels, 1, 1) for n in (0, 1))
        inner = add(conv(relu(add(conv(value, w, 1), b)), v, 1), c)
        value = relu(add(inner, value))
    return graph_of(value)


def random_products(seed: int, operators: int) -> Graph:
    """A graph of so many operators: products, sums and functions over a few sizes and weights.

    Its outputs are the values that nothing reads.
    """
    rng = np.random.default_rng(seed)
    sizes = (16, 48)
    values: list[Value] = [tensor(0, 8, sizes[0]), tensor(1, 8, sizes[1]), tensor(2, 8, sizes[0])]
    made: list[Node] = []
    while len(made) < operators:
        recent = [*values[:3], *made[-4:]]
        x = recent[int(rng.integers(len(recent)))]
        y = recent[int(rng.integers(len(recent)))]
        columns = x.type.shape[1]
        kind = int(rng.integers(6))
        if kind <= 2:
            size = sizes[int(rng.integers(2))]
            node = matmul(x, weight(int(rng.integers(3)), columns, size))
        elif kind <= 4 and x.type == y.type and x != y:
            node = add(x, y)
        elif kind == 5 and isinstance(x, Node) and x.op.name != "tanh":
            node = OP["tanh"](x)
        else:
            continue
        if node not in made:
            made.append(node)
    read = {value for node in made for value in node.inputs}
    return graph_of(*(node for node in made if node not in read))
