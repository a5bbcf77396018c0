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
from tensorgen.expr import Expr, Tensor, compute
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
