"""Ablation of the rewrites: the same networks with none, with folding and fusion, with all.

    python -m benchmarks.ablation --suite networks --threads 1 --markdown docs/ablation.md

What it does: compiles each network to C three times, from its graph as imported, after the rules
that always apply (folding, fusion, layout), and after the search by cost with all proved rules, and
runs the three in turns. Kernels are chosen in the same way for all; what the compiler fuses into
one kernel, it fuses in each.
What it does not: tune, or compare with peers (`search_networks`).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, pattern, positive
from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of, table_lines
from graphopt.graph import Graph
from graphopt.onnx_import import import_model
from graphopt.optimize import optimize
from graphopt.search import AnalyticCost, search, search_rules
from tasor.running_graph import Running, timed_graphs
from tasor.suites.sources import sources
from tensorgen.target import host_target

STAGES = ("none", "folding and fusion", "all")


@dataclass(frozen=True, slots=True)
class Ablated:
    """Milliseconds of one run of a network after each of STAGES, the median of turns, and the
    operators that its graph then has."""

    network: str
    milliseconds: tuple[float, ...]
    operators: tuple[int, ...]

    def speed_up(self, stage: int) -> float:
        """How many times as fast as without rewrites."""
        return self.milliseconds[0] / self.milliseconds[stage]


def stages(graph: Graph, threads: int, winograd: bool) -> tuple[Graph, ...]:
    """A graph after each of STAGES."""
    rewritten = optimize(graph).graph
    costs = AnalyticCost(host_target(), threads)
    rules = search_rules(winograd=winograd, discovered=True)
    return graph, rewritten, search(rewritten, rules, costs).graph


def ablated(arguments: argparse.Namespace) -> Iterator[Ablated]:
    """The networks of a suite, one after the other."""
    threads = arguments.threads
    with tempfile.TemporaryDirectory(prefix="tasor-ablation-") as folder:
        for source in sources(arguments.suite, (1,), arguments.only):
            path = Path(folder, "model.onnx")
            case = source.write(path)
            graph = import_model(case.model, shapes=case.shapes)
            graphs = stages(graph, threads, arguments.winograd)
            path.unlink()
            running = [Running(graph, host_target(), threads) for graph in graphs]
            timings = timed_graphs(running, arguments.seconds, arguments.rounds)
            yield Ablated(
                source.name,
                tuple(item.milliseconds for item in timings),
                tuple(len(graph.nodes) for graph in graphs),
            )


def _cells(row: Ablated) -> list[str]:
    times = (f"{milliseconds:.4g}" for milliseconds in row.milliseconds)
    return [row.network, *times, *(f"{row.speed_up(stage):.3f}" for stage in (1, 2))]


def _means(rows: Sequence[Ablated]) -> list[str]:
    means = (prod(row.speed_up(stage) for row in rows) ** (1 / len(rows)) for stage in (1, 2))
    return ["geometric mean", *("" for _ in STAGES), *(f"{mean:.3f}" for mean in means)]


def markdown(rows: Sequence[Ablated], arguments: argparse.Namespace) -> str:
    """The table as a page."""
    options = options_of(arguments, "suite", "threads", "winograd")
    titles = ["network", *(f"{stage}, ms" for stage in STAGES), *STAGES[1:]]
    lines = [
        "# What the rewrites are worth",
        "",
        made_by("benchmarks.ablation", options),
        f"{host_target().name}, threads: {arguments.threads}.",
        "",
        "Each network as C from its graph as imported (none), after the rules that always apply",
        "(folding and fusion), and after the search by cost with all proved rules, those that",
        "enumeration discovered among them (all); timed in turns. Kernels are chosen in the same",
        "way for all, and what the compiler fuses into one kernel it fuses in each. The last two",
        "columns say how many times as fast as without rewrites.",
        "",
        *table_lines(titles, [*map(_cells, rows), *([_means(rows)] if rows else [])]),
    ]
    return "\n".join([*lines, ""])


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="benchmarks.ablation", description="What the rewrites are worth.")
    parser.add_argument("--suite", default="networks", choices=("networks", "real"))
    parser.add_argument("--winograd", action="store_true", help="with minimal filtering")
    parser.add_argument("--only", type=pattern, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--threads", type=count_of, default=1, metavar="N")
    parser.add_argument("--seconds", type=positive, default=6.0, help="for each network")
    parser.add_argument("--rounds", type=count_of, default=15, help="turns of each graph")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    arguments = _parser().parse_args(words)
    progress = Console(stderr=True)
    rows: list[Ablated] = []
    for row in ablated(arguments):
        rows.append(row)
        progress.print(f"{row.network}: {', '.join(f'{ms:.4g} ms' for ms in row.milliseconds)}")
    table = Table("network", *(f"{stage}, ms" for stage in STAGES), *STAGES[1:])
    for row in rows:
        table.add_row(*_cells(row))
    if rows:
        table.add_row(*_means(rows))
    Console().print(table)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(rows, arguments), encoding="utf-8")
    content = {
        "threads": arguments.threads,
        "winograd": arguments.winograd,
        "stages": STAGES,
        "rows": [asdict(row) for row in rows],
    }
    write_json(arguments.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
