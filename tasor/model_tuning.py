"""Models tuned, here or on a cluster: their tasks together, equal ones once, then each compiled.

What it does: compiles models with zero trials, has `tensorgen.tune` make trials for their tasks,
and compiles each again with the schedules that were faster. A model that cannot be compiled does
not stop the others.
What it does not: draw anything, or write libraries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from graphopt.onnx_import.errors import ModelError, printable
from graphopt.search import machine_for
from tasor.errors import one_line
from tasor.measuring_place import measuring_place
from tasor.pipeline import (
    SILENT,
    Observer,
    Question,
    Settings,
    Stages,
    compile_stage,
    run_stages,
)
from tensorgen.build import cache_folder
from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.target import TargetError
from tensorgen.task import Task
from tensorgen.tune.outcome import seconds_of
from tensorgen.tune.records import Miss, TrialRecords
from tensorgen.tune.task_scheduler import Finish, Network, TaskState
from tensorgen.tune.task_search import USUAL_BATCH, WORTH, Choice, TuneSettings
from tensorgen.tune.trial import setting_of
from tensorgen.tune.tuning import Progress, Tuning
from tensorgen.types import ShapeError
from tensorgen.version import tasor_version

RECORDS_NAME = "trials.sqlite"
"""The file of trials in the cache folder, where no other one is named."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """How much to tune and what to go by: `trials` for each distinct task on average, the file of
    trials (None: the one in the cache folder), and the seed of all randomness but the clock's.
    `cluster` is the address of a dask scheduler whose workers measure (None: this machine does)."""

    trials: int
    records: Path | None = None
    seed: int = 0
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class TunedTask:
    """A task by name, what is known of it, its final race, and why it got no more trials (None:
    those of all tasks were used up)."""

    name: str
    task: Task
    state: TaskState
    choice: Choice
    finish: Finish | None


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A model after tuning; `counts` tells how often a run computes each task, by name."""

    question: Question
    stages: Stages
    counts: Mapping[str, int]

    def seconds(self, tasks: Mapping[str, TunedTask]) -> tuple[float, float]:
        """The kernels of one run, one after the other: as scheduled without trials, and as tuned.
        Tasks without a race are left out of both."""
        raced = [
            (count, tasks[name].choice)
            for name, count in self.counts.items()
            if tasks[name].choice.seconds < inf
        ]
        before = sum(count * choice.zero_trial_seconds for count, choice in raced)
        return before, sum(count * choice.seconds for count, choice in raced)


@dataclass(frozen=True, slots=True)
class FailedModel:
    """A model that cannot be compiled, and why, on one line."""

    question: Question
    reason: str


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What became of each model, in order, and of each task, by name. `stopped` is one line that
    says why tuning ended before its time: nobody was left who measures."""

    models: tuple[TunedModel | FailedModel, ...]
    tasks: Mapping[str, TunedTask]
    stopped: str | None = None


Compiled = tuple[Question, Stages | FailedModel]
"""A model and what zero trials made of it."""


def tuned_models(
    compiled: Sequence[Compiled],
    settings: Settings,
    request: TuneRequest,
    *,
    progress: Callable[[Progress], None] = lambda progress: None,
    observer: Observer = SILENT,
) -> TuneResult:
    """Tune models together. Raises what `measuring_place` and `TrialRecords` do."""
    tasks: dict[str, tuple[Task, Machine]] = {}
    networks, counts = [], []
    for place, (_, model) in enumerate(compiled):
        if isinstance(model, FailedModel):
            counts.append(dict[str, int]())
            continue
        machine = machine_for(model.graph, settings.target, settings.threads, settings.machine)
        names = [task.digest.hex()[:12] for task in model.compilation.tasks]
        for name, task in zip(names, model.compilation.tasks, strict=True):
            tasks.setdefault(name, (task, machine))
        counts.append(dict(zip(names, model.compilation.runs, strict=True)))
        networks.append(Network(str(place), counts[-1]))
    found, stopped = _tuned_tasks(tasks, networks, settings, request, progress, observer)
    faster = {t.task: t.choice.schedule for t in found.values() if t.choice.is_tuned}
    models = tuple(
        model
        if isinstance(model, FailedModel)
        else TunedModel(question, _recompiled(question, model, settings, faster, observer), count)
        for (question, model), count in zip(compiled, counts, strict=True)
    )
    return TuneResult(models, found, stopped)


def compiled_or_failed(
    question: Question, settings: Settings, observer: Observer = SILENT
) -> Compiled:
    """A model with zero trials; its own faults are a result, too."""
    try:
        return question, run_stages(question, settings, observer)
    except (ModelError, ShapeError, TargetError) as error:
        return question, FailedModel(question, one_line(error))


def _tuned_tasks(
    tasks: Mapping[str, tuple[Task, Machine]],
    networks: Sequence[Network],
    settings: Settings,
    request: TuneRequest,
    progress: Callable[[Progress], None],
    observer: Observer,
) -> tuple[dict[str, TunedTask], str | None]:
    """Each task, tuned, and why tuning ended before its time, if it did."""
    target, threads, strict = settings.target, settings.threads, settings.strict
    path = cache_folder() / RECORDS_NAME if request.records is None else request.records
    observer.begins("tune")
    with measuring_place(
        request.cluster, target, threads, strict=strict, tell=observer.remarks
    ) as place:
        tuning = Tuning(
            tasks,
            networks,
            TuneSettings(
                target, threads, place.machine, request.trials, strict=strict,
                winograd=settings.winograd, seed=request.seed,
                batch=place.batch(USUAL_BATCH, request.trials),
            ),
            TrialRecords(path, tell=observer.remarks),
            place.setting,
            tell=observer.remarks,
        )  # fmt: skip
        with place.measurer(True) as measurer:
            for step in tuning.run(measurer):
                progress(step)
        observer.begins("race the best")
        with place.measurer(False) as measurer:
            choices = tuning.choices(measurer)
    reasons = tuning.reasons()
    found = {
        name: TunedTask(name, task, tuning.states[name], choices[name], reasons[name])
        for name, (task, _) in tasks.items()
    }
    return found, None if tuning.missing is None else tuning.missing.reason


def _recompiled(
    question: Question,
    stages: Stages,
    settings: Settings,
    faster: Mapping[Task, Schedule],
    observer: Observer,
) -> Stages:
    """The model with the schedules that were faster, the same stages otherwise."""
    own = {task: faster[task] for task in stages.compilation.tasks if task in faster}
    if not own:
        return stages
    chosen = replace(settings, schedules=own)
    compilation = compile_stage(question, stages.optimized, stages.searched, chosen, observer)
    return replace(stages, compilation=compilation)


def tuned_stages(
    question: Question,
    stages: Stages,
    settings: Settings,
    request: TuneRequest,
    observer: Observer = SILENT,
) -> Stages:
    """One model with the schedules that trials found. Raises as `tuned_models`."""
    (model,) = tuned_models([(question, stages)], settings, request, observer=observer).models
    assert isinstance(model, TunedModel), "a model that was compiled is tuned"
    return model.stages


def recorded_stages(
    question: Question, stages: Stages, settings: Settings, path: Path, observer: Observer = SILENT
) -> Stages:
    """One model with the schedules on file that were faster than those with zero trials. Remarks
    name the kernels that have none. Raises RecordsError."""
    records = TrialRecords(path, tell=observer.remarks)
    setting = setting_of(settings.target, settings.threads, tasor_version(), strict=settings.strict)
    found: dict[Task, Schedule] = {}
    misses: Counter[str] = Counter()
    compilation = stages.compilation
    for task, usual in zip(compilation.tasks, compilation.schedules, strict=True):
        match records.best(task, setting):
            case Miss() as miss:
                misses[str(miss)] += 1
            case best:
                trials = records.of_task(task, setting)
                figures = [seconds_of(t.outcome) for t in trials if t.schedule == usual]
                if seconds_of(best.outcome) <= WORTH * min(figures, default=inf):
                    found[task] = best.schedule
    for reason, count in misses.items():
        observer.remarks(
            f"{printable(path.name)}: {count} of {len(compilation.tasks)} kernels are scheduled "
            f"without trials: {reason}; tune the model to have them"
        )
    return _recompiled(question, stages, settings, found, observer)
