"""Graphs that run."""

from __future__ import annotations

import pytest

from graphopt.graph import Graph
from tasor.running_graph import Running, timed_graphs
from tensorgen.target import host_target
from tests.graphs_for_search import graph_of, matmul, relu, tensor, weight


def graph(size: int) -> Graph:
    return graph_of(relu(matmul(tensor(0, 1, size), weight(1, size, size))))


def test_real_graphs_take_time() -> None:
    running = [Running(graph(size), host_target(), 1) for size in (16, 512)]
    small, large = (timed_graphs([each], 0.01, rounds=3)[0] for each in running)
    assert 0 < small.milliseconds < large.milliseconds
    assert running[0].outputs(running[0].sample(0))[0].shape == (1, 16)
    assert running[0].sample(3)["x0"] == pytest.approx(running[0].sample(3)["x0"])
