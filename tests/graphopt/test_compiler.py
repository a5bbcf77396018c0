"""The whole compiler: graphs as C libraries against the graph's own meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphopt.compiler import Compilation, compile_graph, flops, overwritable_inputs
from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from graphopt.optimize import prepare
from graphopt.reference import evaluate_graph
from tensorgen.build import build_library
from tensorgen.expr import Tensor, TensorExpr, compute
from tensorgen.library import Library
from tensorgen.module import library_sources, module_files, source_flags
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.types import Array, TensorType, float32
from tests.compiled_kernels import assert_same
from tests.contraction_tasks import matmul
from tests.random_graphs import inputs_for, random_graph


def compilation_of(
    graph: Graph, *, target: Target | None = None, strict: bool = False, threads: int = 1
) -> Compilation:
    return compile_graph(
        graph, name="net", target=target or host_target(), threads=threads, strict=strict,
        weights=None, metadata={},
    )  # fmt: skip


def loaded(compilation: Compilation, cache: Path, flags: tuple[str, ...] = ("-O1",)) -> Library:
    module = compilation.module
    path = build_library(
        library_sources(module, module_files(module)), target=module.target, flags=flags,
        source_flags=source_flags(module), strict=module.strict, threads=module.threads,
        cache=cache,
    )  # fmt: skip
    return Library(path, module.name, module.inputs, module.outputs, module.arena_bytes)


def check(graph: Graph, arrays: dict[str, Array], cache: Path, threads: int = 1) -> None:
    """The library computes what the graph means, twice, and leaves its inputs alone."""
    with np.errstate(all="ignore"):
        expected = evaluate_graph(graph, arrays)
    library = loaded(compilation_of(graph, threads=threads), cache)
    given = [arrays[name].copy() for name in graph.input_names]
    for _ in range(2):
        found = library.run(given)
        for result, wanted, name in zip(found, expected, graph.output_names, strict=True):
            assert_same(result, np.asarray(wanted), 64.0, name)
    for name, array in zip(graph.input_names, given, strict=True):
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    graph = random_graph(seed)
    check(graph, inputs_for(graph, seed), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1150))
def test_many_random_graphs(seed: int, tmp_path: Path) -> None:
    graph = random_graph(seed, size=14)
    check(graph, inputs_for(graph, seed), tmp_path, threads=1 + seed % 2)


def graph_of(inputs: tuple[Input, ...], *outputs: Value) -> Graph:
    names = tuple(f"x{n}" for n in range(len(inputs)))
    return Graph(inputs, outputs, names, tuple(f"y{n}" for n in range(len(outputs))))


def tensor(*shape: int, position: int = 0) -> Input:
    return Input(position, TensorType(float32, shape))


def weight(*shape: int, seed: int = 0) -> Constant:
    return Constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def scalar(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


def softmax(x: Value, axis: int) -> Value:
    top = OP["reduce_max"](x, axes=(axis,), keepdims=True)
    power = OP["exp"](OP["sub"](x, top))
    return OP["div"](power, OP["reduce_sum"](power, axes=(axis,), keepdims=True))


def network() -> Graph:
    """A small network with padding, strides, pooling, attention and a classifier."""
    x = tensor(1, 3, 17, 15)
    first = OP["conv"](
        x, weight(11, 3, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1
    )
    y = OP["max"](OP["add"](first, weight(1, 11, 1, 1)), scalar(0))
    pooled = OP["max_pool"](y, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    tokens = OP["transpose"](OP["reshape"](pooled, shape=(11, 20)), perm=(1, 0))
    keys = OP["transpose"](OP["matmul"](tokens, weight(11, 8)), perm=(1, 0))
    scores = softmax(OP["matmul"](OP["matmul"](tokens, weight(11, 8, seed=1)), keys), 1)
    mixed = OP["add"](OP["matmul"](scores, tokens), tokens)
    final = OP["matmul"](OP["reshape"](mixed, shape=(1, 220)), weight(220, 10))
    return prepare(graph_of((x,), softmax(final, 1), scores))


def image() -> dict[str, Array]:
    return {"x0": np.random.default_rng(4).standard_normal((1, 3, 17, 15)).astype(np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_network(threads: int, tmp_path: Path) -> None:
    check(network(), image(), tmp_path, threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "weights", "strides", "pads", "groups"),
    [
        ((2, 3, 5, 7), (5, 3, 4, 4), (2, 2), (1, 1, 1, 1), 1),
        ((1, 4, 4, 4), (40, 4, 4, 4), (2, 2), (1, 1, 1, 1), 1),
        ((1, 4, 3, 17), (6, 2, 2, 3), (2, 2), (0, 1, -1, 0), 2),
        ((1, 7, 33), (3, 7, 16), (8,), (4, 4), 1),
        ((1, 2, 3, 2, 4), (2, 2, 3, 2, 2), (2, 1, 2), (1, 0, 0, 0, 1, 0), 1),
    ],
)
def test_transposed_convolutions(
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    groups: int,
    threads: int,
    tmp_path: Path,
) -> None:
    x = tensor(*shape)
    total = OP["conv_transpose"](
        x,
        weight(*weights),
        strides=strides,
        pads=pads,
        dilations=(1,) * len(strides),
        groups=groups,
    )
    bias = weight(weights[0], *(1,) * len(strides), seed=1)
    graph = prepare(graph_of((x,), OP["max"](OP["add"](total, bias), scalar(0))))
    arrays = {"x0": np.random.default_rng(5).standard_normal(shape).astype(np.float32)}
    check(graph, arrays, tmp_path, threads)


def test_the_same_graph_is_the_same_files() -> None:
    first, second = (module_files(compilation_of(network()).module) for _ in "ab")
    assert first == second


def test_strict_libraries_give_the_same_bits(tmp_path: Path) -> None:
    names = {"avx512": "x86-64-v4", "avx2": "x86-64-v3", "sse42": "x86-64-v2"}
    order = [name for isa, name in names.items() if isa == host_target().isa or isa == "sse42"]
    if host_target().isa not in names:
        pytest.skip("the instruction sets are those of another machine")
    results = set()
    for name in ("c99", *order):
        compilation = compilation_of(network(), target=Target.named(name), strict=True)
        library = loaded(compilation, tmp_path, ("-O2",))
        results.add(b"".join(a.tobytes() for a in library.run([image()["x0"]])))
    assert len(results) == 1


def test_outputs_without_a_kernel(tmp_path: Path) -> None:
    x = tensor(2, 3)
    flat = OP["reshape"](x, shape=(6,))
    constant = Constant(np.arange(3, dtype=np.float32))
    last = OP["slice"](constant, starts=(1,), steps=(1,), sizes=(2,))
    graph = graph_of((x,), x, flat, x, constant, last)
    check(graph, {"x0": np.arange(6, dtype=np.float32).reshape(2, 3)}, tmp_path)


def test_operands_may_be_parts_of_constants(tmp_path: Path) -> None:
    x = tensor(2, 3)
    table = weight(4, 3)
    part = OP["slice"](table, starts=(1, 0), steps=(1, 1), sizes=(3, 3))
    graph = graph_of((x,), OP["matmul"](x, part), OP["mul"](x, OP["slice"](
        table, starts=(2, 0), steps=(1, 1), sizes=(1, 3))), part)  # fmt: skip
    check(graph, {"x0": np.ones((2, 3), np.float32)}, tmp_path)


def test_every_record_counts_its_calls_and_work() -> None:
    compilation = compilation_of(network())
    assert sum(record.calls for record in compilation.kernels) == len(compilation.module.calls)
    assert {r.name for r in compilation.kernels} == {k.name for k in compilation.module.kernels}
    assert all(record.bytes > 0 for record in compilation.kernels)
    assert flops(matmul((), 3, 4, 5)) == 2 * 3 * 4 * 5


def test_equal_layers_share_a_kernel() -> None:
    x = tensor(4, 4)
    value: Value = x
    for seed in range(3):
        value = OP["max"](OP["matmul"](value, weight(4, 4, seed=seed)), scalar(0))
    compilation = compilation_of(graph_of((x,), value))
    assert [record.calls for record in compilation.kernels] == [3]


# Overwriting inputs


def test_aligned_elements_may_be_overwritten() -> None:
    type = TensorType(float32, (4, 6))
    x, y = Tensor(0, type), Tensor(1, type)

    def task(*stages: TensorExpr, constant: tuple[bool, bool] = (False, False)) -> Task:
        return Task((type, type), stages, (len(stages) - 1,), constant)

    both = compute((4, 6), lambda i, j: x[i, j] + y[i, j])
    assert overwritable_inputs(task(both)) == {0, 1}
    assert overwritable_inputs(task(both, constant=(True, False))) == {1}
    shifted = compute((4, 6), lambda i, j: x[i, j] + y[i, 5 - j])
    assert overwritable_inputs(task(shifted)) == {0}
    twice = compute((4, 6), lambda i, j: x[i, j] + x[3 - i, j] + y[i, j])
    assert overwritable_inputs(task(twice)) == {1}
    turned = compute((6, 4), lambda i, j: x[j, i])
    assert overwritable_inputs(task(turned)) == frozenset()
