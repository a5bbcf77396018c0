"""The search on the networks: what it applied, and what that is worth in three engines.

    python -m benchmarks.search_networks --suite networks --threads 1 --markdown docs/search.md

What it does: rewrites each network, searches it by cost, and times, in turns, the graph before and
after the search in Tasor's own C, and the model as it came and the exported result in ONNX Runtime
and OpenVINO. Predicted speed-ups stand beside measured ones, and beside those that TASO reports.
What it does not: choose which graph a user gets; `tasor optimize` does.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.arguments import Parser, count_of, pattern, positive
from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of, table_lines
from graphopt.graph import Graph
from graphopt.onnx_export import save_model
from graphopt.onnx_import import import_model
from graphopt.optimize import optimize
from graphopt.search import (
    DEFAULT_SETTINGS,
    AnalyticCost,
    KernelRecords,
    RecordedCost,
    SearchResult,
    measured_search,
    search,
    search_rules,
)
from tasor.peer_cases import Case
from tasor.peer_engines import ONNX_READERS, open_model, require_engines
from tasor.running_graph import Running, timed_graphs
from tasor.suites.sources import sources
from tensorgen.build import cache_folder
from tensorgen.target import host_target

TASO_REPORTS = {
    "inceptionv3": 1.1, "squeezenet": 1.3, "nasnet_a": 1.3, "resnext50": 3.1, "bert": 1.5
}  # fmt: skip
"""End-to-end speed-ups on a V100 over the best of TensorFlow, XLA and TensorRT (Jia et al., SOSP
2019, artifact)."""

_PAUSE = 0.02
"""Seconds between turns, in which the threads of an engine go to sleep."""


@dataclass(frozen=True, slots=True)
class Searched:
    """One network: the rules that the search applied, how often, and what it cost and brought.

    Speed-ups are of the graph after the search over the one before (`predicted`, `own`), and of the
    exported result over the model as it came (`peers`, by engine; None where it failed).
    """

    network: str
    rules: tuple[tuple[str, int], ...]
    graphs: int
    search_seconds: float
    stopped: str
    predicted: float
    own: float
    milliseconds: tuple[float, float]
    peers: dict[str, float | None]
    taso: float | None


def searched(graph: Graph, arguments: argparse.Namespace) -> SearchResult:
    """The search with its default settings, but for the seconds."""
    settings = replace(DEFAULT_SETTINGS, seconds=arguments.search_seconds)
    rules = search_rules(winograd=arguments.winograd, discovered=arguments.discovered)
    threads = arguments.threads
    if not arguments.measure:
        return search(graph, rules, AnalyticCost(host_target(), threads), settings)
    records = KernelRecords(cache_folder() / "kernels.sqlite", host_target(), threads)
    costs = RecordedCost(records)
    measured_search(graph, rules, costs, settings, measure_seconds=600.0)
    # Again with all costs on file: this is the search that is timed.
    return search(graph, rules, costs, settings)


def _in_turns(calls: Sequence[Callable[[], object]], seconds: float, rounds: int) -> list[float]:
    """The median milliseconds of each, over turns A B, B A, …"""
    turns: list[list[float]] = [[] for _ in calls]
    share = seconds / (rounds * len(calls))
    for number in range(rounds):
        order = list(range(len(calls)))
        for position in order if number % 2 == 0 else order[::-1]:
            time.sleep(_PAUSE)
            calls[position]()
            taken: list[float] = []
            stop = time.perf_counter() + share
            while not taken or time.perf_counter() < stop:
                before = time.perf_counter()
                calls[position]()
                taken.append(time.perf_counter() - before)
            turns[position].append(median(taken))
    return [median(each) * 1e3 for each in turns]


def _peer(engine: str, before: Case, after: Case, arguments: argparse.Namespace) -> float | None:
    try:
        calls = [open_model(engine, case, arguments.threads, {}).run for case in (before, after)]
        first, second = _in_turns(calls, arguments.seconds, arguments.rounds)
    except Exception as error:  # the engines' exceptions have no common base
        print(f"{engine}: {str(error).strip().partition(chr(10))[0]}", file=sys.stderr)
        return None
    return first / second


def rows(arguments: argparse.Namespace) -> Iterator[Searched]:
    """The networks of a suite, one after the other."""
    threads = arguments.threads
    with tempfile.TemporaryDirectory(prefix="tasor-search-") as folder:
        for source in sources(arguments.suite, (1,), arguments.only):
            case = source.write(Path(folder, "before.onnx"))
            graph = optimize(import_model(case.model, shapes=case.shapes)).graph
            result = searched(graph, arguments)
            after = replace(case, model=Path(folder, "after.onnx"))
            save_model(result.graph, after.model)
            running = [Running(g, host_target(), threads) for g in (graph, result.graph)]
            own = timed_graphs(running, arguments.seconds, arguments.rounds)
            yield Searched(
                network=source.name,
                rules=tuple(sorted(Counter(item.rule for item in result.applied).items())),
                graphs=result.explored,
                search_seconds=result.seconds,
                stopped=result.stop.name.lower(),
                predicted=result.cost_before / result.cost_after,
                own=own[1].times_as_fast_as(own[0]),
                milliseconds=(own[0].milliseconds, own[1].milliseconds),
                peers={engine: _peer(engine, case, after, arguments) for engine in arguments.peers},
                taso=TASO_REPORTS.get(source.name),
            )


def _cells(row: Searched, peers: Sequence[str]) -> list[str]:
    factors = [row.predicted, row.own, *(row.peers[engine] for engine in peers), row.taso]
    applied = ", ".join(f"{count} x {rule}" for rule, count in row.rules)
    return [
        row.network,
        applied if applied else "none",
        f"{row.graphs}",
        f"{row.search_seconds:.1f} ({row.stopped})",
        *("" if factor is None else f"{factor:.3g}" for factor in factors),
    ]


def _titles(peers: Sequence[str]) -> list[str]:
    titles = ["network", "rules applied by the search", "graphs", "seconds (stopped by)"]
    return [*titles, "predicted", "own C", *peers, "TASO on a V100"]


def markdown(found: Sequence[Searched], peers: Sequence[str], arguments: argparse.Namespace) -> str:
    """The table as a page."""
    costs = "measured" if arguments.measure else "estimated"
    options = options_of(arguments, "suite", "threads", "measure", "winograd", "discovered")
    lines = [
        "# The search on the networks",
        "",
        made_by("benchmarks.search_networks", options),
        f"Kernels are {costs}; {host_target().name}, threads: {arguments.threads}.",
        "",
        "Speed-ups: of the graph after the search over the one before it (predicted; own C, in",
        "turns), and of the exported result over the model as it came, in other engines, which",
        "rewrite both themselves. TASO's figures are its own, on a GPU, over other compilers:",
        "there a rewrite saves launches and fills the machine. On a CPU whose kernels are near",
        "its peak already, what remains is less memory traffic and less arithmetic.",
        "Transposed convolutions are exported as the convolutions of phases that they were",
        "taken apart into, which ONNX Runtime runs slower than its own (dcgan).",
        "",
        *table_lines(_titles(peers), (_cells(row, peers) for row in found), texts=2),
    ]
    return "\n".join([*lines, ""])


def _engines(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in names:
        if name not in ONNX_READERS:
            raise argparse.ArgumentTypeError(f"expected names of {ONNX_READERS}, got {name!r}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="benchmarks.search_networks", description="What the search is worth.")
    parser.add_argument("--suite", default="networks", choices=("networks", "real"))
    parser.add_argument("--winograd", action="store_true", help="with minimal filtering")
    parser.add_argument("--discovered", action="store_true", help="with what enumeration found")
    parser.add_argument("--only", type=pattern, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--threads", type=count_of, default=1, metavar="N")
    parser.add_argument("--peers", type=_engines, default=ONNX_READERS, metavar="A,B")
    parser.add_argument("--measure", action="store_true", help="search on measured kernels")
    parser.add_argument("--search-seconds", type=positive, default=60.0, help="of one search")
    parser.add_argument("--seconds", type=positive, default=6.0, help="per network and engine")
    parser.add_argument("--rounds", type=count_of, default=15, help="turns of each graph")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    arguments = _parser().parse_args(words)
    require_engines(arguments.peers)
    progress = Console(stderr=True)
    found: list[Searched] = []
    table = Table(*_titles(arguments.peers))
    for row in rows(arguments):
        found.append(row)
        cells = _cells(row, arguments.peers)
        table.add_row(*map(escape, cells))
        progress.print("; ".join(cells), markup=False, highlight=False, soft_wrap=True)
    Console(width=180).print(table)
    content = {"threads": arguments.threads, "rows": [asdict(row) for row in found]}
    write_json(arguments.json, content)
    if arguments.markdown is not None:
        page = markdown(found, arguments.peers, arguments)
        arguments.markdown.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
