"""Tasor beside TVM's MetaSchedule: the kernels that both find, and how long each takes for them.

    python -m benchmarks.against_tvm --trials 64 --tvm-trials 256 --threads 1 --markdown tvm.md

What it does: tunes a matrix product and convolutions in both, times the winners in turns, and tells
the seconds that each took until it was as good as TVM's winner. Needs the packages of REQUIREMENTS,
in any environment that has Tasor; nothing else of Tasor asks for them.
What it does not: compare anything but the search for one operator's kernel.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import Parser, count_of, pattern, positive
from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, options_of
from benchmarks.tvm_duel import Duel, DuelError, Effort, duel
from benchmarks.tvm_operators import LAYOUTS, Operator, operator_of
from benchmarks.tvm_tables import markdown, summary, table
from tasor.errors import EXIT_NO, EXIT_TOOL_MISSING, EXIT_USAGE, one_line
from tasor.peers import pinned_cpus
from tasor.pipeline import Settings, settings_of
from tasor.suites.layers import layers
from tasor.suites.operators import workloads
from tasor.suites.sources import Source, sources
from tensorgen.build import BuildError, ToolMissing
from tensorgen.calibration import CalibrationError
from tensorgen.own_process import set_up_own_process
from tensorgen.target import host_target
from tensorgen.tune.measurer import MeasureError

PROGRAM = "benchmarks.against_tvm"

REQUIREMENTS = ("apache-tvm==0.27", "apache-tvm-ffi==0.1.14.post1", "xgboost")
"""What pip is to install; the last one is for MetaSchedule's cost model."""

CASES = "^(GMM2|C2D1|C2D2)-b1$"
"""A product of 512 cubed, a 1x1 convolution of 56x56 pixels and 64 channels, and a 3x3 convolution
of 14x14 pixels and 256 channels."""


def missing_packages() -> tuple[str, ...]:
    """Those of REQUIREMENTS that are not installed in the version asked for."""
    found = []
    for requirement in REQUIREMENTS:
        name, _, version = requirement.partition("==")
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = ""
        # 0.27.0 is 0.27.
        if not (installed and f"{installed}.".startswith(f"{version}." if version else "")):
            found.append(requirement)
    return tuple(found)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(prog=PROGRAM, description="Tasor beside TVM's MetaSchedule.")
    made.add_argument("--suite", choices=("operators", "layers"), default="operators")
    made.add_argument(
        "--only", type=pattern, default=pattern(CASES), metavar="REGEX", help=f"default: {CASES}"
    )
    made.add_argument("--trials", type=count_of, default=64, metavar="N", help="of each kernel")
    made.add_argument("--tvm-trials", type=count_of, default=256, metavar="N")
    made.add_argument(
        "--tvm-layout", choices=LAYOUTS, default=LAYOUTS[0], help="of convolutions' activations"
    )
    made.add_argument("--threads", type=count_of, default=1, metavar="N")
    made.add_argument("--seed", type=int, default=0, metavar="N")
    made.add_argument(
        "--seconds", type=positive, default=5.0, metavar="S", help="that each winner runs"
    )
    made.add_argument("--rounds", type=count_of, default=11, metavar="N", help="turns of each")
    made.add_argument("--markdown", type=Path, metavar="FILE")
    made.add_argument("--json", type=Path, metavar="FILE")
    return made


def chosen(arguments: argparse.Namespace) -> list[tuple[Source, Operator]]:
    """The cases to compare. Raises ValueError for none and for those that TVM is not given."""
    found = sources(arguments.suite, (1,), arguments.only)
    if not found:
        raise ValueError(
            f"--only: expected a case of {arguments.suite}, got none that matches; choose another "
            "expression"
        )
    known = {workload.id: workload for workload in (*workloads(), *layers())}
    return [(s, operator_of(known[s.name], arguments.tvm_layout)) for s in found]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    arguments = parser().parse_args(words)
    if words is None:
        set_up_own_process()
    progress = Console(stderr=True, highlight=False)

    def tell(line: str) -> None:
        progress.print(line, markup=False, soft_wrap=True)

    missing = missing_packages()
    if missing:
        tell(
            f"{PROGRAM}: expected {', '.join(REQUIREMENTS)}, got an environment without; "
            f"pip install {' '.join(missing)}"
        )
        return EXIT_TOOL_MISSING
    try:
        cases = chosen(arguments)
        pinned_cpus(arguments.threads)
    except ValueError as error:
        tell(f"{PROGRAM}: {error}")
        return EXIT_USAGE
    settings = settings_of("host", arguments.threads)
    try:
        duels = compared(cases, settings, arguments, tell)
    except (MeasureError, BuildError, ToolMissing, CalibrationError, BrokenProcessPool) as error:
        tell(f"{PROGRAM}: {one_line(error)}")
        return EXIT_TOOL_MISSING
    if duels:
        Console().print(table(duels))
        print(summary(duels))
    return 0 if len(duels) == len(cases) else EXIT_NO


def compared(
    cases: Sequence[tuple[Source, Operator]],
    settings: Settings,
    arguments: argparse.Namespace,
    tell: Callable[[str], None],
) -> list[Duel]:
    """Each case that can be compared, written to the files as soon as it is. Raises what `duel`
    does, DuelError excepted: that case is told of and left out."""
    effort = Effort(
        arguments.trials, arguments.tvm_trials, arguments.seed, arguments.seconds, arguments.rounds
    )
    duels: list[Duel] = []
    # A process of its own: TVM's environment and threads are none of ours.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as tvm_process:
        for source, operator in cases:
            with tempfile.TemporaryDirectory(prefix="tasor-tvm-") as folder:
                place = Path(folder)
                try:
                    found = duel(source, operator, place, settings, effort, tvm_process, tell)
                except DuelError as error:
                    tell(f"{PROGRAM}: {error}")
                    continue
            duels.append(found)
            tell(summary([found]))
            write(duels, arguments)
    return duels


def write(duels: Sequence[Duel], arguments: argparse.Namespace) -> None:
    """The page and the figures, where they are asked for."""
    if arguments.markdown is not None:
        options = options_of(
            arguments, "suite", "only", "trials", "tvm-trials", "tvm-layout", "threads", "seed",
            "seconds", "rounds",
        )  # fmt: skip
        made = made_by(PROGRAM, options)
        versions = (f"{name} {importlib.metadata.version(name)}" for name in _names())
        setting = f"{host_target().name}, threads: {arguments.threads}; {', '.join(versions)}"
        arguments.markdown.write_text(markdown(duels, made, setting), encoding="utf-8")
    content = {
        "threads": arguments.threads,
        "trials": arguments.trials,
        "tvm_trials": arguments.tvm_trials,
        "tvm_layout": arguments.tvm_layout,
        "seed": arguments.seed,
        "duels": [
            asdict(found) | {"ratio": found.turns.ratio, "shorter": found.shorter}
            for found in duels
        ],
    }
    write_json(arguments.json, content)


def _names() -> tuple[str, ...]:
    return tuple(requirement.partition("==")[0] for requirement in REQUIREMENTS)


if __name__ == "__main__":
    sys.exit(main())
