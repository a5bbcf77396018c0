"""Graphs timed in turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from graphopt.graph import Graph
from tasor.graph_timing import Running, Timings, timed
from tensorgen.target import host_target
from tests.graphs_for_search import graph_of, matmul, relu, tensor, weight


def graph(size: int) -> Graph:
    return graph_of(relu(matmul(tensor(0, 1, size), weight(1, size, size))))


class Slow:
    """A graph that takes so many ticks of a clock."""

    def __init__(self, ticks: float, clock: list[float], order: list[float]) -> None:
        self.ticks, self.clock, self.order = ticks, clock, order

    def sample(self, seed: int) -> dict[str, Any]:
        return {}

    def call(self, inputs: Mapping[str, Any]) -> Any:
        def call() -> None:
            self.clock[0] += self.ticks
            self.order.append(self.ticks)

        return call


def test_turns_alternate_and_medians_are_taken() -> None:
    clock: list[float] = [0.0]
    order: list[float] = []
    graphs: Any = [Slow(ticks, clock, order) for ticks in (1.0, 4.0)]
    first, second = timed(graphs, seconds=0.0, rounds=3, clock=lambda: clock[0])
    assert (first.milliseconds, second.milliseconds) == (1e3, 4e3)
    assert first.times_as_fast_as(second) == 4.0
    assert order == [1, 4, 1, 1, 4, 4, 4, 4, 1, 1, 1, 1, 4, 4]


def test_ratios_are_taken_round_by_round() -> None:
    """A disturbance that slows a whole round does not show."""
    assert Timings((1.0, 10.0, 1.0)).times_as_fast_as(Timings((2.0, 20.0, 2.0))) == 2.0


def test_real_graphs_take_time() -> None:
    running = [Running(graph(size), host_target(), 1) for size in (16, 512)]
    small, large = (timed([each], 0.01, rounds=3)[0] for each in running)
    assert 0 < small.milliseconds < large.milliseconds
    assert running[0].outputs(running[0].sample(0))[0].shape == (1, 16)
    assert running[0].sample(3)["x0"] == pytest.approx(running[0].sample(3)["x0"])
