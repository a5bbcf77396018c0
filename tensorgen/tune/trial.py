"""One trial: a schedule that was measured for a task, where, and what came of it.

What it does: names what a trial's figures depend on (`Setting`), and writes a trial as a line of
JSON. What it does not: keep trials (`records`) or make them (`local_measurer`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from tensorgen.build import compiler_version, find_compiler
from tensorgen.calibration import processor
from tensorgen.digest import content_digest
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.tune.fields import (
    Document,
    digest_in,
    document_text,
    known_only,
    object_in,
    text_in,
    unexpected,
    whole,
    whole_in,
)
from tensorgen.tune.outcome import Outcome, outcome_of, parts_of
from tensorgen.tune.schedule_text import schedule_document, schedule_of
from tensorgen.tune.weights_place import WeightsPlace

_NAMES = (
    "at", "compiler", "kind", "note", "processor", "schedule", "seconds", "sizes", "status",
    "target", "task", "threads", "version", "weights",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """What seconds depend on besides task and schedule.

    `target` names a target and how strictly it rounds, `compiler` and `version` are those of the C
    compiler and of Tasor.
    """

    target: str
    threads: int
    processor: str
    compiler: str
    version: str


@dataclass(frozen=True)
class Trial:
    """A schedule that was measured for a task.

    `task` is the task's digest in hexadecimal, `kind` and `sizes` its class and extents
    (`intent.kind_of`, `intent.sizes_of`), by which records of other tasks serve a new one. `at` is
    the time in UTC (ISO 8601, to the second). `weights` is where the kernel's came from.
    """

    task: str
    target: str
    threads: int
    processor: str
    compiler: str
    version: str
    schedule: Schedule
    outcome: Outcome
    at: str
    kind: str = ""
    sizes: tuple[int, ...] = ()
    weights: WeightsPlace = WeightsPlace.FAR

    @property
    def setting(self) -> Setting:
        """Where the trial was made."""
        return Setting(self.target, self.threads, self.processor, self.compiler, self.version)

    @cached_property
    def digest(self) -> str:
        """A name for this very trial: two that say all the same are one."""
        return content_digest(trial_text(self)).hex()


def trial_in(
    setting: Setting,
    task: str,
    schedule: Schedule,
    outcome: Outcome,
    *,
    kind: str = "",
    sizes: tuple[int, ...] = (),
    weights: WeightsPlace = WeightsPlace.FAR,
    at: str | None = None,
) -> Trial:
    """A trial made in a setting; `at` is now if it is not given."""
    return Trial(
        task, setting.target, setting.threads, setting.processor, setting.compiler,
        setting.version, schedule, outcome, now() if at is None else at, kind, sizes,
        weights,
    )  # fmt: skip


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def setting_of(target: Target, threads: int, version: str, *, strict: bool = False) -> Setting:
    """Where this process measures for a target, as that version of Tasor. Raises ToolMissing
    without a C compiler."""
    return Setting(
        f"{target.name} strict" if strict else target.name,
        threads,
        processor(),
        compiler_version(find_compiler(target)),
        version,
    )


def trial_text(trial: Trial) -> str:
    """A trial as one line of JSON; equal trials give equal text."""
    status, seconds, note = parts_of(trial.outcome)
    document: dict[str, Any] = {
        "task": trial.task,
        **asdict(trial.setting),
        "schedule": schedule_document(trial.schedule),
        "status": status,
        "seconds": seconds,
        "note": note,
        "at": trial.at,
        "kind": trial.kind,
        "sizes": list(trial.sizes),
    }
    # Lines without it are older than this field, and all were of weights that come from afar.
    if trial.weights is not WeightsPlace.FAR:
        document["weights"] = trial.weights.value
    return document_text(document)


def trial_of(document: Document) -> Trial:
    """The trial that `trial_text` wrote. Raises FieldError."""
    known_only(document, _NAMES, "trial")
    sizes = document.get("sizes")
    if not isinstance(sizes, list):
        raise unexpected("sizes", "a list of whole numbers", sizes)
    return trial_in(
        setting_in(document),
        task_in(document),
        schedule_of(object_in(document.get("schedule"), "schedule")),
        outcome_of(document.get("status"), document.get("seconds"), document.get("note")),
        kind=text_in(document, "kind"),
        sizes=tuple(whole(size, f"sizes[{n}]") for n, size in enumerate(sizes)),
        weights=weights_of(document.get("weights", WeightsPlace.FAR.value)),
        at=text_in(document, "at"),
    )


def setting_in(document: Document) -> Setting:
    """The setting that a document is of, each of its fields one of that. Raises FieldError."""
    return Setting(
        text_in(document, "target"),
        whole_in(document, "threads", 1),
        text_in(document, "processor"),
        text_in(document, "compiler"),
        text_in(document, "version"),
    )


def weights_of(value: object) -> WeightsPlace:
    """The place that a text names. Raises FieldError."""
    try:
        return WeightsPlace(value)
    except ValueError:
        names = ", ".join(place.value for place in WeightsPlace)
        raise unexpected("weights", f"one of {names}", value) from None


def task_in(document: Document) -> str:
    """The digits of a task's digest that a document is of. Raises FieldError."""
    return digest_in(document, "task", "a task")
