"""Command line of the benchmarks: the suites against the peers.

    python -m benchmarks.compare --suite operators --threads 1 2 --batch 1 --only 'C2D|GMM'

What it does: lists the cases of a suite, has `tasor.peers` measure them one by one, prints a table
and writes JSON. Exit codes: 0 measured, 1 an engine failed or disagreed, 64 wrong usage,
69 a package is missing.
What it does not: time anything itself.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from rich.console import Console

from benchmarks.arguments import Parser, count_of, pattern, positive
from benchmarks.networks import NETWORKS, network
from benchmarks.operators import Workload, build, flops, workloads
from benchmarks.real_models import REAL_MODELS, RealModel
from tasor.peer_cases import Case, write_case
from tasor.peer_engines import ENGINES, MissingPackage, require_engines
from tasor.peer_report import (
    AGREEMENT,
    document,
    failure_lines,
    group_means,
    summary,
    table,
    write_document,
)
from tasor.peers import Comparison, Failure, Row, pinned_cpus

EXIT_OK = 0
EXIT_NO = 1
EXIT_UNAVAILABLE = 69


@dataclass(frozen=True, slots=True)
class Source:
    """A case that is not built yet; `write` builds it at the given path."""

    name: str
    write: Callable[[Path], Case]


def _operator_source(workload: Workload) -> Source:
    def write(path: Path) -> Case:
        group = f"{workload.operator} batch {workload.batch}"
        return write_case(
            path, build(workload), name=workload.id, group=group, flops=flops(workload)
        )

    return Source(workload.id, write)


def _network_source(name: str) -> Source:
    def write(path: Path) -> Case:
        return write_case(path, network(name), name=name, group="networks")

    return Source(name, write)


def _real_source(model: RealModel) -> Source:
    def write(path: Path) -> Case:
        return write_case(
            path,
            onnx.load(model.path()),
            name=model.name,
            group="trained models",
            shapes=model.shapes_by_name,
            inputs=model.inputs(),
        )

    return Source(model.name, write)


def sources(suite: str, batches: Sequence[int], only: re.Pattern[str]) -> tuple[Source, ...]:
    """The cases of a suite whose names match; `batches` chooses among the operators."""
    match suite:
        case "operators":
            found = [_operator_source(item) for item in workloads() if item.batch in batches]
        case "networks":
            found = [_network_source(name) for name in NETWORKS]
        case "real":
            found = [_real_source(model) for model in REAL_MODELS]
        case _:
            raise ValueError(f"suite: expected operators, networks or real, got {suite!r}")
    return tuple(source for source in found if only.search(source.name))


def _engines(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected names of {ENGINES}, got {unknown[0]!r}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="benchmarks.compare", description="Measure Tasor against its peers.")
    parser.add_argument("--suite", required=True, choices=("operators", "networks", "real"))
    parser.add_argument("--threads", type=count_of, nargs="+", default=[1], metavar="N")
    parser.add_argument("--batch", type=count_of, nargs="+", default=[1], metavar="N")
    parser.add_argument("--only", type=pattern, default=re.compile(""), metavar="REGEX")
    parser.add_argument(
        "--engines", type=_engines, default=ENGINES, metavar="A,B", help="default: all"
    )
    parser.add_argument(
        "--seconds", type=positive, default=1.0, help="per case and engine (default 1)"
    )
    parser.add_argument("--rounds", type=count_of, default=5, help="turns per engine (default 5)")
    parser.add_argument("--trials", type=int, default=0, help="tuning trials of tasor.compile")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return parser


def _measure(
    chosen: Sequence[Source], arguments: argparse.Namespace, progress: Console
) -> tuple[Row, ...]:
    rows: list[Row] = []
    total = len(chosen) * len(arguments.threads)
    options = {"trials": arguments.trials}
    with tempfile.TemporaryDirectory(prefix="tasor-compare-") as folder:
        for threads in arguments.threads:
            with Comparison(arguments.engines, threads, options=options) as comparison:
                for source in chosen:
                    path = Path(folder, f"{len(rows)}.onnx")
                    case = source.write(path)
                    row = comparison.measure(
                        case, seconds=arguments.seconds, rounds=arguments.rounds
                    )
                    path.unlink()
                    rows.append(row)
                    progress.print(f"{len(rows)}/{total} {_progress_line(row)}", soft_wrap=True)
    return tuple(rows)


def _progress_console(quiet: bool) -> Console:
    return Console(stderr=True, quiet=quiet, markup=False, highlight=False)


def _progress_line(row: Row) -> str:
    figures = [
        f"{result.engine} failed"
        if isinstance(result, Failure)
        else f"{result.engine} {result.milliseconds:.4g} ms"
        for result in row.results
    ]
    ratio = [] if row.ratio is None else [f"ratio {row.ratio:.2f}"]
    return f"{row.case}, {row.threads} threads: {', '.join(figures + ratio)}"


def _all_agree(rows: Sequence[Row]) -> bool:
    return not any(
        isinstance(result, Failure)
        or (result.deviation is not None and not result.deviation <= AGREEMENT)
        for row in rows
        for result in row.results
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = _parser()
    arguments = parser.parse_args(words)
    chosen = sources(arguments.suite, arguments.batch, arguments.only)
    if not chosen:
        parser.error(
            f"--only: expected a case of the suite {arguments.suite!r}, got none that matches "
            f"{arguments.only.pattern!r}"
        )
    try:
        require_engines(arguments.engines)
        for threads in arguments.threads:
            pinned_cpus(threads)
        rows = _measure(chosen, arguments, _progress_console(arguments.quiet))
    except MissingPackage as error:
        parser.exit(EXIT_UNAVAILABLE, f"{parser.prog}: {error}\n")
    except ValueError as error:
        parser.error(str(error))
    console = Console()
    console.print(table(rows, arguments.engines))
    for line in failure_lines(rows):
        console.print(line, markup=False, soft_wrap=True)
    if group_means(rows):
        console.print(summary(rows))
    if arguments.json is not None:
        settings = {
            "suite": arguments.suite,
            "seconds": arguments.seconds,
            "rounds": arguments.rounds,
            "trials": arguments.trials,
        }
        write_document(arguments.json, document(rows, arguments.engines, settings))
    return EXIT_OK if _all_agree(rows) else EXIT_NO


if __name__ == "__main__":
    sys.exit(main())
