"""What tuning predicts that whole networks take, and what they take.

    python -m benchmarks.tuning_predictions --suite networks --suite real --trials 16 --threads 2

What it does: tunes each network as `tasor tune` does, and holds what its run as tuned was predicted
to take (`TunedModel.predicted_milliseconds`) against what it took in the race of the whole model.
Beside it stands what the kernels took together, one by one. What it does not: compare with other
engines.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, pattern
from benchmarks.markdown_page import made_by, options_of, table_lines
from benchmarks.transfer_runs import Asked, compiled, tuned
from tasor.pipeline import settings_of
from tasor.suites.sources import SUITES, Source, sources
from tensorgen.target import host_target

PROGRAM = "benchmarks.tuning_predictions"

TITLES = (
    "network", "kernels", "faster", "kernels without trials", "kernels tuned", "run without trials",
    "run predicted", "run tuned", "predicted / measured", "kernels / run",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of a network, its distinct kernels, and how many are faster as tuned. Milliseconds of its
    kernels together and of whole runs, without trials and as tuned, and what the last one was
    predicted to be."""

    network: str
    kernels: int
    faster: int
    together: tuple[float, float]
    runs: tuple[float, float]
    predicted: float

    @property
    def share(self) -> float:
        """What was predicted, as a share of what was measured."""
        return self.predicted / self.runs[1]

    @property
    def together_share(self) -> float:
        """What the kernels take one by one, as a share of a run, both as tuned."""
        return self.together[1] / self.runs[1]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    arguments = _parser().parse_args(words)
    progress = Console(stderr=True, highlight=False)
    found: list[Prediction] = []
    with tempfile.TemporaryDirectory(prefix="tasor-predictions-") as folder:
        records = arguments.records or Path(folder, "trials.sqlite")
        for name, prediction in predictions(arguments, records):
            if prediction is None:
                progress.print(f"{name}: nothing is faster, no run as tuned", markup=False)
            else:
                found.append(prediction)
                progress.print(f"{name}: {prediction.share:.3f}", markup=False)
    table = Table(*TITLES)
    for prediction in found:
        table.add_row(*cells(prediction))
    console = Console()
    console.print(table)
    console.print(summary(found), markup=False)
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(found, arguments), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=PROGRAM, description="Whole networks, predicted and measured.")
    parser.add_argument("--suite", action="append", choices=SUITES, required=True)
    parser.add_argument("--only", type=pattern, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--trials", type=count_of, default=16, metavar="N", help="for each kernel")
    parser.add_argument("--threads", type=count_of, default=1, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--records", type=Path, metavar="FILE", help="trials on file, and go on")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


def predictions(
    arguments: argparse.Namespace, records: Path
) -> Iterator[tuple[str, Prediction | None]]:
    """Each network by name; None where no kernel is faster as tuned."""
    asked = Asked(arguments.trials, arguments.seed, turns=1, turn_seconds=1.0)
    for suite in arguments.suite:
        for source in sources(suite, (1,), arguments.only):
            yield source.name, _predicted(source, arguments.threads, asked, records)


def _predicted(source: Source, threads: int, asked: Asked, records: Path) -> Prediction | None:
    settings = settings_of("host", threads)
    with tempfile.TemporaryDirectory(prefix="tasor-predictions-") as folder:
        case = source.write(Path(folder, "model.onnx"))
        model, result = tuned(*compiled(case, settings), settings, asked, records)
    predicted = model.predicted_milliseconds(result.tasks)
    if model.race is None or predicted is None:
        return None
    before, after = model.seconds(result.tasks)
    return Prediction(
        case.name,
        len(model.counts),
        model.faster(result.tasks),
        (before * 1e3, after * 1e3),
        (model.race.zero_trials.milliseconds, model.race.tuned.milliseconds),
        predicted,
    )


def cells(found: Prediction) -> tuple[str, ...]:
    """The row of a network."""
    milliseconds = (*found.together, found.runs[0], found.predicted, found.runs[1])
    return (
        found.network,
        f"{found.kernels}",
        f"{found.faster}",
        *(f"{figure:.3f} ms" for figure in milliseconds),
        f"{found.share:.3f}",
        f"{found.together_share:.3f}",
    )


def summary(found: Sequence[Prediction]) -> str:
    """One line: between what predictions are, as shares of what was measured, and where."""
    if not found:
        return "No network has a run as tuned."
    ordered = sorted(found, key=lambda prediction: prediction.share)
    least, most = ordered[0], ordered[-1]
    return (
        f"Predicted as a share of measured: least {least.share:.3f} ({least.network}), most "
        f"{most.share:.3f} ({most.network}), {len(found)} networks."
    )


def markdown(found: Sequence[Prediction], arguments: argparse.Namespace) -> str:
    """The table as a page."""
    options: dict[str, object] = {"suite": " --suite ".join(arguments.suite)}
    options |= options_of(arguments, "trials", "threads", "seed")
    lines = [
        "# Whole networks, predicted and measured",
        "",
        made_by(PROGRAM, options),
        f"{host_target().name}, threads: {arguments.threads}.",
        "",
        f"Each network is tuned by {arguments.trials} trials for each kernel on average. Its run",
        "as tuned is predicted to take what a run without trials takes, shorter by as much as its",
        "kernels are, measured one by one in their last races; both libraries then run in turns.",
        "`kernels / run` is the sum of the kernels one by one as a share of a run, as tuned: what",
        "lies between kernels, and how one leaves the caches to the next, only a run shows.",
        "",
        *table_lines(TITLES, map(cells, found)),
        "",
        summary(found),
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
