"""The report on tuning: one HTML page that needs nothing else.

What it does: shows what each model took with zero trials and as tuned, how it became faster over
trials and seconds, every kernel with its figures and schedules, and what came of the trials. The
page loads nothing; its script only sorts and hides rows; all text in it is escaped.
What it does not: tune (`model_tuning`), or write files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf

from markupsafe import Markup

from graphopt.onnx_import.errors import printable
from tasor.latency_plot import PLOT_STYLE, Step, latency_svg
from tasor.model_tuning import FailedModel, TunedModel, TunedTask, TuneResult
from tasor.peer_report import geometric_mean, machine, threads_text
from tasor.pipeline import Settings
from tasor.report_page import page_template, printed, shipped_text, source_hash
from tasor.roofline import percent
from tasor.tune_request import TuneRequest
from tensorgen.tune.outcome import FAULTS
from tensorgen.version import tasor_version

OUTCOME_WORDS: Mapping[str, str] = {
    "timed": "timed, with a right result",
    "slower": "outrun: stopped when clearly slower than others",
    "wrong": "wrong result",
    "not built": "not built: it does not fit",
    "refused": "refused: it fits, and could not be compiled or loaded",
    "crashed": "crashed",
    "took too long": "hung: it did not end in time",
}
"""What a reader is told for each status of an outcome."""

NOT_CLAIMED = (
    "Times of kernels, and curves, are of kernels measured alone: what lies between them, and how "
    "one leaves the caches to the next, is in the runs of whole models only. Of these there are "
    "two, in turns, for a model some of whose kernels are faster, where this machine measured: one "
    "that is slower as a whole keeps the schedules without trials. What a run as tuned was "
    "predicted to take is the run without trials, shorter by as much as its kernels are together.",
    "Curves are in the figures of trials, which are compiled with fewer passes where that makes no "
    "difference to the choice; times in the tables come from a last race of the three fastest "
    "schedules with the one without trials, built as a library is.",
    "The bound is arithmetic at the measured peak or data at the measured bandwidth, whichever "
    "takes longer: no schedule is faster, and few can be as fast.",
    "The figures hold for the machine that measured, its compiler and this number of threads.",
)


def tune_page(result: TuneResult, settings: Settings, request: TuneRequest) -> str:
    """The page on what tuning found, with the settings and the request it was asked with."""
    style = f"{shipped_text('report.css')}{shipped_text('measured.css')}{PLOT_STYLE}"
    style += shipped_text("tune_report.css")
    script = shipped_text("row_table.js")
    page = page_template("tune_report.html.j2").render(
        style=Markup(style),
        style_hash=Markup(source_hash(style)),
        script=Markup(script),
        script_hash=Markup(source_hash(script)),
        heading=_heading(result),
        stopped=None if result.stopped is None else printable(result.stopped),
        facts=_facts(settings, request),
        cards=_cards(result),
        models=[_model(model, result.tasks) for model in result.models],
        has_targets=any(isinstance(m, TunedModel) and m.target is not None for m in result.models),
        plots=[
            (printable(model.question.name), drawings)
            for model in result.models
            if (drawings := _plots(model))
        ],
        filters=_filters(result),
        kernels=_kernels(result),
        outcomes=_outcomes(result),
        not_claimed=NOT_CLAIMED,
    )
    return printed(page)


def _heading(result: TuneResult) -> str:
    names = [printable(model.question.name) for model in result.models]
    return f"{names[0]}, tuned" if len(names) == 1 else f"{len(names)} models, tuned"


def _facts(settings: Settings, request: TuneRequest) -> list[tuple[str, str]]:
    """What was tuned for, on what, and how: name and value of each fact."""
    host = machine()
    threads = threads_text(settings.threads)
    rounding = [", strict"] if settings.strict else []
    rounding += [] if settings.winograd else [", without minimal filtering"]
    records = "in the cache folder" if request.records is None else printable(request.records.name)
    measured_by = (
        ("Processor", f"{host['processor']}, {host['architecture']}")
        if request.cluster is None
        else ("Measured by", f"workers of the cluster {printable(request.cluster)}")
    )
    facts = [
        ("Tuned", str(host["time"]).replace("T", " ").replace("+00:00", " UTC")),
        ("Version", f"Tasor {tasor_version()}"),
        measured_by,
        ("System", f"{host['system']}, Python {host['python']}"),
        ("Target", f"{settings.target.name}, {threads}{''.join(rounding)}"),
        ("Trials", f"{request.trials} for each kernel on average"),
        ("Records", records),
        ("Search", _search(request)),
        ("Goal", _goal(request)),
        ("Seed", str(request.seed)),
    ]
    patience = "" if request.patience is None else f"{request.patience} trials without a gain"
    return [*facts, ("Patience", patience)] if patience else facts


def _search(request: TuneRequest) -> str:
    return request.strategy if request.learned else f"{request.strategy}, by estimates alone"


def _goal(request: TuneRequest) -> str:
    if not request.gradient:
        return "none: equally many trials for each kernel"
    if request.mean_speed:
        return "the geometric mean of the models' times"
    parts = ["the sum of the models' times"]
    if request.weights:
        parts.append(f"with weights: {_listed(request.weights, 'times')}")
    if request.latencies:
        parts.append(f"until they are short enough: {_listed(request.latencies, 'ms')}")
    return "; ".join(parts)


def _listed(numbers: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{printable(name)} {value:g} {unit}" for name, value in numbers.items())


def _cards(result: TuneResult) -> list[tuple[str, str, str]]:
    """Kind, value and name of each figure at the top."""
    cards: list[tuple[str, str, str]] = []
    ratios = [
        ratio
        for model in result.models
        if isinstance(model, TunedModel) and (ratio := model.times_as_fast(result.tasks))
    ]
    if ratios:
        mean = geometric_mean(ratios)
        label = "as fast as with zero trials" + (
            f", geometric mean of {len(ratios)} models" if len(ratios) > 1 else ""
        )
        cards.append(("proved" if mean > 1 else "", f"{mean:.2f} x", label))
    tuned = sum(found.choice.is_tuned for found in result.tasks.values())
    cards.append(("", f"{tuned} of {len(result.tasks)}", "kernels are faster"))
    history = result.history
    rate = f", {history.trials_made / history.seconds:.3g} a second" if history.seconds > 0 else ""
    cards.append(("", str(history.trials_made), f"trials in {history.seconds:.3g} s{rate}"))
    if history.trials:
        cards.append(("", str(history.trials), "trials were on file"))
    if failed := sum(_failed(found) for found in result.tasks.values()):
        cards.append(("unknown", str(failed), "trials gave no right result"))
    if broken := sum(isinstance(model, FailedModel) for model in result.models):
        what = "model" if broken == 1 else "models"
        cards.append(("refuted", str(broken), f"{what} cannot be compiled"))
    return cards


def _failed(found: TunedTask) -> int:
    """How many trials of a kernel gave no right result."""
    return sum(tally.count for tally in found.faults)


def _model(model: TunedModel | FailedModel, tasks: Mapping[str, TunedTask]) -> dict[str, object]:
    """A line of the table of models."""
    name = printable(model.question.name)
    match model:
        case FailedModel(_, reason):
            return {"name": name, "failed": reason}
        case TunedModel(counts=counts, target=target, race=race):
            before, after = model.seconds(tasks)
            ratio = model.times_as_fast(tasks)
            predicted = model.predicted_milliseconds(tasks)
            return {
                "name": name,
                "failed": None,
                "kernels": len(counts),
                "tuned": model.faster(tasks),
                "before": _milliseconds(before) if after else "",
                "after": _milliseconds(after) if after else "",
                "run_before": "" if race is None else f"{race.zero_trials.milliseconds:.4g}",
                "predicted": "" if predicted is None else f"{predicted:.4g}",
                "run_after": "" if race is None else f"{race.tuned.milliseconds:.4g}",
                "ratio": "" if ratio is None else f"{ratio:.2f}",
                "target": "" if target is None else _milliseconds(target),
                "ended": model.ended,
            }


def _plots(model: TunedModel | FailedModel) -> list[Markup]:
    """The model's time over trials, and over seconds; nothing where nothing was measured."""
    if isinstance(model, FailedModel) or not model.curve:
        return []
    target = None if model.target is None else model.target * 1e3
    name = printable(model.question.name)
    trials = [Step(point.trials, point.latency * 1e3) for point in model.curve]
    seconds = [Step(point.seconds, point.latency * 1e3) for point in model.curve]
    return [
        latency_svg(trials, "trials", name, target),
        latency_svg(seconds, "seconds", name, target),
    ]


def _filters(result: TuneResult) -> list[tuple[str, str, int]]:
    """The buttons: kind, name, and how many kernels it leaves."""
    tuned = sum(found.choice.is_tuned for found in result.tasks.values())
    failing = sum(_failed(found) > 0 for found in result.tasks.values())
    found = [("all", "all", len(result.tasks))]
    for kind, name, count in (
        ("tuned", "faster", tuned),
        ("usual", "as without trials", len(result.tasks) - tuned),
        ("failing", "with failures", failing),
    ):
        if count:
            found.append((kind, name, count))
    return found


def _kernels(result: TuneResult) -> list[dict[str, object]]:
    """The lines of the table of kernels, those that take most of the models' time first."""
    runs = Counter[str]()
    for model in result.models:
        if isinstance(model, TunedModel):
            runs.update(model.counts)
    taken = {
        name: runs[name] * found.choice.seconds if found.choice.seconds < inf else 0.0
        for name, found in result.tasks.items()
    }
    total = sum(taken.values())
    ordered = sorted(result.tasks.values(), key=lambda found: (-taken[found.name], found.name))
    return [
        _kernel(found, runs[found.name], taken[found.name] / total if total else None)
        for found in ordered
    ]


def _kernel(found: TunedTask, runs: int, weight: float | None) -> dict[str, object]:
    choice, state = found.choice, found.state
    before, after = choice.zero_trial_seconds, choice.seconds
    gain = before / after if after < inf else None
    share = state.bound / after if after < inf else None
    failed = _failed(found)
    kinds = ["all", "tuned" if choice.is_tuned else "usual", *(["failing"] if failed else [])]
    return {
        "name": found.name,
        "expression": str(found.task),
        "kinds": " ".join(kinds),
        "runs": runs,
        "weight": _cell(weight, percent(weight)),
        "before": _cell(before if before < inf else None, _milliseconds(before)),
        "after": _cell(after if after < inf else None, _milliseconds(after)),
        "gain": _cell(gain, "" if gain is None else f"{gain:.2f}"),
        "is_tuned": choice.is_tuned,
        "share": _cell(share, percent(share)),
        "trials": state.trials,
        "failed": failed,
        "failures": _failures_text(found),
        "ended": found.ended,
        "usual": str(found.usual),
        "schedule": str(choice.schedule) if choice.is_tuned else "",
    }


def _failures_text(found: TunedTask) -> str:
    return ", ".join(f"{tally.count} {tally.status}" for tally in found.faults)


def _cell(value: float | None, text: str) -> tuple[str, str]:
    """What a cell is sorted by, and what it shows."""
    return "" if value is None else f"{value:.6g}", text


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g}" if seconds < inf else ""


def _outcomes(result: TuneResult) -> list[tuple[str, int, str, str, str]]:
    """Status in words, count, share, style, and an example of what was said, for each that is."""
    counts, notes = Counter[str](), dict[str, str]()
    for found in result.tasks.values():
        for tally in found.outcomes:
            counts[tally.status] += tally.count
            if tally.note:
                notes.setdefault(tally.status, f"{found.name}: {tally.note}")
    total = counts.total()
    return [
        (
            words, counts[status], percent(counts[status] / total),
            "wrong" if status in FAULTS else "", notes.get(status, ""),
        )
        for status, words in OUTCOME_WORDS.items()
        if counts[status]
    ]  # fmt: skip
