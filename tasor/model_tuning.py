"""Models tuned, here or on a cluster: their tasks together, equal ones once, then each compiled.

What it does: compiles models with zero trials, has `tensorgen.tune` make trials for their tasks,
compiles each again with the schedules that were faster, and has it race as a whole: a model whose
kernels are faster one by one and slower together keeps those with zero trials, then and when it is
compiled by what is on file. A model that cannot be compiled does not stop the others.
What it does not: draw anything, or write libraries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache, partial
from math import inf
from pathlib import Path

from graphopt.compiler import Compilation
from graphopt.onnx_import.errors import ModelError, printable
from graphopt.search import machine_for
from tasor.compiled_model import CompiledModel
from tasor.errors import one_line
from tasor.measuring_place import measuring_place
from tasor.model_race import ModelRace, is_taken, libraries_digest, raced, taken_together
from tasor.pipeline import (
    SILENT,
    Observer,
    Question,
    Settings,
    Stages,
    compile_stage,
    run_stages,
)
from tasor.tune_request import TuneRequest, objective_of
from tensorgen.build import BuildError, cache_folder
from tensorgen.machine import Machine
from tensorgen.schedule import Schedule
from tensorgen.target import TargetError
from tensorgen.task import Task
from tensorgen.tune.learning_curve import CurvePoint, History
from tensorgen.tune.library_race import WORTH, Choice, choice, counting
from tensorgen.tune.outcome import FAULTS, Tally, seconds_of, tallied
from tensorgen.tune.records import Miss, RecordsError, TrialRecords
from tensorgen.tune.space import Space
from tensorgen.tune.task_scheduler import (
    Finish,
    LatencyTargets,
    Network,
    Objective,
    TaskState,
)
from tensorgen.tune.task_search import USUAL_BATCH, TuneSettings
from tensorgen.tune.task_space import space_of
from tensorgen.tune.trial import Setting, setting_of
from tensorgen.tune.tuning import Progress, Tuning
from tensorgen.tune.weights_place import WeightsPlace, weights_place
from tensorgen.types import ShapeError
from tensorgen.version import tasor_version

RECORDS_NAME = "trials.sqlite"
"""The file of trials in the cache folder, where no other one is named."""

NOT_ALLOWED = "the fastest schedule on file is none that these settings allow"
"""Why a schedule on file is not taken."""


class ModelFinish(Enum):
    """Why a model got no more trials."""

    REACHED = "its latency target is reached"
    FINISHED = "all its kernels are finished"
    NOBODY = "nobody is left to measure its kernels"
    USED_UP = "all trials are used up"


@dataclass(frozen=True, slots=True)
class TunedTask:
    """A task by name, what is known of it, its schedule without trials, its final race, why it got
    no more trials (None: those of all tasks were used up), and what came of its trials, those on
    file among them."""

    name: str
    task: Task
    state: TaskState
    usual: Schedule
    choice: Choice
    finish: Finish | None
    outcomes: tuple[Tally, ...] = ()

    @property
    def faults(self) -> tuple[Tally, ...]:
        """Those of its outcomes that are bugs."""
        return tuple(tally for tally in self.outcomes if tally.status in FAULTS)

    @property
    def ended(self) -> str:
        """Why it got no more trials, in words."""
        return ModelFinish.USED_UP.value if self.finish is None else self.finish.value


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A model after tuning; `counts` tells how often a run computes each task, by name. `curve` is
    how it became faster, in the figures of trials, and `target` what was to be reached, in
    seconds. `race` is that of the whole model, where this machine measures and a schedule is
    another one than with zero trials; `stages` are those of the winner. `left` names the tasks
    whose faster schedules are not taken, because they would copy weights that others share."""

    question: Question
    stages: Stages
    counts: Mapping[str, int]
    finish: ModelFinish
    curve: tuple[CurvePoint, ...] = ()
    target: float | None = None
    race: ModelRace | None = None
    left: frozenset[str] = frozenset()

    @property
    def ended(self) -> str:
        """Why it got no more trials, and what its race decided if it was lost, in words."""
        if self.race is None or self.race.is_won:
            return self.finish.value
        return f"{self.finish.value}; {_lost(self.race.times_as_fast)}: kept as without trials"

    def times_as_fast(self, tasks: Mapping[str, TunedTask]) -> float | None:
        """How many times as fast as with zero trials it is: by its race, or without one by its
        kernels. None where nothing was measured."""
        if self.race is not None:
            return max(self.race.times_as_fast, 1.0)
        before, after = self.seconds(tasks)
        return before / after if after else None

    def seconds(self, tasks: Mapping[str, TunedTask]) -> tuple[float, float]:
        """The kernels of one run, one after the other: as scheduled without trials, and as tuned.
        Tasks without a race are left out of both."""
        before = after = 0.0
        for name, count in self.counts.items():
            choice = tasks[name].choice
            if choice.seconds < inf:
                before += count * choice.zero_trial_seconds
                own = choice.zero_trial_seconds if name in self.left else choice.seconds
                after += count * own
        return before, after

    def predicted_milliseconds(self, tasks: Mapping[str, TunedTask]) -> float | None:
        """What a run as tuned should take: as much less than one without trials as its kernels take
        less one by one. What lies between kernels, and how one leaves the caches to the next, is in
        the run without trials. None where there was no race of the model."""
        before, after = self.seconds(tasks)
        if self.race is None or not before:
            return None
        return self.race.zero_trials.milliseconds * after / before

    def faster(self, tasks: Mapping[str, TunedTask]) -> int:
        """How many of its tasks have a faster schedule that is taken."""
        return sum(tasks[name].choice.is_tuned for name in self.counts if name not in self.left)


def _lost(times: float) -> str:
    return f"as a whole {times:.3f} times as fast as without trials"


@dataclass(frozen=True, slots=True)
class FailedModel:
    """A model that cannot be compiled, and why, on one line."""

    question: Question
    reason: str


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What became of each model, in order, and of each task, by name, and what was done when.
    `stopped` is one line that says why tuning ended before its time: nobody was left who
    measures."""

    models: tuple[TunedModel | FailedModel, ...]
    tasks: Mapping[str, TunedTask]
    history: History
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
    """Tune models together. Raises what `measuring_place` and `TrialRecords` do, and UsageError for
    a goal that no model has."""
    objective = objective_of(request, [question for question, _ in compiled])
    path = cache_folder() / RECORDS_NAME if request.records is None else request.records
    records = TrialRecords(path, tell=observer.remarks)
    tasks, networks = tasks_and_networks(compiled, settings)
    found, history, stopped = _tuned_tasks(
        tasks, list(networks.values()), objective, settings, request, records, progress, observer
    )
    faster = {t.task: t.choice.schedule for t in found.values() if t.choice.is_tuned}
    models: list[TunedModel | FailedModel] = []
    for place, (question, model) in enumerate(compiled):
        if isinstance(model, FailedModel):
            models.append(model)
            continue
        network = networks[place]
        stages = _recompiled(question, model, settings, faster, observer)
        not_taken = _not_taken(stages.compilation, faster)
        left = frozenset(name for name in network.counts if found[name].task in not_taken)
        race = None
        if stages is not model and request.cluster is None:
            race = _raced(question, model, stages, settings, records, observer)
            stages = model if race is not None and not race.is_won else stages
        targets = objective.targets if isinstance(objective, LatencyTargets) else {}
        models.append(
            TunedModel(
                question, stages, network.counts, _model_finish(network, objective, found),
                history.curve(network), targets.get(network.name), race, left,
            )
        )  # fmt: skip
    return TuneResult(tuple(models), found, history, stopped)


def tasks_and_networks(
    compiled: Sequence[Compiled], settings: Settings
) -> tuple[dict[str, tuple[Task, Machine]], dict[int, Network]]:
    """The distinct tasks of all models by name, with the constants by which each is scheduled
    without trials, and the networks of those models that were compiled, by place."""
    tasks: dict[str, tuple[Task, Machine]] = {}
    networks: dict[int, Network] = {}
    for place, (_, model) in enumerate(compiled):
        if isinstance(model, FailedModel):
            continue
        machine = machine_for(model.graph, settings.target, settings.threads, settings.machine)
        names = [task.digest.hex()[:12] for task in model.compilation.tasks]
        for name, task in zip(names, model.compilation.tasks, strict=True):
            tasks.setdefault(name, (task, machine))
        counts = dict(zip(names, model.compilation.runs, strict=True))
        networks[place] = Network(str(place), counts)
    return tasks, networks


def _model_finish(
    network: Network, objective: Objective, tasks: Mapping[str, TunedTask]
) -> ModelFinish:
    states = {name: tasks[name].state for name in network.counts}
    if isinstance(objective, LatencyTargets) and objective.are_reached_by(network, states):
        return ModelFinish.REACHED
    if any(tasks[name].finish is Finish.NOBODY for name in network.counts):
        return ModelFinish.NOBODY
    is_finished = all(tasks[name].finish is not None for name in network.counts)
    return ModelFinish.FINISHED if is_finished else ModelFinish.USED_UP


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
    objective: Objective,
    settings: Settings,
    request: TuneRequest,
    records: TrialRecords,
    progress: Callable[[Progress], None],
    observer: Observer,
) -> tuple[dict[str, TunedTask], History, str | None]:
    """Each task, tuned, what was done when, and why tuning ended before its time, if it did."""
    target, threads, strict = settings.target, settings.threads, settings.strict
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
                strategy=request.strategy, patience=request.patience, learned=request.learned,
            ),
            records,
            place.setting,
            objective=objective,
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
        name: TunedTask(
            name, search.task, search.state, search.zero_trial, choices[name], reasons[name],
            tallied(search.outcomes),
        )
        for name, search in tuning.searches.items()
    }  # fmt: skip
    return found, tuning.history, None if tuning.missing is None else tuning.missing.reason


def _recompiled(
    question: Question,
    stages: Stages,
    settings: Settings,
    faster: Mapping[Task, Schedule],
    observer: Observer,
) -> Stages:
    """The model with the schedules that were faster, the same stages otherwise. Remarks tell of
    those that are not taken, because they would copy weights that kernels share."""
    own = {task: faster[task] for task in stages.compilation.tasks if task in faster}
    if not own:
        return stages
    chosen = replace(settings, schedules=own)
    compilation = compile_stage(question, stages.optimized, stages.searched, chosen, observer)
    left = _not_taken(compilation, own)
    if left:
        observer.remarks(
            f"{printable(question.name)}: {len(left)} of {len(own)} faster schedules are not "
            "taken: they lay out weights otherwise than the kernels that share these"
        )
    return stages if len(left) == len(own) else replace(stages, compilation=compilation)


def _not_taken(compilation: Compilation, faster: Mapping[Task, Schedule]) -> frozenset[Task]:
    """The tasks that have other schedules than the faster ones."""
    chosen = zip(compilation.tasks, compilation.schedules, strict=True)
    return frozenset(task for task, schedule in chosen if faster.get(task, schedule) != schedule)


def _raced(
    question: Question,
    stages: Stages,
    tuned: Stages,
    settings: Settings,
    records: TrialRecords,
    observer: Observer,
) -> ModelRace | None:
    """The race of a model with itself as tuned, beside those on file, where it is put, too; None if
    there is no room for its libraries, say. Remarks name a model that does not win, or why there is
    no race, or none on file."""
    observer.begins("race the model")
    name = printable(question.name)
    try:
        race = raced(CompiledModel(question, stages), CompiledModel(question, tuned))
    except BuildError as error:
        observer.remarks(f"{name}: not raced as a whole: {one_line(error)}")
        return None
    libraries = libraries_digest(stages.compilation, tuned.compilation)
    setting = _setting(settings)
    try:
        race = replace(race, earlier=_races_on_file(records, libraries, setting))
        records.add_model_races([race.record(libraries, setting)])
    except RecordsError as error:
        observer.remarks(f"{name}: its race is not kept: {one_line(error)}")
    if not race.is_won:
        observer.remarks(f"{name}: {_lost(race.times_as_fast)}: kept as without trials")
    return race


def _races_on_file(records: TrialRecords, libraries: str, setting: Setting) -> tuple[float, ...]:
    """How many times as fast as without trials a model was as tuned, in each race of it."""
    return tuple(race.times_as_fast for race in records.model_races_of(libraries, setting))


def _setting(settings: Settings) -> Setting:
    """What figures depend on that are measured here."""
    return setting_of(settings.target, settings.threads, tasor_version(), strict=settings.strict)


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
    """One model with the schedules on file that were faster than those with zero trials, in races
    or, where none was held, in trials, and are allowed by the settings; with none of them if they
    lost the races of the whole model. Remarks name the kernels that have none, and a model that
    lost. Raises RecordsError."""
    records = TrialRecords(path, tell=observer.remarks)
    setting = _setting(settings)
    found: dict[Task, Schedule] = {}
    misses: Counter[str] = Counter()
    compilation = stages.compilation
    machine = machine_for(stages.graph, settings.target, settings.threads, settings.machine)
    weights = weights_place(machine.traffic, settings.target)

    @lru_cache(maxsize=1)
    def space(task: Task) -> Space:
        # Filtered convolutions are on file whatever is asked for now.
        return space_of(
            task, settings.target, settings.threads, machine,
            strict=settings.strict, winograd=settings.winograd,
        )  # fmt: skip

    def allows(task: Task, schedule: Schedule) -> bool:
        return space(task).locate(schedule) is not None

    for task, usual in zip(compilation.tasks, compilation.schedules, strict=True):
        match _recorded(records, task, usual, setting, weights, partial(allows, task)):
            case str(reason):
                misses[reason] += 1
            case schedule if schedule != usual:
                found[task] = schedule
    for reason, count in misses.items():
        observer.remarks(
            f"{printable(path.name)}: {count} of {len(compilation.tasks)} kernels are scheduled "
            f"without trials: {reason}; tune the model to have them"
        )
    tuned = _recompiled(question, stages, settings, found, observer)
    races = _races_on_file(
        records, libraries_digest(stages.compilation, tuned.compilation), setting
    )
    if not races or is_taken(times := taken_together(races)):
        return tuned
    observer.remarks(
        f"{printable(path.name)}: {printable(question.name)} is scheduled without trials: "
        f"{_lost(times)} by the schedules on file"
    )
    return stages


def _recorded(
    records: TrialRecords,
    task: Task,
    usual: Schedule,
    setting: Setting,
    weights: WeightsPlace,
    allows: Callable[[Schedule], bool],
) -> Schedule | str:
    """What records say is to be taken instead of the schedule with zero trials, or that one; a line
    of text where they say nothing. Races of libraries decide, where there were any, and trials
    otherwise."""
    on_file = (race.rivals for race in records.races_of(task, setting, weights))
    races = counting(on_file, usual, allows)
    if races:
        return choice(usual, races).schedule
    match records.best(task, setting, weights):
        case Miss() as miss:
            return str(miss)
        case best:
            trials = records.of_task(task, setting, weights)
            figures = [seconds_of(t.outcome) for t in trials if t.schedule == usual]
            if seconds_of(best.outcome) > WORTH * min(figures, default=inf):
                return usual
            return best.schedule if allows(best.schedule) else NOT_ALLOWED
