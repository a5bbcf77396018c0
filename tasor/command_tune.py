"""`tasor tune`: models tuned together, here or on a cluster, and what came of it.

What it does: has `model_tuning` tune, writes the libraries that are asked for, and draws or
documents the result. What it does not: measure, or choose schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from rich.table import Table
from rich.text import Text

from graphopt.onnx_import.errors import printable
from tasor.compiled_model import CompiledModel, Saved
from tasor.errors import UsageError
from tasor.model_race import ModelRace
from tasor.model_tuning import (
    FailedModel,
    TunedModel,
    TunedTask,
    TuneResult,
    compiled_or_failed,
    tuned_models,
)
from tasor.output_folder import check_output_folder
from tasor.pipeline import Question, Settings
from tasor.reporter import Reporter
from tasor.terminal import Advance
from tasor.tune_request import TuneRequest
from tensorgen.schedule import Schedule
from tensorgen.tune.schedule_text import schedule_document
from tensorgen.tune.tuning import Progress


def tune_models(
    questions: Sequence[Question],
    settings: Settings,
    request: TuneRequest,
    reporter: Reporter,
    advance: Advance,
) -> TuneResult:
    """Tune the models together. Raises as `tuned_models`."""

    def progress(step: Progress) -> None:
        best = step.states[step.task].seconds
        advance(
            step.trials, step.most_trials, f"{step.task}: {best * 1e6:.4g} µs" if best < inf else ""
        )

    compiled = [compiled_or_failed(question, settings, reporter) for question in questions]
    return tuned_models(compiled, settings, request, progress=progress, observer=reporter)


def library_folders(output: Path | None, questions: Sequence[Question]) -> list[Path]:
    """A folder for each model's library, inside `output`; none if it is None. Raises UsageError for
    two models of one name, OutputError for a folder that holds anything else."""
    if output is None:
        return []
    names = [question.name for question in questions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"--output: expected models of different names, got {twice} twice; tune them apart"
        )
    folders = [output / name for name in names]
    for folder in folders:
        check_output_folder(folder)
    return folders


def save_models(result: TuneResult, folders: Sequence[Path]) -> list[Saved | None]:
    """Write the libraries of the models that there are, each into its folder."""
    if not folders:
        return [None] * len(result.models)
    return [
        CompiledModel(model.question, model.stages).save(folder)
        if isinstance(model, TunedModel)
        else None
        for model, folder in zip(result.models, folders, strict=True)
    ]


def models_table(result: TuneResult) -> Table:
    """A line for each model: its kernels one by one with zero trials and as tuned, whole runs of
    both, the second one as it was predicted and as it was, or why there are none."""
    table = Table()
    for column in (
        "model", "kernels", "faster", "they took", "as tuned", "a run took", "predicted",
        "as tuned", "times as fast", "ended",
    ):  # fmt: skip
        is_text = column in ("model", "ended")
        table.add_column(column, justify="left" if is_text else "right", overflow="fold")
    for model in result.models:
        name = Text(printable(model.question.name))
        match model:
            case FailedModel(reason=reason):
                table.add_row(name, *[""] * 8, Text(reason))
            case TunedModel(counts=counts, race=race):
                before, after = model.seconds(result.tasks)
                ratio = model.times_as_fast(result.tasks)
                predicted = model.predicted_milliseconds(result.tasks)
                table.add_row(
                    name, f"{len(counts)}", f"{model.faster(result.tasks)}", _milliseconds(before),
                    _milliseconds(after),
                    "" if race is None else f"{race.zero_trials.milliseconds:.4g} ms",
                    "" if predicted is None else f"{predicted:.4g} ms",
                    "" if race is None else f"{race.tuned.milliseconds:.4g} ms",
                    "" if ratio is None else f"{ratio:.2f}", Text(model.ended),
                )  # fmt: skip
    return table


def tasks_table(result: TuneResult) -> Table | None:
    """A line for each task: what it is, its figures, and why it got no more trials; None if no
    model has any."""
    table = Table()
    for column in ("task", "trials", "zero trials", "tuned", "of its bound", "schedule", "ended"):
        is_text = column in ("task", "schedule", "ended")
        table.add_column(column, justify="left" if is_text else "right", overflow="fold")
    ordered = sorted(result.tasks.values(), key=lambda found: -_finite(found.choice.seconds))
    for found in ordered:
        choice, state = found.choice, found.state
        share = state.bound / choice.seconds
        table.add_row(
            found.name,
            f"{state.trials}",
            _milliseconds(choice.zero_trial_seconds),
            _milliseconds(choice.seconds),
            f"{share:.0%}" if choice.seconds < inf else "",
            Text(str(choice.schedule) if choice.is_tuned else "as without trials"),
            Text(found.ended),
        )
    return table if table.row_count else None


def failures_table(result: TuneResult) -> Table | None:
    """A line for each way in which built trials of a task failed, with the first thing that one of
    them said; None if none did. Each is a bug, and has cost that trial alone."""
    table = Table("task", "trials that failed", "the first of them", title="failures")
    for found in result.tasks.values():
        for tally in found.faults:
            table.add_row(found.name, f"{tally.count} {tally.status}", Text(tally.note))
    return table if table.row_count else None


def tune_document(result: TuneResult, saved: Sequence[Saved | None]) -> dict[str, object]:
    """The result as JSON values. Times are in milliseconds, but the seconds since tuning began;
    those of a model are its kernels', those of its race whole runs', of which the one as tuned is
    also predicted; how many times as fast it is counts the races on file, too. Points of a curve
    are in the figures of trials, and count the trials of all models."""
    return {
        "models": [
            _model_document(model, result.tasks, files)
            for model, files in zip(result.models, saved, strict=True)
        ],
        "tasks": {name: _task_document(found) for name, found in result.tasks.items()},
        "trials_made": result.history.trials_made,
        "seconds": result.history.seconds,
        "stopped": result.stopped,
    }


def _model_document(
    model: TunedModel | FailedModel, tasks: Mapping[str, TunedTask], saved: Saved | None
) -> dict[str, object]:
    name = model.question.name
    match model:
        case FailedModel(reason=reason):
            return {"name": name, "failed": reason}
        case TunedModel(counts=counts, race=race):
            before, after = model.seconds(tasks)
            return {
                "name": name,
                "zero_trial_ms": _or_none(before),
                "tuned_ms": _or_none(after),
                "race": None if race is None else _race_document(race),
                "predicted_ms": model.predicted_milliseconds(tasks),
                "tasks": dict(counts),
                "not_taken": sorted(model.left),
                "target_ms": None if model.target is None else model.target * 1e3,
                "ended": model.finish.value,
                "curve": [
                    {"trials": point.trials, "seconds": point.seconds, "ms": point.latency * 1e3}
                    for point in model.curve
                ],
                "folder": None if saved is None else str(saved.folder),
            }


def _race_document(race: ModelRace) -> dict[str, object]:
    return {
        "zero_trial_ms": race.zero_trials.milliseconds,
        "tuned_ms": race.tuned.milliseconds,
        "times_as_fast": race.times_as_fast,
        "is_won": race.is_won,
    }


def _task_document(found: TunedTask) -> dict[str, object]:
    choice = found.choice
    schedule: Schedule = choice.schedule
    return {
        "expression": str(found.task),
        "trials": found.state.trials,
        "bound_ms": found.state.bound * 1e3,
        "zero_trial_ms": _or_none(choice.zero_trial_seconds),
        "tuned_ms": _or_none(choice.seconds),
        "is_tuned": choice.is_tuned,
        "schedule": schedule_document(schedule),
        "best_ms_after_each_batch": [_or_none(seconds) for seconds in found.state.best],
        "ended": found.ended,
        "outcomes": {tally.status: tally.count for tally in found.outcomes},
    }


def _finite(seconds: float) -> float:
    return seconds if seconds < inf else 0.0


def _was_raced(seconds: float) -> bool:
    """False for a kernel that took part in no race, which took for ever, and for no such kernels,
    which took no time."""
    return 0.0 < seconds < inf


def _or_none(seconds: float) -> float | None:
    """Milliseconds; JSON has no infinity."""
    return seconds * 1e3 if _was_raced(seconds) else None


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms" if _was_raced(seconds) else "not raced"
