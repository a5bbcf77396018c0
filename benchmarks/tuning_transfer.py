"""What records of one network do for others: their speed with these and no new trial.

    python -m benchmarks.tuning_transfer --from resnet50 --to resnext50,open-nsfw --trials 64

What it does: tunes a network into a file of trials, compiles others without trials, with that file
and tuned by themselves, times the three in turns (`transfer_runs`), and tells how much of the tuned
speed the records give, and how far what tuning predicts for a whole network is from what it takes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, positive
from benchmarks.json_file import write_json
from benchmarks.markdown_page import made_by, table_lines
from benchmarks.transfer_runs import Asked, Transfer, transfers
from tasor.pipeline import settings_of
from tasor.suites.networks import NETWORKS
from tasor.suites.real_models import REAL_MODELS
from tasor.suites.sources import Source, sources
from tensorgen.target import host_target

PROGRAM = "benchmarks.tuning_transfer"

SUITE_OF = dict.fromkeys(NETWORKS, "networks") | {model.name: "real" for model in REAL_MODELS}

TITLES = (
    "network", "kernels", "on file", "of the time", "taken", "without trials", "with records",
    "tuned", "records' gain", "tuned gain", "records / tuned", "predicted without trials",
    "predicted tuned", "kernels without trials", "kernels tuned",
)  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    arguments = _parser().parse_args(words)
    progress = Console(stderr=True, highlight=False)
    settings = settings_of("host", arguments.threads)
    found: list[Transfer] = []
    for seed in range(arguments.seeds):
        asked = Asked(arguments.trials, seed, arguments.turns, arguments.turn_seconds)
        with ExitStack() as stack:
            folder = arguments.records
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            records = Path(folder, f"{arguments.source.name}-{arguments.threads}-{seed}.sqlite")
            for transfer in transfers(
                arguments.source, arguments.networks, settings, asked, records,
                lambda line: progress.print(line, markup=False),
            ):  # fmt: skip
                found.append(transfer)
                progress.print(
                    f"{transfer.network}, seed {seed}: {transfer.share:.3f} of the tuned speed",
                    markup=False,
                )
    names = dict.fromkeys(transfer.network for transfer in found)
    table = Table(show_header=False)
    for row in zip(TITLES, *(cells(found, name) for name in names), strict=True):
        table.add_row(*row)
    Console().print(table)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(found, arguments), encoding="utf-8")
    content = {
        "threads": arguments.threads,
        "trials": arguments.trials,
        "transfers": [asdict(transfer) for transfer in found],
    }
    write_json(arguments.json, content)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=PROGRAM, description="Records of one network for others.")
    parser.add_argument("--from", dest="source", type=_source, default="resnet50", metavar="NAME")
    parser.add_argument(
        "--to", dest="networks", type=_sources, default="resnext50,open-nsfw", metavar="A,B"
    )
    parser.add_argument(
        "--trials", type=count_of, default=64, metavar="N", help="for each kernel, on average"
    )
    parser.add_argument("--threads", type=count_of, default=1, metavar="N")
    parser.add_argument("--seeds", type=count_of, default=1, metavar="N")
    parser.add_argument("--turns", type=count_of, default=15, metavar="N", help="of each library")
    parser.add_argument("--turn-seconds", type=positive, default=0.5, metavar="S")
    parser.add_argument(
        "--records", type=Path, metavar="FOLDER", help="keep the trials of --from, and go on there"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def _source(name: str) -> Source:
    if name not in SUITE_OF:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(SUITE_OF)}, got {name!r}")
    (found,) = sources(SUITE_OF[name], (1,), re.compile(f"^{re.escape(name)}$"))
    return found


def _sources(text: str) -> tuple[Source, ...]:
    return tuple(_source(name) for name in dict.fromkeys(text.split(",")))


def cells(found: Sequence[Transfer], network: str) -> tuple[str, ...]:
    """The row of a network: medians over seeds."""
    own = [transfer for transfer in found if transfer.network == network]
    first = own[0]
    milliseconds = (
        median(transfer.timings[place].seconds for transfer in own) * 1e3 for place in range(3)
    )
    return (
        network,
        f"{first.kernels}",
        f"{first.on_file}",
        f"{median(transfer.covered for transfer in own):.0%}",
        f"{median(transfer.taken for transfer in own):.0f}",
        *(f"{figure:.3f} ms" for figure in milliseconds),
        *(f"{median(transfer.gains[place] for transfer in own):.3f}" for place in range(2)),
        f"{median(transfer.share for transfer in own):.3f}",
        *(_predicted(own, place) for place in (0, 2)),
        *(f"{median(t.timings[place].kernels_share for t in own):.3f}" for place in (0, 2)),
    )


def _predicted(found: Sequence[Transfer], place: int) -> str:
    """What was predicted over what was measured, the median over seeds."""
    shares = [transfer.timings[place].predicted_share for transfer in found]
    known = [share for share in shares if share is not None]
    return f"{median(known):.3f}" if known else "none"


def markdown(found: Sequence[Transfer], arguments: argparse.Namespace) -> str:
    """The table as a page."""
    names = ",".join(source.name for source in arguments.networks)
    options = {
        "from": arguments.source.name, "to": names, "trials": arguments.trials,
        "threads": arguments.threads, "seeds": arguments.seeds, "turns": arguments.turns,
        "turn-seconds": arguments.turn_seconds,
    }  # fmt: skip
    lines = [
        f"# Records of {arguments.source.name} for other networks",
        "",
        made_by(PROGRAM, options),
        f"{host_target().name}, threads: {arguments.threads}, seeds: {arguments.seeds}.",
        "",
        f"{arguments.source.name} is tuned by {arguments.trials} trials for each kernel. Another",
        "network is compiled without trials, with the schedules that are on file now and no new",
        "trial, and tuned by as many trials of its own, from nothing. `on file` is how many of its",
        "distinct kernels have trials there, with their part of its time, and `taken` how many of",
        "these have another schedule than without trials. The three libraries run in turns in one",
        "process; gains over the one without trials, and the speed with records as a share of the",
        "tuned speed, are medians over turns, then over seeds. Predicted is the sum of the",
        "kernels' seconds in their last races, as a share of what a call of the library takes; in",
        "the last columns these are measured one by one just before the turns: less time for the",
        "machine to change.",
        "",
        *table_lines(
            TITLES,
            (cells(found, n) for n in dict.fromkeys(transfer.network for transfer in found)),
        ),
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
