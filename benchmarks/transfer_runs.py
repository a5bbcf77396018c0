"""Records of one network given to another, and the libraries that come of it, timed in turns.

What it does: tunes a network into a file of trials; compiles others without trials, with the
schedules of that file and no new trial, and tuned by as many trials of their own; and has the
three libraries of each timed (`library_turns`). What it does not: judge (`tuning_transfer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.library_turns import ratio, turns_of
from graphopt.search import machine_for
from tasor.compiled_model import CompiledModel
from tasor.model_tuning import (
    FailedModel,
    TunedModel,
    TunedTask,
    TuneResult,
    compiled_or_failed,
    recorded_stages,
    tuned_models,
)
from tasor.peer_cases import Case
from tasor.pipeline import Question, Settings, Stages, library_name
from tasor.suites.sources import Source
from tasor.tune_request import TuneRequest
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.records import Miss, TrialRecords
from tensorgen.tune.trial import setting_of
from tensorgen.tune.weights_place import weights_place
from tensorgen.version import tasor_version

LIBRARIES = ("without trials", "with records", "tuned")
"""The libraries of a network, in the order of their figures."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a library takes, in seconds: the median over its turns, what its kernels took
    together one by one just before, and what tuning predicts that they take (None where it has no
    figures)."""

    seconds: float
    kernels: float
    predicted: float | None = None

    @property
    def kernels_share(self) -> float:
        """What the kernels took one by one, as a share of what the library takes."""
        return self.kernels / self.seconds

    @property
    def predicted_share(self) -> float | None:
        """What was predicted, as a share of what was measured."""
        return None if self.predicted is None else self.predicted / self.seconds


@dataclass(frozen=True, slots=True)
class Transfer:
    """What records of a network do for another one. Of its `kernels`, distinct ones, so many are
    `on_file`, and `taken` have another schedule than without trials because of that; the time of a
    run that those on file take without trials is `covered`, a share. `gains` say how many times as
    fast as without trials the libraries with records and with trials of its own are, medians over
    the turns, and `share` is the speed with records over the tuned one. `trials` were made to tune
    it, in `tuning_seconds`."""

    source: str
    network: str
    seed: int
    kernels: int
    on_file: int
    covered: float
    taken: int
    timings: tuple[Timing, Timing, Timing]
    gains: tuple[float, float]
    share: float
    trials: int
    tuning_seconds: float


@dataclass(frozen=True, slots=True)
class Asked:
    """How to compare: trials for each kernel on average, the seed, how many turns each library has,
    and the seconds of a turn."""

    trials: int
    seed: int
    turns: int
    turn_seconds: float


def tuned(
    question: Question, stages: Stages, settings: Settings, asked: Asked, records: Path
) -> tuple[TunedModel, TuneResult]:
    """A network tuned into a file of trials. Raises as `tuned_models`."""
    request = TuneRequest(asked.trials, records=records, seed=asked.seed)
    result = tuned_models([(question, stages)], settings, request)
    (model,) = result.models
    assert isinstance(model, TunedModel), "a model that was compiled is tuned"
    return model, result


def compiled(case: Case, settings: Settings) -> tuple[Question, Stages]:
    """A case with zero trials. Raises ValueError for one that cannot be compiled."""
    question = Question(str(case.model), library_name(case.model), case.shapes)
    _, stages = compiled_or_failed(question, settings)
    if isinstance(stages, FailedModel):
        raise ValueError(f"{case.name}: {stages.reason}")
    return question, stages


def transfers(
    source: Source,
    networks: Sequence[Source],
    settings: Settings,
    asked: Asked,
    records: Path,
    tell: Callable[[str], None],
) -> Iterator[Transfer]:
    """Tune the source into `records`, and give them to each network. Raises ValueError for a model
    that cannot be compiled, and as `tuned_models`."""
    with TemporaryDirectory(prefix="tasor-transfer-") as folder:
        case = source.write(Path(folder, "source.onnx"))
        _, result = tuned(*compiled(case, settings), settings, asked, records)
        tell(f"{source.name}: tuned in {result.history.seconds:.0f} s")
        for number, network in enumerate(networks):
            case = network.write(Path(folder, f"network{number}.onnx"))
            own = Path(folder, f"trials{number}.sqlite")
            yield transfer(source.name, case, settings, asked, records, own)


def transfer(
    source: str, case: Case, settings: Settings, asked: Asked, records: Path, own: Path
) -> Transfer:
    """What records of the source do for a case; `own` is the file of its own trials."""
    question, usual = compiled(case, settings)
    recorded = recorded_stages(question, usual, settings, records)
    model, result = tuned(question, usual, settings, asked, own)
    libraries = (usual, recorded, model.stages)
    models = [CompiledModel(question, stages) for stages in libraries]
    with LocalMeasurer(settings.target, settings.threads, drafts=False) as measurer:
        kernels = [kernel_seconds(stages, settings, measurer) for stages in libraries]
    turns = turns_of(case, models, settings.threads, asked.turns, asked.turn_seconds)
    medians = [median(column) for column in zip(*turns, strict=True)]
    on_file = _on_file(usual, settings, records)
    before = {name: usual_seconds(task) for name, task in result.tasks.items()}
    after = {name: tuned_seconds(task) for name, task in result.tasks.items()}
    return Transfer(
        source,
        case.name,
        asked.seed,
        len(usual.compilation.tasks),
        len(on_file),
        covered(model.counts, before, on_file),
        sum(
            one != other
            for one, other in zip(
                usual.compilation.schedules, recorded.compilation.schedules, strict=True
            )
        ),
        (
            Timing(medians[0], kernels[0], predicted_seconds(model.counts, before)),
            Timing(medians[1], kernels[1]),
            Timing(medians[2], kernels[2], predicted_seconds(model.counts, after)),
        ),
        (ratio(turns, 0, 1), ratio(turns, 0, 2)),
        ratio(turns, 2, 1),
        sum(task.state.trials for task in result.tasks.values()),
        result.history.seconds,
    )


def _on_file(stages: Stages, settings: Settings, records: Path) -> tuple[str, ...]:
    """The names of the kernels of which there are trials on file."""
    found = TrialRecords(records)
    setting = setting_of(settings.target, settings.threads, tasor_version())
    weights = weights_place(traffic_of(stages, settings), settings.target)
    return tuple(
        task.digest.hex()[:12]
        for task in stages.compilation.tasks
        if not isinstance(found.best(task, setting, weights), Miss)
    )


def traffic_of(stages: Stages, settings: Settings) -> float:
    """How many bytes one run moves."""
    return machine_for(stages.graph, settings.target, settings.threads, settings.machine).traffic


def covered(
    counts: Mapping[str, int], seconds: Mapping[str, float], on_file: Sequence[str]
) -> float:
    """The share of a run's time that is spent in those on file; 0 where nothing has figures."""
    times = {name: count * seconds[name] for name, count in counts.items() if seconds[name] < inf}
    whole = sum(times.values())
    return sum(times.get(name, 0.0) for name in on_file) / whole if whole else 0.0


def predicted_seconds(counts: Mapping[str, int], seconds: Mapping[str, float]) -> float | None:
    """The kernels of one run together; None if one of them has no figure."""
    whole = sum(count * seconds[name] for name, count in counts.items())
    return whole if whole < inf else None


def kernel_seconds(stages: Stages, settings: Settings, measurer: LocalMeasurer) -> float:
    """The kernels of one run together, each measured by itself, with weights from where a run has
    them. Raises BuildError and MeasureError."""
    compilation = stages.compilation
    chosen = list(zip(compilation.tasks, compilation.schedules, strict=True))
    each = measurer.seconds(chosen, traffic=traffic_of(stages, settings))
    return sum(count * seconds for count, seconds in zip(compilation.runs, each, strict=True))


def usual_seconds(task: TunedTask) -> float:
    """A call of a kernel without trials, by its last race, or by its trials where there was none;
    infinite without either."""
    raced = task.choice.zero_trial_seconds
    return raced if raced < inf else next(iter(task.state.best), inf)


def tuned_seconds(task: TunedTask) -> float:
    """A call of a kernel as tuned; the same as without trials where there was no race."""
    return task.choice.seconds if task.choice.seconds < inf else usual_seconds(task)
