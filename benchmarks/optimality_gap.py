"""Optimality gap of the search: its result held against every graph that the rules reach.

    python -m benchmarks.optimality_gap --graphs 200

What it does: draws small random graphs of products, convolutions, concatenations, sums, clips,
transposes and slices, finds the cheapest graph of all that the rules reach within a bound on nodes
(`graphopt.search.exhaustive`), and the one that the search finds with the same rules and the
settings it has by default. Graphs from which too few or too many are reached are passed over.
What it does not: use `conv-widen`, which makes kernels larger without end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, positive
from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.ops import OP
from graphopt.rule import Rule
from graphopt.search.backtracking import Budget, backtrack
from graphopt.search.cost import AnalyticCost, KernelCost
from graphopt.search.exhaustive import cheapest_of_all
from graphopt.search.moves import Position
from graphopt.search.places import RuleIndex
from graphopt.search.search import DEFAULT_SETTINGS
from graphopt.search.shipped import search_rules
from tensorgen.target import Target
from tensorgen.types import TensorType, float32

MOST_OPERATORS = 12
LEAST_OPERATORS = 4

LEAST_REACHED = 10
"""A graph from which fewer are reached leaves a search nothing to miss, and is passed over."""

SPARE_NODES = 1
"""A graph on the way may have so many nodes more than the one that it starts from."""

MATRIX = (8, 16)
IMAGE = (1, 8, 6, 6)
_KINDS = (
    "matmul", "matmul", "matmul", "conv", "conv", "add", "add", "mul", "concat", "concat", "relu",
    "tanh", "transpose", "slice", "flat",
)  # fmt: skip
"""What is drawn from; twice is twice as often."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One graph: its seed, its operators, costs in seconds, and the graphs that each way saw."""

    seed: int
    operators: int
    before: float
    found: float
    least: float
    explored: int
    reached: int
    search_seconds: float
    exhaustive_seconds: float

    @property
    def gap(self) -> float:
        """How much dearer the graph found is than the cheapest, as a share of that."""
        return self.found / self.least - 1.0


def gap_rules() -> tuple[Rule, ...]:
    """The shipped rules of the search under which a bounded number of graphs is reached."""
    return tuple(rule for rule in search_rules() if rule.name != "conv-widen")


def random_network(seed: int) -> Graph:
    """A graph of up to 12 operators over two matrices and two images; the same for a seed."""
    rng = np.random.default_rng(seed)
    operators = int(rng.integers(LEAST_OPERATORS, MOST_OPERATORS + 1))
    inputs = [
        Input(position, TensorType(float32, shape))
        for position, shape in enumerate((MATRIX, MATRIX, IMAGE, IMAGE))
    ]
    made: list[Node] = []
    kind = ""
    x: Value = inputs[0]
    while len(made) < operators:
        known: list[Value] = [*inputs, *made[-4:]]
        # What is done once is often done again, and to the same value: that is where rules fit.
        if not made or rng.random() < 0.5:
            kind = _KINDS[int(rng.integers(len(_KINDS)))]
        if not made or rng.random() < 0.6:
            x = known[int(rng.integers(len(known)))]
        node = _drawn(kind, x, known[int(rng.integers(len(known)))], rng)
        if node is None:
            kind = _KINDS[int(rng.integers(len(_KINDS)))]
        elif node not in made and node.type.size <= 4096:
            made.append(node)
    read = {value for node in made for value in node.inputs}
    outputs = tuple(node for node in made if node not in read)
    return Graph(
        tuple(inputs), outputs, ("x", "y", "u", "v"), tuple(f"z{n}" for n in range(len(outputs)))
    )


def _drawn(kind: str, x: Value, y: Value, rng: np.random.Generator) -> Node | None:
    """An operator of a kind on these operands, None where it does not fit them."""
    shape = x.type.shape
    matrix, alike = len(shape) == 2, x.type == y.type and x != y
    match kind:
        case "matmul" if matrix:
            return OP["matmul"](x, _weight(rng, shape[1], (16, 24)[int(rng.integers(2))]))
        case "conv" if not matrix:
            span = (1, 3)[int(rng.integers(2))]
            kernel = _weight(rng, 8, shape[1], span, span)
            pads = (span // 2,) * 4
            return OP["conv"](x, kernel, strides=(1, 1), pads=pads, dilations=(1, 1), groups=1)
        case "concat" if alike:
            return OP["concat"](x, y, axis=1)
        case "add" | "mul" if alike:
            return OP[kind](x, y)
        case "relu":
            return OP["max"](x, Constant(np.asarray(0, np.float32)))
        case "tanh":
            return OP["tanh"](x)
        case "transpose" if matrix:
            return OP["transpose"](x, perm=(1, 0))
        case "slice" if shape[1] % 2 == 0:
            half = shape[1] // 2
            start = half * int(rng.integers(2))
            rest = (0,) * (len(shape) - 2)
            return OP["slice"](
                x, starts=(0, start, *rest), steps=(1,) * len(shape),
                sizes=(shape[0], half, *shape[2:]),
            )  # fmt: skip
        case "flat" if not matrix:
            return OP["reshape"](x, shape=(shape[1], shape[2] * shape[3]))
    return None


def _weight(rng: np.random.Generator, *shape: int) -> Constant:
    """One of two weights of a shape, so that graphs share some."""
    drawn = np.random.default_rng(int(rng.integers(2)))
    return Constant(drawn.standard_normal(shape).astype(np.float32))


def gaps(
    graphs: int, most_graphs: int, alpha: float | None = None, budget: int | None = None
) -> Iterator[Gap | int]:
    """The gaps of so many random graphs; the seed alone for each that is passed over.

    `alpha` and `budget` (graphs for the search) are the search's own unless given.
    """
    rules = gap_rules()
    index = RuleIndex(rules)
    settings = DEFAULT_SETTINGS
    cost = KernelCost(AnalyticCost(Target.named("x86-64-v3")))
    done, seed = 0, 0
    while done < graphs:
        graph = random_network(seed)
        size = Position(graph, index).size
        allowed = Budget(
            alpha=settings.alpha if alpha is None else alpha,
            seconds=float("inf"),
            graphs=settings.graphs if budget is None else budget,
            growth=1.0,
            spare_nodes=SPARE_NODES,
        )
        started = time.perf_counter()
        best = cheapest_of_all(graph, rules, cost, allowed.most_nodes(size), most_graphs)
        between = time.perf_counter()
        if best.complete and best.graphs >= LEAST_REACHED:
            found = backtrack(graph, index, cost, allowed)
            yield Gap(
                seed, len(graph.nodes), found.cost_before, found.cost, best.cost, found.explored,
                best.graphs, time.perf_counter() - between, between - started,
            )  # fmt: skip
            done += 1
        else:
            yield seed
        seed += 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="benchmarks.optimality_gap", description="Search against all graphs.")
    parser.add_argument("--graphs", type=count_of, default=200, metavar="N")
    parser.add_argument(
        "--most-graphs",
        type=count_of,
        default=2000,
        metavar="N",
        help="pass over what reaches more",
    )
    parser.add_argument("--alpha", type=positive, metavar="A", help="default: the search's own")
    parser.add_argument("--budget", type=count_of, metavar="N", help="graphs the search may weigh")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; 0 if no graph has a gap, 1 otherwise."""
    arguments = _parser().parse_args(words)
    found: list[Gap] = []
    passed = 0
    for item in gaps(arguments.graphs, arguments.most_graphs, arguments.alpha, arguments.budget):
        if isinstance(item, int):
            passed += 1
        else:
            found.append(item)
    console = Console()
    table = Table("operators", "graphs", "improved", "gaps", "largest", "reached", "explored")
    for operators in sorted({item.operators for item in found}):
        rows = [item for item in found if item.operators == operators]
        table.add_row(*map(str, (
            operators, len(rows), sum(item.least < item.before for item in rows),
            sum(item.gap > 1e-9 for item in rows), f"{max(item.gap for item in rows):.4f}",
            sum(item.reached for item in rows), sum(item.explored for item in rows),
        )))  # fmt: skip
    console.print(table)
    searching = sum(item.search_seconds for item in found)
    exhausting = sum(item.exhaustive_seconds for item in found)
    short = [item for item in found if item.gap > 1e-9]
    console.print(
        f"{len(found)} graphs, {len(short)} with a gap, {passed} passed over; "
        f"search {searching:.1f} s, exhaustive {exhausting:.1f} s"
    )
    for item in short:
        console.print(f"seed {item.seed}: gap {item.gap:.4f} of {item.operators} operators")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
