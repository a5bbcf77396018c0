"""A graph, compiled, loaded and called.

What it does: compiles a graph as it stands, draws inputs for it, runs it, and times several graphs
beside each other. What it does not: search, or decide what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphopt.compiler import compile_graph
from graphopt.graph import Graph
from graphopt.optimize import prepare
from tasor.compiled_model import loaded_library
from tasor.sample_inputs import sample_inputs
from tasor.turns import ROUNDS, Timings, timed
from tensorgen.library import Library
from tensorgen.target import Target
from tensorgen.types import Array


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
        return self.library.bind(arrays, self.library.empty_outputs())


def timed_graphs(
    graphs: Sequence[Running], seconds: float, rounds: int = ROUNDS
) -> tuple[Timings, ...]:
    """Graphs of the same inputs, timed in turns as `timed`."""
    inputs = graphs[0].sample(0)
    return timed([graph.call(inputs) for graph in graphs], seconds, rounds)
