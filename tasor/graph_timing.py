"""Graphs run beside each other: how long each takes, in turns, and what it computes.

What it does: compiles graphs with the same settings, calls them in turns on the same inputs
(A B C, C B A, …), and keeps for each the median of each of its turns, so that what disturbs the
machine meets all alike. What it does not: decide what follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from graphopt.compiler import compile_graph
from graphopt.graph import Graph
from graphopt.optimize import prepare
from tasor.compiled_model import loaded_library
from tasor.sample_inputs import sample_inputs
from tensorgen.library import Library
from tensorgen.target import Target
from tensorgen.types import Array

ROUNDS = 12
"""Turns of each graph."""

LEAST_CALLS = 2
"""Calls of a turn, at least; the first one only fills the caches."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds of one run of one graph: the median call of each turn."""

    turns: tuple[float, ...]

    @property
    def milliseconds(self) -> float:
        """The median turn."""
        return median(self.turns)

    def times_as_fast_as(self, other: Timings) -> float:
        """The median over the rounds of the other's time by this one's: above 1, this is faster."""
        return median(b / a for a, b in zip(self.turns, other.turns, strict=True))


class Running:
    """A graph, compiled and loaded; raises what `loaded_library` raises.

    `filtering` lets kernels filter convolutions with fewer products, which rounds more.
    """

    def __init__(
        self, graph: Graph, target: Target, threads: int, *, filtering: bool = True
    ) -> None:
        compilation = compile_graph(
            prepare(graph, target),
            name="graph",
            target=target,
            threads=threads,
            strict=False,
            weights=None,
            metadata={},
            filtering=filtering,
        )
        self.library: Library = loaded_library(compilation.module)
        self._names = graph.input_names

    def sample(self, seed: int) -> dict[str, Array]:
        """Random inputs by name, the same for graphs with the same inputs."""
        return sample_inputs(self.library.inputs, seed)

    def outputs(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """What the graph computes."""
        return self.library.run([inputs[name] for name in self._names])

    def call(self, inputs: Mapping[str, Array]) -> Callable[[], None]:
        """One run into memory that is kept."""
        arrays = [inputs[name] for name in self._names]
        outputs = [
            np.empty(port.type.shape, port.type.dtype.numpy) for port in self.library.outputs
        ]
        return self.library.bind(arrays, outputs)


def timed(
    graphs: Sequence[Running],
    seconds: float,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Timings, ...]:
    """Time graphs with the same inputs in turns that take about `seconds` together, or longer if
    the graphs do."""
    inputs = graphs[0].sample(0)
    calls = [graph.call(inputs) for graph in graphs]
    for call in calls:
        call()
    share = seconds / (rounds * len(calls))
    turns: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        order = range(len(calls))
        for position in order if number % 2 == 0 else reversed(order):
            turns[position].append(_turn(calls[position], share, clock))
    return tuple(Timings(tuple(each)) for each in turns)


def _turn(call: Callable[[], None], seconds: float, clock: Callable[[], float]) -> float:
    """The median milliseconds of calls that take so long together, the first one left out."""
    started = clock()
    taken: list[float] = []
    while len(taken) < LEAST_CALLS or clock() - started < seconds:
        before = clock()
        call()
        taken.append(clock() - before)
    return median(taken[1:]) * 1e3
