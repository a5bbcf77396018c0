"""Tunings side by side: cases tuned by several searches with several seeds, each from scratch.

What it does: measures trials for the kernels of each case, one variant of the search after the
other with each seed, so that a machine that changes does so for all of them, and tells how fast the
case was for who stopped after so many trials. Figures are gains over the schedules with zero trials
in a race behind the trials: what seemed best in them may only have been lucky.
What it does not: judge (`tuning_tables`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

from tasor.model_tuning import FailedModel, compiled_or_failed, tasks_and_networks
from tasor.pipeline import Question, Settings, library_name
from tasor.suites.sources import Source
from tasor.tune_request import TuneRequest, objective_of
from tensorgen.calibration import calibrated
from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.task import Task
from tensorgen.tune.library_race import RACES, Choice, choice
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.measurer import Measurer
from tensorgen.tune.records import TrialRecords
from tensorgen.tune.task_scheduler import Network
from tensorgen.tune.task_search import USUAL_BATCH, TaskSearch, TuneSettings
from tensorgen.tune.trial import setting_of
from tensorgen.tune.tuning import Tuning
from tensorgen.version import tasor_version

BATCH = 8
"""Trials of a batch: curves have a point for each."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to search: a strategy, with or without a learned model and the gradient over tasks,
    trials of a batch, and those without a gain after which a kernel is finished (None: as many as
    `tasor tune` makes)."""

    name: str
    strategy: str = "staged"
    learned: bool = True
    gradient: bool = True
    batch: int = BATCH
    patience: int | None = None


USUAL_SEARCH = Variant("staged", batch=USUAL_BATCH)
"""The search of `tasor tune`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case's distinct tasks, and how often it runs each of them."""

    name: str
    tasks: dict[str, tuple[Task, Machine]]
    network: Network


@dataclass(frozen=True, slots=True)
class Run:
    """One tuning of a case. `gains` say how many times as fast as with zero trials it was for who
    stopped after so many trials for each kernel (`milestones`): with the schedules that a tuning
    takes then, all in the same races. `spent` are the seconds of trials until then."""

    case: str
    variant: str
    seed: int
    gains: tuple[float, ...]
    spent: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all trials."""
        return self.spent[-1]


def milestones(trials: int) -> tuple[int, ...]:
    """Trials for each kernel at which gains are told: a batch, twice as many, and so on."""
    found = [min(BATCH, trials)]
    while found[-1] * 2 <= trials:
        found.append(found[-1] * 2)
    return tuple(found) if found[-1] >= trials else (*found, trials)


def prepared(sources: Iterable[Source], settings: Settings) -> Iterator[Prepared]:
    """The cases of a suite as tasks. Raises ValueError for one that cannot be compiled."""
    with tempfile.TemporaryDirectory(prefix="tasor-tuning-") as folder:
        for source in sources:
            path = Path(folder, "model.onnx")
            case = source.write(path)
            question = Question(str(path), library_name(path), case.shapes)
            compiled = compiled_or_failed(question, settings)
            path.unlink()
            if isinstance(compiled[1], FailedModel):
                raise ValueError(f"{source.name}: {compiled[1].reason}")
            tasks, networks = tasks_and_networks([compiled], settings)
            yield Prepared(source.name, tasks, networks[0])


def runs(
    cases: Iterable[Prepared],
    variants: Sequence[Variant],
    seeds: int,
    trials: int,
    settings: Settings,
) -> Iterator[Run]:
    """Every case by every variant with every seed, the variants in turns. Raises MeasureError."""
    target, threads = settings.target, settings.threads
    with (
        LocalMeasurer(target, threads, prints_apart=True) as measurer,
        LocalMeasurer(target, threads, drafts=False) as racer,
    ):
        for case in cases:
            for seed in range(seeds):
                for variant in variants:
                    yield run(case, variant, seed, trials, settings, measurer, racer)


@contextmanager
def tuning_of(
    case: Prepared, variant: Variant, seed: int, trials: int, settings: Settings
) -> Iterator[Tuning]:
    """A tuning that knows of no other, before its first trial."""
    target, threads = settings.target, settings.threads
    request = TuneRequest(
        trials, seed=seed, strategy=variant.strategy, learned=variant.learned,
        gradient=variant.gradient,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="tasor-tuning-") as folder:
        yield Tuning(
            case.tasks,
            [case.network],
            TuneSettings(
                target, threads, calibrated(target, threads), trials, batch=variant.batch,
                seed=seed, strategy=request.strategy, learned=request.learned,
                patience=variant.patience,
            ),
            TrialRecords(Path(folder, "trials.sqlite")),
            setting_of(target, threads, tasor_version()),
            objective=objective_of(request, []),
        )  # fmt: skip


def run(
    case: Prepared,
    variant: Variant,
    seed: int,
    trials: int,
    settings: Settings,
    measurer: Measurer,
    racer: Measurer,
) -> Run:
    """One tuning, which knows of no other. Raises MeasureError."""
    with tuning_of(case, variant, seed, trials, settings) as tuning:
        stops = [count * len(case.tasks) for count in milestones(trials)]
        finalists: list[dict[str, Sequence[Schedule]]] = []
        spent: list[float] = []

        def stopped() -> None:
            finalists.append({name: task.finalists for name, task in tuning.searches.items()})
            spent.append(tuning.history.seconds)

        for progress in tuning.run(measurer):
            while len(finalists) < len(stops) and progress.trials >= stops[len(finalists)]:
                stopped()
        # A tuning that found nothing left to try has made fewer trials.
        while len(finalists) < len(stops):
            stopped()
        choices = {
            name: _choices(search, racer, [groups[name] for groups in finalists])
            for name, search in tuning.searches.items()
        }
    return Run(
        case.name,
        variant.name,
        seed,
        tuple(
            gain_of(case.network, {name: made[n] for name, made in choices.items()})
            for n in range(len(stops))
        ),
        tuple(spent),
    )


def _choices(
    search: TaskSearch, racer: Measurer, groups: Sequence[Sequence[Schedule]]
) -> tuple[Choice, ...]:
    """What is taken of each group of finalists, after races of all of them."""
    entered = [schedule for group in groups for schedule in group]
    races = [rivals for _ in range(RACES) for rivals in search.begin_race(racer, entered)()]
    usual = races[-1].zero_trial_seconds if races else inf
    nothing = Choice(search.zero_trial, usual, usual, False)
    own = ([rivals for rivals in races if rivals.schedule in group] for group in groups)
    return tuple(choice(search.zero_trial, raced) if raced else nothing for raced in own)


def gain_of(network: Network, choices: Mapping[str, Choice]) -> float:
    """How many times as fast a network's kernels are as with zero trials; those that nobody raced
    are left out."""
    raced = [
        (count, choices[task])
        for task, count in network.counts.items()
        if choices[task].seconds < inf
    ]
    before = sum(count * choice.zero_trial_seconds for count, choice in raced)
    after = sum(count * choice.seconds for count, choice in raced)
    return before / after if after else 1.0
