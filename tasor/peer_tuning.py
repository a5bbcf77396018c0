"""Tasor's schedules for one case of a comparison, tuned before the engines take their turns.

What it does: makes trials for the case's kernels here, while all engines sleep, or takes schedules
on file, and gives those that are faster to the engine `tasor tuned`. What it does not: time whole
models; `peers` does, with all engines in turns.
"""

from __future__ import annotations

from tasor.model_tuning import FailedModel, compiled_or_failed, recorded_stages, tuned_stages
from tasor.peer_cases import Case
from tasor.pipeline import SILENT, Observer, Question, Settings, library_name
from tasor.tune_request import TuneRequest
from tensorgen.schedule import Schedule
from tensorgen.task import Task


def faster_schedules(
    case: Case, settings: Settings, request: TuneRequest, observer: Observer = SILENT
) -> dict[Task, Schedule]:
    """The schedules of the case's tasks that differ from those with zero trials, because trials
    were faster: new ones, or with 0 trials those in the file of the request. None for a model that
    cannot be compiled: its engine says why. Raises what `tuned_models` and `recorded_stages` do."""
    question = Question(str(case.model), library_name(case.model), case.shapes)
    _, stages = compiled_or_failed(question, settings, observer)
    if isinstance(stages, FailedModel):
        return {}
    if request.trials:
        tuned = tuned_stages(question, stages, settings, request, observer)
    else:
        assert request.records is not None, "without trials, there is a file of them"
        tuned = recorded_stages(question, stages, settings, request.records, observer)
    before, after = stages.compilation, tuned.compilation
    return {
        task: schedule
        for task, usual, schedule in zip(
            before.tasks, before.schedules, after.schedules, strict=True
        )
        if schedule != usual
    }
