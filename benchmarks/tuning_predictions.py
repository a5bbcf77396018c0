"""What tuning predicts that whole networks take, and what they take.

    python -m benchmarks.tuning_predictions --suite networks --suite real --trials 16 --threads 2

What it does: tunes each network as `tasor tune` does, has both libraries of it take turns, and
holds what a run as tuned should take against what it takes. The prediction is that of `tasor tune`
(`TunedModel.predicted_milliseconds`), by the runs without trials of these turns, of which there
are more than in its race. Beside it stands what the kernels took together, one by one. What it does
not: compare with other engines.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, pattern, positive
from benchmarks.library_turns import turns_of
from benchmarks.markdown_page import made_by, options_of, table_lines
from benchmarks.transfer_runs import Asked, compiled, tuned
from tasor.compiled_model import CompiledModel
from tasor.model_race import ModelRace
from tasor.pipeline import settings_of
from tasor.suites.sources import SUITES, Source, sources
from tasor.turns import Timings
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
    predicted to be; and how many times as fast as without trials a run is, the median over
    turns."""

    network: str
    kernels: int
    faster: int
    together: tuple[float, float]
    runs: tuple[float, float]
    predicted: float
    gain: float

    @property
    def share(self) -> float:
        """What was predicted, as a share of what was measured."""
        return self.gain * self.predicted / self.runs[0]

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
                progress.print(f"{name}: kept as without trials", markup=False)
            else:
                found.append(prediction)
                progress.print(" ".join(cells(prediction)), markup=False)
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
    parser.add_argument("--turns", type=count_of, default=15, metavar="N", help="of each library")
    parser.add_argument("--turn-seconds", type=positive, default=0.3, metavar="S")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--records", type=Path, metavar="FILE", help="trials on file, and go on")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


def predictions(
    arguments: argparse.Namespace, records: Path
) -> Iterator[tuple[str, Prediction | None]]:
    """Each network by name; None where it is kept as it is without trials."""
    asked = Asked(arguments.trials, arguments.seed, arguments.turns, arguments.turn_seconds)
    for suite in arguments.suite:
        for source in sources(suite, (1,), arguments.only):
            yield source.name, _predicted(source, arguments.threads, asked, records)


def _predicted(source: Source, threads: int, asked: Asked, records: Path) -> Prediction | None:
    settings = settings_of("host", threads)
    with tempfile.TemporaryDirectory(prefix="tasor-predictions-") as folder:
        case = source.write(Path(folder, "model.onnx"))
        question, usual = compiled(case, settings)
        model, result = tuned(question, usual, settings, asked, records)
        if model.stages is usual:
            return None
        libraries = [CompiledModel(question, stages) for stages in (usual, model.stages)]
        turns = turns_of(case, libraries, threads, asked.turns, asked.turn_seconds)
    before_tuning, as_tuned = (
        Timings(tuple(seconds * 1e3 for seconds in column)) for column in zip(*turns, strict=True)
    )
    race = ModelRace(before_tuning, as_tuned)
    predicted = replace(model, race=race).predicted_milliseconds(result.tasks)
    assert predicted is not None, "a model that is taken as tuned has kernels that were raced"
    before, after = model.seconds(result.tasks)
    return Prediction(
        case.name,
        len(model.counts),
        model.faster(result.tasks),
        (before * 1e3, after * 1e3),
        (race.zero_trials.milliseconds, race.tuned.milliseconds),
        predicted,
        race.times_as_fast,
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
        return "All networks are kept as without trials."
    ordered = sorted(found, key=lambda prediction: prediction.share)
    least, most = ordered[0], ordered[-1]
    return (
        f"Predicted as a share of measured: least {least.share:.3f} ({least.network}), most "
        f"{most.share:.3f} ({most.network}), {len(found)} networks."
    )


def markdown(found: Sequence[Prediction], arguments: argparse.Namespace) -> str:
    """The table as a page."""
    options: dict[str, object] = {"suite": " --suite ".join(arguments.suite)}
    options |= options_of(arguments, "trials", "threads", "turns", "turn-seconds", "seed")
    lines = [
        "# Whole networks, predicted and measured",
        "",
        made_by(PROGRAM, options),
        f"{host_target().name}, threads: {arguments.threads}.",
        "",
        f"Each network is tuned by {arguments.trials} trials for each kernel on average. Its run",
        "as tuned is predicted to take what a run without trials takes, shorter by as much as its",
        "kernels are, measured one by one in their last races; both libraries then run in turns,",
        "and what was predicted over what was measured is by the median ratio of these. A network",
        "that is slower as tuned in its own race is kept as without trials, and is not listed.",
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
